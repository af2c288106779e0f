//! `Client`: an engine for requests that a caller submits one by one.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Fields;
use headgate_core::options::EngineOptions;
use headgate_engine::{Engine, Run, credential_scope, machine};
use headgate_table::columns::result::ResultColumns;
use pyo3::prelude::*;

use crate::answer::Answer;
use crate::batches::{BatchFlow, FlowInput};
use crate::descriptor::Descriptor;
use crate::error::to_python;
use crate::fork_safe::ForkSafe;
use crate::json::to_json;
use crate::mailbox::{Mailbox, Request, Submission};
use crate::options::fetch_options;
use crate::stream::ResponseStream;

/// The longest time that closing waits for requests in flight.
const LONGEST_CLOSE: Duration = Duration::from_secs(1);

/// An engine for requests. May be used from any thread. In a fork of its process it does nothing.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Client {
    open: ForkSafe<Open>,
    /// The budget of all responses together.
    #[pyo3(get)]
    max_memory_bytes: u64,
}

/// Dropping it ends requests in flight.
struct Open {
    run: Arc<Run>,
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
        let (py, mut options) = (options.py(), fetch_options(options)?);
        // What redirects there were is part of a response.
        options.request.response.keep_redirects = true;
        credential_scope::of_base_url(&mut options.request, &base_url);
        let threads = options.engine.threads.unwrap_or_else(machine::cores).min(options.run.concurrency);
        let engine = EngineOptions { threads: Some(threads), ..options.engine.clone() };
        let run = py.detach(|| {
            // The caller gets bodies, even if tables omit them.
            options.selection.omit.clear();
            let columns = ResultColumns::new(&options.source, &options.selection, Fields::empty())?;
            let engine = Engine::start(&engine)?;
            Ok((Run::fed_for(&engine, columns, options.request, options.run)?, engine.max_memory_bytes()))
        });
        let (run, max_memory_bytes) = run.map_err(|error| to_python(py, &error))?;
        Ok(Self { open: ForkSafe::new(Open { run: Arc::new(run) }), max_memory_bytes })
    }

    /// Makes a request, and waits for the response. An exception meanwhile, such as Ctrl-C, cancels it. `None`: the client
    /// is closed.
    fn call(&self, py: Python<'_>, request: Request) -> PyResult<Option<Answer>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        let submission = Submission::of_one(open.run.clone(), None);
        let row = request.for_reply(submission.completions.reply_to(0));
        let Some(ordinal) = open.run.feed(vec![row]) else { return Ok(None) };
        let arrived = submission.wait_for_one(py).inspect_err(|_| {
            submission.completions.close();
            open.run.cancel(ordinal);
        })?;
        Ok(Some(Answer::of(arrived)))
    }

    /// Makes a request whose body is streamed. `watched`: an event loop watches its descriptor. `None`: the client is
    /// closed.
    fn stream(&self, py: Python<'_>, request: Request, watched: bool) -> PyResult<Option<ResponseStream>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        let descriptor = Descriptor::watched(watched)?;
        Ok(py.detach(|| ResponseStream::start(open.run.clone(), request, descriptor)))
    }

    /// Creates a mailbox. `watched`: an event loop watches its descriptor. `None`: this is a fork.
    fn mailbox(&self, watched: bool) -> PyResult<Option<Mailbox>> {
        self.open.get().map(|open| Mailbox::new(open.run.clone(), watched)).transpose()
    }

    /// Begins a call with tables: `options` are those of this client and of rows and columns. `None`: this is a fork.
    fn tables(&self, options: &Bound<'_, PyAny>, base_url: String, watched: bool) -> PyResult<Option<BatchFlow>> {
        self.flow(options, FlowInput::Tables(base_url), watched)
    }

    /// Begins a call as `tables` does, with requests.
    fn requests(&self, options: &Bound<'_, PyAny>, watched: bool) -> PyResult<Option<BatchFlow>> {
        self.flow(options, FlowInput::Requests, watched)
    }

    /// Cancels requests in flight. No more requests start.
    fn close(&self, py: Python<'_>) {
        if let Some(open) = self.open.get() {
            py.detach(|| {
                open.run.end_feeding();
                open.run.abort();
                open.run.wait(LONGEST_CLOSE);
            });
        }
    }

    /// Returns the snapshot of its run, as JSON; `None`: this is a fork.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.open.get().map(|open| to_json(py, &py.detach(|| open.run.snapshot()))).transpose()
    }
}

impl Client {
    fn flow(&self, options: &Bound<'_, PyAny>, input: FlowInput, watched: bool) -> PyResult<Option<BatchFlow>> {
        let Some(open) = self.open.get() else { return Ok(None) };
        BatchFlow::on(options.py(), open.run.clone(), fetch_options(options)?, input, watched).map(Some)
    }
}
