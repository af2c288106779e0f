//! Whom we trust, and what we show and offer: a rustls configuration, shared so that sessions are resumed across connections.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::identity::{Identity, certificates, trouble};
use super::verifier::GivenCertificates;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::{RequestOptions, TlsMin};

/// Sessions remembered for resumption, over all hosts.
const MAX_SESSIONS: usize = 4096;

/// Configurations that are kept; the one made first goes first.
const MAX_CONFIGS: usize = 16;

/// The TLS configurations of an engine: runs that ask for the same share one, and so its sessions and connections.
#[derive(Debug, Default)]
pub struct TlsConfigs {
    configs: Mutex<VecDeque<(Asked, Arc<ClientConfig>)>>,
}

/// All that a configuration follows from: with what is in the files now, whatever they held when they were last read.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    trust: Trust,
    identity: Option<Identity>,
    min: TlsMin,
    offer: Offer,
}

#[derive(Debug, PartialEq, Eq)]
enum Trust {
    Anybody,
    /// What the system and Mozilla know.
    Known,
    /// The certificates in this file.
    Only(PathBuf, Vec<u8>),
}

/// The versions of HTTP that a server may choose from (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Http1,
    Http2,
    Both,
}

impl Offer {
    fn of(options: &RequestOptions) -> Self {
        match (options.http1_1, options.http2_prior_knowledge) {
            (true, _) => Self::Http1,
            (false, true) => Self::Http2,
            (false, false) => Self::Both,
        }
    }

    fn protocols(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
            Self::Both => &[b"h2", b"http/1.1"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

impl TlsConfigs {
    /// For the hosts that requests with these options go to.
    ///
    /// # Errors
    /// `Usage`: a file of `cacert`, `cert` or `key` can't be read, or has not what it should.
    pub fn get(&self, options: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
        self.find(Asked {
            trust: Trust::of(options)?,
            identity: Identity::read(options)?,
            min: options.tls_min,
            offer: Offer::of(options),
        })
    }

    /// For the proxies that they go through: these are trusted like hosts, and shown no certificate.
    ///
    /// # Errors
    /// `Usage`: the file of `cacert` can't be read, or has no certificate.
    pub fn for_proxies(&self, options: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
        let trust = Trust::of(options)?;
        self.find(Asked { trust, identity: None, min: options.tls_min, offer: Offer::Http1 })
    }

    fn find(&self, asked: Asked) -> Result<Arc<ClientConfig>, JobError> {
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = configs.iter().find(|(other, _)| *other == asked) {
            return Ok(config.clone());
        }
        let config = client_config(&asked)?;
        if configs.len() == MAX_CONFIGS {
            configs.pop_front();
        }
        configs.push_back((asked, config.clone()));
        Ok(config)
    }
}

impl Trust {
    fn of(options: &RequestOptions) -> Result<Self, JobError> {
        Ok(match &options.cacert {
            _ if options.insecure => Self::Anybody,
            Some(path) => {
                let pem = fs::read(path).map_err(|error| trouble(OptionName::Cacert, path, &error))?;
                Self::Only(path.clone(), pem)
            }
            None => Self::Known,
        })
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, JobError> {
        Ok(match self {
            Self::Anybody => Arc::new(NoVerification { provider }),
            Self::Only(path, pem) => {
                let given = certificates(pem).and_then(|given| GivenCertificates::new(given, &provider));
                Arc::new(given.map_err(|error| trouble(OptionName::Cacert, path, &error))?)
            }
            Self::Known => {
                let roots = Arc::new(known_roots());
                WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(|error| failed(&error))?
            }
        })
    }
}

fn failed(error: &dyn Display) -> JobError {
    JobError::usage(format!("TLS can't be set up: {error}"))
}

fn client_config(asked: &Asked) -> Result<Arc<ClientConfig>, JobError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions: &[_] = match asked.min {
        TlsMin::V12 => &[&TLS12, &TLS13],
        TlsMin::V13 => &[&TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
    let builder = builder.map_err(|error| failed(&error))?.dangerous();
    let builder = builder.with_custom_certificate_verifier(asked.trust.verifier(provider)?);
    let mut config = match &asked.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = identity.parse()?;
            builder.with_client_auth_cert(chain, key).map_err(|error| identity.mismatch(&error))?
        }
    };
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
    config.alpn_protocols = asked.offer.protocols();
    Ok(Arc::new(config))
}

/// The system's certificates and the bundled ones of Mozilla together: a container without certificates works, and so
/// does a company's own authority that the system knows.
fn known_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// What `insecure` asks for: any certificate will do. The handshake itself is still checked.
#[derive(Debug)]
struct NoVerification {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
