//! Threads for decoding what would keep a worker's lanes from their turns: few, so that few decode at once, and with two
//! queues, so that who has little to do does not stand behind those who have much.
//!
//! Work that is known to be long never has all threads. Threads wait for nothing but work: whatever the work waits for, it
//! has to come back for. They are started as they are needed, and end with the pool.

use std::any::Any;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Short,
    Long,
}

/// What work came to, or what it panicked with.
pub(super) type Ended<T> = Result<T, Box<dyn Any + Send>>;

/// The pool of an engine.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    alive: async_channel::Sender<Infallible>,
}

#[derive(Debug)]
struct Shared {
    max_threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

type Job = Box<dyn FnOnce() + Send>;

/// Who brings work waits for it: so there are no more jobs than lanes.
#[derive(Default)]
struct State {
    short: VecDeque<Job>,
    long: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Threads that are at long work.
    at_long: usize,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Pool {
    /// So many threads for long work and short, and one more for short work alone. Each holds a clone of `alive` as long as it
    /// runs.
    pub fn new(threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        let max_threads = threads + 1;
        let shared = Shared { max_threads, state: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared), alive }
    }

    /// Has a thread do this. The work is told a way to find out whether somebody still waits for it; if nobody does when its
    /// turn comes, it is not begun.
    ///
    /// # Errors
    /// The system refuses the first thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        length: Length,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> io::Result<oneshot::Receiver<Ended<T>>> {
        let (reply, replied) = oneshot::channel();
        let job = Box::new(move || {
            let is_wanted = || !reply.is_closed();
            if is_wanted() {
                let ended = catch_unwind(AssertUnwindSafe(|| work(&is_wanted)));
                let _ = reply.send(ended);
            }
        });
        let mut state = self.shared.lock();
        match length {
            Length::Short => state.short.push_back(job),
            Length::Long => state.long.push_back(job),
        }
        if state.short.len() + state.long.len() > state.idle && state.threads < self.shared.max_threads {
            let (shared, alive) = (self.shared.clone(), self.alive.clone());
            let name = format!("headgate-decode-{}", state.threads);
            let started = thread::Builder::new().name(name).spawn(move || {
                let _alive = alive;
                shared.work();
            });
            match started {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                Err(_) => {}
            }
        }
        drop(state);
        self.shared.changed.notify_one();
        Ok(replied)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does until the pool is gone.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((length, job)) = state.next(self.max_threads) {
                drop(state);
                job();
                state = self.lock();
                state.at_long -= usize::from(length == Length::Long);
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl State {
    fn next(&mut self, max_threads: usize) -> Option<(Length, Job)> {
        // Long work first, where it may be: the thread that is left over does the short.
        if self.at_long + 1 < max_threads
            && let Some(job) = self.long.pop_front()
        {
            self.at_long += 1;
            return Some((Length::Long, job));
        }
        self.short.pop_front().map(|job| (Length::Short, job))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool() -> (Pool, async_channel::Receiver<Infallible>) {
        let (alive, ended) = async_channel::bounded(1);
        (Pool::new(1, alive), ended)
    }

    /// Work that tells that it has begun and goes on until it is let go.
    fn stuck(
        begun: &mpsc::Sender<u32>,
        number: u32,
    ) -> (mpsc::Sender<()>, impl FnOnce(&dyn Fn() -> bool) + Send + 'static) {
        let (begun, (let_go, stays)) = (begun.clone(), mpsc::channel());
        let work = move |_: &dyn Fn() -> bool| {
            begun.send(number).expect("the test is there");
            let _ = stays.recv();
        };
        (let_go, work)
    }

    #[test]
    fn long_work_leaves_a_thread_to_the_short() {
        let (pool, _) = pool();
        let (told, begun) = mpsc::channel();
        let works: Vec<_> = (0..3).map(|number| stuck(&told, number)).collect();
        let mut let_go = Vec::new();
        let mut waiting = Vec::new();
        for (release, work) in works {
            let_go.push(release);
            waiting.push(pool.run(Length::Long, work).expect("a thread"));
        }
        assert_eq!(Ok(0), begun.recv());
        for number in 0..10 {
            let replied = pool.run(Length::Short, move |_| number).expect("a thread");
            assert_eq!(number, replied.blocking_recv().expect("replied").expect("no panic"));
        }
        assert_eq!(Err(mpsc::TryRecvError::Empty), begun.try_recv(), "one at a time");
        for number in 1..3 {
            let_go.remove(0);
            assert_eq!(Ok(number), begun.recv());
        }
    }

    #[test]
    fn work_that_panics_says_so_and_leaves_the_thread_to_others() {
        let (pool, _) = pool();
        for _ in 0..5 {
            let replied = pool.run(Length::Long, |_| panic!("on purpose")).expect("a thread");
            let ended: Ended<()> = replied.blocking_recv().expect("replied");
            assert_eq!(Some(&"on purpose"), ended.expect_err("it panicked").downcast_ref());
        }
        let replied = pool.run(Length::Long, |_| 7).expect("a thread");
        assert_eq!(7, replied.blocking_recv().expect("replied").expect("no panic"));
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_told_so_or_not_begun() {
        let (pool, ended) = pool();
        let (told, begun) = mpsc::channel();
        let (let_go, work) = stuck(&told, 0);
        let first = pool.run(Length::Long, work).expect("a thread");
        assert_eq!(Ok(0), begun.recv());
        let (_, never) = stuck(&told, 1);
        drop(pool.run(Length::Long, never).expect("queued"));
        let (asked, answer) = mpsc::channel();
        let watched = pool.run(Length::Long, move |is_wanted| {
            while is_wanted() {
                std::thread::yield_now();
            }
            asked.send(()).expect("the test is there");
        });
        drop(let_go);
        assert!(first.blocking_recv().expect("replied").is_ok());
        drop(watched.expect("queued"));
        drop(pool);
        assert!(ended.recv_blocking().is_err(), "threads end with the pool, when they have done what they were at");
        drop(answer);
        assert_eq!(Err(mpsc::TryRecvError::Empty), begun.try_recv());
    }
}
