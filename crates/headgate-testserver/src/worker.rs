//! One thread of the server: its listener, its event loop, its connections. Stopping drops the loop, and with it every
//! connection, whatever it is in the middle of: that is what ends the faults that hang.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use crate::answer::{Answer, ReadyAnswer};
use crate::config::{Config, DEFAULT_BODY, Delay};
use crate::content::Content;
use crate::serve;
use crate::statistics::{Counters, WorkerCounters};

/// How long to leave the listener alone when the system has no socket left for it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all workers answer with; cloned, the bodies are the same memory.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    default_answer: Arc<ReadyAnswer>,
    content: Arc<Content>,
    delay: Delay,
    seed: u64,
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
    pub fn prepare(config: &Config) -> Prepared {
        let content = Content::new(config.seed);
        let body = config.body_bytes.map_or_else(|| DEFAULT_BODY.into(), |bytes| content.bytes(bytes));
        Prepared {
            default_answer: Arc::new(ReadyAnswer::new(&Answer::new(config.status, body))),
            content: Arc::new(content),
            delay: config.delay(),
            seed: config.seed,
        }
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

    pub fn content(&self) -> &Content {
        &self.prepared.content
    }

    pub fn draw_delay(&self) -> Duration {
        self.prepared.delay.draw(&mut self.random.borrow_mut())
    }
}

/// The thread's life. Reports once on `ready`, when connections are accepted or cannot be.
pub(crate) fn run(
    listener: std::net::TcpListener,
    worker: Worker,
    stopped: watch::Receiver<()>,
    ready: &mpsc::Sender<io::Result<()>>,
) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let started = runtime.and_then(|runtime| {
        let _context = runtime.handle().enter();
        TcpListener::from_std(listener).map(|listener| (runtime, listener))
    });
    // Nobody hears the report if another thread failed before; then `stopped` comes at once.
    match started {
        Err(error) => {
            let _ = ready.send(Err(error));
        }
        Ok((runtime, listener)) => {
            let _ = ready.send(Ok(()));
            runtime.block_on(accept_until(stopped, &listener, Rc::new(worker)));
        }
    }
}

async fn accept_until(mut stopped: watch::Receiver<()>, listener: &TcpListener, worker: Rc<Worker>) {
    tokio::select! {
        _ = stopped.changed() => {}
        never = accept(listener, worker) => never,
    }
}

async fn accept(listener: &TcpListener, worker: Rc<Worker>) -> ! {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let worker = worker.clone();
                tokio::task::spawn_local(async move { serve::connection(stream, &worker).await });
            }
            // The peer gave up while it waited in the backlog, or there is no file descriptor left: the second would
            // fail again at once, and again.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
