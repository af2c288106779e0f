//! The progress of a job, and the time that is left: from the size of its input, and from the runs before this one.

use std::time::Duration;

use headgate_core::source_size::SourceSize;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub size: SourceSize,
    /// Rows done by earlier runs of the job.
    pub rows_before: u64,
    /// Rows done by this one.
    pub rows: u64,
    pub elapsed: Duration,
    /// The rate of the last seconds.
    pub rows_per_s: f64,
}

impl Progress {
    /// Returns the share of the input that is done, if it is known.
    pub(crate) fn fraction(&self) -> Option<f64> {
        let share = match (self.size.rows, self.size.bytes) {
            (Some(known), _) if known > 0 => self.rows_done() as f64 / known as f64,
            // Rows that are read and not done yet count as done here: a few thousand.
            (None, Some(bytes)) if bytes > 0 => self.size.bytes_read as f64 / bytes as f64,
            _ => return None,
        };
        Some(share.min(1.0))
    }

    /// Returns the time left at the rate of the last seconds, or if the number of rows is unknown, at that of this run.
    pub(crate) fn time_left_s(&self) -> Option<f64> {
        if let Some(known) = self.size.rows {
            return (self.rows_per_s > 0.0).then(|| known.saturating_sub(self.rows_done()) as f64 / self.rows_per_s);
        }
        let fraction = self.fraction()?;
        // Earlier rows were skipped, not requested: only this run's share shows how long a share takes.
        let own = fraction * self.rows as f64 / self.rows_done() as f64;
        // When all bytes are read, rows that are not done yet take an unknown time.
        (own > 0.0 && fraction < 1.0).then(|| self.elapsed.as_secs_f64() * (1.0 - fraction) / own)
    }

    fn rows_done(&self) -> u64 {
        self.rows_before + self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(size: SourceSize, rows_before: u64, rows: u64) -> Progress {
        Progress { size, rows_before, rows, elapsed: Duration::from_secs(10), rows_per_s: 50.0 }
    }

    #[test]
    fn earlier_runs_count_for_the_share_that_is_done_and_not_for_the_speed() {
        let rows = SourceSize { rows: Some(1000), ..SourceSize::default() };
        let bytes = |bytes_read| SourceSize { bytes: Some(1000), bytes_read, ..SourceSize::default() };
        for (fraction, time_left_s, progress) in [
            (Some(0.2), Some(16.0), progress(rows, 0, 200)),
            (Some(0.8), Some(4.0), progress(rows, 600, 200)),
            (Some(0.6), Some(8.0), progress(rows, 600, 0)),
            (Some(1.0), Some(0.0), progress(rows, 600, 400)),
            (Some(0.2), None, Progress { rows_per_s: 0.0, ..progress(rows, 0, 200) }),
            (Some(0.2), Some(40.0), progress(bytes(200), 0, 200)),
            // A tenth of the rows below half of the input are of this run: 10 s for a twentieth of it.
            (Some(0.5), Some(100.0), progress(bytes(500), 900, 100)),
            // Still skipping.
            (Some(0.5), None, progress(bytes(500), 900, 0)),
            (Some(0.0), None, progress(bytes(0), 0, 0)),
            (Some(1.0), None, progress(bytes(1000), 0, 100)),
            (None, None, progress(SourceSize::default(), 0, 200)),
        ] {
            assert_eq!((fraction, time_left_s), (progress.fraction(), progress.time_left_s()), "{progress:?}");
        }
    }

    #[test]
    fn an_input_that_has_no_rows_has_no_share_of_them() {
        let none = SourceSize { rows: Some(0), ..SourceSize::default() };
        assert_eq!((None, Some(0.0)), (progress(none, 0, 0).fraction(), progress(none, 0, 0).time_left_s()));
    }
}
