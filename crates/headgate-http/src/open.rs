//! Counts the connections that a worker has open.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use headgate_core::host_connections::HostPermit;

/// Counts the connections of one worker that are open or being made.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    count: Cell<usize>,
    /// The number of these connections that carry no request.
    idle: Cell<usize>,
    /// The bytes that idle connections hold.
    idle_bytes: Cell<usize>,
}

impl OpenConnections {
    pub(crate) fn idle(&self) -> usize {
        self.idle.get()
    }

    pub(crate) fn idle_bytes(&self) -> usize {
        self.idle_bytes.get()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.count.get() - self.idle.get()
    }

    pub(crate) fn permit(self: &Rc<Self>) -> OpenPermit {
        self.count.update(|count| count + 1);
        OpenPermit { open: self.clone(), idle: Cell::new(false), bytes: Cell::new(0), of_host: Cell::new(None) }
    }
}

/// Counts one connection as open until it is dropped.
pub struct OpenPermit {
    open: Rc<OpenConnections>,
    idle: Cell<bool>,
    bytes: Cell<usize>,
    /// Counts it among the connections of its host over HTTP/1.1.
    of_host: Cell<Option<HostPermit>>,
}

impl OpenPermit {
    pub(crate) fn set_of_host(&self, permit: Option<HostPermit>) {
        self.of_host.set(permit);
    }

    /// Cedes the connection to a lane that waits for one of its host. Returns whether there is such a lane: then the caller
    /// closes the connection.
    pub(crate) fn try_cede(&self) -> bool {
        let mut of_host = self.of_host.take();
        let is_ceded = of_host.as_mut().is_some_and(HostPermit::try_cede);
        self.of_host.set(of_host);
        is_ceded
    }

    /// Records how many bytes the connection holds while it is idle.
    pub(crate) fn set_bytes(&self, bytes: usize) {
        let idle = self.idle.get();
        self.set_idle(false);
        self.bytes.set(bytes);
        self.set_idle(idle);
    }

    /// Records whether the connection carries no request.
    pub(crate) fn set_idle(&self, idle: bool) {
        if self.idle.replace(idle) != idle {
            let OpenConnections { idle: count, idle_bytes, .. } = &*self.open;
            count.update(|count| if idle { count + 1 } else { count - 1 });
            idle_bytes.update(|bytes| if idle { bytes + self.bytes.get() } else { bytes - self.bytes.get() });
        }
    }
}

impl fmt::Debug for OpenPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenPermit").field("idle", &self.idle).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        self.set_idle(false);
        self.open.count.update(|count| count - 1);
    }
}
