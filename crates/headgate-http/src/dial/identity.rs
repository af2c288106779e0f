//! The client certificate for servers that request one, and its key.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::RequestOptions;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const ENCRYPTED_KEY: &str = "ENCRYPTED";

/// The contents of the files of `cert` and `key`.
#[derive(PartialEq, Eq)]
pub(super) struct ClientIdentity {
    cert: (PathBuf, Vec<u8>),
    /// `None` if the key is in the file of the certificate.
    key: Option<(PathBuf, Vec<u8>)>,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIdentity").field("cert", &self.cert.0).finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// Reads the files of `cert` and `key`; returns `None` without `cert`.
    ///
    /// # Errors
    /// `Usage`: a file can't be read.
    pub(super) fn read(options: &RequestOptions) -> Result<Option<Self>, JobError> {
        let Some(cert) = &options.cert else { return Ok(None) };
        let read = |option, path: &Path| fs::read(path).map_err(|error| file_error(option, path, &error));
        let key = match &options.key {
            Some(key) => Some((key.clone(), read(OptionName::Key, key)?)),
            None => None,
        };
        Ok(Some(Self { cert: (cert.clone(), read(OptionName::Cert, cert)?), key }))
    }

    /// Returns the certificate with its chain, and its key.
    ///
    /// # Errors
    /// `Usage`: a file has no certificate, or no usable key.
    pub(super) fn parse(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), JobError> {
        let (path, pem) = &self.cert;
        let chain = certificates(pem).map_err(|why| file_error(OptionName::Cert, path, &why))?;
        let (option, key_path, key_pem) = match &self.key {
            Some((key_path, key_pem)) => (OptionName::Key, key_path, key_pem),
            None => (OptionName::Cert, path, pem),
        };
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| {
            let is_encrypted = String::from_utf8_lossy(key_pem).contains(ENCRYPTED_KEY);
            match error {
                _ if is_encrypted => {
                    file_error(option, key_path, &"its private key is encrypted; decrypt it with `openssl pkey`")
                }
                pem::Error::NoItemsFound if self.key.is_none() => {
                    let why = "has no private key in PEM form; name the file that has it with ";
                    JobError::usage(message!(option.set(&**key_path), ": {why}", OptionName::Key))
                }
                pem::Error::NoItemsFound => file_error(option, key_path, &"has no private key in PEM form"),
                _ => file_error(option, key_path, &"is not complete PEM"),
            }
        })?;
        Ok((chain, key))
    }

    /// Converts the error of rustls for a certificate and a key that don't match.
    pub(super) fn mismatch(&self, error: &rustls::Error) -> JobError {
        let (option, path) = match &self.key {
            Some((path, _)) => (OptionName::Key, path),
            None => (OptionName::Cert, &self.cert.0),
        };
        match error {
            rustls::Error::InconsistentKeys(_) => file_error(option, path, &"the key is not that of the certificate"),
            error => file_error(option, path, &format!("the certificate or its key can't be used ({error})")),
        }
    }
}

pub(super) fn file_error(option: OptionName, path: &Path, what: &dyn Display) -> JobError {
    JobError::usage(message!(option.set(path), ": {what}"))
}

/// Returns the certificates in the text of a PEM file.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => Err("has no certificate in PEM form".into()),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err("is not complete PEM".into()),
    }
}
