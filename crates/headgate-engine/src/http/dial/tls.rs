//! Whom we trust: a rustls configuration, shared so that sessions are resumed across connections.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::verifier::GivenCertificates;
use crate::message;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::RequestOptions;

/// Sessions remembered for resumption, over all hosts.
const MAX_SESSIONS: usize = 4096;

/// Configurations that are kept; the one made first goes first.
const MAX_CONFIGS: usize = 16;

/// The TLS configurations of an engine: runs that trust the same certificates share one, and so its sessions and connections.
#[derive(Debug, Default)]
pub struct TlsConfigs {
    configs: Mutex<VecDeque<(Trust, Arc<ClientConfig>)>>,
}

/// Whom to trust: with what is in the file now, whatever it held when it was last asked for.
#[derive(Debug, PartialEq, Eq)]
enum Trust {
    Anybody,
    /// What the system and Mozilla know.
    Known,
    /// The certificates in this file.
    Only(Vec<u8>),
}

impl TlsConfigs {
    /// # Errors
    /// `Usage`: the file of `cacert` can't be read, or has no certificate.
    pub fn get(&self, options: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
        let trust = match &options.cacert {
            _ if options.insecure => Trust::Anybody,
            Some(path) => Trust::Only(fs::read(path).map_err(|error| cacert_trouble(path, &error))?),
            None => Trust::Known,
        };
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = configs.iter().find(|(other, _)| *other == trust) {
            return Ok(config.clone());
        }
        let config = client_config(&trust, options)?;
        if configs.len() == MAX_CONFIGS {
            configs.pop_front();
        }
        configs.push_back((trust, config.clone()));
        Ok(config)
    }
}

fn cacert_trouble(path: &Path, what: &dyn Display) -> JobError {
    JobError::usage(message!(OptionName::Cacert.set(path), ": {what}"))
}

fn client_config(trust: &Trust, options: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let failed = |error: &dyn std::fmt::Display| JobError::usage(format!("TLS can't be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let mut config = if *trust == Trust::Anybody {
        let verifier = Arc::new(NoVerification { provider });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else {
        let verifier: Arc<dyn ServerCertVerifier> = if let (Trust::Only(pem), Some(path)) = (trust, &options.cacert) {
            let given = certificates(pem).and_then(|given| GivenCertificates::new(given, &provider));
            Arc::new(given.map_err(|error| cacert_trouble(path, &error))?)
        } else {
            let roots = Arc::new(known_roots());
            WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(|error| failed(&error))?
        };
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificates in the text of a file.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => Err("has no certificate in PEM form".into()),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err("is not whole PEM".into()),
    }
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
