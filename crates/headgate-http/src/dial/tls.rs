//! Creates the rustls configuration: trusted certificates, client certificate, protocols. It is shared, so that connections
//! resume the sessions of earlier ones.

use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message::OptionName;
use headgate_core::options::{RequestOptions, TlsMin};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};

use super::authorities::KnownAuthorities;
use super::identity::{ClientIdentity, certificates, file_error};
use super::verifier::Verifier;

/// The bound of sessions kept for resumption, over all hosts.
const MAX_SESSIONS: usize = 4096;

/// Everything that determines a TLS configuration, with the current contents of the files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsOptions {
    trust: Trust,
    identity: Option<ClientIdentity>,
    pub(super) min: TlsMin,
    alpn: Alpn,
}

#[derive(Debug, PartialEq, Eq)]
enum Trust {
    /// Any certificate is accepted (`insecure`).
    Any,
    /// The authorities of the system and of Mozilla.
    Known,
    /// The certificates in this file.
    Only(PathBuf, Vec<u8>),
}

/// The versions of HTTP offered in ALPN (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alpn {
    Http1,
    Http2,
    Both,
}

impl Alpn {
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
    /// Returns the TLS options for the hosts of requests with these options.
    ///
    /// # Errors
    /// `Usage`: a file of `cacert`, `cert` or `key` can't be read.
    pub(super) fn for_hosts(options: &RequestOptions) -> Result<Self, JobError> {
        let identity = ClientIdentity::read(options)?;
        Ok(Self { trust: Trust::of(options)?, identity, min: options.tls_min, alpn: Alpn::of(options) })
    }

    /// Returns the TLS options for proxies: the same trusted certificates as for hosts, and no client certificate.
    ///
    /// # Errors
    /// `Usage`: the file of `cacert` can't be read.
    pub(super) fn for_proxies(options: &RequestOptions) -> Result<Self, JobError> {
        Ok(Self { trust: Trust::of(options)?, identity: None, min: options.tls_min, alpn: Alpn::Http1 })
    }

    /// Creates the configuration.
    ///
    /// # Errors
    /// `Usage`: a file has no valid certificates or key.
    pub(super) fn create_config(&self, known: &KnownAuthorities) -> Result<Arc<ClientConfig>, JobError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = match self.min {
            TlsMin::V12 => &[&TLS12, &TLS13],
            TlsMin::V13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions);
        let builder = builder.map_err(|error| failed(&error))?.dangerous();
        let builder = builder.with_custom_certificate_verifier(Arc::new(self.trust.verifier(&provider, known)?));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.parse()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| identity.mismatch(&error))?
            }
        };
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        config.alpn_protocols = self.alpn.protocols();
        Ok(Arc::new(config))
    }
}

impl Trust {
    fn of(options: &RequestOptions) -> Result<Self, JobError> {
        Ok(match &options.cacert {
            _ if options.insecure => Self::Any,
            Some(path) => {
                let pem = fs::read(path).map_err(|error| file_error(OptionName::Cacert, path, &error))?;
                Self::Only(path.clone(), pem)
            }
            None => Self::Known,
        })
    }

    fn verifier(&self, provider: &CryptoProvider, known: &KnownAuthorities) -> Result<Verifier, JobError> {
        Ok(match self {
            Self::Any => Verifier::of_any(provider),
            Self::Known => Verifier::of_known(known.clone(), provider),
            Self::Only(path, pem) => {
                let verifier =
                    certificates(pem).and_then(|certificates| Verifier::of_certificates(certificates, provider));
                verifier.map_err(|error| file_error(OptionName::Cacert, path, &error))?
            }
        })
    }
}

fn failed(error: &dyn Display) -> JobError {
    JobError::usage(format!("TLS can't be set up: {error}"))
}
