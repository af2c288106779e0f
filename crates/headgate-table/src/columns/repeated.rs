//! A column of text that is mostly the same from row to row: a method, an address, the error that did not occur.
//!
//! A row costs one comparison. The value is written when a different one follows, or when the batch ends. A batch with a single
//! value shares the array of the previous batch.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, StringBuilder};
use arrow_array::{ArrayRef, StringArray};

use super::refill::BATCH_ROWS;

/// A value up to this length is kept as the column of a whole batch.
const MAX_WHOLE_BYTES: usize = 64;

#[derive(Default)]
pub(super) struct RepeatedText {
    /// The rows before those of the current value.
    before: StringBuilder,
    /// The current value, if there is one.
    text: String,
    is_there: bool,
    /// The number of rows with the current value.
    rows: usize,
    /// [`BATCH_ROWS`] rows of the value, once a batch had only this value.
    whole: Option<StringArray>,
}

impl RepeatedText {
    pub(super) fn push(&mut self, value: Option<&str>) {
        if self.value() != value {
            self.write_down();
            self.text.clear();
            self.text.push_str(value.unwrap_or_default());
            self.is_there = value.is_some();
            self.whole = None;
        }
        self.rows += 1;
    }

    /// Returns the rows so far; the column is empty afterwards.
    pub(super) fn finish_batch(&mut self) -> ArrayRef {
        if !self.before.is_empty() {
            self.write_down();
            return Arc::new(mem::take(&mut self.before).finish());
        }
        let rows = mem::take(&mut self.rows);
        if rows > BATCH_ROWS || self.text.len() > MAX_WHOLE_BYTES {
            return Arc::new(repeated(self.value(), rows));
        }
        let whole = self.whole.take().unwrap_or_else(|| repeated(self.value(), BATCH_ROWS));
        Arc::new(self.whole.insert(whole).slice(0, rows))
    }

    fn value(&self) -> Option<&str> {
        self.is_there.then_some(&self.text)
    }

    fn write_down(&mut self) {
        let rows = mem::take(&mut self.rows);
        if self.is_there {
            self.before.append_value_n(&self.text, rows);
        } else {
            self.before.append_nulls(rows);
        }
    }
}

fn repeated(value: Option<&str>, rows: usize) -> StringArray {
    value.map_or_else(|| StringArray::new_null(rows), |value| StringArray::new_repeated(value, rows))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: &str = "a value that is longer than what is kept as the column of a whole batch of rows";

    proptest! {
        #[test]
        fn each_batch_has_the_values_that_were_pushed(
            batches in proptest::collection::vec(
                proptest::collection::vec((proptest::option::of(prop_oneof!["GET", "POST", LONG]), 1..1500_usize), 0..4),
                0..5,
            ),
        ) {
            let mut column = RepeatedText::default();
            for runs in &batches {
                let values = || runs.iter().flat_map(|(value, rows)| std::iter::repeat_n(value.as_deref(), *rows));
                values().for_each(|value| column.push(value));
                let expected: ArrayRef = Arc::new(values().collect::<StringArray>());
                prop_assert_eq!(&expected, &column.finish_batch());
            }
        }
    }

    #[test]
    fn batches_of_the_same_value_share_its_memory() {
        let mut column = RepeatedText::default();
        let mut batch = |rows: usize| {
            (0..rows).for_each(|_| column.push(Some("GET")));
            column.finish_batch().to_data().buffers()[1].as_ptr()
        };
        assert_eq!(batch(7), batch(BATCH_ROWS));
    }
}
