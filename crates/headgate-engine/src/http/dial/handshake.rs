//! A TLS handshake with a host or a proxy.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::http::dial::race::Refusal;
use crate::http::dial::stream::Stream;
use crate::http::dial::tls_errors::{handshake_failure, in_io};
use crate::http::dial::transport::{TransportConfig, server_name};
use crate::model::error::Failure;
use crate::model::options::TlsMin;
use crate::model::origin::Origin;
use crate::schedule::hosts::{Host, Speaks};

#[derive(Debug)]
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    /// Whom it is with.
    name: ServerName<'static>,
    min: TlsMin,
}

impl Handshake {
    pub(super) const TOO_LATE: &'static str = "the TLS handshake did not end in time";

    /// # Errors
    /// `tls`: no certificate can be for the host's name.
    pub(super) fn with_host(transport: &TransportConfig, origin: &Origin, host: &Host) -> Result<Self, Failure> {
        let mut config = transport.tls.clone();
        if host.speaks(Instant::now()) == Some(Speaks::OnlyHttp1) {
            Arc::make_mut(&mut config).alpn_protocols = vec![b"http/1.1".to_vec()];
        }
        Ok(Self { config, name: transport.server_name(origin)?, min: transport.tls_min() })
    }

    /// `None`: there is none with this proxy.
    ///
    /// # Errors
    /// `tls`: no certificate can be for the proxy's name.
    pub(super) fn with_proxy(transport: &TransportConfig, proxy: &Origin) -> Result<Option<Self>, Failure> {
        let Some(config) = transport.proxy_tls.clone().filter(|_| proxy.https) else { return Ok(None) };
        Ok(Some(Self { config, name: server_name(&proxy.name)?, min: transport.tls_min() }))
    }

    /// With one of several addresses.
    pub(super) async fn attempt(&self, stream: Stream, address: SocketAddr) -> Result<Stream, Refusal> {
        self.try_over(stream).await.map_err(|error| {
            let failure = self.at(address, handshake_failure(&error, self.min));
            // An end of the connection says nothing of the other addresses.
            if in_io(&error).is_some() { Refusal::Final(failure) } else { Refusal::Handshake(failure) }
        })
    }

    /// Over a way through a proxy.
    ///
    /// # Errors
    /// `tls`, without where it was.
    pub(super) async fn over(&self, stream: Stream) -> Result<Stream, Failure> {
        self.try_over(stream).await.map_err(|error| handshake_failure(&error, self.min))
    }

    /// The failure with where it was, and for which name.
    pub(super) fn at(&self, place: impl Display, failure: Failure) -> Failure {
        failure.at(format_args!("{place} as {}", self.name.to_str()))
    }

    async fn try_over(&self, stream: Stream) -> io::Result<Stream> {
        let (connector, name) = (TlsConnector::from(self.config.clone()), self.name.clone());
        Ok(match stream {
            Stream::Plain(stream) => Stream::Tls(Box::new(connector.connect(name, stream).await?)),
            Stream::Tls(stream) => Stream::TlsInTls(Box::new(connector.connect(name, *stream).await?)),
            Stream::TlsInTls(_) | Stream::InProcess(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }
}
