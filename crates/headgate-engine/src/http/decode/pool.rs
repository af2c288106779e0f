//! Threads for what would keep a worker's lanes from their turns, decoding bodies and saving them: few, and with two
//! queues, so that who has little to do does not stand behind those who have much.
//!
//! Work that is known to be long never has all threads. Threads wait for nothing but work: whatever the work waits for, it
//! has to come back for. They are started as they are needed, and end with the pool.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

/// What work came to, or what it panicked with.
pub type Ended<T> = Result<T, Box<dyn Any + Send>>;

/// The pool of an engine.
#[derive(Debug)]
pub struct Pool {
    /// What its threads are for.
    name: &'static str,
    shared: Arc<Shared>,
    alive: async_channel::Sender<Infallible>,
    start: Start,
}

/// How a thread is started: by its name, and what it does.
type Start = fn(String, Job) -> io::Result<()>;

#[derive(Debug)]
struct Shared {
    max_threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

type Job = Box<dyn FnOnce() + Send>;

/// In the order in which they came.
type Jobs = BTreeMap<u64, Job>;

/// Who brings work waits for it, or takes it back: so there are no more jobs than lanes.
#[derive(Default)]
struct State {
    short: Jobs,
    long: Jobs,
    next_number: u64,
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

/// Work that was brought. Dropping it takes back what is not begun, with all that it holds.
#[derive(Debug)]
pub struct Brought<T> {
    /// When it is begun, that is told.
    pub begun: oneshot::Receiver<Instant>,
    pub ended: oneshot::Receiver<Ended<T>>,
    _place: Place,
}

/// Where a job stands until it is begun.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    length: Length,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let job = self.shared.lock().queue(self.length).remove(&self.number);
        // Not under the lock: a body goes with it.
        drop(job);
    }
}

impl Pool {
    /// So many threads for long work and short, and one more for short work alone. Each holds a clone of `alive` as long as it
    /// runs.
    pub fn new(name: &'static str, threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        Self::with(name, threads, alive, |name, work| thread::Builder::new().name(name).spawn(work).map(drop))
    }

    fn with(name: &'static str, threads: usize, alive: async_channel::Sender<Infallible>, start: Start) -> Self {
        let max_threads = threads + 1;
        let shared = Shared { max_threads, state: Mutex::default(), changed: Condvar::new() };
        Self { name, shared: Arc::new(shared), alive, start }
    }

    /// Has a thread do this, or does it here and now where the system refuses the first thread. The work is told when it
    /// begins, and a way to find out whether somebody still waits for it.
    pub fn run<T: Send + 'static>(
        &self,
        length: Length,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Brought<T> {
        let ((tell_begun, begun), (reply, ended)) = (oneshot::channel(), oneshot::channel());
        let job = Box::new(move || {
            let now = Instant::now();
            // Who does not wait any more is found out by the work.
            let _ = tell_begun.send(now);
            let done = catch_unwind(AssertUnwindSafe(|| work(now, &|| !reply.is_closed())));
            let _ = reply.send(done);
        });
        let mut state = self.shared.lock();
        let number = state.next_number;
        state.next_number += 1;
        state.queue(length).insert(number, job);
        if state.short.len() + state.long.len() > state.idle && state.threads < self.shared.max_threads {
            let (shared, alive) = (self.shared.clone(), self.alive.clone());
            let name = format!("headgate-{}-{}", self.name, state.threads);
            let work = move || {
                let _alive = alive;
                shared.work();
            };
            state.threads += usize::from((self.start)(name, Box::new(work)).is_ok());
        }
        let left_to_us = if state.threads == 0 { state.queue(length).remove(&number) } else { None };
        drop(state);
        match left_to_us {
            Some(job) => job(),
            None => self.shared.changed.notify_one(),
        }
        Brought { begun, ended, _place: Place { shared: self.shared.clone(), length, number } }
    }

    /// What work comes to that a thread does. A panic of it goes on here, as if who waits had panicked.
    ///
    /// Cancelling it takes the work back, if it is not begun.
    pub async fn done<T: Send + 'static>(
        &self,
        length: Length,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> T {
        let mut brought = self.run(length, work);
        let ended = (&mut brought.ended).await.expect("a thread replies, if with its panic");
        ended.unwrap_or_else(|panic| resume_unwind(panic))
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
    fn queue(&mut self, length: Length) -> &mut Jobs {
        match length {
            Length::Short => &mut self.short,
            Length::Long => &mut self.long,
        }
    }

    fn next(&mut self, max_threads: usize) -> Option<(Length, Job)> {
        // Long work first, where it may be: the thread that is left over does the short.
        if self.at_long + 1 < max_threads
            && let Some((_, job)) = self.long.pop_first()
        {
            self.at_long += 1;
            return Some((Length::Long, job));
        }
        self.short.pop_first().map(|(_, job)| (Length::Short, job))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool() -> (Pool, async_channel::Receiver<Infallible>) {
        let (alive, ended) = async_channel::bounded(1);
        (Pool::new("decode", 1, alive), ended)
    }

    /// Work that tells that it has begun and goes on until it is let go.
    fn stuck(pool: &Pool, begun: &mpsc::Sender<u32>, number: u32) -> (mpsc::Sender<()>, Brought<()>) {
        let (begun, (let_go, stays)) = (begun.clone(), mpsc::channel());
        let brought = pool.run(Length::Long, move |_, _| {
            begun.send(number).expect("the test is there");
            let _ = stays.recv();
        });
        (let_go, brought)
    }

    #[test]
    fn long_work_leaves_a_thread_to_the_short() {
        let (pool, _) = pool();
        let (told, begun) = mpsc::channel();
        let (mut let_go, _brought): (Vec<_>, Vec<_>) = (0..3).map(|number| stuck(&pool, &told, number)).unzip();
        assert_eq!(Ok(0), begun.recv());
        for number in 0..10 {
            let brought = pool.run(Length::Short, move |_, _| number);
            assert_eq!(number, brought.ended.blocking_recv().expect("replied").expect("no panic"));
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
            let brought = pool.run(Length::Long, |_, _| panic!("on purpose"));
            let ended: Ended<()> = brought.ended.blocking_recv().expect("replied");
            assert_eq!(Some(&"on purpose"), ended.expect_err("it panicked").downcast_ref());
        }
        let brought = pool.run(Length::Long, |_, _| 7);
        assert_eq!(7, brought.ended.blocking_recv().expect("replied").expect("no panic"));
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_told_so_or_gone_at_once() {
        let (pool, ended) = pool();
        let (told, begun) = mpsc::channel();
        let (let_go, first) = stuck(&pool, &told, 0);
        assert_eq!(Ok(0), begun.recv());
        let body = Arc::new(());
        let its = body.clone();
        let never = pool.run(Length::Long, move |_, _| drop(its));
        let (asked, answer) = mpsc::channel();
        let watched = pool.run(Length::Long, move |_, is_wanted| {
            asked.send(()).expect("the test is there");
            while is_wanted() {
                std::thread::yield_now();
            }
        });
        drop(never);
        assert_eq!(1, Arc::strong_count(&body), "it went with who waited for it, while another is still at work");
        drop(let_go);
        assert!(first.ended.blocking_recv().expect("replied").is_ok());
        assert_eq!(Ok(()), answer.recv());
        drop(watched);
        drop(pool);
        assert!(ended.recv_blocking().is_err(), "threads end with the pool, when they have done what they were at");
    }

    #[test]
    fn who_waits_is_told_when_it_begins_and_that_is_not_before_its_turn() {
        let (pool, _) = pool();
        let (told, begun) = mpsc::channel();
        let (let_go, _first) = stuck(&pool, &told, 0);
        assert_eq!(Ok(0), begun.recv());
        let mut second = pool.run(Length::Long, |begun, _| begun);
        assert_eq!(Err(oneshot::error::TryRecvError::Empty), second.begun.try_recv());
        let released = Instant::now();
        drop(let_go);
        let begun = second.begun.blocking_recv().expect("it begins");
        assert!(released <= begun);
        assert_eq!(begun, second.ended.blocking_recv().expect("replied").expect("no panic"), "both know the same");
    }

    #[test]
    fn where_no_thread_can_be_started_work_is_done_by_who_brings_it() {
        let pool = Pool::with("decode", 1, async_channel::bounded(1).0, |_, _| Err(io::ErrorKind::WouldBlock.into()));
        for length in [Length::Short, Length::Long] {
            let mut brought = pool.run(length, |_, is_wanted| (thread::current().id(), is_wanted()));
            let done = brought.ended.try_recv().expect("done already").expect("no panic");
            assert_eq!((thread::current().id(), true), done);
            assert!(pool.shared.lock().queue(length).is_empty());
        }
    }
}
