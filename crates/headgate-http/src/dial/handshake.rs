//! A TLS handshake with a host or a proxy.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::options::TlsMin;
use headgate_core::origin::Origin;
use headgate_core::schedule::hosts::{Host, Speaks};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::dial::race::DialError;
use crate::dial::stream::Stream;
use crate::dial::tls_errors::{handshake_failure, tls_error};
use crate::dial::transport::{TransportConfig, server_name};

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    /// The name that the certificate must be for.
    name: ServerName<'static>,
    min_version: TlsMin,
}

impl Handshake {
    pub(super) const TIMED_OUT: &'static str = "the TLS handshake did not end in time";

    /// # Errors
    /// `tls`: no certificate can be issued for the host's name.
    pub(super) fn with_host(transport: &TransportConfig, origin: &Origin, host: &Host) -> Result<Self, Failure> {
        let mut config = transport.tls.clone();
        if host.speaks(clock::now()) == Some(Speaks::OnlyHttp1) {
            Arc::make_mut(&mut config).alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        Ok(Self { config, name: transport.server_name(origin)?, min_version: transport.tls_min() })
    }

    /// Returns `None` for a proxy without TLS.
    ///
    /// # Errors
    /// `tls`: no certificate can be issued for the proxy's name.
    pub(super) fn with_proxy(transport: &TransportConfig, proxy: &Origin) -> Result<Option<Self>, Failure> {
        let Some(config) = transport.proxy_tls.clone().filter(|_| proxy.https) else { return Ok(None) };
        Ok(Some(Self { config, name: server_name(&proxy.name)?, min_version: transport.tls_min() }))
    }

    /// Runs the handshake over a connection to one of several addresses.
    pub(super) async fn attempt(&self, stream: Stream, address: SocketAddr) -> Result<Stream, DialError> {
        self.run(stream).await.map_err(|error| {
            let failure = self.at(address, handshake_failure(&error, self.min_version));
            // After a closed connection, another address may still work.
            if tls_error(&error).is_some() { DialError::Final(failure) } else { DialError::Handshake(failure) }
        })
    }

    /// Runs the handshake over a tunnel of a proxy.
    ///
    /// # Errors
    /// `tls`, without an address.
    pub(super) async fn over(&self, stream: Stream) -> Result<Stream, Failure> {
        self.run(stream).await.map_err(|error| handshake_failure(&error, self.min_version))
    }

    /// Adds the address and the server name to the failure.
    pub(super) fn at(&self, address: impl Display, failure: Failure) -> Failure {
        failure.at(format_args!("{address} as {}", self.name.to_str()))
    }

    async fn run(&self, stream: Stream) -> io::Result<Stream> {
        let (connector, name) = (TlsConnector::from(self.config.clone()), self.name.clone());
        Ok(match stream {
            Stream::Plain(stream) => Stream::Tls(Box::new(connector.connect(name, stream).await?)),
            Stream::Tls(stream) => Stream::TlsInTls(Box::new(connector.connect(name, *stream).await?)),
            Stream::TlsInTls(_) | Stream::InProcess(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }
}
