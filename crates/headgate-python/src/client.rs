//! `Client`: an engine for requests that a caller submits one by one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_schema::Fields;
use headgate_core::cookie_jar::SharedCookieJar;
use headgate_core::options::EngineOptions;
use headgate_core::secret::Secret;
use headgate_engine::{Call, Engine, Run, credential_scope, machine};
use headgate_table::columns::result::ResultColumns;
use pyo3::prelude::*;

use crate::batches::{BatchFlow, FlowInput};
use crate::call::lock;
use crate::call_timeouts::CallDefaults;
use crate::completion_queue::{CompletionQueue, Submission};
use crate::cookie_jar::CookieJar;
use crate::descriptor::Descriptor;
use crate::error::to_python;
use crate::fork_safe::ForkSafe;
use crate::json::to_json;
use crate::options::fetch_options;
use crate::outcome::{NativeOutcome, SentFields, sent_fields};
use crate::request::Request;
use crate::stream::ResponseStream;

/// How long `close` waits for requests in flight, at most.
const MAX_CLOSE: Duration = Duration::from_secs(1);

/// An engine for requests. May be used from any thread. In a fork of the process that created it, its methods do nothing.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Client {
    open: ForkSafe<Open>,
    /// The memory budget of all responses together.
    #[pyo3(get)]
    max_memory: u64,
    cookies: Option<SharedCookieJar>,
}

/// The run of a client. Dropping it ends requests in flight.
struct Open {
    run: Arc<Run>,
    calls: CallDefaults,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.run.end_feeding();
        self.run.abort();
    }
}

#[pymethods]
impl Client {
    #[new]
    fn new(options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let base_url: String = options.getattr("base_url")?.extract()?;
        let cookies: Option<PyRef<'_, CookieJar>> = options.getattr("cookie_jar")?.extract()?;
        let cookies = cookies.map(|jar| jar.shared());
        let calls = CallDefaults::read(options)?;
        let (py, mut options) = (options.py(), fetch_options(options)?);
        options.request.cookies.clone_from(&cookies);
        // A `Response` has its redirect chain.
        options.request.response.keep_redirects = true;
        credential_scope::of_base_url(&mut options.request, &base_url);
        let threads = options.engine.threads.unwrap_or_else(machine::cores).min(options.run.concurrency);
        let engine = EngineOptions { threads: Some(threads), ..options.engine.clone() };
        let run = py.detach(|| {
            // The caller gets bodies, even if the options omit them from tables.
            options.selection.drop.clear();
            let columns = ResultColumns::new(&options.source, &options.selection, Fields::empty())?;
            let engine = Engine::start(&engine)?;
            Ok((Run::fed_for(&engine, columns, options.request, options.run)?, engine.max_memory()))
        });
        let (run, max_memory) = run.map_err(|error| to_python(py, &error))?;
        Ok(Self { open: ForkSafe::new(Open { run: Arc::new(run), calls }), max_memory, cookies })
    }

    /// Sends a request, and waits for its outcome. An exception during the wait, such as Ctrl-C, cancels the request.
    /// Returns `None` if the client is closed.
    fn call(&self, request: &Bound<'_, PyAny>) -> PyResult<Option<NativeOutcome>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        let submission = Submission::of_one(open.run.clone(), None);
        let (row, timeouts) = request.extract::<Request>()?.into_call(open.calls, &submission.waker);
        let Some(call) = Call::submit(open.run.clone(), &submission.completions, 0, row, timeouts, false) else {
            return Ok(None);
        };
        let call = Mutex::new(call);
        let arrived = submission.wait_for_call(&call, request).inspect_err(|_| {
            submission.completions.close();
            lock(&call).cancel();
        })?;
        Ok(Some(NativeOutcome::of(arrived, &open.run)))
    }

    /// Sends a request whose response body is streamed. `watched` means that an event loop watches its descriptor. Returns
    /// `None` if the client is closed. `followed`: its attempts are recorded.
    #[pyo3(signature = (request, watched, followed=false))]
    fn start_stream(
        &self,
        request: &Bound<'_, PyAny>,
        watched: bool,
        followed: bool,
    ) -> PyResult<Option<ResponseStream>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        ResponseStream::start(open.run.clone(), request, open.calls, Descriptor::watched(watched)?, followed)
    }

    /// Returns a request as it will be sent, or `None` if it can't be made, or in a fork.
    fn prepare<'py>(&self, py: Python<'py>, request: Request) -> Option<SentFields<'py>> {
        let open = self.open.get()?;
        let prepared = open.run.defaults().next_request(&request.into_row(), self.cookies.as_ref());
        prepared.map(|request| sent_fields(py, request))
    }

    /// Creates a completion queue. `watched` means that an event loop watches its descriptor. Returns `None` in a fork.
    fn completion_queue(&self, watched: bool) -> PyResult<Option<CompletionQueue>> {
        self.open.get().map(|open| CompletionQueue::new(open.run.clone(), open.calls, watched)).transpose()
    }

    /// Starts a call with tables. `options` holds this client's options and those of rows and columns. Returns `None` in a
    /// fork.
    fn start_tables(&self, options: &Bound<'_, PyAny>, base_url: String, watched: bool) -> PyResult<Option<BatchFlow>> {
        self.start_flow(options, FlowInput::Tables(base_url), watched)
    }

    /// Starts a call as `start_tables` does, with requests instead of tables.
    fn start_requests(&self, options: &Bound<'_, PyAny>, watched: bool) -> PyResult<Option<BatchFlow>> {
        self.start_flow(options, FlowInput::Requests, watched)
    }

    /// Returns the headers of requests: name, value, and whether it is a credential. `None` in a fork.
    fn headers(&self) -> Option<Vec<(String, String, bool)>> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = self.open.get()?.run.headers().into_iter();
        Some(headers.map(|header| (header.name, text(&header.value), header.is_credential)).collect())
    }

    /// Replaces all changes of the headers that the options give: each name has a new value, or none. Requests that are
    /// submitted from now on have them.
    fn change_headers(&self, py: Python<'_>, changes: Vec<(String, Option<Vec<u8>>)>) -> PyResult<()> {
        let Some(open) = self.open.get() else { return Ok(()) };
        let secret = |value: Vec<u8>| Secret::from(Box::<[u8]>::from(value));
        let changes = changes.into_iter().map(|(name, value)| (name.into(), value.map(secret))).collect();
        open.run.change_headers(changes).map_err(|error| to_python(py, &error))
    }

    /// Cancels requests in flight, and accepts no more requests.
    fn close(&self, py: Python<'_>) {
        if let Some(open) = self.open.get() {
            py.detach(|| {
                open.run.end_feeding();
                open.run.abort();
                open.run.wait(MAX_CLOSE);
            });
        }
    }

    /// Returns the snapshot of the client's run, as JSON, or `None` in a fork.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.open.get().map(|open| to_json(py, &py.detach(|| open.run.snapshot()))).transpose()
    }
}

impl Client {
    fn start_flow(&self, options: &Bound<'_, PyAny>, input: FlowInput, watched: bool) -> PyResult<Option<BatchFlow>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        BatchFlow::on(options.py(), open.run.clone(), fetch_options(options)?, input, watched).map(Some)
    }
}
