//! The progress of a job: a watermark and, above it, a compressed bitmap instead of a set of row numbers. Its size is
//! bounded by the window of rows that were read and not finished, not by the job.

use std::io;

use roaring::RoaringTreemap;

/// The rows that are done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DoneRows {
    /// All rows below the watermark are done.
    watermark: u64,
    /// The done rows above the watermark, which is never one of them.
    above: RoaringTreemap,
}

impl DoneRows {
    /// # Errors
    /// `above` was not made by [`DoneRows::above_bytes`], or contradicts the watermark.
    pub fn new(watermark: u64, above: &[u8]) -> io::Result<Self> {
        let above = if above.is_empty() { RoaringTreemap::new() } else { RoaringTreemap::deserialize_from(above)? };
        match above.min() {
            Some(least) if least <= watermark => Err(io::Error::other("it names rows below its watermark")),
            _ => Ok(Self { watermark, above }),
        }
    }

    /// Returns the done rows with these numbers.
    pub(super) fn from_rows(mut rows: RoaringTreemap) -> Self {
        let watermark = rows.iter().zip(0..).take_while(|(row, next)| row == next).count() as u64;
        rows.remove_range(..watermark);
        Self { watermark, above: rows }
    }

    /// Returns the numbers of the done rows.
    pub(super) fn to_rows(&self) -> RoaringTreemap {
        let mut rows = self.above.clone();
        rows.insert_range(..self.watermark);
        rows
    }

    pub fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Returns the row after the last done row.
    pub fn end(&self) -> u64 {
        self.above.max().map_or(self.watermark, |last| last + 1)
    }

    /// Returns the number of done rows.
    pub fn rows_done(&self) -> u64 {
        self.watermark + self.above.len()
    }

    pub fn is_done(&self, row: u64) -> bool {
        row < self.watermark || self.above.contains(row)
    }

    /// Marks rows as done.
    ///
    /// # Errors
    /// Returns the first row that was done before: a row must not finish twice.
    pub fn add(&mut self, rows: &[i64]) -> Result<(), u64> {
        for row in rows.iter().map(|row| *row as u64) {
            if row < self.watermark || !self.above.insert(row) {
                return Err(row);
            }
        }
        let run = self.above.iter().zip(self.watermark..).take_while(|(row, next)| row == next).count() as u64;
        if run > 0 {
            self.above.remove_range(self.watermark..self.watermark + run);
            self.watermark += run;
        }
        Ok(())
    }

    /// Returns the rows above the watermark as bytes, in the portable format of Roaring bitmaps; empty if there are none.
    pub(crate) fn above_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if !self.above.is_empty() {
            let mut above = self.above.clone();
            above.optimize();
            above.serialize_into(&mut bytes)?;
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn done_rows_behave_like_a_set_of_rows(rows in Just((0_i64..200).collect::<Vec<_>>()).prop_shuffle(), taken in 0_usize..200) {
            let mut done_rows = DoneRows::default();
            let mut done = BTreeSet::new();
            for batch in rows[..taken].chunks(7) {
                done_rows.add(batch).expect("each comes once");
                done.extend(batch.iter().map(|row| *row as u64));

                let watermark = (0..=200).find(|row| !done.contains(row)).expect("not all numbers are done");
                prop_assert_eq!(watermark, done_rows.watermark());
                prop_assert_eq!(done.len() as u64, done_rows.rows_done());
                prop_assert!((0..201).all(|row| done.contains(&row) == done_rows.is_done(row)));
                let bytes = done_rows.above_bytes().expect("memory");
                prop_assert_eq!(&done_rows, &DoneRows::new(watermark, &bytes).expect("own bytes"));
            }
        }
    }

    #[test]
    fn a_row_that_finishes_twice_is_reported() {
        let mut done_rows = DoneRows::default();
        assert_eq!(Ok(()), done_rows.add(&[0, 1, 5]));
        assert_eq!(Err(1), done_rows.add(&[2, 1]));
        assert_eq!(Err(5), done_rows.add(&[5]));
    }

    #[test]
    fn rows_below_the_watermark_are_refused() {
        let mut done_rows = DoneRows::default();
        done_rows.add(&[3, 4]).expect("each once");
        let bytes = done_rows.above_bytes().expect("memory");
        assert!(DoneRows::new(4, &bytes).is_err());
        assert!(DoneRows::new(0, b"no bitmap").is_err());
    }

    #[test]
    fn four_million_rows_take_half_a_megabyte_at_the_most() {
        let mut done_rows = DoneRows::default();
        // Every second row: nothing for run lengths to gain.
        let rows: Vec<i64> = (1..4_000_000).step_by(2).collect();
        done_rows.add(&rows).expect("each once");
        let bytes = done_rows.above_bytes().expect("memory").len();
        assert!(bytes <= 524_288, "{bytes}");
    }
}
