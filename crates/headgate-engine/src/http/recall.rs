//! How a worker has others close an idle connection, where a host may have no more of them over all workers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::http::dial::transport::RouteKey;

/// What the workers of an engine are asked for: routes that lanes wait for, each once.
#[derive(Debug)]
pub struct Recalls {
    workers: Vec<OfWorker>,
}

#[derive(Debug, Default)]
struct OfWorker {
    routes: Mutex<VecDeque<RouteKey>>,
    asked: Notify,
}

impl Recalls {
    pub fn new(workers: usize) -> Self {
        Self { workers: std::iter::repeat_with(OfWorker::default).take(workers).collect() }
    }

    /// Asks all workers for an idle connection of this route: the asking one may have it meanwhile.
    pub fn ask(&self, route: &RouteKey) {
        for worker in &self.workers {
            let mut routes = worker.routes.lock().unwrap_or_else(PoisonError::into_inner);
            if !routes.contains(route) {
                routes.push_back(route.clone());
            }
            drop(routes);
            worker.asked.notify_one();
        }
    }

    /// Waits until a worker is asked, and returns for which route.
    ///
    /// Cancelling it loses nothing.
    pub async fn next(&self, worker: usize) -> RouteKey {
        let OfWorker { routes, asked } = &self.workers[worker];
        loop {
            let next = routes.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(route) => return route,
                None => asked.notified().await,
            }
        }
    }
}
