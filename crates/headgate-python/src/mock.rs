//! `MockNetwork`: connections that end in this process, and are served by whoever takes them.

use std::io;
use std::mem;
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_engine::model::error::{ErrorKind, Failure};
use headgate_engine::model::limits::LimitBy;
use headgate_engine::model::origin::Origin;
use headgate_engine::model::stand_in::{Line, StandIn, StandsIn, Verdict};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::descriptor::Descriptor;

/// May be used from any thread.
#[pyclass(frozen, weakref, module = "headgate._headgate")]
pub struct MockNetwork(Arc<Network>);

/// One connection, as who serves it has it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct MockConnection {
    /// `https://api.example.com`
    #[pyo3(get)]
    origin: String,
    socket: Mutex<Option<UnixStream>>,
    verdict: Arc<Verdict>,
}

struct Network {
    process: u32,
    descriptor: Descriptor,
    /// No more of them than engines have lanes.
    waiting: Mutex<Waiting>,
}

enum Waiting {
    Open(Vec<MockConnection>),
    /// Nobody answers any more.
    Closed,
}

impl MockNetwork {
    pub fn stand_in(&self) -> StandIn {
        StandIn(self.0.clone())
    }
}

impl Network {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StandsIn for Network {
    fn connect(&self, host: &Origin) -> Result<Line, Failure> {
        if self.process != process::id() {
            let message = "the mock answers only the process that made it, and this is a fork of that";
            return Err(Failure::new(ErrorKind::InvalidRequest, message).lasting());
        }
        let no_pair =
            |error: io::Error| Failure::new(ErrorKind::Connect, format!("no connection to the mock: {error}"));
        let (socket, other) = UnixStream::pair().map_err(no_pair)?;
        let Waiting::Open(waiting) = &mut *self.waiting() else {
            return Err(Failure::new(ErrorKind::InvalidRequest, "the mock has ended").lasting());
        };
        let verdict = Arc::<Verdict>::default();
        let line = Line { socket, verdict: verdict.clone() };
        let origin = host.key(LimitBy::Origin).into();
        // Those that were given up before anybody has taken them are gone: nobody else has their verdict.
        waiting.retain(|connection| Arc::strong_count(&connection.verdict) > 1);
        waiting.push(MockConnection { origin, socket: Mutex::new(Some(other)), verdict });
        self.descriptor.ring();
        Ok(line)
    }
}

#[pymethods]
impl MockNetwork {
    #[new]
    fn new() -> PyResult<Self> {
        let descriptor = Descriptor::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        let (process, waiting) = (process::id(), Mutex::new(Waiting::Open(Vec::new())));
        Ok(Self(Arc::new(Network { process, descriptor, waiting })))
    }

    /// What a loop watches: readable when there are connections.
    fn fileno(&self) -> i32 {
        self.0.descriptor.number()
    }

    /// The connections that nobody has taken yet.
    fn take(&self) -> Vec<MockConnection> {
        self.0.descriptor.quiet();
        match &mut *self.0.waiting() {
            Waiting::Open(waiting) => mem::take(waiting),
            Waiting::Closed => Vec::new(),
        }
    }

    /// From now on there are no connections.
    fn close(&self) {
        *self.0.waiting() = Waiting::Closed;
    }
}

#[pymethods]
impl MockConnection {
    /// Its descriptor, which is the caller's from now on; -1: it was taken before.
    fn detach(&self) -> i32 {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        socket.map_or(-1, UnixStream::into_raw_fd)
    }

    /// What the exchange fails of that it ends with when it is closed. `lasting`: it would be the same again.
    fn fail(&self, kind: &str, message: String, detail: String, lasting: bool) -> PyResult<()> {
        let kind = ErrorKind::ALL.iter().find(|known| known.name() == kind);
        let kind = *kind.ok_or_else(|| PyValueError::new_err("there is no such kind of error"))?;
        let mut failure = Failure::new(kind, message);
        failure.is_lasting = lasting;
        self.verdict.set(if detail.is_empty() { failure } else { failure.with_detail(detail) });
        Ok(())
    }
}
