use headgate_core::error::JobErrorKind;
use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_BATCH_ROWS, Row};
use headgate_core::source_size::SourceSize;
use headgate_table::source::Source;
use headgate_table::source::selected::Selected;
use proptest::prelude::*;

use crate::skip::{Whole, read_plainly};
use crate::{Files, open};

fn selected(options: &SourceOptions, ordinals: &[u64]) -> Selected {
    let mut source = Selected::new(open(options), &options.input);
    source.select(ordinals.iter().collect()).expect("rows of an input that was not read");
    source
}

fn all(source: &mut Selected) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(batch) = source.next_batch().expect("a good input") {
        assert!((1..=MAX_BATCH_ROWS).contains(&batch.len()), "a batch of {} rows", batch.len());
        rows.extend(batch);
    }
    rows
}

fn ordinals(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.ordinal).collect()
}

/// Generates adjacent rows, distant rows, and all rows of a range, in ascending order.
fn list() -> impl Strategy<Value = Vec<u64>> {
    let near = (0_u64..2500, proptest::collection::btree_set(0_u64..50, 0..20))
        .prop_map(|(first, offsets)| offsets.into_iter().map(|offset| (first + offset).min(2499)).collect::<Vec<_>>());
    let far = proptest::collection::btree_set(0_u64..2500, 0..6).prop_map(|rows| rows.into_iter().collect());
    let stretch = (0_u64..2500, 0_u64..1500).prop_map(|(first, count)| (first..(first + count).min(2500)).collect());
    prop_oneof![near, far, stretch].prop_map(|mut rows: Vec<u64>| {
        rows.dedup();
        rows
    })
}

#[test]
fn rows_of_consecutive_sets_are_those_of_a_plain_read() {
    let files = Files::new();
    let wholes = read_plainly(&files);
    proptest!(ProptestConfig::with_cases(48), |(lists in proptest::collection::vec(list(), 1..4))| {
        for Whole { options, rows, .. } in &wholes {
            let mut source = selected(options, &[]);
            let mut behind = 0;
            for list in &lists {
                let error = source.select(list.iter().collect()).err();
                if list.first().is_some_and(|first| *first < behind) {
                    prop_assert_eq!(Some(JobErrorKind::Internal), error.map(|error| error.kind));
                    source = selected(options, list);
                } else {
                    prop_assert_eq!(None, error);
                }
                let expected: Vec<Row> = list.iter().map(|row| rows[*row as usize].clone()).collect();
                prop_assert_eq!(expected, all(&mut source), "{}", options.input);
                behind = list.last().map_or(source.position(), |last| last + 1);
                prop_assert_eq!(behind, source.position());
            }
        }
    });
}

#[test]
fn a_missing_row_of_the_input_is_an_error_after_the_rows_before_it() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\n".repeat(5));
    for (wanted, expected) in [(5, vec![1]), (100_000, vec![1])] {
        let mut source = selected(&options, &[1, wanted]);
        assert_eq!(Some(expected), source.next_batch().expect("a good input").map(|rows| ordinals(&rows)));
        let error = source.next_batch().expect_err("a row that is not there");
        assert_eq!(
            format!(
                "urls.txt: row {wanted} no longer exists, it has 5 rows: the file was truncated or changed since the job started; restore the original file"
            ),
            files.message(&error)
        );
    }
}

#[test]
fn the_size_is_that_of_the_set() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\n".repeat(5));
    let mut source = selected(&options, &[1, 3]);
    assert_eq!(SourceSize { rows: Some(2), bytes: None, bytes_read: 0 }, source.size());
    all(&mut source);
    source.select([4].into()).expect("a row that is ahead");
    assert_eq!(SourceSize { rows: Some(1), bytes: None, bytes_read: 50 }, source.size());
}

#[test]
fn a_skip_applies_to_rows_of_the_set() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\n".repeat(5));
    for (to, expected) in [(0, vec![1, 3, 4]), (3, vec![3, 4]), (2, vec![3, 4]), (9, vec![])] {
        let mut source = selected(&options, &[1, 3, 4]);
        source.skip_to(to).expect("a good input");
        assert_eq!(expected, ordinals(&all(&mut source)), "to {to}");
    }
}
