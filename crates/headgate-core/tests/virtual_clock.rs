//! Virtual time, from the point of view of an engine. It is one clock for the process, so this is one test after another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::timer::{TimedOut, sleep_until, timeout_at};
use headgate_core::virtual_clock::{CallerWaits, LoopOf, Participant, VirtualClock, Working, call_at, is_active};

const HOUR: Duration = Duration::from_hours(1);
/// More than the real time that a test takes.
const PROCESSING: Duration = Duration::from_mins(2);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Calls this in an event loop, with a virtual clock, and returns the time that has passed on it.
fn elapsed_in(work: impl Future<Output = ()>) -> Duration {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _clock = VirtualClock::begin().expect("a thread");
    let started = clock::now();
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop").block_on(work);
    clock::elapsed(started)
}

fn assert_elapsed(expected: Duration, elapsed: Duration) {
    assert!(expected <= elapsed && elapsed < expected + PROCESSING, "{elapsed:?}");
}

#[test]
fn time_jumps_from_timer_to_timer_while_a_caller_waits() {
    let elapsed = elapsed_in(async {
        let _waits = CallerWaits::begin();
        let started = clock::now();
        let mut sleeps: Vec<_> = (1..=100).map(|hours| sleep_until(started + hours * HOUR)).collect();
        for (sleep, hours) in sleeps.iter_mut().zip(1..) {
            sleep.await;
            assert_elapsed(hours * HOUR, clock::elapsed(started));
        }
    });
    assert_elapsed(100 * HOUR, elapsed);
}

#[test]
fn a_timeout_and_a_timer_that_is_reset_follow_the_clock() {
    let elapsed = elapsed_in(async {
        let _waits = CallerWaits::begin();
        assert_eq!(Err(TimedOut), timeout_at(clock::now() + HOUR, std::future::pending::<()>()).await);
        let mut sleep = sleep_until(clock::now() + 10 * HOUR);
        sleep.reset(clock::now() + HOUR);
        assert_eq!(Ok(()), timeout_at(clock::now() + 2 * HOUR, &mut sleep).await);
    });
    assert_elapsed(2 * HOUR, elapsed);
}

#[test]
fn without_a_caller_and_while_something_works_time_passes_as_always() {
    let elapsed = elapsed_in(async {
        let far = sleep_until(clock::now() + HOUR);
        let soon = Duration::from_millis(50);
        sleep_until(clock::now() + soon).await;
        let _waits = CallerWaits::begin();
        let working = Working::begin();
        let started = Instant::now();
        sleep_until(clock::now() + soon).await;
        assert!(started.elapsed() >= soon, "it is fired in real time");
        drop(working);
        far.await;
    });
    assert_elapsed(HOUR, elapsed);
}

#[test]
fn time_does_not_jump_before_an_event_loop_has_handled_what_has_come() {
    let elapsed = elapsed_in(async {
        let _waits = CallerWaits::begin();
        let (asked, questions) = channel();
        let participant =
            Participant::new(LoopOf::Engine, move || asked.send(()).unwrap_or_default()).expect("a virtual clock");
        let is_behind = Arc::new(AtomicBool::new(true));
        let caught_up = is_behind.clone();
        let started = clock::now();
        let busy = thread::spawn(move || {
            questions.recv().expect("a question");
            // Much longer than a jump takes to come.
            thread::sleep(Duration::from_millis(100));
            assert!(clock::elapsed(started) < HOUR);
            caught_up.store(false, Ordering::SeqCst);
            participant.respond(participant.question());
            while questions.recv_timeout(Duration::from_millis(100)).is_ok() {
                participant.respond(participant.question());
            }
        });
        sleep_until(started + HOUR).await;
        assert!(!is_behind.load(Ordering::SeqCst));
        busy.join().expect("no panic");
    });
    assert_elapsed(HOUR, elapsed);
}

#[test]
fn a_loop_of_a_caller_that_has_stopped_delays_jumps_for_a_moment_only() {
    let elapsed = elapsed_in(async {
        let stopped = Participant::new(LoopOf::Caller, || {});
        let _waits = CallerWaits::begin();
        for _ in 0..100 {
            sleep_until(clock::now() + HOUR).await;
        }
        drop(stopped);
    });
    assert_elapsed(100 * HOUR, elapsed);
}

#[test]
fn calls_come_at_their_time_unless_they_are_cancelled() {
    let elapsed = elapsed_in(async {
        let _waits = CallerWaits::begin();
        let (sender, called) = channel();
        let timers: Vec<_> = [3, 1, 2]
            .map(|hours| {
                let sender = sender.clone();
                call_at(clock::now() + hours * HOUR, move || sender.send(hours).unwrap_or_default())
            })
            .into_iter()
            .collect();
        let cancelled = call_at(clock::now() + 2 * HOUR, move || sender.send(0).unwrap_or_default());
        assert!(cancelled.is_some());
        drop(cancelled);
        sleep_until(clock::now() + 4 * HOUR).await;
        assert_eq!(vec![1, 2, 3], called.try_iter().collect::<Vec<_>>());
        drop(timers);
    });
    assert_elapsed(4 * HOUR, elapsed);
}

#[test]
fn timers_that_are_left_when_the_clock_ends_fire_in_real_time() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = VirtualClock::begin().expect("a thread");
    clock.advance(HOUR);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop");
    runtime.block_on(async {
        let wait = Duration::from_millis(50);
        let (started, before) = (Instant::now(), clock::now());
        let (left, far) = (sleep_until(before + wait), sleep_until(before + HOUR));
        drop(clock);
        assert!(!is_active());
        let _waits = CallerWaits::begin();
        left.await;
        sleep_until(clock::now() + wait).await;
        assert!(started.elapsed() >= 2 * wait);
        assert!(clock::elapsed(before) < HOUR, "the time neither goes back nor jumps");
        drop(far);
    });
}
