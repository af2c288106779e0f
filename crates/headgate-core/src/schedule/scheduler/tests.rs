//! Each rule of the scheduler, on a table of times; `model.rs` has all of them at once, and `simulation.rs` whole jobs.

mod budgets;
mod model;
mod simulation;

use super::*;
use crate::defaults::DEFAULT_HOST_NEVER_UP_AFTER;
use crate::limits::{HostBy, HostConcurrency, NetworkDownAfter, PerHost, Rate};
use crate::redirect_chain::{Earlier, RedirectChain};
use crate::row::{OwnOptions, OwnRetrying, TotalTimeout};
use crate::schedule::retry::{AttemptEnd, FinishedAttempt, RetryDecision};
use crate::schedule::rows_to_cancel::RowsToCancel;
use crate::schedule::scheduler::finishing::Requeued;

pub(super) fn rules() -> Rules {
    let retrying = Retrying { network_down_after: NetworkDownAfter::Never, ..Retrying::default() };
    Rules { limits: Limits::default(), retrying, concurrency: 100, body_bytes: 0 }
}

pub(super) fn end(status: u16) -> AttemptEnd {
    AttemptEnd::responded(status)
}

/// Returns an attempt that ended with this error and without response headers.
pub(in crate::schedule) fn silent(error: ErrorKind) -> AttemptEnd {
    AttemptEnd::failed(None, &Failure::new(error, ""))
}

/// Returns a finished attempt at this row, which can be repeated, with this result.
pub(super) fn attempt(row: &Row, started: Instant, end: AttemptEnd) -> FinishedAttempt {
    FinishedAttempt {
        end,
        body_continues: false,
        before: row.before(),
        first: row.first_began().unwrap_or(started),
        own: row.own_retrying(),
        started,
        is_idempotent: true,
        body_is_consumed: false,
        was_acted_on: false,
        requested_pause: None,
        new_credentials: None,
        responded_at: None,
    }
}

/// Evicts hosts as a worker does before it draws rows, and returns whether it may draw some.
fn has_space_after_eviction(scheduler: &mut Scheduler, now: Instant) -> bool {
    scheduler.evict_hosts(now);
    scheduler.has_space_for_a_host()
}

/// Panics: the row must not be retried.
pub(super) fn not_retried() -> Requeued {
    panic!("the row is not retried")
}

pub(super) fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub(super) fn per_second(count: Option<u32>) -> Option<Rate> {
    count.map(|count| format!("{count}/s").parse().expect("a rate"))
}

/// A driver of the scheduler, one attempt after another.
struct Driver {
    scheduler: Scheduler,
    /// The time at which all attempts begin.
    began: Instant,
    now: Instant,
}

impl Driver {
    fn new(rules: Rules) -> Self {
        let now = Instant::now();
        Self { scheduler: Scheduler::new(rules, true, 7, now), began: now, now }
    }

    fn offer(&mut self, ordinal: u64, host: &str) {
        self.scheduler.offer(Row::new(ordinal, format!("http://{host}/{ordinal}")), Some(host), self.now);
    }

    fn started(&mut self) -> Vec<(Row, Option<HostIndex>)> {
        std::iter::from_fn(|| match self.scheduler.next(self.now) {
            Decision::Start(row, host) => Some((row, host)),
            _ => None,
        })
        .collect()
    }

    fn ordinals(&mut self) -> Vec<u64> {
        self.started().into_iter().map(|(row, _)| row.ordinal).collect()
    }

    fn end(
        &mut self,
        (row, host): (Row, Option<HostIndex>),
        end: AttemptEnd,
        pause: Option<Duration>,
    ) -> RetryDecision {
        let attempt = FinishedAttempt { requested_pause: pause, ..attempt(&row, self.began, end) };
        self.scheduler.finish_attempt(host, || None, &attempt, || (row, host, None), self.now)
    }

    fn cancel(&mut self, ordinal: u64) -> bool {
        self.scheduler.cancel(Vec::new(), RowsToCancel::One(ordinal), self.now)
    }

    /// Ends an attempt whose body continues.
    fn end_head(&mut self, (row, host): (Row, Option<HostIndex>), end: AttemptEnd) -> RetryDecision {
        let attempt = FinishedAttempt { body_continues: true, ..attempt(&row, self.began, end) };
        self.scheduler.finish_attempt(host, || None, &attempt, || (row, host, None), self.now)
    }
}

#[test]
fn a_retry_and_the_rows_behind_it_start_before_newer_rows_of_other_hosts() {
    let mut driver = Driver::new(rules());
    (0..2).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut in_flight = driver.started();
    driver.offer(2, "a");
    (3..100).for_each(|ordinal| driver.offer(ordinal, "b"));
    driver.end(in_flight.remove(0), silent(ErrorKind::Timeout), None);
    driver.now += Duration::from_secs(10);
    driver.end(in_flight.remove(0), end(200), None);
    let mut expected: Vec<u64> = (2..100).collect();
    expected.insert(0, 0);
    assert_eq!(expected, driver.ordinals());
}

#[test]
fn a_retry_that_becomes_due_starts_before_newer_rows_though_the_next_new_row_of_its_host_comes_late() {
    let mut driver = Driver::new(rules());
    driver.offer(0, "a");
    let failed = driver.started().remove(0);
    (1..50).for_each(|ordinal| driver.offer(ordinal, "b"));
    driver.offer(50, "a");
    driver.end(failed, silent(ErrorKind::Timeout), None);
    driver.now += Duration::from_secs(10);
    assert_eq!((0..51).collect::<Vec<_>>(), driver.ordinals());
}

#[test]
fn a_row_that_was_redirected_to_another_host_starts_before_older_rows() {
    let mut driver = Driver::new(rules());
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut redirected = Row::new(9, "http://b/9");
    redirected.set_chain(Box::default());
    driver.scheduler.offer(redirected, Some("b"), driver.now);
    assert_eq!(vec![9, 0, 1, 2], driver.ordinals());
}

#[test]
fn rows_of_a_throttled_host_wait_and_other_rows_pass() {
    let limits = Limits {
        concurrency_per_host: PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() },
        ..Limits::default()
    };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    for (ordinal, host) in [(0, "a"), (1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "b")] {
        driver.offer(ordinal, host);
    }
    let mut first = driver.started();
    assert_eq!(vec![0, 3], first.iter().map(|(row, _)| row.ordinal).collect::<Vec<_>>());
    driver.end(first.pop().expect("two"), end(200), None);
    assert_eq!(vec![5], driver.ordinals());
    driver.end(first.pop().expect("two"), end(200), None);
    assert_eq!(vec![1], driver.ordinals());
}

#[test]
fn a_paused_host_gets_no_request_until_the_pause_ends_and_the_row_waits_without_a_lane() {
    let mut driver = Driver::new(rules());
    (0..6).for_each(|ordinal| driver.offer(ordinal, "a"));
    driver.offer(6, "b");
    let mut started = driver.started();
    assert_eq!(7, started.len());
    let first = started.remove(0);
    assert!(matches!(driver.end(first, end(429), Some(ms(2000))), RetryDecision::At(_)));
    (7..10).for_each(|ordinal| driver.offer(ordinal, "a"));
    driver.offer(10, "b");
    assert_eq!(vec![10], driver.ordinals());
    driver.now += ms(1999);
    assert_eq!(Vec::<u64>::new(), driver.ordinals());
    driver.now += ms(2000) / 20;
    // Attempts that started before are no evidence of the current state.
    for row in started {
        assert_eq!(RetryDecision::No, driver.end(row, end(200), None));
    }
    assert_eq!(vec![0], driver.ordinals());
}

#[test]
fn an_unsent_row_whose_host_requests_a_pause_is_requeued_as_the_next_one() {
    let mut driver = Driver::new(rules());
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut started = driver.started();
    let (slow, host) = started.pop().expect("three");
    assert!(!driver.scheduler.requeue_unsent(host, || None, || panic!("the host is not paused"), driver.now));
    assert!(matches!(driver.end(started.remove(0), end(429), Some(ms(1000))), RetryDecision::At(_)));
    driver.offer(3, "a");
    assert!(driver.scheduler.requeue_unsent(host, || None, || slow, driver.now));
    assert_eq!(RetryDecision::No, driver.end(started.remove(0), end(200), None));
    driver.now += ms(2000);
    let next = driver.started();
    assert_eq!((1, 0), (next.len(), next[0].0.ordinal), "retries that are due come first");
    assert_eq!(RetryDecision::No, driver.end(next.into_iter().next().expect("one"), end(200), None));
    driver.began = driver.now;
    assert_eq!(2, driver.ordinals()[0]);
}

#[test]
fn the_rows_of_a_host_that_refuses_everything_for_too_long_fail_and_other_rows_continue() {
    let mut driver = Driver::new(rules());
    (0..100).for_each(|ordinal| driver.offer(ordinal, "dead"));
    let refused = silent(ErrorKind::Connect);
    let start = driver.now;
    let (mut attempts, mut down) = (0, 0);
    while driver.now < start + Duration::from_secs(3600) {
        match driver.scheduler.next(driver.now) {
            Decision::Start(row, host) => {
                attempts += 1;
                driver.end((row, host), refused, None);
            }
            Decision::Fail(_, failure) => {
                assert_eq!(ErrorKind::HostDown, failure.kind);
                assert!(driver.now >= start + DEFAULT_HOST_NEVER_UP_AFTER);
                down += 1;
            }
            Decision::WaitUntil(until) => driver.now = until,
            Decision::Wait | Decision::UsedUp(_) | Decision::Ended => break,
        }
    }
    assert!(driver.scheduler.is_empty());
    assert!((20..80).contains(&attempts) && (60..=100).contains(&down), "{attempts} attempts, {down} down");
}

#[test]
fn a_pause_that_is_too_long_ends_the_rows_of_its_host() {
    let mut driver = Driver::new(rules());
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut started = driver.started();
    (3..5).for_each(|ordinal| driver.offer(ordinal, "a"));
    driver.end(started.remove(0), end(503), Some(Duration::from_secs(7200)));
    let failed = |turn| matches!(turn, Decision::Fail(_, Failure { kind: ErrorKind::HostDown, .. }));
    for _ in 0..3 {
        assert!(failed(driver.scheduler.next(driver.now)));
    }
    driver.offer(5, "a");
    assert!(failed(driver.scheduler.next(driver.now)));
    assert!(matches!(driver.scheduler.next(driver.now), Decision::Wait | Decision::WaitUntil(_)));
}

#[test]
fn the_scheduler_is_not_needed_without_limits_while_all_hosts_are_healthy() {
    let mut driver = Driver::new(rules());
    assert!(!driver.scheduler.is_needed());
    let row = Row::new(0, "");
    let failed = attempt(&row, driver.now, end(503));
    let retry = driver.scheduler.finish_attempt(
        None,
        || Some("a".into()),
        &failed,
        || (row, None, Some("a".into())),
        driver.now,
    );
    let RetryDecision::At(due) = retry else { panic!("it is retried") };
    driver.now = due;
    assert!(driver.scheduler.is_needed());
    let started = driver.started().remove(0);
    assert_eq!(1, started.0.attempts_before());
    driver.end(started, end(200), None);
    assert!(!driver.scheduler.is_needed());
}

#[test]
fn the_slowest_host_is_the_one_whose_rows_take_the_longest_at_its_limits() {
    let limits = Limits {
        concurrency_per_host: PerHost { each: Some(HostConcurrency::Fixed(2)), named: Vec::new() },
        ..Limits::default()
    };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    (0..100).for_each(|ordinal| driver.offer(ordinal, "quick.example"));
    (100..130).for_each(|ordinal| driver.offer(ordinal, "shop.example"));
    let mut started = driver.started();
    driver.now += ms(10);
    started.drain(..2).for_each(|row| assert_eq!(RetryDecision::No, driver.end(row, end(200), None)));
    driver.now += ms(990);
    started.drain(..).for_each(|row| assert_eq!(RetryDecision::No, driver.end(row, end(200), None)));
    driver.started();
    let slowest = driver.scheduler.figures(driver.now).slowest.into_iter().next().expect("rows wait");
    assert_eq!(("shop.example", 26, 2), (&*slowest.name, slowest.waiting, slowest.in_flight));
    // 28 rows, two at a time, each for a second.
    let time_left = slowest.time_left.expect("it is known").as_secs_f64();
    assert!((13.5..14.5).contains(&time_left), "{time_left}");
}

#[test]
fn a_row_that_is_cancelled_while_it_waits_fails_at_once() {
    let limits = Limits { rate: Some("1/s".parse().expect("a rate")), ..Limits::default() };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    assert_eq!(vec![0], driver.ordinals());
    assert!(driver.cancel(2));
    assert!(!driver.cancel(0));
    let Decision::Fail(row, failure) = driver.scheduler.next(driver.now) else { panic!("it fails") };
    assert_eq!((2, ErrorKind::Cancelled), (row.ordinal, failure.kind));
}

#[test]
fn a_row_that_is_cancelled_in_the_queue_fails_first_though_no_lane_is_free() {
    let mut driver = Driver::new(rules());
    driver.offer(0, "a");
    driver.scheduler.cancel(vec![Row::new(7, "http://a/")], RowsToCancel::One(7), driver.now);
    assert!(driver.scheduler.is_needed());
    let Some(Decision::Fail(row, failure)) = driver.scheduler.next_failing() else { panic!("it fails") };
    assert_eq!((7, ErrorKind::Cancelled), (row.ordinal, failure.kind));
    assert_eq!(vec![0], driver.ordinals());
}

#[test]
fn a_stop_leaves_waiting_and_later_rows_undone_and_its_time_is_never_lengthened() {
    let limits = Limits { rate: per_second(Some(1)), ..Limits::default() };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    let (at, long) = (|seconds| driver.began + Duration::from_secs(seconds), Duration::from_secs(60));
    let [at_3, at_5, at_10, at_20] = [3, 5, 10, 20].map(at);
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let started = driver.started();
    assert_eq!((1, None), (started.len(), driver.scheduler.after_stop(1, driver.now)));
    driver.scheduler.stop(at_10, driver.now);
    driver.offer(3, "b");
    assert!(driver.scheduler.cancel(vec![Row::new(4, "http://a/")], RowsToCancel::One(4), driver.now));
    assert!(driver.scheduler.is_empty() && driver.scheduler.is_needed());
    for (row, host) in started {
        let attempt = attempt(&row, driver.began, silent(ErrorKind::Timeout));
        let retry = driver.scheduler.finish_attempt(host, || None, &attempt, not_retried, driver.now);
        assert_eq!(RetryDecision::No, retry, "nothing starts any more");
    }
    driver.now += long;
    assert_eq!(Decision::Wait, driver.scheduler.next(driver.now));
    for (stop_at, expected) in [(at_20, at_10), (at_5, at_5)] {
        driver.scheduler.stop(stop_at, driver.now);
        assert_eq!(Some(Decision::WaitUntil(expected)), driver.scheduler.after_stop(1, at_3));
    }
    for (in_flight, now) in [(0, at_3), (1, at_5)] {
        assert_eq!(Some(Decision::Ended), driver.scheduler.after_stop(in_flight, now));
    }
}

#[test]
fn a_row_that_is_cancelled_fails_wherever_it_waits() {
    let limits = Limits { rate: per_second(Some(1)), ..Limits::default() };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    (0..6).for_each(|ordinal| driver.offer(ordinal, ["a", "b"][ordinal as usize % 2]));
    let retried = driver.started().pop().expect("one starts");
    assert!(matches!(driver.end(retried, silent(ErrorKind::Timeout), None), RetryDecision::At(_)));
    for ordinal in [0, 1, 2, 4, 5] {
        assert!(driver.cancel(ordinal), "row {ordinal} waits somewhere");
    }
    assert!(driver.scheduler.cancel(vec![Row::new(9, "http://a/")], RowsToCancel::One(9), driver.now));
    let failing = std::iter::from_fn(|| match driver.scheduler.next_failing()? {
        Decision::Fail(row, failure) => Some((row.ordinal, failure.kind)),
        _ => None,
    });
    let mut failed: Vec<_> = failing.collect();
    failed.sort_unstable();
    assert_eq!([0, 1, 2, 4, 5, 9].map(|ordinal| (ordinal, ErrorKind::Cancelled)).to_vec(), failed);
    driver.now += Duration::from_secs(2);
    assert_eq!(vec![3], driver.ordinals());
    assert!(driver.scheduler.is_empty());
}

#[test]
fn hostnames_with_one_address_share_its_limit_if_hosts_are_addresses() {
    let concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
    let limits = Limits { concurrency_per_host, host_by: HostBy::Address, ..Limits::default() };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    for (ordinal, host) in [(0, "a"), (1, "b"), (2, "192.0.2.1"), (3, "none"), (4, "a")] {
        driver.offer(ordinal, host);
    }
    assert_eq!(vec![2], driver.ordinals(), "nothing is known of the other rows");
    let names: Vec<_> =
        std::iter::from_fn(|| driver.scheduler.next_hostname_to_resolve()).map(|(name, _)| name).collect();
    assert_eq!(["a", "b", "none"].map(Box::<str>::from).to_vec(), names);
    let address = Some("192.0.2.1".parse().expect("an address"));
    for (name, address) in [("b", address), ("a", address), ("none", None)] {
        driver.scheduler.found_address(name, address, driver.now);
    }
    assert_eq!(vec![3], driver.ordinals(), "the address has one in flight already");
    driver.offer(5, "b");
    assert_eq!(Vec::<u64>::new(), driver.ordinals());
    assert!(driver.cancel(5));
}

#[test]
fn a_full_table_of_hosts_is_swept_without_other_events() {
    for (rate_per_host, status) in [(Some(10), 200), (None, 503)] {
        let limits = Limits {
            rate_per_host: PerHost { each: per_second(rate_per_host), named: Vec::new() },
            ..Limits::default()
        };
        let retrying = Retrying { retries: 0, ..Retrying::default() };
        let mut driver = Driver::new(Rules { limits, retrying, ..rules() });
        driver.scheduler =
            Scheduler::bounded(driver.scheduler.rules().clone(), true, 7, driver.now, (1000, usize::MAX, 2));
        // As many failures as make the scheduler probe a host that refuses everything.
        (0..60).for_each(|ordinal| driver.offer(ordinal, if ordinal % 2 == 0 { "a" } else { "b" }));
        let mut turns = 0;
        while !driver.scheduler.is_empty() || !has_space_after_eviction(&mut driver.scheduler, driver.now) {
            turns += 1;
            assert!(turns < 10_000);
            match driver.scheduler.next(driver.now) {
                Decision::Start(row, host) => drop(driver.end((row, host), end(status), None)),
                Decision::WaitUntil(until) => driver.now = until.max(driver.now),
                Decision::Wait | Decision::UsedUp(_) | Decision::Ended => panic!("it is full"),
                Decision::Fail(..) => {}
            }
        }
    }
}

#[test]
fn a_host_that_refuses_everything_is_probed_although_its_rows_are_not_retried() {
    let mut driver = Driver::new(rules());
    let post = FinishedAttempt { is_idempotent: false, ..attempt(&Row::new(0, ""), driver.now, end(503)) };
    for _ in 0..30 {
        let retry = driver.scheduler.finish_attempt(None, || Some("a".into()), &post, not_retried, driver.now);
        assert_eq!(RetryDecision::NotIdempotent, retry);
    }
    assert!(driver.scheduler.is_needed());
    (30..60).for_each(|ordinal| driver.offer(ordinal, "a"));
    assert_eq!(Vec::<u64>::new(), driver.ordinals(), "the host gets no request for a while");
}

#[test]
fn with_one_attempt_for_each_row_there_are_no_probes() {
    let retrying = Retrying { retries: 0, ..Retrying::default() };
    let mut driver = Driver::new(Rules { retrying, ..rules() });
    for ordinal in 0..30 {
        let failed = attempt(&Row::new(ordinal, ""), driver.now, end(503));
        let retry = driver.scheduler.finish_attempt(None, || Some("a".into()), &failed, not_retried, driver.now);
        assert_eq!(RetryDecision::No, retry);
    }
    assert!(!driver.scheduler.is_needed());
}

/// Returns a row without retries.
fn without_retries(ordinal: u64) -> Row {
    let mut row = Row::new(ordinal, format!("http://a/{ordinal}"));
    let retrying = OwnRetrying { retries: Some(0), ..OwnRetrying::default() };
    row.extra.get_or_insert_default().own = Some(Box::new(OwnOptions { retrying, ..OwnOptions::default() }));
    row
}

#[test]
fn rows_without_retries_of_their_own_open_no_breaker() {
    let retrying = Retrying { network_down_after: NetworkDownAfter::Default, ..rules().retrying };
    let mut driver = Driver::new(Rules { retrying, ..rules() });
    for ordinal in 0..30 {
        for result in [end(503), silent(ErrorKind::Connect)] {
            let failed = attempt(&without_retries(ordinal), driver.now, result);
            driver.scheduler.finish_attempt(None, || Some("a".into()), &failed, not_retried, driver.now);
        }
    }
    assert!(!driver.scheduler.is_needed());
}

#[test]
fn rows_without_retries_do_not_wait_for_the_probes_of_other_rows() {
    let limits = Limits {
        concurrency_per_host: PerHost { each: Some(HostConcurrency::Fixed(20)), named: Vec::new() },
        ..Limits::default()
    };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    (0..20).for_each(|ordinal| driver.offer(ordinal, "a"));
    let started = driver.started();
    driver.scheduler.offer(without_retries(20), Some("a"), driver.now);
    assert_eq!(Vec::<u64>::new(), driver.ordinals(), "the host has as many as it may have");
    let failed_of = |driver: &mut Driver| match driver.scheduler.next(driver.now) {
        Decision::Fail(row, failure) => Some((row.ordinal, failure.kind)),
        _ => None,
    };
    for attempt in started {
        driver.end(attempt, silent(ErrorKind::Connect), None);
    }
    assert_eq!(Some((20, ErrorKind::HostDown)), failed_of(&mut driver), "it waited when the breaker opened");
    driver.scheduler.offer(without_retries(21), Some("a"), driver.now);
    assert_eq!(Some((21, ErrorKind::HostDown)), failed_of(&mut driver), "it came later");
    (0..20).for_each(|ordinal| assert!(driver.cancel(ordinal)));
    while failed_of(&mut driver).is_some() {}
    driver.now += Duration::from_secs(2);
    driver.scheduler.offer(without_retries(22), Some("a"), driver.now);
    driver.scheduler.offer(without_retries(23), Some("a"), driver.now);
    assert_eq!(Some((23, ErrorKind::HostDown)), failed_of(&mut driver));
    let probe = driver.started().remove(0);
    assert_eq!(22, probe.0.ordinal, "it is the probe itself");
    driver.end(probe, end(200), None);
    driver.scheduler.offer(without_retries(24), Some("a"), driver.now);
    assert_eq!(vec![24], driver.ordinals());
}

#[test]
fn a_host_that_failed_once_and_gets_no_more_requests_is_forgotten() {
    let mut driver = Driver::new(rules());
    let post = FinishedAttempt { is_idempotent: false, ..attempt(&Row::new(0, ""), driver.now, end(503)) };
    driver.scheduler.finish_attempt(None, || Some("a".into()), &post, not_retried, driver.now);
    assert!(driver.scheduler.is_needed());
    driver.now += Duration::from_secs(10);
    driver.offer(1, "b");
    let started = driver.started().remove(0);
    driver.end(started, end(200), None);
    assert!(!driver.scheduler.is_needed());
}

#[test]
fn rows_start_in_their_order_again_when_their_host_keeps_responding() {
    let concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
    let hour = Duration::from_hours(1);
    let mut driver = Driver::new(Rules {
        limits: Limits { concurrency_per_host, ..Limits::default() },
        retrying: Retrying { delay: hour, max_delay: hour, ..rules().retrying },
        ..rules()
    });
    (0..300).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut starts = Vec::new();
    while starts.len() < 200 {
        driver.now += ms(1000);
        driver.began = driver.now;
        let Some(started) = driver.started().pop() else { continue };
        let (ordinal, is_first) = (started.0.ordinal, started.0.before().is_none());
        starts.extend(is_first.then_some(ordinal));
        let fails = ordinal < 30 && is_first;
        driver.end(started, if fails { silent(ErrorKind::Timeout) } else { end(200) }, None);
    }
    // 20 failures open the breaker. Then rows start from both ends, until 40 in a row have succeeded.
    assert!(starts[..20].is_sorted() && starts[20] == 299 && starts[21] == 20, "{starts:?}");
    assert!(starts[90..].is_sorted(), "{starts:?}");
}

#[test]
fn a_hostname_is_looked_up_although_its_first_row_was_cancelled() {
    let limits = Limits { rate: per_second(Some(5)), host_by: HostBy::Address, ..Limits::default() };
    let mut driver = Driver::new(Rules { limits, ..rules() });
    driver.offer(0, "a");
    driver.offer(1, "b");
    assert!(driver.cancel(0));
    for (ordinal, name) in [(2, "b"), (3, "a")] {
        assert_eq!(Some(name.into()), driver.scheduler.next_hostname_to_resolve().map(|(name, _)| name));
        driver.offer(ordinal + 1, "a");
    }
}

#[test]
fn a_row_whose_total_timeout_passes_while_it_waits_reports_where_it_waited() {
    let limits =
        Limits { rate_per_host: PerHost { named: Vec::new(), each: per_second(Some(1)) }, ..Limits::default() };
    let retrying = Retrying { total_timeout: Some(ms(500)), ..Retrying::default() };
    let mut driver = Driver::new(Rules { limits, retrying, ..rules() });
    driver.offer(0, "b");
    assert_eq!(vec![0], driver.ordinals());
    let mut row = Row::new(1, "http://a/");
    let earlier = Some(Earlier { began: driver.now, took: ms(1) });
    row.set_chain(Box::new(RedirectChain { url: "http://b/".into(), earlier, ..RedirectChain::default() }));
    driver.scheduler.offer(row, Some("b"), driver.now);
    driver.now += ms(1_100);
    let Decision::Fail(row, failure) = driver.scheduler.next(driver.now) else { panic!("it is too late") };
    let message = "total_timeout: the total timeout passed while the row waited for the host of its redirect";
    assert_eq!((1, message), (row.ordinal, &*failure.to_string()));
}

#[test]
fn a_row_that_could_not_be_retried_before_its_total_timeout_ends_with_the_response_that_it_has() {
    let retrying = Retrying { total_timeout: Some(ms(10_000)), ..Retrying::default() };
    let mut driver = Driver::new(Rules { retrying, ..rules() });
    (0..2).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut started = driver.started();
    assert!(matches!(driver.end(started.remove(0), end(429), Some(ms(5_000))), RetryDecision::At(_)));
    assert_eq!(RetryDecision::No, driver.end(started.remove(0), end(429), Some(ms(60_000))));
}

#[test]
fn a_row_that_may_not_wait_until_its_host_ends_its_pause_fails_at_once() {
    let mut driver = Driver::new(rules());
    let started = {
        driver.offer(0, "a");
        driver.started().remove(0)
    };
    let offer = |driver: &mut Driver, ordinal, retrying| {
        let mut row = Row::new(ordinal, "http://a/");
        row.extra.get_or_insert_default().own = Some(Box::new(OwnOptions { retrying, ..OwnOptions::default() }));
        driver.scheduler.offer(row, Some("a"), driver.now);
    };
    let until = |at| OwnRetrying { total_timeout: Some(TotalTimeout::At(at)), ..OwnRetrying::default() };
    let max_pause = |seconds| OwnRetrying { max_pause: Some(Duration::from_secs(seconds)), ..OwnRetrying::default() };
    let (soon, in_time) = (driver.now + ms(1000), driver.now + Duration::from_secs(30));
    // These wait for a lane when the pause comes, and the others come during the pause.
    offer(&mut driver, 1, until(soon));
    offer(&mut driver, 2, until(in_time));
    offer(&mut driver, 3, max_pause(5));
    assert!(matches!(driver.end(started, end(429), Some(ms(10_000))), RetryDecision::At(_)));
    offer(&mut driver, 4, until(soon));
    offer(&mut driver, 5, max_pause(5));
    offer(&mut driver, 6, max_pause(60));
    let failed = std::iter::from_fn(|| driver.scheduler.next_failing());
    let failed: Vec<_> = failed
        .map(|decision| match decision {
            Decision::Fail(row, failure) => (row.ordinal, failure.kind),
            other => panic!("{other:?}"),
        })
        .collect();
    let kinds = [(1, ErrorKind::TotalTimeout), (3, ErrorKind::HostDown), (4, ErrorKind::TotalTimeout)];
    assert_eq!([&kinds[..], &[(5, ErrorKind::HostDown)]].concat(), failed);
    assert!(driver.cancel(2) && driver.cancel(6), "these still wait");
}

#[test]
fn a_row_is_not_retried_after_a_longer_pause_than_it_may_wait() {
    for (is_retried, seconds) in [(false, 5), (true, 60)] {
        let mut driver = Driver::new(rules());
        driver.offer(0, "a");
        let (mut row, host) = driver.started().remove(0);
        let retrying = OwnRetrying { max_pause: Some(Duration::from_secs(seconds)), ..OwnRetrying::default() };
        row.extra.get_or_insert_default().own = Some(Box::new(OwnOptions { retrying, ..OwnOptions::default() }));
        let retry = driver.end((row, host), end(429), Some(ms(10_000)));
        assert_eq!(is_retried, retry != RetryDecision::No, "{retry:?}");
    }
}

#[test]
fn headers_are_evidence_about_their_host_while_the_body_continues() {
    let mut driver = Driver::new(rules());
    driver.offer(0, "a");
    let first = driver.started().remove(0);
    assert!(matches!(driver.end(first, end(429), Some(ms(1000))), RetryDecision::At(_)));
    driver.now += ms(2000);
    driver.began = driver.now;
    (1..5).for_each(|ordinal| driver.offer(ordinal, "a"));
    let next = driver.started();
    assert_eq!(1, next.len(), "after a pause, one is in flight");
    let (row, host) = next.into_iter().next().expect("one");
    driver.now += ms(1);
    assert_eq!(RetryDecision::No, driver.end_head((row, host), end(200)));
    let second = driver.started();
    assert_eq!(1, second.len(), "two are, one of them that whose body goes on");
    driver.scheduler.release(host.expect("a host"), driver.now);
    assert_eq!(1, driver.started().len(), "its lane is free when its body has ended");
}

#[test]
fn a_response_whose_body_continues_stays_in_flight_unless_the_row_is_retried() {
    let concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
    let limits = Limits { concurrency_per_host, ..Limits::default() };
    let retrying = Retrying { retries: 1, delay: ms(10), ..Retrying::default() };
    let mut driver = Driver::new(Rules { limits, retrying, ..rules() });
    (0..2).for_each(|ordinal| driver.offer(ordinal, "a"));
    let first = driver.started().remove(0);
    assert!(matches!(driver.end_head(first, end(503)), RetryDecision::At(_)));
    driver.now += ms(100);
    let next = driver.started();
    assert_eq!(vec![0], next.iter().map(|(row, _)| row.ordinal).collect::<Vec<_>>());
    let (row, host) = next.into_iter().next().expect("one");
    assert_eq!(RetryDecision::No, driver.end_head((row, host), end(503)));
    assert_eq!(Vec::<u64>::new(), driver.ordinals(), "its body goes on");
    driver.scheduler.release(host.expect("a host"), driver.now);
    assert_eq!(vec![1], driver.ordinals());
}
