//! The progress of a job, and the time that is left: from the size of its input, and from the runs before this one.

/// The number of rows of the input, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowCount {
    pub known: Option<u64>,
    /// From the bytes and the rows that were read so far.
    pub estimated: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub input: RowCount,
    /// Rows done by earlier runs of the job.
    pub rows_before: u64,
    /// Rows done by this one.
    pub rows: u64,
    /// The rate of the last seconds.
    pub rows_per_s: f64,
}

impl Progress {
    /// Returns the share of the input that is done; `None` if its number of rows is unknown.
    pub(crate) fn fraction(&self) -> Option<f64> {
        let rows = self.rows_of_input().filter(|rows| *rows > 0)?;
        Some((self.rows_done() as f64 / rows as f64).min(1.0))
    }

    /// Returns the time left at the rate of the last seconds.
    pub(crate) fn time_left_s(&self) -> Option<f64> {
        let left = self.rows_of_input()?.saturating_sub(self.rows_done());
        (self.rows_per_s > 0.0).then(|| left as f64 / self.rows_per_s)
    }

    /// Returns the number of rows of the input, or its estimate until that many are done.
    fn rows_of_input(&self) -> Option<u64> {
        self.input.known.or_else(|| self.input.estimated.filter(|rows| *rows > self.rows_done()))
    }

    fn rows_done(&self) -> u64 {
        self.rows_before + self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(input: RowCount, rows_before: u64, rows: u64) -> Progress {
        Progress { input, rows_before, rows, rows_per_s: 50.0 }
    }

    #[test]
    fn earlier_runs_count_for_the_share_that_is_done_and_not_for_the_speed() {
        let known = RowCount { known: Some(1000), estimated: None };
        let estimated = RowCount { known: None, estimated: Some(1000) };
        for (fraction, time_left_s, progress) in [
            (Some(0.2), Some(16.0), progress(known, 0, 200)),
            (Some(0.8), Some(4.0), progress(known, 600, 200)),
            (Some(0.6), Some(8.0), progress(known, 600, 0)),
            (Some(1.0), Some(0.0), progress(known, 600, 400)),
            (Some(0.2), None, Progress { rows_per_s: 0.0, ..progress(known, 0, 200) }),
            (Some(0.8), Some(4.0), progress(estimated, 600, 200)),
            (None, None, progress(estimated, 0, 1000)),
            (None, None, progress(RowCount::default(), 0, 200)),
        ] {
            assert_eq!((fraction, time_left_s), (progress.fraction(), progress.time_left_s()), "{progress:?}");
        }
    }

    #[test]
    fn an_input_that_has_no_rows_has_no_share_of_them() {
        let none = RowCount { known: Some(0), estimated: None };
        assert_eq!((None, Some(0.0)), (progress(none, 0, 0).fraction(), progress(none, 0, 0).time_left_s()));
    }
}
