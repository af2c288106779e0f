//! `MockNetwork`: connections that stay in this process. The caller accepts them, and serves them as a server would.

use std::io;
use std::mem;
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::limits::HostBy;
use headgate_core::mock_transport::{ConnectMock, MockSocket, MockTransport, Verdict};
use headgate_core::origin::Origin;
use headgate_core::virtual_clock::{self, LoopOf, RegisteredTimer};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::descriptor::Descriptor;

/// A mock network. May be used from any thread.
#[pyclass(frozen, weakref, module = "headgate._headgate")]
pub struct MockNetwork {
    shared: Arc<MockConnector>,
    connector: Arc<TaggedConnector>,
}

/// Connects clients of one tag.
struct TaggedConnector {
    shared: Arc<MockConnector>,
    tag: usize,
}

/// The server's end of one connection.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct MockConnection {
    /// The origin to which the client connects, such as `https://api.example.com`.
    #[pyo3(get)]
    origin: String,
    /// The tag of the network that the client uses.
    #[pyo3(get)]
    tag: usize,
    socket: Mutex<Option<UnixStream>>,
    /// The client holds it until it closes the connection.
    verdict: Weak<Verdict>,
}

struct MockConnector {
    process: u32,
    descriptor: Descriptor,
    /// Whether each connection carries one request only.
    single_use: bool,
    /// Connections that the caller has not accepted yet: at most as many as the engines have lanes.
    waiting: Mutex<MockState>,
    /// The time of a virtual clock for which the event loop waits.
    timer: Mutex<Option<RegisteredTimer>>,
}

enum MockState {
    Open(Vec<MockConnection>),
    /// The mock was closed.
    Closed,
}

impl MockNetwork {
    pub fn mock_transport(&self) -> MockTransport {
        MockTransport(self.connector.clone())
    }

    fn of(shared: Arc<MockConnector>, tag: usize) -> Self {
        Self { connector: Arc::new(TaggedConnector { shared: shared.clone(), tag }), shared }
    }
}

impl ConnectMock for TaggedConnector {
    fn connect(&self, host: &Origin) -> Result<MockSocket, Failure> {
        self.shared.connect(host, self.tag)
    }
}

impl MockConnector {
    fn set_timer(&self, timer: Option<RegisteredTimer>) {
        *self.timer.lock().unwrap_or_else(PoisonError::into_inner) = timer;
    }

    fn waiting(&self) -> MutexGuard<'_, MockState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, host: &Origin, tag: usize) -> Result<MockSocket, Failure> {
        if self.process != process::id() {
            let message = "the mock serves only the process that created it, and this is a fork of that process";
            return Err(Failure::new(ErrorKind::InvalidRequest, message).lasting());
        }
        let no_pair =
            |error: io::Error| Failure::new(ErrorKind::Connect, format!("no connection to the mock: {error}"));
        let (socket, other) = UnixStream::pair().map_err(no_pair)?;
        let MockState::Open(waiting) = &mut *self.waiting() else {
            return Err(Failure::new(ErrorKind::InvalidRequest, "the mock has ended").lasting());
        };
        let verdict = Arc::<Verdict>::default();
        let origin = host.key(HostBy::Origin).into();
        // Drops connections that the client closed before the caller accepted them.
        waiting.retain(|connection| connection.verdict.upgrade().is_some());
        let (socket_of_server, verdict_of_client) = (Mutex::new(Some(other)), Arc::downgrade(&verdict));
        waiting.push(MockConnection { origin, tag, socket: socket_of_server, verdict: verdict_of_client });
        self.descriptor.wake();
        Ok(MockSocket { socket, verdict, single_use: self.single_use })
    }
}

#[pymethods]
impl MockNetwork {
    /// Creates a mock network; `single_use` means that each connection carries one request only.
    #[new]
    fn new(single_use: bool) -> PyResult<Self> {
        let descriptor = Descriptor::new(LoopOf::Mock).map_err(|error| PyOSError::new_err(error.to_string()))?;
        let (process, waiting) = (process::id(), Mutex::new(MockState::Open(Vec::new())));
        let timer = Mutex::default();
        Ok(Self::of(Arc::new(MockConnector { process, descriptor, single_use, waiting, timer }), 0))
    }

    /// Returns the same network for clients whose connections have this tag.
    fn tagged(&self, tag: usize) -> Self {
        Self::of(self.shared.clone(), tag)
    }

    /// Returns the descriptor that an event loop watches. It is readable when connections wait to be accepted, when a time has
    /// come (see `begin_wait`), or when a virtual clock asks whether the loop has anything to do.
    fn fileno(&self) -> i32 {
        self.shared.descriptor.number()
    }

    /// Accepts all waiting connections.
    fn accept(&self) -> Vec<MockConnection> {
        self.shared.descriptor.clear();
        match &mut *self.shared.waiting() {
            MockState::Open(waiting) => mem::take(waiting),
            MockState::Closed => Vec::new(),
        }
    }

    /// Returns the time by which the event loop goes, in seconds: a virtual clock moves it.
    #[staticmethod]
    fn time() -> f64 {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        clock::elapsed(*FIRST.get_or_init(clock::now)).as_secs_f64()
    }

    /// Makes the descriptor readable when this time of a virtual clock has passed, instead of at an earlier `begin_wait`. Returns
    /// `False` if there is no virtual clock.
    fn begin_wait(&self, seconds: f64) -> bool {
        let Ok(time) = Duration::try_from_secs_f64(seconds) else { return false };
        let connector = Arc::downgrade(&self.shared);
        let timer = virtual_clock::call_at(clock::now() + time, move || {
            if let Some(connector) = connector.upgrade() {
                connector.descriptor.wake();
            }
        });
        let is_virtual = timer.is_some();
        self.shared.set_timer(timer);
        is_virtual
    }

    /// Ends the wait: the event loop has no timer.
    fn end_wait(&self) {
        self.shared.set_timer(None);
    }

    /// Closes the mock: later attempts to connect fail.
    fn close(&self) {
        self.shared.set_timer(None);
        self.shared.descriptor.end_part();
        *self.shared.waiting() = MockState::Closed;
    }
}

#[pymethods]
impl MockConnection {
    /// Returns the socket's descriptor, which the caller then owns, or -1 if an earlier call returned it.
    fn detach(&self) -> i32 {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        socket.map_or(-1, UnixStream::into_raw_fd)
    }

    /// Sets the error of the exchange, which it gets once the connection is closed. `lasting` means that a retry would fail
    /// in the same way.
    fn fail(&self, kind: &str, message: String, detail: String, lasting: bool) -> PyResult<()> {
        let kind = ErrorKind::ALL.iter().find(|known| known.name() == kind);
        let kind = *kind.ok_or_else(|| PyValueError::new_err("there is no such kind of error"))?;
        let mut failure = Failure::new(kind, message);
        failure.is_lasting = lasting;
        if let Some(verdict) = self.verdict.upgrade() {
            verdict.set(if detail.is_empty() { failure } else { failure.with_detail(detail) });
        }
        Ok(())
    }
}
