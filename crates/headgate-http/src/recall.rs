//! Has other workers close an idle connection of a host that has reached its connection limit over all workers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::dial::transport::RouteKey;

/// The routes that lanes wait for, queued for each worker of an engine; a queue has each route once.
#[derive(Debug)]
pub struct Recalls {
    workers: Vec<RecallQueue>,
}

#[derive(Debug, Default)]
struct RecallQueue {
    routes: Mutex<VecDeque<RouteKey>>,
    added: Notify,
}

impl Recalls {
    pub fn new(workers: usize) -> Self {
        Self { workers: std::iter::repeat_with(RecallQueue::default).take(workers).collect() }
    }

    /// Has all workers close an idle connection of this route. This includes the worker of the caller, which may have one
    /// by now.
    pub fn recall(&self, route: &RouteKey) {
        for worker in &self.workers {
            let mut routes = worker.routes.lock().unwrap_or_else(PoisonError::into_inner);
            if !routes.contains(route) {
                routes.push_back(route.clone());
            }
            drop(routes);
            worker.added.notify_one();
        }
    }

    /// Waits for the next route of which a worker should close an idle connection.
    ///
    /// Cancelling it loses nothing.
    pub async fn next(&self, worker: usize) -> RouteKey {
        let RecallQueue { routes, added } = &self.workers[worker];
        loop {
            let next = routes.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(route) => return route,
                None => added.notified().await,
            }
        }
    }
}
