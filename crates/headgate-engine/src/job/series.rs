//! The series of a job: what its runs did over time, for `headgate report`.
//!
//! ```text
//! OUT/_headgate/series.ndjson   a line with the interval, and a line for each point
//! ```
//!
//! The thread of the heartbeat adds a point at each interval, which is one second at first, and one at the end of a run. A file
//! with 4,000 points is replaced by one in which pairs of them are merged, and the interval doubles. So the file has a bound, a
//! process that is killed loses one interval, and the next run of the job continues the file. Like the heartbeat, it is no part
//! of the durable state: nothing is synced, a file that can't be read is replaced, and a disk that refuses it stops no job.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, SHARED};
use serde::{Deserialize, Serialize};

use crate::stats::report::Snapshot;
use crate::stats::series::Point;

pub(super) const NAME: &str = "series.ndjson";
const VERSION: u32 = 1;
const MAX_POINTS: usize = 4_000;
const FIRST_INTERVAL_MS: u64 = 1_000;
/// In place of a bottleneck in time in which the process did not run.
const STALLED: &str = "stalled";
/// What is read of a file: a point has some 400 bytes, and never more than 3 KB.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Header {
    version: u32,
    /// When the job was started, as in its manifest: the series of an earlier job is not continued.
    job_started_at: String,
    interval_ms: u64,
}

/// The series of a running job.
#[derive(Debug)]
pub(super) struct Series {
    directory: Directory,
    header: Header,
    /// Points in the file.
    points: usize,
    /// The file, open at its end; `None`: it has to be written anew.
    file: Option<File>,
    /// What happened since the last point.
    pending: Point,
    /// What the run had done when it was last recorded.
    last: Point,
}

impl Series {
    /// Continues the series in a directory if it is that of this job.
    pub(super) fn open(directory: &Directory, job_started_at: String) -> Self {
        let header = Header { version: VERSION, job_started_at, interval_ms: FIRST_INTERVAL_MS };
        let mut series = Self {
            directory: directory.clone(),
            header,
            points: 0,
            file: None,
            pending: Point::default(),
            last: Point::default(),
        };
        if let Some((header, _)) = stored(directory, &series.header.job_started_at) {
            series.header = header;
        }
        // The last line may be incomplete. If this fails, it is tried with the next point.
        let _ = series.rewrite(false);
        series
    }

    /// Adds what the run has done up to now; `is_last`: it has ended.
    pub(super) fn record(&mut self, now: &Snapshot, is_last: bool) {
        let mut point = now.since_start.since(&self.last);
        self.last = now.since_start.clone();
        point.at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64);
        let kind = serde_json::to_value(now.bottleneck.kind).ok();
        let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default().to_owned();
        let times =
            [(STALLED.to_owned(), point.stalled_ms.min(point.ms)), (kind, point.ms.saturating_sub(point.stalled_ms))];
        point.bottlenecks = times.into_iter().filter(|(_, ms)| *ms > 0).collect();
        self.add(&point, is_last);
    }

    fn add(&mut self, point: &Point, is_last: bool) {
        self.pending.merge(point);
        if (is_last || self.pending.ms >= self.header.interval_ms) && self.append().is_err() {
            self.file = None;
        }
    }

    /// Writes the pending point.
    fn append(&mut self) -> io::Result<()> {
        if self.points >= MAX_POINTS {
            self.rewrite(true)?;
        } else if self.file.is_none() {
            self.rewrite(false)?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(&line(&self.pending)?)?;
            self.points += 1;
            self.pending = Point::default();
        }
        Ok(())
    }

    /// Replaces the file by one with the same points, or with pairs of them merged.
    fn rewrite(&mut self, coarser: bool) -> io::Result<()> {
        let interval_ms = self.header.interval_ms.saturating_mul(if coarser { 2 } else { 1 });
        let header = Header { interval_ms, ..self.header.clone() };
        let mut stored = stored(&self.directory, &header.job_started_at).map(|(_, points)| points);
        let written = path_in(&self.directory, &format!("{NAME}.new"));
        let mut file = BufWriter::new(self.directory.create(&written, SHARED)?);
        file.write_all(&line(&header)?)?;
        let mut points = 0;
        while let Some(mut point) = stored.as_mut().and_then(Iterator::next) {
            if let Some(next) = stored.as_mut().filter(|_| coarser).and_then(Iterator::next) {
                point.merge(&next);
            }
            file.write_all(&line(&point)?)?;
            points += 1;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.directory.rename(&written, &path_in(&self.directory, NAME))?;
        (self.header, self.points, self.file) = (header, points, Some(file));
        Ok(())
    }
}

/// Returns the points of the job that was started at this time, the oldest first; none if it has no series that can be read.
pub(super) fn points(directory: &Directory, job_started_at: &str) -> Vec<Point> {
    stored(directory, job_started_at).map(|(_, points)| points.take(2 * MAX_POINTS).collect()).unwrap_or_default()
}

/// Returns the series of the job; lines that can't be read are skipped.
fn stored(directory: &Directory, job_started_at: &str) -> Option<(Header, impl Iterator<Item = Point> + use<>)> {
    let file = directory.file(&path_in(directory, NAME)).ok()?;
    let mut lines = BufReader::new(file.take(MAX_BYTES)).lines().map_while(Result::ok);
    let header: Header = serde_json::from_str(&lines.next()?).ok()?;
    let is_of_job = header.version == VERSION && header.job_started_at == job_started_at && header.interval_ms > 0;
    is_of_job.then(|| (header, lines.filter_map(|line| serde_json::from_str(&line).ok())))
}

fn line(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(record)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn path_in(directory: &Directory, name: &str) -> PathBuf {
    directory.path().join(OWN_DIRECTORY).join(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn directory() -> (TempDir, Directory) {
        let temporary = TempDir::new().expect("a temporary directory");
        fs::create_dir(temporary.path().join(OWN_DIRECTORY)).expect("a directory");
        let directory = Directory::open(temporary.path()).expect("it exists");
        (temporary, directory)
    }

    fn second(at: u64) -> Point {
        Point { at_ms: at * 1_000, ms: 1_000, succeeded: 1, ..Point::default() }
    }

    #[test]
    fn a_series_has_a_bound_and_loses_nothing_over_its_runs() {
        let (_temporary, directory) = directory();
        for run in 0..3_u64 {
            let mut series = Series::open(&directory, "job".into());
            for at in 0..5_000 {
                series.add(&second(run * 5_000 + at), at == 4_999);
            }
        }
        let points = points(&directory, "job");
        assert!(points.len() <= MAX_POINTS, "{}", points.len());
        let sums = points.iter().fold((0, 0), |(rows, ms), point| (rows + point.succeeded, ms + point.ms));
        assert_eq!((15_000, 15_000_000), sums);
        assert!(points.is_sorted_by_key(|point| point.at_ms));
        assert_eq!(Some(4_000), stored(&directory, "job").map(|(header, _)| header.interval_ms));
    }

    #[test]
    fn the_series_of_another_job_and_one_that_is_damaged_are_replaced() {
        let (_temporary, directory) = directory();
        Series::open(&directory, "job".into()).add(&second(1), true);
        assert_eq!(vec![second(1)], points(&directory, "job"));
        assert_eq!(Vec::<Point>::new(), points(&directory, "other"));
        Series::open(&directory, "other".into()).add(&second(2), true);
        assert_eq!(vec![second(2)], points(&directory, "other"));

        let file = path_in(&directory, NAME);
        let whole = fs::read_to_string(&file).expect("it was written");
        fs::write(&file, format!("{whole}{{\"at_ms\":3,\"succ")).expect("a file");
        Series::open(&directory, "other".into()).add(&second(4), true);
        assert_eq!(vec![second(2), second(4)], points(&directory, "other"));
        fs::write(&file, "\0\0\0").expect("a file");
        Series::open(&directory, "other".into()).add(&second(5), true);
        assert_eq!(vec![second(5)], points(&directory, "other"));
    }

    #[test]
    fn what_a_disk_refuses_is_written_later() {
        let (temporary, directory) = directory();
        let mut series = Series::open(&directory, "job".into());
        series.add(&second(1), false);
        let (own, moved) = (temporary.path().join(OWN_DIRECTORY), temporary.path().join("moved"));
        series.file = None;
        fs::rename(&own, &moved).expect("a directory");
        series.add(&second(2), false);
        fs::rename(&moved, &own).expect("a directory");
        series.add(&second(3), true);
        let sums = points(&directory, "job").iter().map(|point| (point.at_ms, point.succeeded)).collect::<Vec<_>>();
        assert_eq!(vec![(1_000, 1), (3_000, 2)], sums);
    }
}
