//! A connection that ends in this process, at who answers in place of the network.

use std::io;
use std::sync::Arc;

use tokio::net::UnixStream;

use crate::model::error::{ErrorKind, Failure, cause};
use crate::model::mock_transport::{Line, MockTransport, Verdict};
use crate::model::origin::Origin;

/// What stands where an address would.
pub const ADDRESS: &str = "in process";

#[derive(Debug)]
pub struct InProcess {
    pub socket: UnixStream,
    verdict: Arc<Verdict>,
}

impl InProcess {
    /// In place of one to this host.
    ///
    /// # Errors
    /// Whatever who answers says; `connect`: there is no room for it.
    pub(super) fn connect(mock_transport: &MockTransport, host: &Origin) -> Result<Self, Failure> {
        let Line { socket, verdict } = mock_transport.0.connect(host)?;
        let watched = |socket: std::os::unix::net::UnixStream| -> io::Result<UnixStream> {
            socket.set_nonblocking(true)?;
            UnixStream::from_std(socket)
        };
        let socket = watched(socket).map_err(|error| {
            Failure::new(ErrorKind::Connect, format!("no connection within this process: {}", cause(&error)))
        })?;
        Ok(Self { socket, verdict })
    }

    /// What the exchange failed of, if the other end has said so.
    pub fn verdict(&self) -> Option<Failure> {
        self.verdict.take()
    }
}
