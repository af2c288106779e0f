//! What the connections of one thread share.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::answer::{Answer, ReadyAnswer};
use crate::config::{Config, DEFAULT_BODY, Delay};
use crate::content::Content;
use crate::in_progress::InProgress;
use crate::rules::Rules;
use crate::statistics::{Counters, WorkerCounters};
use crate::tls;

/// What all workers answer with; cloned, the bodies are the same memory.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    default_answer: Arc<ReadyAnswer>,
    content: Arc<Content>,
    delay: Delay,
    seed: u64,
    rules: Option<Arc<Rules>>,
    tls: Option<Arc<ServerConfig>>,
    http2: Option<u32>,
    robots: Option<Arc<str>>,
}

/// What a worker's connections share.
#[derive(Debug)]
pub(crate) struct Worker {
    prepared: Prepared,
    counters: Arc<Counters>,
    index: usize,
    random: RefCell<fastrand::Rng>,
}

impl Worker {
    pub fn prepare(config: &Config) -> io::Result<Prepared> {
        let content = Content::new(config.seed);
        let body = config.body_bytes.map_or_else(|| DEFAULT_BODY.into(), |bytes| content.bytes(bytes));
        Ok(Prepared {
            default_answer: Arc::new(ReadyAnswer::new(&Answer::new(config.status, body))),
            content: Arc::new(content),
            delay: config.delay(),
            seed: config.seed,
            rules: Rules::of(config)?.map(Arc::new),
            tls: config.tls.as_ref().map(|tls| tls::config(tls, config.http2)).transpose()?,
            http2: config.http2.then_some(config.http2_streams),
            robots: config.robots.as_deref().map(Arc::from),
        })
    }

    pub fn new(prepared: Prepared, counters: Arc<Counters>, index: usize) -> Self {
        // Workers draw different delays of one seed.
        let mut seeds = fastrand::Rng::with_seed(prepared.seed);
        let seed = std::iter::repeat_with(|| seeds.u64(..)).nth(index).unwrap_or_default();
        Self { prepared, counters, index, random: RefCell::new(fastrand::Rng::with_seed(seed)) }
    }

    pub fn counters(&self) -> &WorkerCounters {
        self.counters.worker(self.index)
    }

    pub fn server_counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub fn default_answer(&self) -> &ReadyAnswer {
        &self.prepared.default_answer
    }

    pub fn rules(&self) -> Option<&Rules> {
        self.prepared.rules.as_deref()
    }

    pub fn content(&self) -> &Content {
        &self.prepared.content
    }

    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.prepared.tls.clone().map(TlsAcceptor::from)
    }

    /// Streams at once on a connection of HTTP/2; `None`: it isn't spoken.
    pub fn http2(&self) -> Option<u32> {
        self.prepared.http2
    }

    /// The path whose answer `/robots.txt` gets, if it is another one.
    pub fn robots(&self) -> Option<&str> {
        self.prepared.robots.as_deref()
    }

    /// An answer with this status begins.
    pub fn begins(&self, in_progress: &mut InProgress, status: u16) {
        if in_progress.is_counted() {
            self.counters().response(status);
        }
        in_progress.answers(status);
    }

    pub fn draw_delay(&self) -> Duration {
        self.prepared.delay.draw(&mut self.random.borrow_mut())
    }
}
