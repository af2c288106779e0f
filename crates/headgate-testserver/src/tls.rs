//! TLS with a certificate from files, or with a new self-signed one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::config::Tls;

const HTTP_2: &[u8] = b"h2";
const HTTP_11: &[u8] = b"http/1.1";

/// Returns the TLS configuration; with `http2`, clients may negotiate HTTP/2.
pub(crate) fn config(tls: &Tls, http2: bool) -> io::Result<Arc<ServerConfig>> {
    let (certificates, key) = match tls {
        Tls::Files { certificate, key } => from_files(certificate, key)?,
        Tls::Made { certificate } => create(certificate)?,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("TLS can't be served: {error}")))?;
    config.alpn_protocols = if http2 { vec![HTTP_2.into(), HTTP_11.into()] } else { vec![HTTP_11.into()] };
    Ok(Arc::new(config))
}

/// Returns whether the client has negotiated HTTP/2.
pub(crate) fn is_http2(protocol: Option<&[u8]>) -> bool {
    protocol == Some(HTTP_2)
}

type CertifiedKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn from_files(certificate: &Path, key: &Path) -> io::Result<CertifiedKey> {
    let read_error = |file: &Path, error: rustls_pki_types::pem::Error| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("can't read {}: {error}", file.display()))
    };
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| read_error(certificate, error))?;
    Ok((certificates, PrivateKeyDer::from_pem_file(key).map_err(|error| read_error(key, error))?))
}

/// Creates a self-signed certificate, and writes it to `file` for clients on this machine.
fn create(file: &Path) -> io::Result<CertifiedKey> {
    let mut params = CertificateParams::new(["localhost".to_owned()]).map_err(io::Error::other)?;
    let loopback =
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), Ipv6Addr::LOCALHOST.into()];
    params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    std::fs::write(file, certificate.pem()).map_err(|error| {
        io::Error::new(error.kind(), format!("can't write the certificate {}: {error}", file.display()))
    })?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((vec![certificate.der().clone()], key))
}
