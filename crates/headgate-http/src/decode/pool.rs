//! A small pool of threads for work that would block a worker's event loop: decoding and saving bodies. Long work never occupies
//! all threads, so that short work does not wait for it.
//!
//! They are the blocking threads of a tokio runtime, started on demand. Threads wait for nothing except work. Work that needs
//! memory ends without it, and is submitted again once there is some.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};

use headgate_core::clock;
use headgate_core::virtual_clock::Working;

/// How long an idle thread lives: as long as the pool.
const KEEP_ALIVE: Duration = Duration::from_hours(24 * 365);

/// The expected length of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkLength {
    Short,
    Long,
}

/// A thread pool of an engine.
#[derive(Debug)]
pub struct ThreadPool {
    /// `None` while the pool is dropped.
    runtime: Option<Runtime>,
    /// Permits long work on all threads but one.
    long: Arc<Semaphore>,
}

/// A job that waits for a thread. Dropping either of its two handles cancels it, unless it has started.
struct QueuedJob(Arc<Mutex<Option<Job>>>);

type Job = Box<dyn FnOnce() + Send>;

impl QueuedJob {
    fn take(&self) -> Option<Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs the job, unless it has started or was cancelled.
    fn run(&self) {
        if let Some(job) = self.take() {
            job();
        }
    }
}

impl Drop for QueuedJob {
    /// Cancels the job, and drops what it owns.
    fn drop(&mut self) {
        self.take();
    }
}

impl ThreadPool {
    /// Creates a pool of `threads` threads for all work, and one more for short work alone. A clone of `alive` lives as long as
    /// the last thread.
    pub fn new(name: &'static str, threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        Self::with(Builder::new_current_thread().thread_name(format!("headgate-{name}")), threads, alive)
    }

    fn with(builder: &mut Builder, threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        let hold = move || {
            // The runtime holds this closure, and with it `alive`, until the last thread has ended.
            let _ = &alive;
        };
        let builder = builder.max_blocking_threads(threads + 1).thread_keep_alive(KEEP_ALIVE).on_thread_start(hold);
        let runtime = builder.build().expect("a runtime without an event loop needs nothing of the system");
        Self { runtime: Some(runtime), long: Arc::new(Semaphore::new(threads)) }
    }

    /// Runs work in a thread, or in the caller's thread if the system refuses the first thread. The work gets its deadline,
    /// which is `by` plus its wait for a thread, and a function that returns whether the caller still waits. Returns the result
    /// of the work, and how long it waited for a thread. A panic of the work is resumed here.
    ///
    /// Cancelling it cancels the work, unless that has started.
    pub async fn run<T: Send + 'static>(
        &self,
        length: WorkLength,
        by: Instant,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> (T, Duration) {
        let (since, _working) = (clock::now(), Working::begin());
        let permit = match length {
            WorkLength::Short => None,
            WorkLength::Long => self.long.clone().acquire_owned().await.ok(),
        };
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _permit = permit;
            let waited = clock::elapsed(since);
            let result = catch_unwind(AssertUnwindSafe(|| work(by + waited, &|| !sender.is_closed())));
            // This fails if the caller has stopped waiting.
            let _ = sender.send((result, waited));
        });
        let job = Arc::new(Mutex::new(Some(job)));
        let (of_caller, of_thread) = (QueuedJob(job.clone()), QueuedJob(job));
        if let Some(runtime) = &self.runtime {
            let spawn = || runtime.spawn_blocking(move || of_thread.run());
            if catch_unwind(AssertUnwindSafe(spawn)).is_err() {
                of_caller.run();
            }
        }
        let (result, waited) = receiver.await.expect("a thread sends a result, if only its panic");
        (result.unwrap_or_else(|panic| resume_unwind(panic)), waited)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::mpsc;
    use std::thread;

    use tokio::sync::mpsc::{UnboundedSender, error::TryRecvError, unbounded_channel};
    use tokio::task::{JoinHandle, LocalSet, spawn_local};

    use super::*;

    fn on_event_loop<T>(test: impl Future<Output = T>) -> T {
        LocalSet::new().block_on(&Builder::new_current_thread().build().expect("an event loop"), test)
    }

    fn pool() -> (Arc<ThreadPool>, async_channel::Receiver<Infallible>) {
        let (alive, ended) = async_channel::bounded(1);
        (Arc::new(ThreadPool::new("decode", 1, alive)), ended)
    }

    /// Starts work that sends `number` when it starts, and ends when the returned sender is dropped.
    fn block_thread(
        pool: &Arc<ThreadPool>,
        length: WorkLength,
        started: &UnboundedSender<u32>,
        number: u32,
    ) -> (mpsc::Sender<()>, JoinHandle<()>) {
        let (pool, started, (release, released)) = (pool.clone(), started.clone(), mpsc::channel());
        let work = move |_, _: &dyn Fn() -> bool| {
            started.send(number).expect("the test is there");
            let _ = released.recv();
        };
        (release, spawn_local(async move { pool.run(length, Instant::now(), work).await.0 }))
    }

    #[test]
    fn long_work_leaves_a_thread_for_short_work() {
        on_event_loop(async {
            let (pool, _) = pool();
            let (starts, mut started) = unbounded_channel();
            let mut releases: Vec<_> =
                (0..3).map(|number| block_thread(&pool, WorkLength::Long, &starts, number).0).collect();
            assert_eq!(Some(0), started.recv().await);
            for number in 0..10 {
                assert_eq!(number, pool.run(WorkLength::Short, Instant::now(), move |_, _| number).await.0);
            }
            assert_eq!(Err(TryRecvError::Empty), started.try_recv(), "one at a time");
            for number in 1..3 {
                releases.remove(0);
                assert_eq!(Some(number), started.recv().await);
            }
        });
    }

    #[test]
    fn a_panic_of_the_work_reaches_the_caller_and_the_thread_stays_usable() {
        on_event_loop(async {
            let (pool, _) = pool();
            for _ in 0..5 {
                let pool = pool.clone();
                let work = |_, _: &dyn Fn() -> bool| panic!("on purpose");
                let panicked = spawn_local(async move { pool.run::<()>(WorkLength::Long, Instant::now(), work).await });
                let panic = panicked.await.expect_err("it panicked").into_panic();
                assert_eq!(Some(&"on purpose"), panic.downcast_ref());
            }
            assert_eq!(7, pool.run(WorkLength::Long, Instant::now(), |_, _| 7).await.0);
        });
    }

    #[test]
    fn work_without_a_caller_is_dropped_or_notified() {
        on_event_loop(async {
            let (pool, ended) = pool();
            let (starts, mut started) = unbounded_channel();
            let blocked = [WorkLength::Long, WorkLength::Short].map(|length| block_thread(&pool, length, &starts, 0));
            assert_eq!((Some(0), Some(0)), (started.recv().await, started.recv().await));
            let body = Arc::new(());
            for length in [WorkLength::Long, WorkLength::Short] {
                let (pool, its) = (pool.clone(), body.clone());
                let never = spawn_local(async move { pool.run(length, Instant::now(), |_, _| drop(its)).await });
                tokio::task::yield_now().await;
                never.abort();
                assert!(never.await.is_err());
                assert_eq!(1, Arc::strong_count(&body), "it was dropped with its caller, while other work still runs");
            }
            let its = pool.clone();
            let starts = starts.clone();
            let work = move |_, is_wanted: &dyn Fn() -> bool| {
                starts.send(1).expect("the test is there");
                while is_wanted() {
                    thread::yield_now();
                }
            };
            let watched = spawn_local(async move { its.run(WorkLength::Long, Instant::now(), work).await });
            for (release, done) in blocked {
                drop(release);
                done.await.expect("no panic");
            }
            assert_eq!(Some(1), started.recv().await);
            watched.abort();
            assert!(watched.await.is_err());
            drop(pool);
            assert!(ended.recv().await.is_err(), "threads end with the pool, after their current work");
        });
    }

    #[test]
    fn the_wait_for_a_thread_extends_the_deadline_of_the_work() {
        on_event_loop(async {
            let (pool, _) = pool();
            let (starts, mut started) = unbounded_channel();
            let (release, _first) = block_thread(&pool, WorkLength::Long, &starts, 0);
            assert_eq!(Some(0), started.recv().await);
            let by = Instant::now();
            let second = pool.run(WorkLength::Long, by, |by, _| by);
            let release_first = async {
                tokio::task::yield_now().await;
                let waited = by.elapsed();
                drop(release);
                waited
            };
            let ((deadline, waited), at_least) = tokio::join!(second, release_first);
            assert!(waited + by.elapsed() >= at_least && waited > Duration::ZERO);
            assert_eq!(by + waited, deadline);
        });
    }

    #[test]
    fn if_no_thread_can_be_started_the_caller_runs_the_work() {
        on_event_loop(async {
            // The system has no memory for so large a stack.
            let mut builder = Builder::new_current_thread();
            let pool = ThreadPool::with(builder.thread_stack_size(1 << 62), 1, async_channel::bounded(1).0);
            for length in [WorkLength::Short, WorkLength::Long] {
                let work = |_, is_wanted: &dyn Fn() -> bool| (thread::current().id(), is_wanted());
                assert_eq!((thread::current().id(), true), pool.run(length, Instant::now(), work).await.0);
            }
        });
    }
}
