use headgate_core::row::{MAX_BATCH_ROWS, RowExtra};
use headgate_core::schedule::decision::Decision;
use proptest::prelude::*;

use super::*;
use crate::queue::shared::{MAX_BYTES, MAX_ROWS};

fn heavy(ordinal: u64) -> Row {
    let extra = RowExtra { body: Some(vec![0; 10 << 20].into()), ..RowExtra::default() };
    Row { extra: Some(Box::new(extra)), ..Row::new(ordinal, "http://example.com/") }
}

#[test]
fn heavy_rows_wait_for_room_and_come_in_order() {
    let (sender, receiver) = row_queue(None);
    let source = std::thread::spawn(move || (0..5).all(|ordinal| sender.send(vec![heavy(ordinal)])));
    let mut ordinals = Vec::new();
    loop {
        match receiver.try_recv(1) {
            Ok(rows) => ordinals.extend(rows.iter().map(|row| row.ordinal)),
            Err(NoRows::Empty) => std::thread::yield_now(),
            Err(NoRows::Ended) => break,
        }
        assert!(receiver.shared.state().bytes <= MAX_BYTES);
    }
    assert!(source.join().expect("no panic"));
    assert_eq!(vec![0, 1, 2, 3, 4], ordinals);
}

#[test]
fn a_source_that_waits_for_room_is_notified_when_no_more_rows_are_wanted() {
    let (sender, receiver) = row_queue(None);
    assert!(sender.send(vec![heavy(0)]));
    let source = std::thread::spawn(move || sender.send(vec![heavy(1)]));
    receiver.close();
    assert!(!source.join().expect("no panic"));
}

proptest! {
    #[test]
    fn every_row_is_received_once_and_in_order_and_few_are_queued(
        batches in proptest::collection::vec(1..=MAX_BATCH_ROWS, 0..20),
        takes in proptest::collection::vec(1_usize..100, 1..5),
    ) {
        let (sender, receiver) = row_queue(None);
        let count: usize = batches.iter().sum();
        let source = std::thread::spawn(move || {
            let mut ordinals = 0_u64..;
            batches.into_iter().all(|rows| {
                sender.send(ordinals.by_ref().take(rows).map(|ordinal| Row::new(ordinal, "")).collect())
            })
        });
        let mut ordinals = Vec::new();
        for take in takes.iter().cycle() {
            match receiver.try_recv(*take) {
                Ok(rows) => {
                    prop_assert!((1..=*take).contains(&rows.len()));
                    ordinals.extend(rows.iter().map(|row| row.ordinal));
                }
                Err(NoRows::Empty) => std::thread::yield_now(),
                Err(NoRows::Ended) => break,
            }
            prop_assert!(receiver.shared.state().rows.len() <= MAX_ROWS);
        }
        prop_assert!(source.join().expect("no panic"));
        prop_assert_eq!((0..count as u64).collect::<Vec<_>>(), ordinals);
    }
}

#[test]
fn a_queue_without_deferred_rows_has_ended_with_its_input() {
    let start = |_| panic!("no row was requested");
    let (sender, receiver) = row_queue(Some(Deferring { start: Box::new(start), window: 1 }));
    assert!(sender.send(vec![Row::new(0, "")]));
    sender.finish();
    assert_eq!(Ok(vec![Row::new(0, "")]), receiver.try_recv(1));
    assert_eq!(Err(NoRows::Ended), receiver.try_recv(1));
    receiver.reread(0);
    receiver.end_rereading();
    assert!(!receiver.rereading().active, "there is nothing to read again");
}

#[test]
fn a_failing_source_ends_the_queue_although_rows_are_deferred() {
    let (sender, receiver) = row_queue(Some(Deferring { start: Box::new(drop), window: 1 }));
    assert!(receiver.can_defer());
    assert!(sender.send(vec![Row::new(0, "")]));
    assert!(receiver.try_recv(1).is_ok());
    receiver.defer(&[0]);
    assert_eq!(Err(NoRows::Empty), receiver.try_recv(1));
    drop(sender);
    assert_eq!(Err(NoRows::Ended), receiver.try_recv(1));
}

#[test]
fn a_failing_rereading_ends_the_queue() {
    let (sender, receiver) = row_queue(Some(Deferring { start: Box::new(drop), window: 1 }));
    assert!(sender.send(vec![Row::new(0, "")]));
    assert!(receiver.try_recv(1).is_ok());
    receiver.defer(&[0]);
    receiver.reread(0);
    assert_eq!(Err(NoRows::Ended), receiver.try_recv(1));
    assert!(!sender.send(vec![Row::new(1, "")]), "the workers want no more rows");
}

#[test]
fn a_worker_steals_what_another_one_has_drawn_and_can_not_start_before_it_ends() {
    let (sender, receiver) = row_queue(None);
    let (mut full, mut other) = (Slots::new(1), Slots::new(2));
    receiver.share_drawn(full.drawn());
    receiver.share_drawn(other.drawn());
    assert!(sender.send((0..4).map(|ordinal| Row::new(ordinal, "")).collect()));
    drop(sender);
    assert_eq!(Ok(3), receiver.draw(3, &mut full));
    let started = |slots: &mut Slots| match slots.decide() {
        Decision::Start(row, _) => Some(row.ordinal),
        _ => None,
    };
    assert_eq!((Some(0), None), (started(&mut full), started(&mut full)));
    assert_eq!((Ok(1), Some(3)), (receiver.draw(1, &mut other), started(&mut other)), "one was queued");
    assert_eq!((Ok(0), Some(1)), (receiver.draw(1, &mut other), started(&mut other)), "it is stolen");
    let (_, drawn) = receiver.remove(RowsToCancel::One(2));
    assert_eq!(vec![2], drawn.iter().map(|row| row.ordinal).collect::<Vec<_>>());
    assert_eq!(Err(NoRows::Ended), receiver.draw(1, &mut other));
}
