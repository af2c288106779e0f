//! Whom we trust, and what we show and offer: a rustls configuration, shared so that sessions are resumed across connections.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};

use super::identity::{Identity, certificates, trouble};
use super::verifier::Verifier;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::{RequestOptions, TlsMin};

/// Sessions remembered for resumption, over all hosts.
const MAX_SESSIONS: usize = 4096;

/// Verifies certificates by the authorities that the system and Mozilla know, which are read when that is first asked for.
pub(super) type KnownAuthorities = OnceLock<Arc<WebPkiServerVerifier>>;

/// All that a TLS configuration follows from: with what is in the files now, whatever they held when they were last read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsOptions {
    trust: Trust,
    identity: Option<Identity>,
    pub(super) min: TlsMin,
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

impl TlsOptions {
    /// For the hosts that requests with these options go to.
    ///
    /// # Errors
    /// `Usage`: a file of `cacert`, `cert` or `key` can't be read.
    pub(super) fn for_hosts(options: &RequestOptions) -> Result<Self, JobError> {
        let identity = Identity::read(options)?;
        Ok(Self { trust: Trust::of(options)?, identity, min: options.tls_min, offer: Offer::of(options) })
    }

    /// For the proxies that they go through: these are trusted like hosts, and shown no certificate.
    ///
    /// # Errors
    /// `Usage`: the file of `cacert` can't be read.
    pub(super) fn for_proxies(options: &RequestOptions) -> Result<Self, JobError> {
        Ok(Self { trust: Trust::of(options)?, identity: None, min: options.tls_min, offer: Offer::Http1 })
    }

    /// Makes the configuration.
    ///
    /// # Errors
    /// `Usage`: a file has not what it should.
    pub(super) fn config(&self, known: &KnownAuthorities) -> Result<Arc<ClientConfig>, JobError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match self.min {
            TlsMin::V12 => &[&TLS12, &TLS13],
            TlsMin::V13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
        let builder = builder.map_err(|error| failed(&error))?.dangerous();
        let builder = builder.with_custom_certificate_verifier(self.trust.verifier(provider, known)?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.parse()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| identity.mismatch(&error))?
            }
        };
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        config.alpn_protocols = self.offer.protocols();
        Ok(Arc::new(config))
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

    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
        known: &KnownAuthorities,
    ) -> Result<Arc<dyn ServerCertVerifier>, JobError> {
        Ok(match self {
            Self::Anybody => Arc::new(Verifier::of_any(&provider)),
            Self::Only(path, pem) => {
                let given = certificates(pem).and_then(|given| Verifier::of_given(given, &provider));
                Arc::new(given.map_err(|error| trouble(OptionName::Cacert, path, &error))?)
            }
            Self::Known => {
                if let Some(verifier) = known.get() {
                    return Ok(verifier.clone());
                }
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(known_roots()), provider).build();
                let verifier = verifier.map_err(|error| failed(&error))?;
                known.get_or_init(|| verifier).clone()
            }
        })
    }
}

fn failed(error: &dyn Display) -> JobError {
    JobError::usage(format!("TLS can't be set up: {error}"))
}

/// The system's certificates and the bundled ones of Mozilla together: a container without certificates works, and so
/// does a company's own authority that the system knows.
fn known_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
