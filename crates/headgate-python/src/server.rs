//! `Server`: the local server to rehearse against.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};

use headgate_engine::engine::machine::raise_open_files;
use headgate_engine::message;
use headgate_engine::model::error::JobError;
use headgate_engine::model::message::{Message, OptionName};
use headgate_testserver::Config;
use pyo3::prelude::*;

use crate::error::to_python;

/// May be used from any thread. It stops when it is collected.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Server {
    inner: Mutex<headgate_testserver::Server>,
    #[pyo3(get)]
    address: String,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (*, host, port, threads, delay, delay_whole, body_bytes, status, seed))]
    #[expect(clippy::too_many_arguments, reason = "keyword-only in Python")]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        threads: Option<usize>,
        delay: (f64, f64),
        delay_whole: bool,
        body_bytes: Option<usize>,
        status: u16,
        seed: u64,
    ) -> PyResult<Self> {
        let usage = |message: Message| to_python(py, &JobError::usage(message));
        let host =
            resolve(host).ok_or_else(|| usage(message!(OptionName::Host.set(host), ": no address of this machine")))?;
        // As many clients as the hard limit allows; with fewer files it still serves, so a failure is none.
        let _ = raise_open_files();
        let config = Config { host, port, threads, delay_s: delay.0..=delay.1, delay_whole, body_bytes, status, seed };
        let server = py
            .detach(|| headgate_testserver::Server::start(config))
            .map_err(|error| usage(error.to_string().into()))?;
        let address = server.address().to_string();
        Ok(Self { inner: Mutex::new(server), address })
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).stop());
    }
}

fn resolve(host: &str) -> Option<IpAddr> {
    Some((host, 0).to_socket_addrs().ok()?.next()?.ip())
}
