//! One thread of the server: its listener, its event loop, its connections. Stopping drops the loop, and with it every
//! connection, which also ends the faults that hang.

use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use crate::serve;
use crate::worker::ServerWorker;

/// The pause after a failed accept, when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Runs the thread. Reports once on `ready`, when connections are accepted or the start has failed.
pub(crate) fn run(
    listener: std::net::TcpListener,
    worker: ServerWorker,
    stopped: watch::Receiver<()>,
    ready: mpsc::Sender<io::Result<()>>,
) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let started = runtime.and_then(|runtime| {
        let _context = runtime.handle().enter();
        TcpListener::from_std(listener).map(|listener| (runtime, listener))
    });
    // Sending fails if another thread has failed before; then `stopped` resolves at once.
    match started {
        Err(error) => {
            let _ = ready.send(Err(error));
        }
        Ok((runtime, listener)) => {
            let _ = ready.send(Ok(()));
            // `Server::start` waits until all threads have dropped it.
            drop(ready);
            runtime.block_on(accept_until(stopped, &listener, Rc::new(worker)));
        }
    }
}

async fn accept_until(mut stopped: watch::Receiver<()>, listener: &TcpListener, worker: Rc<ServerWorker>) {
    tokio::select! {
        _ = stopped.changed() => {}
        never = accept(listener, worker) => never,
    }
}

async fn accept(listener: &TcpListener, worker: Rc<ServerWorker>) -> ! {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let worker = worker.clone();
                tokio::task::spawn_local(async move { serve::connection(stream, &worker).await });
            }
            // The client has disconnected in the backlog, or no file descriptor is left. In the latter case, a second call
            // would fail again at once.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
