//! `Server`: the local server for tests and trial runs.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_engine::machine::raise_open_files;
use headgate_testserver::{ApiConfig, Config, Tls};
use pyo3::prelude::*;

use crate::error::to_python;

/// A local server. May be used from any thread. It stops when Python collects this object.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Server {
    inner: Mutex<headgate_testserver::Server>,
    #[pyo3(get)]
    address: String,
}

/// The fields of `headgate.jobs._server.ServerOptions`.
#[derive(FromPyObject)]
struct Options {
    host: String,
    port: u16,
    threads: Option<usize>,
    delay_s: (f64, f64),
    delay_whole: bool,
    body_bytes: Option<usize>,
    status: u16,
    seed: u64,
    capacity: Option<usize>,
    refuse: bool,
    api: Option<Api>,
    log: Option<PathBuf>,
    tls: Option<(PathBuf, PathBuf)>,
    self_signed: Option<PathBuf>,
    http2: bool,
    http2_streams: u32,
    robots: Option<String>,
}

/// The fields of `headgate.jobs._server.ApiLimits`.
#[derive(FromPyObject)]
struct Api {
    requests_per_s: Option<f64>,
    tokens_per_s: Option<f64>,
    concurrency: Option<usize>,
    burst_s: f64,
    fail_first: f64,
    html_first: f64,
    cut_first: f64,
    bearer_ttl_s: Option<f64>,
    per_host: bool,
}

#[pymethods]
impl Server {
    #[new]
    fn new(py: Python<'_>, options: Options) -> PyResult<Self> {
        let usage = |message: Message| to_python(py, &JobError::usage(message));
        let host = resolve(&options.host).ok_or_else(|| {
            usage(message!(OptionName::Host.set(options.host.as_str()), ": no address of this machine"))
        })?;
        let config = config(host, options).map_err(|mistake| usage(mistake.into()))?;
        // More open files allow more connections. Without them the server still works, so a failure is ignored.
        let _ = raise_open_files();
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

fn config(host: IpAddr, options: Options) -> Result<Config, String> {
    let Options { port, threads, delay_s, delay_whole, body_bytes, status, seed, capacity, refuse, log, .. } = options;
    let Options { http2, http2_streams, robots, .. } = options;
    let tls = match (options.tls, options.self_signed) {
        (Some((certificate, key)), _) => Some(Tls::Files { certificate, key }),
        (None, Some(certificate)) => Some(Tls::Made { certificate }),
        (None, None) => None,
    };
    let api = options.api.map(ApiConfig::try_from).transpose()?;
    let delay_s = delay_s.0..=delay_s.1;
    Ok(Config {
        host,
        port,
        threads,
        delay_s,
        delay_whole,
        body_bytes,
        status,
        seed,
        capacity,
        refuse,
        api,
        log,
        tls,
        http2,
        http2_streams,
        robots,
    })
}

impl TryFrom<Api> for ApiConfig {
    type Error = String;

    fn try_from(api: Api) -> Result<Self, String> {
        let Api { requests_per_s, tokens_per_s, concurrency, burst_s, fail_first, html_first, cut_first, .. } = api;
        let burst = Duration::try_from_secs_f64(burst_s).map_err(|error| format!("the API's burst: {error}"))?;
        let bearer_ttl = api.bearer_ttl_s.map(Duration::try_from_secs_f64).transpose();
        let bearer_ttl = bearer_ttl.map_err(|error| format!("the API's bearer tokens: {error}"))?;
        let per_host = api.per_host;
        Ok(Self {
            requests_per_s,
            tokens_per_s,
            concurrency,
            burst,
            fail_first,
            html_first,
            cut_first,
            bearer_ttl,
            per_host,
        })
    }
}

fn resolve(host: &str) -> Option<IpAddr> {
    Some((host, 0).to_socket_addrs().ok()?.next()?.ip())
}
