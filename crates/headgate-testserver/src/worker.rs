//! The state that the connections of one thread share.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, DEFAULT_BODY, Delay};
use crate::content::SeededText;
use crate::in_progress::InProgress;
use crate::response::{EncodedResponse, FullResponse};
use crate::rules::ServerRules;
use crate::statistics::{Counters, WorkerCounters};
use crate::tls;

/// The configuration in the form that workers need. Clones share the bodies.
#[derive(Debug, Clone)]
pub(crate) struct PreparedConfig {
    default_response: Arc<EncodedResponse>,
    content: Arc<SeededText>,
    delay: Delay,
    seed: u64,
    rules: Option<Arc<ServerRules>>,
    tls: Option<Arc<ServerConfig>>,
    http2: Option<u32>,
    robots: Option<Arc<str>>,
}

/// The state that a worker's connections share.
#[derive(Debug)]
pub(crate) struct ServerWorker {
    prepared: PreparedConfig,
    counters: Arc<Counters>,
    index: usize,
    random: RefCell<fastrand::Rng>,
}

impl ServerWorker {
    pub(crate) fn prepare(config: &Config) -> io::Result<PreparedConfig> {
        let content = SeededText::new(config.seed);
        let body = config.body_bytes.map_or_else(|| DEFAULT_BODY.into(), |bytes| content.bytes(bytes));
        Ok(PreparedConfig {
            default_response: Arc::new(EncodedResponse::new(&FullResponse::new(config.status, body))),
            content: Arc::new(content),
            delay: config.delay(),
            seed: config.seed,
            rules: ServerRules::of(config)?.map(Arc::new),
            tls: config.tls.as_ref().map(|tls| tls::config(tls, config.http2)).transpose()?,
            http2: config.http2.then_some(config.http2_streams),
            robots: config.robots.as_deref().map(Arc::from),
        })
    }

    pub(crate) fn new(prepared: PreparedConfig, counters: Arc<Counters>, index: usize) -> Self {
        // Workers draw different delays from one seed.
        let mut seeds = fastrand::Rng::with_seed(prepared.seed);
        let seed = std::iter::repeat_with(|| seeds.u64(..)).nth(index).unwrap_or_default();
        Self { prepared, counters, index, random: RefCell::new(fastrand::Rng::with_seed(seed)) }
    }

    pub(crate) fn counters(&self) -> &WorkerCounters {
        self.counters.worker(self.index)
    }

    pub(crate) fn server_counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn default_response(&self) -> &EncodedResponse {
        &self.prepared.default_response
    }

    pub(crate) fn rules(&self) -> Option<&ServerRules> {
        self.prepared.rules.as_deref()
    }

    pub(crate) fn content(&self) -> &SeededText {
        &self.prepared.content
    }

    pub(crate) fn tls(&self) -> Option<TlsAcceptor> {
        self.prepared.tls.clone().map(TlsAcceptor::from)
    }

    /// Returns the bound of concurrent streams of an HTTP/2 connection, or `None` without HTTP/2.
    pub(crate) fn http2(&self) -> Option<u32> {
        self.prepared.http2
    }

    /// Returns the path whose response replaces that of `/robots.txt`.
    pub(crate) fn robots(&self) -> Option<&str> {
        self.prepared.robots.as_deref()
    }

    /// Records that a response with this status starts.
    pub(crate) fn record_response(&self, in_progress: &mut InProgress, status: u16) {
        if in_progress.is_counted() {
            self.counters().response(status);
        }
        in_progress.record_response(status);
    }

    pub(crate) fn draw_delay(&self) -> Duration {
        self.prepared.delay.draw(&mut self.random.borrow_mut())
    }
}
