//! Budgets of requests and costs, as the scheduler applies them.

use super::*;
use crate::limits::CostLimit;
use crate::schedule::budget::Budget;

/// Returns a driver whose earlier runs have used `used` requests, of `max`.
fn limited(max: u64, used: u64) -> (Driver, Arc<Budgets>) {
    within(Limits { max_requests: Some(max), ..Limits::default() }, Budget::resumed(used), Budget::default())
}

/// Returns a driver whose rows cost what they say, with at most `max` in all.
fn with_costs(max: u64) -> (Driver, Arc<Budgets>) {
    let cost = Some(CostLimit { rate: None, of: CostOf::Column("cost".into()) });
    let limits = Limits { cost, max_cost: Some(max), ..Limits::default() };
    within(limits, Budget::default(), Budget::default())
}

fn within(limits: Limits, requests: Budget, cost: Budget) -> (Driver, Arc<Budgets>) {
    let mut driver = Driver::new(Rules { limits, ..rules() });
    let budgets = Arc::new(Budgets { requests, cost });
    let without = Scheduler::new(driver.scheduler.rules().clone(), true, 7, driver.now);
    driver.scheduler = without.within(budgets.clone());
    (driver, budgets)
}

fn offer(driver: &mut Driver, costs: &[u64]) {
    for (ordinal, cost) in (0..).zip(costs) {
        let mut row = Row::new(ordinal, format!("http://a/{ordinal}"));
        row.extra.get_or_insert_default().cost = Some(*cost);
        driver.scheduler.offer(row, Some("a"), driver.now);
    }
}

fn used_up(driver: &mut Driver) -> Option<UsedUp> {
    match driver.scheduler.next(driver.now) {
        Decision::UsedUp(used_up) => Some(used_up),
        _ => None,
    }
}

#[test]
fn rows_start_as_far_as_a_commit_has_reserved_requests() {
    let (mut driver, budgets) = limited(100, 10);
    (0..20).for_each(|ordinal| driver.offer(ordinal, if ordinal % 2 == 0 { "a" } else { "b" }));
    assert!(driver.started().is_empty() && budgets.are_short());
    assert_eq!(Some(ThrottledBy::Budget), driver.scheduler.figures(driver.now).now);
    budgets.requests.reserve(13);
    assert_eq!(vec![0, 1, 2], driver.ordinals());
    assert_eq!((13, true), (budgets.requests.used(), budgets.are_short()));
    budgets.requests.reserve(1000);
    assert_eq!(17, driver.started().len());
}

#[test]
fn the_run_stops_when_requests_are_used_up_rows_wait_and_nothing_is_in_flight() {
    let (mut driver, budgets) = limited(5, 3);
    budgets.requests.reserve(5);
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut started = driver.started();
    assert_eq!((2, None), (started.len(), used_up(&mut driver)));
    // Its retry would be the sixth request. It waits for its backoff, which changes nothing.
    assert!(matches!(driver.end(started.remove(0), end(503), None), RetryDecision::At(_)));
    assert_eq!(None, used_up(&mut driver));
    driver.end(started.remove(0), end(200), None);
    assert_eq!(Some(UsedUp::Requests { max: 5 }), used_up(&mut driver));
    assert_eq!(5, budgets.requests.used());
}

#[test]
fn a_budget_that_is_used_up_by_the_last_row_stops_nothing() {
    let (mut driver, budgets) = limited(2, 0);
    budgets.requests.reserve(2);
    (0..2).for_each(|ordinal| driver.offer(ordinal, "a"));
    for row in driver.started() {
        driver.end(row, end(200), None);
    }
    assert_eq!(None, used_up(&mut driver));
    assert!(driver.scheduler.is_empty());
}

#[test]
fn rows_that_were_started_and_not_sent_use_nothing() {
    let (mut driver, budgets) = limited(2, 0);
    budgets.requests.reserve(2);
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let mut started = driver.started();
    // The host requests a pause meanwhile.
    driver.end(started.remove(0), end(429), Some(ms(1000)));
    let (row, host) = started.remove(0);
    assert!(driver.scheduler.requeue_unsent(host, || None, || row, driver.now));
    assert_eq!((1, None), (budgets.requests.used(), used_up(&mut driver)));
    driver.now += ms(2000);
    assert_eq!(1, driver.started().len());
    assert_eq!(2, budgets.requests.used());
}

#[test]
fn a_request_that_is_resent_counts_and_its_row_waits_if_the_budget_does_not_allow_that() {
    let (mut driver, budgets) = limited(3, 0);
    budgets.requests.reserve(2);
    driver.offer(0, "a");
    let (row, host) = driver.started().pop().expect("one row");
    assert!(!driver.scheduler.requeue_resent(host, || None, || panic!("there is one more"), driver.now));
    assert!(driver.scheduler.requeue_resent(host, || None, || row, driver.now));
    assert_eq!((2, true), (budgets.requests.used(), budgets.are_short()));
    budgets.requests.reserve(3);
    assert_eq!(vec![0], driver.ordinals());
    assert_eq!(3, budgets.requests.used());
}

#[test]
fn the_cost_of_rows_is_never_exceeded_and_a_response_corrects_it() {
    let (mut driver, budgets) = with_costs(10);
    offer(&mut driver, &[4, 4, 4, 2]);
    let mut started = driver.started();
    assert_eq!((2, 8), (started.len(), budgets.cost.used()));
    let (row, host) = started.remove(0);
    driver.scheduler.correct_cost(&row, 1, driver.now);
    driver.end((row, host), end(200), None);
    assert_eq!(vec![2], driver.ordinals());
    assert_eq!((9, None), (budgets.cost.used(), used_up(&mut driver)), "what is in flight may cost less");
}

#[test]
fn the_run_stops_at_a_row_that_costs_more_than_what_is_left() {
    let (mut driver, _) = with_costs(10);
    offer(&mut driver, &[4, 7, 1]);
    let started = driver.started();
    assert_eq!((1, None), (started.len(), used_up(&mut driver)), "the response may say that it costs less");
    for row in started {
        driver.end(row, end(200), None);
    }
    assert_eq!(Some(UsedUp::Cost { max: 10, left: 6, next: Some(7) }), used_up(&mut driver));
}

#[test]
fn a_larger_budget_that_is_set_meanwhile_lets_rows_start() {
    let (mut driver, budgets) = limited(1, 0);
    budgets.requests.reserve(1);
    (0..3).for_each(|ordinal| driver.offer(ordinal, "a"));
    let first = driver.started();
    let limits = Limits { max_requests: Some(2), ..Limits::default() };
    driver.scheduler.set(Rules { limits, ..rules() }, driver.now);
    assert!(driver.started().is_empty() && budgets.are_short());
    budgets.requests.reserve(2);
    assert_eq!(vec![1], driver.ordinals());
    driver.scheduler.set(rules(), driver.now);
    assert_eq!(vec![2], driver.ordinals());
    assert_eq!((1, 3), (first.len(), budgets.requests.used()));
}
