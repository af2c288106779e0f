//! The rules of a worker's slots, each on a table of times, and all of them against a model.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn row(ordinal: u64) -> Row {
    Row::new(ordinal, "http://example.com/")
}

fn ordinal_started(decision: Decision) -> Option<u64> {
    if let Decision::Start(row, _) = decision { Some(row.ordinal) } else { None }
}

#[test]
fn rows_start_in_their_order_as_far_as_there_are_lanes() {
    let now = Instant::now();
    let mut slots = Slots::new(2);
    slots.offer([row(4), row(5), row(6)]);
    assert_eq!(Some(4), ordinal_started(slots.next(now)));
    assert_eq!(Some(5), ordinal_started(slots.next(now)));
    assert_eq!(Decision::Wait, slots.next(now));
    slots.free();
    assert_eq!(Some(6), ordinal_started(slots.next(now)));
    assert_eq!(Decision::Wait, slots.next(now));
}

#[test]
fn rows_are_drawn_in_eighths_of_the_lanes_and_only_once_none_is_left() {
    for (wanted, lanes) in [(1, 1), (1, 15), (2, 16), (64, 512), (64, 10_000)] {
        let mut slots = Slots::new(lanes);
        assert_eq!(wanted, slots.wanted(), "{lanes} lanes");
        slots.offer([row(0)]);
        assert_eq!(0, slots.wanted(), "one is there");
        assert_eq!(Some(0), ordinal_started(slots.next(Instant::now())));
        assert_eq!(if lanes == 1 { 0 } else { wanted }, slots.wanted(), "with one of {lanes} in use");
        slots.end_input();
        assert_eq!(0, slots.wanted(), "at the end");
    }
}

#[test]
fn a_worker_ends_when_the_input_has_ended_and_nothing_is_in_flight() {
    let now = Instant::now();
    let mut slots = Slots::new(2);
    slots.offer([row(0)]);
    assert_eq!(Some(0), ordinal_started(slots.next(now)));
    slots.end_input();
    assert_eq!(Decision::Wait, slots.next(now));
    slots.free();
    assert_eq!(Decision::Ended, slots.next(now));
}

#[test]
fn a_stop_leaves_unstarted_rows_undone_and_lets_the_rest_finish() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut slots = Slots::new(2);
    slots.offer([row(0), row(1), row(2), row(3)]);
    assert_eq!(Some(0), ordinal_started(slots.next(at(0))));
    assert_eq!(Some(1), ordinal_started(slots.next(at(0))));
    slots.stop(at(10));
    assert!(slots.drain_drawn().is_empty());
    assert_eq!(Decision::WaitUntil(at(10)), slots.next(at(1)));
    slots.stop(at(20));
    assert_eq!(Decision::WaitUntil(at(10)), slots.next(at(2)), "never longer");
    slots.stop(at(5));
    assert_eq!(Decision::WaitUntil(at(5)), slots.next(at(2)), "but shorter");
    slots.free();
    assert_eq!(Decision::WaitUntil(at(5)), slots.next(at(3)), "one is still in flight");
    assert_eq!(Decision::Ended, slots.next(at(5)), "and given up");
    slots.free();
    assert_eq!(Decision::Ended, slots.next(at(3)), "nothing is left to wait for");
}

#[test]
fn rows_that_arrive_after_a_stop_stay_undone_and_none_is_drawn() {
    let now = Instant::now();
    let mut slots = Slots::new(2);
    slots.stop(now);
    assert_eq!(0, slots.wanted());
    slots.end_input();
    slots.offer([row(7)]);
    assert_eq!(Decision::Ended, slots.next(now));
}

#[test]
fn a_row_can_be_removed_until_it_starts() {
    let now = Instant::now();
    let mut slots = Slots::new(1);
    slots.offer([row(0), row(1), row(2)]);
    assert_eq!(Some(0), ordinal_started(slots.next(now)));
    assert_eq!((Some(row(1)), None, None), (slots.remove(1), slots.remove(1), slots.remove(0)));
    slots.free();
    assert_eq!(Some(2), ordinal_started(slots.next(now)));
}

#[derive(Debug, Clone)]
enum Event {
    Offer,
    Next,
    Free,
    Cancel(u8),
    EndInput,
    Stop(u8),
    Wait(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Offer),
        8 => Just(Event::Next),
        4 => Just(Event::Free),
        1 => (0..20_u8).prop_map(Event::Cancel),
        1 => Just(Event::EndInput),
        1 => (0..30_u8).prop_map(Event::Stop),
        2 => (0..10_u8).prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 0..120)
}

proptest! {
    /// The model: sets of ordinals, and a time.
    #[test]
    fn every_row_starts_once_and_never_more_than_there_are_lanes(lanes in 1..6_usize, events in events()) {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut slots = Slots::new(lanes);
        let (mut now, mut offered, mut in_flight) = (0_u64, 0_u64, 0_usize);
        let mut waiting = BTreeSet::new();
        let (mut input_ended, mut until) = (false, None::<u64>);
        for event in events {
            match event {
                Event::Offer => {
                    let count = slots.wanted() as u64;
                    let may_draw = !input_ended && until.is_none() && waiting.is_empty() && in_flight < lanes;
                    prop_assert_eq!(may_draw, count > 0);
                    slots.offer((offered..offered + count).map(row));
                    waiting.extend(offered..offered + count);
                    offered += count;
                }
                Event::Free if in_flight > 0 => {
                    slots.free();
                    in_flight -= 1;
                }
                Event::Free => {}
                Event::Cancel(back) => {
                    let ordinal = offered.saturating_sub(u64::from(back));
                    prop_assert_eq!(waiting.remove(&ordinal), slots.remove(ordinal).is_some());
                }
                Event::EndInput => {
                    slots.end_input();
                    input_ended = true;
                }
                Event::Stop(seconds) => {
                    let stop_at = now + u64::from(seconds);
                    slots.stop(at(stop_at));
                    until = Some(until.map_or(stop_at, |earlier| earlier.min(stop_at)));
                    waiting.clear();
                }
                Event::Wait(seconds) => now += u64::from(seconds),
                Event::Next => match slots.next(at(now)) {
                    Decision::Start(row, _) => {
                        prop_assert!(until.is_none() && in_flight < lanes);
                        prop_assert_eq!(Some(row.ordinal), waiting.pop_first());
                        in_flight += 1;
                    }
                    Decision::Fail(row, _) => prop_assert_eq!(None, Some(row), "no row fails here"),
                    Decision::WaitUntil(time) => {
                        prop_assert_eq!(until.map(at), Some(time));
                        prop_assert!(at(now) < time && in_flight > 0 && waiting.is_empty());
                    }
                    Decision::Wait => {
                        prop_assert!(until.is_none());
                        prop_assert!(in_flight == lanes || waiting.is_empty());
                        prop_assert!(in_flight > 0 || !input_ended);
                    }
                    Decision::Ended => {
                        prop_assert!(waiting.is_empty());
                        prop_assert!(in_flight == 0 || until.is_some_and(|until| until <= now));
                        prop_assert!(input_ended || until.is_some());
                    }
                },
            }
            prop_assert_eq!(in_flight, slots.in_use());
        }
    }
}
