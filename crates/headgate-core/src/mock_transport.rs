//! The mock transport: connections that end in this process.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Failure;
use crate::origin::Origin;

/// A mock transport for all hosts. It speaks HTTP/1.1 without TLS, also for `https`.
pub trait ConnectMock: Send + Sync {
    /// Returns a connection to this host. It must not wait.
    ///
    /// # Errors
    /// The connection fails.
    fn connect(&self, host: &Origin) -> Result<MockSocket, Failure>;
}

/// Our end of a connection within this process.
#[derive(Debug)]
pub struct MockSocket {
    pub socket: UnixStream,
    pub verdict: Arc<Verdict>,
    /// Whether the connection carries one request only.
    pub single_use: bool,
}

/// The failure of an exchange, set by the mock before it closes the connection.
#[derive(Debug, Default)]
pub struct Verdict(Mutex<Option<Failure>>);

impl Verdict {
    pub fn set(&self, failure: Failure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub fn take(&self) -> Option<Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A mock transport, equal only to its clones.
#[derive(Clone)]
pub struct MockTransport(pub Arc<dyn ConnectMock>);

impl PartialEq for MockTransport {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for MockTransport {
    /// Shows its address, which identifies it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MockTransport({:p})", self.0)
    }
}
