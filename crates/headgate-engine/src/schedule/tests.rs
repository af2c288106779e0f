//! The rules of the schedule, each on a table of times, and all of them against a model.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn row(ordinal: u64) -> Row {
    Row::new(ordinal, "http://example.com/")
}

fn schedule(places: usize) -> Schedule {
    Schedule::new(places, "404,5xx".parse().expect("statuses"))
}

fn ordinal_started(next: Next) -> Option<u64> {
    if let Next::Start(row, _) = next { Some(row.ordinal) } else { None }
}

#[test]
fn rows_start_in_their_order_as_far_as_there_are_places() {
    let now = Instant::now();
    let mut schedule = schedule(2);
    schedule.offer([row(4), row(5), row(6)]);
    assert_eq!(Some(4), ordinal_started(schedule.next(now)));
    assert_eq!(Some(5), ordinal_started(schedule.next(now)));
    assert_eq!(Next::Wait, schedule.next(now));
    schedule.free_place();
    assert_eq!(Some(6), ordinal_started(schedule.next(now)));
    assert_eq!(Next::Wait, schedule.next(now));
}

#[test]
fn rows_are_drawn_by_an_eighth_of_the_places_and_only_where_none_is_left() {
    for (wanted, places) in [(1, 1), (1, 15), (2, 16), (64, 512), (64, 10_000)] {
        let mut schedule = schedule(places);
        assert_eq!(wanted, schedule.wanted(), "{places} places");
        schedule.offer([row(0)]);
        assert_eq!(0, schedule.wanted(), "one is there");
        assert_eq!(Some(0), ordinal_started(schedule.next(Instant::now())));
        assert_eq!(if places == 1 { 0 } else { wanted }, schedule.wanted(), "with one of {places} in use");
        schedule.end_input();
        assert_eq!(0, schedule.wanted(), "at the end");
    }
}

#[test]
fn it_has_ended_when_the_input_has_and_nothing_is_in_flight() {
    let now = Instant::now();
    let mut schedule = schedule(2);
    schedule.offer([row(0)]);
    assert_eq!(Some(0), ordinal_started(schedule.next(now)));
    schedule.end_input();
    assert_eq!(Next::Wait, schedule.next(now));
    schedule.free_place();
    assert_eq!(Next::Ended, schedule.next(now));
}

#[test]
fn draining_leaves_what_has_not_started_and_gives_the_rest_its_time() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut schedule = schedule(2);
    schedule.offer([row(0), row(1), row(2), row(3)]);
    assert_eq!(Some(0), ordinal_started(schedule.next(at(0))));
    assert_eq!(Some(1), ordinal_started(schedule.next(at(0))));
    schedule.drain(at(10));
    assert_eq!(Next::PassOver(vec![row(2), row(3)]), schedule.next(at(1)));
    assert_eq!(Next::Until(at(10)), schedule.next(at(1)));
    schedule.drain(at(20));
    assert_eq!(Next::Until(at(10)), schedule.next(at(2)), "never longer");
    schedule.drain(at(5));
    assert_eq!(Next::Until(at(5)), schedule.next(at(2)), "but shorter");
    schedule.free_place();
    assert_eq!(Next::Until(at(5)), schedule.next(at(3)), "one is still in flight");
    assert_eq!(Next::Ended, schedule.next(at(5)), "and given up");
    schedule.free_place();
    assert_eq!(Next::Ended, schedule.next(at(3)), "nothing is left to wait for");
}

#[test]
fn rows_that_come_while_it_drains_are_left_and_none_is_drawn() {
    let now = Instant::now();
    let mut schedule = schedule(2);
    schedule.drain(now);
    assert_eq!(0, schedule.wanted());
    schedule.end_input();
    schedule.offer([row(7)]);
    assert_eq!(Next::PassOver(vec![row(7)]), schedule.next(now));
    assert_eq!(Next::Ended, schedule.next(now));
}

#[test]
fn a_row_that_is_cancelled_before_it_starts_fails_in_its_turn_though_no_place_is_free() {
    let now = Instant::now();
    let mut schedule = schedule(1);
    let mut cancelled_in_the_queue = row(3);
    cancelled_in_the_queue.cancel();
    schedule.offer([row(0), row(1), row(2), cancelled_in_the_queue]);
    assert_eq!(Some(0), ordinal_started(schedule.next(now)));
    assert!(schedule.cancel(1));
    assert!(!schedule.cancel(0), "it has started");
    let failed = |next| match next {
        Next::Fail(row, failure) => Some((row.ordinal, failure.kind)),
        _ => None,
    };
    assert_eq!(Some((1, ErrorKind::Cancelled)), failed(schedule.next(now)));
    assert_eq!(Next::Wait, schedule.next(now));
    schedule.free_place();
    assert_eq!(Some(2), ordinal_started(schedule.next(now)));
    assert_eq!(Some((3, ErrorKind::Cancelled)), failed(schedule.next(now)));
}

#[test]
fn a_row_has_failed_without_a_whole_answer_or_with_a_status_that_says_so() {
    for (verdict, status, error) in [
        (Verdict::Answered, Some(200), None),
        (Verdict::Answered, Some(403), None),
        (Verdict::Failed, Some(404), None),
        (Verdict::Failed, Some(503), None),
        (Verdict::Failed, Some(200), Some(ErrorKind::Decode)),
        (Verdict::Failed, None, Some(ErrorKind::Connect)),
    ] {
        assert_eq!(
            verdict,
            schedule(1).ended(AttemptEnd { status, error, is_lasting: false, is_refused: false, is_ours: false }),
            "{status:?} {error:?}"
        );
    }
}

#[derive(Debug, Clone)]
enum Event {
    Offer,
    Next,
    Free,
    Cancel(u8),
    EndInput,
    Drain(u8),
    Wait(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Offer),
        8 => Just(Event::Next),
        4 => Just(Event::Free),
        1 => (0..20_u8).prop_map(Event::Cancel),
        1 => Just(Event::EndInput),
        1 => (0..30_u8).prop_map(Event::Drain),
        2 => (0..10_u8).prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 0..120)
}

proptest! {
    /// The model: sets of ordinals, and a time.
    #[test]
    fn every_row_comes_out_once_and_never_more_than_the_places_hold(places in 1..6_usize, events in events()) {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut schedule = schedule(places);
        let (mut now, mut offered, mut in_flight) = (0_u64, 0_u64, 0_usize);
        let mut waiting = BTreeSet::new();
        let mut cancelled = BTreeSet::new();
        let (mut input_ended, mut until) = (false, None::<u64>);
        for event in events {
            match event {
                Event::Offer => {
                    let count = schedule.wanted() as u64;
                    let may_draw = !input_ended && until.is_none() && waiting.is_empty() && in_flight < places;
                    prop_assert_eq!(may_draw, count > 0);
                    schedule.offer((offered..offered + count).map(row));
                    waiting.extend(offered..offered + count);
                    offered += count;
                }
                Event::Free if in_flight > 0 => {
                    schedule.free_place();
                    in_flight -= 1;
                }
                Event::Free => {}
                Event::Cancel(back) => {
                    let ordinal = offered.saturating_sub(u64::from(back));
                    prop_assert_eq!(waiting.contains(&ordinal), schedule.cancel(ordinal));
                    if waiting.contains(&ordinal) {
                        cancelled.insert(ordinal);
                    }
                }
                Event::EndInput => {
                    schedule.end_input();
                    input_ended = true;
                }
                Event::Drain(seconds) => {
                    let asked = now + u64::from(seconds);
                    schedule.drain(at(asked));
                    until = Some(until.map_or(asked, |earlier| earlier.min(asked)));
                }
                Event::Wait(seconds) => now += u64::from(seconds),
                Event::Next => match schedule.next(at(now)) {
                    Next::Start(row, _) => {
                        prop_assert!(until.is_none() && in_flight < places && !cancelled.contains(&row.ordinal));
                        prop_assert_eq!(Some(row.ordinal), waiting.pop_first());
                        in_flight += 1;
                    }
                    Next::Fail(row, _) => {
                        prop_assert!(until.is_none() && cancelled.remove(&row.ordinal));
                        prop_assert_eq!(Some(row.ordinal), waiting.pop_first());
                    }
                    Next::PassOver(rows) => {
                        prop_assert!(until.is_some() && !rows.is_empty());
                        let rows: BTreeSet<u64> = rows.iter().map(|row| row.ordinal).collect();
                        prop_assert_eq!(&rows, &waiting);
                        waiting.clear();
                        cancelled.clear();
                    }
                    Next::Until(time) => {
                        prop_assert_eq!(until.map(at), Some(time));
                        prop_assert!(at(now) < time && in_flight > 0 && waiting.is_empty() && cancelled.is_empty());
                    }
                    Next::Wait => {
                        prop_assert!(until.is_none());
                        prop_assert!(in_flight == places || waiting.is_empty());
                        prop_assert!(waiting.first().is_none_or(|first| !cancelled.contains(first)));
                        prop_assert!(in_flight > 0 || !input_ended);
                    }
                    Next::Ended => {
                        prop_assert!(waiting.is_empty() && cancelled.is_empty());
                        prop_assert!(in_flight == 0 || until.is_some_and(|until| until <= now));
                        prop_assert!(input_ended || until.is_some());
                    }
                },
            }
            prop_assert_eq!(in_flight, schedule.taken());
        }
    }
}
