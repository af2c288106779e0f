//! Threads for what would keep a worker's lanes from their turns, decoding bodies and saving them: few, so that work that is
//! known to be long never has all of them, and short work does not stand behind it.
//!
//! They are the blocking threads of a tokio runtime, started as they are needed. Threads wait for nothing but work: whatever the
//! work waits for, it has to come back for.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};

/// How long a thread waits for more work before it ends: as long as the pool is there.
const KEEP_ALIVE: Duration = Duration::from_hours(24 * 365);

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

/// The pool of an engine.
#[derive(Debug)]
pub struct Pool {
    /// `None`: it is being dropped.
    runtime: Option<Runtime>,
    /// Lets long work have all threads but one.
    long: Arc<Semaphore>,
}

/// Work that waits for a thread, until its caller is gone.
struct Waiting(Arc<Mutex<Option<Job>>>);

type Job = Box<dyn FnOnce() + Send>;

impl Waiting {
    fn take(&self) -> Option<Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Does the work, unless that has begun or is withdrawn.
    fn begin(&self) {
        if let Some(job) = self.take() {
            job();
        }
    }
}

impl Drop for Waiting {
    /// Withdraws the work, with all that it holds.
    fn drop(&mut self) {
        self.take();
    }
}

impl Pool {
    /// Makes a pool of so many threads for long work and short, and one more for short work alone. A clone of `alive` lives as
    /// long as the last of them.
    pub fn new(name: &'static str, threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        Self::with(Builder::new_current_thread().thread_name(format!("headgate-{name}")), threads, alive)
    }

    fn with(builder: &mut Builder, threads: usize, alive: async_channel::Sender<Infallible>) -> Self {
        let hold = move || {
            // What a thread's start would call lives until the last thread has ended.
            let _ = &alive;
        };
        let builder = builder.max_blocking_threads(threads + 1).thread_keep_alive(KEEP_ALIVE).on_thread_start(hold);
        let runtime = builder.build().expect("a runtime without an event loop needs nothing of the system");
        Self { runtime: Some(runtime), long: Arc::new(Semaphore::new(threads)) }
    }

    /// Has a thread do this, or does it here and now where the system refuses the first thread. The work is told by when it has
    /// to end: at `by`, later by what it has waited for a thread; and a way to find out whether its caller still waits. Returns
    /// what the work came to, and how long it has waited. A panic of the work goes on here.
    ///
    /// Cancelling it withdraws the work, if it is not begun.
    pub async fn run<T: Send + 'static>(
        &self,
        length: Length,
        by: Instant,
        work: impl FnOnce(Instant, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> (T, Duration) {
        let since = Instant::now();
        let permit = match length {
            Length::Short => None,
            Length::Long => self.long.clone().acquire_owned().await.ok(),
        };
        let (reply, ended) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _permit = permit;
            let waited = since.elapsed();
            let done = catch_unwind(AssertUnwindSafe(|| work(by + waited, &|| !reply.is_closed())));
            // A caller that does not wait any more is found out by the work.
            let _ = reply.send((done, waited));
        });
        let waiting = Arc::new(Mutex::new(Some(job)));
        let (waiting, taken) = (Waiting(waiting.clone()), Waiting(waiting));
        if let Some(runtime) = &self.runtime {
            let start = || runtime.spawn_blocking(move || taken.begin());
            if catch_unwind(AssertUnwindSafe(start)).is_err() {
                waiting.begin();
            }
        }
        let (done, waited) = ended.await.expect("a thread replies, if with its panic");
        (done.unwrap_or_else(|panic| resume_unwind(panic)), waited)
    }
}

impl Drop for Pool {
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

    fn pool() -> (Arc<Pool>, async_channel::Receiver<Infallible>) {
        let (alive, ended) = async_channel::bounded(1);
        (Arc::new(Pool::new("decode", 1, alive)), ended)
    }

    /// Work that tells that it has begun and goes on until it is let go.
    fn stuck(
        pool: &Arc<Pool>,
        length: Length,
        begun: &UnboundedSender<u32>,
        number: u32,
    ) -> (mpsc::Sender<()>, JoinHandle<()>) {
        let (pool, begun, (let_go, stays)) = (pool.clone(), begun.clone(), mpsc::channel());
        let work = move |_, _: &dyn Fn() -> bool| {
            begun.send(number).expect("the test is there");
            let _ = stays.recv();
        };
        (let_go, spawn_local(async move { pool.run(length, Instant::now(), work).await.0 }))
    }

    #[test]
    fn long_work_leaves_a_thread_to_the_short() {
        on_event_loop(async {
            let (pool, _) = pool();
            let (told, mut begun) = unbounded_channel();
            let mut let_go: Vec<_> = (0..3).map(|number| stuck(&pool, Length::Long, &told, number).0).collect();
            assert_eq!(Some(0), begun.recv().await);
            for number in 0..10 {
                assert_eq!(number, pool.run(Length::Short, Instant::now(), move |_, _| number).await.0);
            }
            assert_eq!(Err(TryRecvError::Empty), begun.try_recv(), "one at a time");
            for number in 1..3 {
                let_go.remove(0);
                assert_eq!(Some(number), begun.recv().await);
            }
        });
    }

    #[test]
    fn work_that_panics_panics_its_caller_and_leaves_the_thread_to_others() {
        on_event_loop(async {
            let (pool, _) = pool();
            for _ in 0..5 {
                let pool = pool.clone();
                let work = |_, _: &dyn Fn() -> bool| panic!("on purpose");
                let panicked = spawn_local(async move { pool.run::<()>(Length::Long, Instant::now(), work).await });
                let panic = panicked.await.expect_err("it panicked").into_panic();
                assert_eq!(Some(&"on purpose"), panic.downcast_ref());
            }
            assert_eq!(7, pool.run(Length::Long, Instant::now(), |_, _| 7).await.0);
        });
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_told_so_or_gone_at_once() {
        on_event_loop(async {
            let (pool, ended) = pool();
            let (told, mut begun) = unbounded_channel();
            let stuck = [Length::Long, Length::Short].map(|length| stuck(&pool, length, &told, 0));
            assert_eq!((Some(0), Some(0)), (begun.recv().await, begun.recv().await));
            let body = Arc::new(());
            for length in [Length::Long, Length::Short] {
                let (pool, its) = (pool.clone(), body.clone());
                let never = spawn_local(async move { pool.run(length, Instant::now(), |_, _| drop(its)).await });
                tokio::task::yield_now().await;
                never.abort();
                assert!(never.await.is_err());
                assert_eq!(1, Arc::strong_count(&body), "it went with its caller, while others are still at work");
            }
            let its = pool.clone();
            let asked = told.clone();
            let work = move |_, is_wanted: &dyn Fn() -> bool| {
                asked.send(1).expect("the test is there");
                while is_wanted() {
                    thread::yield_now();
                }
            };
            let watched = spawn_local(async move { its.run(Length::Long, Instant::now(), work).await });
            for (let_go, done) in stuck {
                drop(let_go);
                done.await.expect("no panic");
            }
            assert_eq!(Some(1), begun.recv().await);
            watched.abort();
            assert!(watched.await.is_err());
            drop(pool);
            assert!(ended.recv().await.is_err(), "threads end with the pool, when they have done what they were at");
        });
    }

    #[test]
    fn the_time_of_work_begins_when_it_begins_and_that_is_not_before_its_turn() {
        on_event_loop(async {
            let (pool, _) = pool();
            let (told, mut begun) = unbounded_channel();
            let (let_go, _first) = stuck(&pool, Length::Long, &told, 0);
            assert_eq!(Some(0), begun.recv().await);
            let by = Instant::now();
            let second = pool.run(Length::Long, by, |by, _| by);
            let release = async {
                tokio::task::yield_now().await;
                let waited = by.elapsed();
                drop(let_go);
                waited
            };
            let ((told_by, waited), at_least) = tokio::join!(second, release);
            assert!(waited + by.elapsed() >= at_least && waited > Duration::ZERO);
            assert_eq!(by + waited, told_by);
        });
    }

    #[test]
    fn where_no_thread_can_be_started_work_is_done_by_its_caller() {
        on_event_loop(async {
            // No stack is so large.
            let mut builder = Builder::new_current_thread();
            let pool = Pool::with(builder.thread_stack_size(1 << 62), 1, async_channel::bounded(1).0);
            for length in [Length::Short, Length::Long] {
                let work = |_, is_wanted: &dyn Fn() -> bool| (thread::current().id(), is_wanted());
                assert_eq!((thread::current().id(), true), pool.run(length, Instant::now(), work).await.0);
            }
        });
    }
}
