//! A connection to a mock transport in this process.

use std::io;
use std::sync::Arc;

use headgate_core::error::{ErrorKind, Failure, cause};
use headgate_core::mock_transport::{MockSocket, MockTransport, Verdict};
use headgate_core::origin::Origin;
use tokio::net::UnixStream;

/// Replaces the address of the server.
pub(crate) const ADDRESS: &str = "in process";

#[derive(Debug)]
pub struct InProcess {
    pub socket: UnixStream,
    verdict: Arc<Verdict>,
    single_use: bool,
}

impl InProcess {
    /// Connects to the mock transport instead of this host.
    ///
    /// # Errors
    /// Any failure that the mock transport returns; `connect`: the process has no file descriptor left.
    pub(super) fn connect(mock_transport: &MockTransport, host: &Origin) -> Result<Self, Failure> {
        let MockSocket { socket, verdict, single_use } = mock_transport.0.connect(host)?;
        let register = |socket: std::os::unix::net::UnixStream| -> io::Result<UnixStream> {
            socket.set_nonblocking(true)?;
            UnixStream::from_std(socket)
        };
        let socket = register(socket).map_err(|error| {
            Failure::new(ErrorKind::Connect, format!("no connection within this process: {}", cause(&error)))
        })?;
        Ok(Self { socket, verdict, single_use })
    }

    /// Takes the failure that the mock transport has set for the exchange.
    pub fn verdict(&self) -> Option<Failure> {
        self.verdict.take()
    }

    /// Returns whether the connection carries one request only.
    pub fn is_single_use(&self) -> bool {
        self.single_use
    }
}
