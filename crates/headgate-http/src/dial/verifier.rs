//! Verifies servers' certificates: those with a chain to a trusted authority, and those that are trusted themselves.
//!
//! In web PKI, the certificate of an authority is not valid for a server, and a certificate without a trusted authority is not
//! trusted. But `openssl req -x509` creates a certificate for both uses. A user who trusts it means the server that has it:
//! curl accepts it (OpenSSL's `X509_V_FLAG_PARTIAL_CHAIN`, which curl sets since 7.68). So do we, if its name and its time
//! are valid.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::authorities::KnownAuthorities;
use super::tls_errors::is_authority;

/// Verifies the certificates of servers, and the signatures of handshakes.
#[derive(Debug)]
pub(super) struct Verifier {
    trusted: Trusted,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Trusted {
    /// Any certificate (`insecure`).
    Any,
    /// Certificates that are signed by the authorities of the system or of Mozilla.
    Known(KnownAuthorities),
    /// The certificates of `cacert`, and those that are signed by the authorities among them.
    Only { certificates: Vec<CertificateDer<'static>>, authorities: RootCertStore },
}

impl Verifier {
    pub(super) fn of_any(provider: &CryptoProvider) -> Self {
        Self { trusted: Trusted::Any, algorithms: provider.signature_verification_algorithms }
    }

    pub(super) fn of_known(known: KnownAuthorities, provider: &CryptoProvider) -> Self {
        Self { trusted: Trusted::Known(known), algorithms: provider.signature_verification_algorithms }
    }

    /// # Errors
    /// A readable reason why one of the certificates can't be used.
    pub(super) fn of_certificates(
        certificates: Vec<CertificateDer<'static>>,
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let mut all = RootCertStore::empty();
        let mut authorities = RootCertStore::empty();
        for certificate in &certificates {
            all.add(certificate.clone()).map_err(|_| "has a certificate that is broken")?;
            if is_signing_certificate(certificate, algorithms) {
                authorities.roots.extend(all.roots.pop());
            }
        }
        Ok(Self { trusted: Trusted::Only { certificates, authorities }, algorithms })
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
        let (certificates, authorities): (&[_], _) = match &self.trusted {
            Trusted::Any => return Ok(ServerCertVerified::assertion()),
            Trusted::Known(known) => (&[], known.get()),
            Trusted::Only { certificates, authorities } => (certificates, authorities),
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        match verify_chain(authorities, &certificate, intermediates, now, self.algorithms) {
            // The verifier has checked the time before the chain.
            Err(Error::InvalidCertificate(error)) if is_chain_error(&error) && certificates.contains(end_entity) => {}
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

fn verify_chain(
    authorities: &RootCertStore,
    certificate: &ParsedCertificate<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
    algorithms: WebPkiSupportedAlgorithms,
) -> Result<(), Error> {
    verify_server_cert_signed_by_trust_anchor(certificate, authorities, intermediates, now, algorithms.all)
}

/// Returns whether a certificate is that of an authority. `webpki` does not check that for trust anchors: the owner of a trusted
/// server certificate could sign for any name. Verified as a server's certificate, an authority's gets an error that says so.
fn is_signing_certificate(certificate: &CertificateDer<'_>, algorithms: WebPkiSupportedAlgorithms) -> bool {
    // Certificates of version 1 don't contain it, and are not valid for servers.
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return true };
    let at = |time| verify_chain(&RootCertStore::empty(), &certificate, &[], time, algorithms);
    // An expired authority stays trusted.
    let found = match at(UnixTime::now()) {
        Err(Error::InvalidCertificate(
            CertificateError::ExpiredContext { not_after: within, .. }
            | CertificateError::NotValidYetContext { not_before: within, .. },
        )) => at(within),
        found => found,
    };
    matches!(found, Err(Error::InvalidCertificate(error)) if is_authority(&error))
}

/// Returns whether only the chain of the certificate is invalid: its issuer is unknown or not trusted.
fn is_chain_error(error: &CertificateError) -> bool {
    is_authority(error)
        || matches!(
            error,
            CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
        )
}
