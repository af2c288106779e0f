//! Whom we trust: one rustls configuration for the whole job, shared so that sessions are resumed across connections.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::model::error::JobError;
use crate::model::options::RequestOptions;

/// Sessions remembered for resumption, over all hosts.
const MAX_SESSIONS: usize = 4096;

/// # Errors
/// `Usage`: the file of `--cacert` cannot be read, or has no certificate.
pub fn client_config(options: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let failed = |error: &dyn std::fmt::Display| JobError::usage(format!("TLS cannot be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let mut config = if options.insecure {
        let verifier = Arc::new(NoVerification { provider });
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    } else {
        let roots = Arc::new(roots(options.cacert.as_deref())?);
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(|error| failed(&error))?;
        builder.with_webpki_verifier(verifier).with_no_client_auth()
    };
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificates of `cacert` alone, or else the system's and the bundled ones of Mozilla together: a container
/// without certificates works, and so does a company's own authority that the system knows.
fn roots(cacert: Option<&Path>) -> Result<RootCertStore, JobError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = cacert {
        let trouble = |what: String| JobError::usage(format!("--cacert {}: {what}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| trouble(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| trouble(error.to_string()))?;
            roots.add(certificate).map_err(|error| trouble(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(trouble("has no certificate in PEM form".into()));
        }
    } else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

/// What `--insecure` asks for: any certificate will do. The handshake itself is still checked.
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
