//! The connections of one host over HTTP/1.1, idle ones included, counted over all workers of an engine.
//!
//! Where a limit allows no more of them, a worker that needs one waits until another is closed. Requests in flight have the
//! same limit, so one of the connections is idle by then or will be soon: the worker that has it cedes it, which means that
//! it closes it for a lane that waits. As many are ceded as lanes wait, and no more, and no lane that comes later takes what was
//! closed for them.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// See the top of this file.
#[derive(Debug, Default)]
pub struct HostConnections {
    counts: Mutex<Counts>,
    /// Lanes that wait for a connection to be closed. It changes under the lock.
    waiting: AtomicUsize,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    open: usize,
    /// Those of them that are about to be closed for a lane that waits.
    ceded: usize,
    /// The limit of the lane that began to wait last.
    max: usize,
}

impl HostConnections {
    /// Counts one more connection if there are less than `max`, also with one for each lane that waits.
    pub fn try_open(self: &Arc<Self>, max: usize) -> Option<HostPermit> {
        let mut counts = self.counts();
        let waiting = self.waiting.load(Ordering::Relaxed);
        (counts.open + waiting < max).then(|| self.permit(&mut counts))
    }

    /// Counts one more connection when there are less than `max`; `recall` has other workers cede idle ones.
    ///
    /// Cancelling it ends the wait.
    pub async fn open(self: &Arc<Self>, max: usize, recall: impl FnOnce()) -> HostPermit {
        // What is closed from here on wakes it.
        let mut closed = self.closed.notified();
        if let Some(permit) = self.try_open(max) {
            return permit;
        }
        let waiting = Waiting::new(self, max);
        recall();
        loop {
            closed.await;
            closed = self.closed.notified();
            let mut counts = self.counts();
            if counts.open < max {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                mem::forget(waiting);
                return self.permit(&mut counts);
            }
            counts.max = max;
        }
    }

    /// Returns whether a lane waits for one of them to be closed.
    pub fn are_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn permit(self: &Arc<Self>, counts: &mut Counts) -> HostPermit {
        counts.open += 1;
        HostPermit { connections: self.clone(), is_ceded: false }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one connection as open for as long as it lives.
#[derive(Debug)]
pub struct HostPermit {
    connections: Arc<HostConnections>,
    is_ceded: bool,
}

impl HostPermit {
    /// Cedes the connection if a lane waits for which none is free or ceded yet. Returns whether it is ceded: then the
    /// caller closes it.
    pub fn try_cede(&mut self) -> bool {
        if !self.is_ceded && self.connections.are_wanted() {
            let mut counts = self.connections.counts();
            let waiting = self.connections.waiting.load(Ordering::Relaxed);
            self.is_ceded = waiting > 0 && counts.open - counts.ceded + waiting > counts.max;
            counts.ceded += usize::from(self.is_ceded);
        }
        self.is_ceded
    }
}

impl Drop for HostPermit {
    fn drop(&mut self) {
        let mut counts = self.connections.counts();
        counts.open -= 1;
        counts.ceded -= usize::from(self.is_ceded);
        drop(counts);
        self.connections.closed.notify_waiters();
    }
}

struct Waiting<'a>(&'a HostConnections);

impl<'a> Waiting<'a> {
    fn new(connections: &'a HostConnections, max: usize) -> Self {
        let mut counts = connections.counts();
        connections.waiting.fetch_add(1, Ordering::Relaxed);
        counts.max = max;
        Self(connections)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let counts = self.0.counts();
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(counts);
        // What was kept for it is for the others.
        self.0.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::*;

    async fn is_waiting(wait: &mut Pin<&mut impl Future<Output = HostPermit>>) -> bool {
        poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn beyond_the_limit_a_connection_waits_and_requests_one_eviction() {
        let connections = Arc::<HostConnections>::default();
        let first = connections.try_open(2).expect("there is none yet");
        let second = connections.open(2, || panic!("a connection is free")).await;
        assert!(connections.try_open(2).is_none() && !connections.are_wanted());
        let recalls = Cell::new(0);
        {
            let mut third = pin!(connections.open(2, || recalls.set(recalls.get() + 1)));
            assert!(is_waiting(&mut third).await);
            drop(connections.try_open(usize::MAX).expect("it has no limit"));
            assert!(is_waiting(&mut third).await, "there are as many as before");
            assert_eq!((1, true), (recalls.get(), connections.are_wanted()));
            drop(first);
            assert!(connections.try_open(2).is_none(), "it is for the one that waits");
            drop(third.await);
        }
        assert!(!connections.are_wanted());
        drop(second);
        let all = [(); 3].map(|()| connections.try_open(3).is_some());
        assert_eq!([true; 3], all, "each is counted as long as its permit lives");
    }

    #[tokio::test]
    async fn each_waiting_lane_gets_one_of_the_connections_that_close_together() {
        let connections = Arc::<HostConnections>::default();
        let open = [connections.try_open(2), connections.try_open(2)];
        let (mut one, mut other) = (pin!(connections.open(2, || ())), pin!(connections.open(2, || ())));
        assert!(is_waiting(&mut one).await && is_waiting(&mut other).await);
        drop(open);
        let _both = (one.await, other.await);
        assert!(connections.try_open(2).is_none());
    }

    #[tokio::test]
    async fn as_many_connections_are_ceded_as_lanes_wait() {
        let connections = Arc::<HostConnections>::default();
        let mut open = [(); 3].map(|()| connections.try_open(3).expect("a connection is free"));
        assert!(!open[0].try_cede(), "no lane waits");
        {
            let mut one = pin!(connections.open(3, || ()));
            assert!(is_waiting(&mut one).await);
            assert_eq!([true, false, false], open.each_mut().map(HostPermit::try_cede));
            let mut other = pin!(connections.open(3, || ()));
            assert!(is_waiting(&mut other).await);
            assert_eq!([true, true, false], open.each_mut().map(HostPermit::try_cede));
        }
        // The lanes no longer wait: connections that are closed for them are free for other lanes.
        let [first, second, mut third] = open;
        drop((first, second));
        let _two = [(); 2].map(|()| connections.try_open(3).expect("a connection is free"));
        assert!(connections.try_open(3).is_none() && !third.try_cede());
    }
}
