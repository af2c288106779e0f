//! Whose certificates are trusted: those that lead to an authority, and those that are themselves among the given ones.
//!
//! To web PKI a certificate of an authority is no server's, and one whose authority was not given is not trusted. But what
//! `openssl req -x509` makes is both, authority and server, and whoever gives that very certificate to be trusted means
//! the server that has it. curl accepts it (OpenSSL's `X509_V_FLAG_PARTIAL_CHAIN`, which curl sets since 7.68), and so it
//! is here, if its name and its time are right.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::tls_errors::is_authority;

/// Trusts any certificate, as `insecure` asks for; or those that a user has given, and those that the authorities among them
/// have signed. The handshake itself is checked in any case.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None`: any certificate will do.
    given: Option<Given>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct Given {
    certificates: Vec<CertificateDer<'static>>,
    authorities: RootCertStore,
}

impl Verifier {
    pub(super) fn of_any(provider: &CryptoProvider) -> Self {
        Self { given: None, algorithms: provider.signature_verification_algorithms }
    }

    /// # Errors
    /// Why one of the certificates can't be trusted, for a person.
    pub(super) fn of_given(
        certificates: Vec<CertificateDer<'static>>,
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let mut all = RootCertStore::empty();
        let mut authorities = RootCertStore::empty();
        for certificate in &certificates {
            all.add(certificate.clone()).map_err(|_| "has a certificate that is broken")?;
            if may_sign(certificate, algorithms) {
                authorities.roots.extend(all.roots.pop());
            }
        }
        Ok(Self { given: Some(Given { certificates, authorities }), algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(given) = &self.given else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        match signed_by(&given.authorities, &certificate, intermediates, now, self.algorithms) {
            // Its time was looked at before its place in a chain.
            Err(Error::InvalidCertificate(error)) if is_of_chain(&error) && given.certificates.contains(end_entity) => {
            }
            verified => verified?,
        }
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn signed_by(
    authorities: &RootCertStore,
    certificate: &ParsedCertificate<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
    algorithms: WebPkiSupportedAlgorithms,
) -> Result<(), Error> {
    verify_server_cert_signed_by_trust_anchor(certificate, authorities, intermediates, now, algorithms.all)
}

/// Whether it is an authority's. Web PKI does not ask that of what it is told to trust: whoever has the key of a server
/// whose certificate was given could sign for any name. Asked as a server's, it says so.
fn may_sign(certificate: &CertificateDer<'_>, algorithms: WebPkiSupportedAlgorithms) -> bool {
    // Of version 1, whose certificates don't tell, and which are no server's.
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return true };
    let at = |time| signed_by(&RootCertStore::empty(), &certificate, &[], time, algorithms);
    // An authority may be trusted beyond its time.
    let found = match at(UnixTime::now()) {
        Err(Error::InvalidCertificate(
            CertificateError::ExpiredContext { not_after: within, .. }
            | CertificateError::NotValidYetContext { not_before: within, .. },
        )) => at(within),
        found => found,
    };
    matches!(found, Err(Error::InvalidCertificate(error)) if is_authority(&error))
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
