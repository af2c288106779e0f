//! The files of replaced parts, which stay for a while: a reader that began before opens them when it needs them.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::commit::ReplacedFile;

/// The maximum number of files that are kept, because each commit names them. If there are more, the oldest go first.
const MAX_KEPT: usize = 10_000;

/// The replaced files of a job, the oldest first.
#[derive(Debug)]
pub(super) struct ReplacedFiles {
    keep: Duration,
    files: VecDeque<(ReplacedFile, Instant)>,
}

impl ReplacedFiles {
    /// Keeps replaced files this long, and those that an earlier run has kept.
    pub(super) fn new(keep: Duration, earlier: &[ReplacedFile], now: Instant) -> Self {
        let now_ms = since_1970_ms();
        let due = |file: &ReplacedFile| now + keep.saturating_sub(age(file, now_ms));
        Self { keep, files: earlier.iter().map(|file| (file.clone(), due(file))).collect() }
    }

    /// Adds files that are being replaced, unless none are kept or they are too many.
    pub(super) fn add(&mut self, names: &[String], now: Instant) {
        if !self.keep.is_zero() {
            let at_ms = since_1970_ms();
            let file = |name: &String| (ReplacedFile { name: name.clone(), at_ms }, now + self.keep);
            let room = MAX_KEPT.saturating_sub(self.files.len());
            self.files.extend(names.iter().take(room).map(file));
        }
    }

    /// Makes all files due.
    pub(super) fn expire(&mut self) {
        self.keep = Duration::ZERO;
    }

    /// Returns when the next file is due; `None`: no file is kept.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.files.front().map(|(_, due)| *due)
    }

    /// Returns the names of the files that are due, or for which there is no room beside this many more. They are no longer kept.
    pub(super) fn take_due(&mut self, now: Instant, more: usize) -> Vec<String> {
        let due = self.files.iter().take_while(|(_, due)| self.keep.is_zero() || *due <= now).count();
        let excess = self.files.len().saturating_add(more).saturating_sub(MAX_KEPT);
        self.files.drain(..due.max(excess).min(self.files.len())).map(|(file, _)| file.name).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the files as a commit names them.
    pub(super) fn to_record(&self) -> Vec<ReplacedFile> {
        self.files.iter().map(|(file, _)| file.clone()).collect()
    }
}

/// Returns the time in milliseconds since 1970.
pub(super) fn since_1970_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

fn age(file: &ReplacedFile, now_ms: u64) -> Duration {
    Duration::from_millis(now_ms.saturating_sub(file.at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|number| format!("part-{number:08}.parquet")).collect()
    }

    #[test]
    fn files_are_kept_for_their_time_and_at_most_so_many() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut files = ReplacedFiles::new(5 * second, &[], start);
        files.add(&names(1..3), start);
        files.add(&names(3..4), start + second);
        assert_eq!((Vec::<String>::new(), 3), (files.take_due(start + 4 * second, 0), files.to_record().len()));
        assert_eq!(names(1..3), files.take_due(start + 5 * second, 0));
        assert_eq!(names(3..4), files.take_due(start + 5 * second, MAX_KEPT));
        files.add(&names(10..12 + MAX_KEPT), start + 5 * second);
        assert_eq!(MAX_KEPT, files.to_record().len());
        assert_eq!(names(10..11), files.take_due(start + 5 * second, 1));
        files.expire();
        assert_eq!(MAX_KEPT - 1, files.take_due(start, 0).len());
        assert_eq!(None, files.next_due());
    }

    #[test]
    fn what_an_earlier_run_kept_is_kept_for_the_rest_of_its_time() {
        let earlier = |at_ms| ReplacedFile { name: names(1..2).remove(0), at_ms };
        let (hour, start) = (Duration::from_secs(3600), Instant::now());
        let mut files = ReplacedFiles::new(hour, &[earlier(0), earlier(since_1970_ms())], start);
        assert_eq!((1, 1), (files.take_due(start, 0).len(), files.to_record().len()));
        let mut files = ReplacedFiles::new(Duration::ZERO, &[earlier(since_1970_ms())], start);
        assert_eq!(1, files.take_due(start, 0).len());
    }
}
