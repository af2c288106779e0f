//! The rules of a worker's slots, each by itself, and all of them against a model.

use std::collections::BTreeSet;

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
    let mut slots = Slots::new(2);
    slots.offer([row(4), row(5), row(6)]);
    assert_eq!(Some(4), ordinal_started(slots.decide()));
    assert_eq!(Some(5), ordinal_started(slots.decide()));
    assert_eq!(Decision::Wait, slots.decide());
    slots.free();
    assert_eq!(Some(6), ordinal_started(slots.decide()));
    assert_eq!(Decision::Wait, slots.decide());
}

#[test]
fn rows_are_drawn_in_eighths_of_the_lanes_and_only_once_none_is_left() {
    for (wanted, lanes) in [(1, 1), (1, 15), (2, 16), (64, 512), (64, 10_000)] {
        let mut slots = Slots::new(lanes);
        assert_eq!(wanted, slots.wanted(), "{lanes} lanes");
        slots.offer([row(0)]);
        assert_eq!(0, slots.wanted(), "one is there");
        assert_eq!(Some(0), ordinal_started(slots.decide()));
        assert_eq!(if lanes == 1 { 0 } else { wanted }, slots.wanted(), "with one of {lanes} in use");
        slots.end_input();
        assert_eq!(0, slots.wanted(), "at the end");
    }
}

#[test]
fn a_worker_ends_when_the_input_has_ended_and_nothing_is_in_flight() {
    let mut slots = Slots::new(2);
    slots.offer([row(0)]);
    assert_eq!(Some(0), ordinal_started(slots.decide()));
    slots.end_input();
    assert_eq!(Decision::Wait, slots.decide());
    slots.free();
    assert_eq!(Decision::Ended, slots.decide());
}

#[derive(Debug, Clone)]
enum Event {
    Offer,
    Next,
    Free,
    EndInput,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Offer),
        8 => Just(Event::Next),
        4 => Just(Event::Free),
        1 => Just(Event::EndInput),
    ];
    proptest::collection::vec(event, 0..120)
}

proptest! {
    /// The model: a set of ordinals.
    #[test]
    fn every_row_starts_once_and_never_more_than_there_are_lanes(lanes in 1..6_usize, events in events()) {
        let mut slots = Slots::new(lanes);
        let (mut offered, mut in_flight, mut input_ended) = (0_u64, 0_usize, false);
        let mut waiting = BTreeSet::new();
        for event in events {
            match event {
                Event::Offer => {
                    let count = slots.wanted() as u64;
                    let may_draw = !input_ended && waiting.is_empty() && in_flight < lanes;
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
                Event::EndInput => {
                    slots.end_input();
                    input_ended = true;
                }
                Event::Next => match slots.decide() {
                    Decision::Start(row, _) => {
                        prop_assert!(in_flight < lanes);
                        prop_assert_eq!(Some(row.ordinal), waiting.pop_first());
                        in_flight += 1;
                    }
                    Decision::Fail(row, _) => prop_assert_eq!(None, Some(row), "no row fails here"),
                    Decision::WaitUntil(time) => prop_assert_eq!(None, Some(time), "nothing waits for a time here"),
                    Decision::Wait => {
                        prop_assert!(in_flight == lanes || waiting.is_empty());
                        prop_assert!(in_flight > 0 || !input_ended);
                    }
                    Decision::UsedUp(used_up) => prop_assert_eq!(None, Some(used_up), "there is no budget here"),
                    Decision::Ended => prop_assert!(waiting.is_empty() && in_flight == 0 && input_ended),
                },
            }
            prop_assert_eq!(in_flight, slots.in_use());
        }
    }
}
