//! Whose certificates are trusted: those that lead to an authority, and those that are themselves among the given ones.
//!
//! To web PKI a certificate of an authority is no server's, and one whose authority was not given is not trusted. But what
//! `openssl req -x509` makes is both, authority and server, and whoever gives that very certificate to be trusted means
//! the server that has it. curl accepts it (OpenSSL's `X509_V_FLAG_PARTIAL_CHAIN`, which curl sets since 7.68), and so it
//! is here, if its name and its time are right.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::trouble::is_authority;

/// Trusts the certificates that a user has given, and those that they have signed.
#[derive(Debug)]
pub(super) struct GivenCertificates {
    given: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl GivenCertificates {
    /// # Errors
    /// Why one of them can't be trusted, for a person.
    pub(super) fn new(given: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone()).map_err(|_| "has a certificate that is broken")?;
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { given, chains: chains.map_err(|error| error.to_string())? })
    }
}

impl ServerCertVerifier for GivenCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // Its time was looked at before its place in a chain.
            Err(Error::InvalidCertificate(error)) if is_of_chain(&error) && self.given.contains(end_entity) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Whether the certificate itself may be good, and only who has signed it is not known or not trusted.
fn is_of_chain(error: &CertificateError) -> bool {
    is_authority(error)
        || matches!(
            error,
            CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
        )
}
