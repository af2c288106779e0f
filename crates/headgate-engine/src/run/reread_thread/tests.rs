//! The queue, the source's thread and this one together; the test takes the role of the workers.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::limits::Limits;
use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_BATCH_ROWS, Row};
use headgate_table::source;
use proptest::prelude::*;
use proptest::sample::Index;

use super::deferring;
use crate::engine::failure::FirstFailure;
use crate::engine::runtime;
use crate::job::DoneRows;
use crate::queue::rows::{self, RowReceiver, row_queue};
use crate::queue::window::Window;
use crate::run::source_thread::{self, SourceThread};
use crate::run::weighing::Weighing;

/// Rows that may wait in the queue.
const QUEUED: u64 = 4 * MAX_BATCH_ROWS as u64;
const TIMEOUT: Duration = Duration::from_secs(120);

/// Why a worker gets no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRows {
    Empty,
    /// None will come by itself: only deferred ones, once they are requested.
    Stalled,
    Ended,
}

struct Reading {
    rows: RowReceiver,
    window: Arc<Window>,
    failure: Arc<FirstFailure>,
    input_rows: Arc<OnceLock<u64>>,
}

/// `sink_has_window`: a sink advances the window. Otherwise only deferred rows limit the source.
fn read(input: &str, window: u64, sink_has_window: bool) -> Reading {
    let options = SourceOptions { input: input.into(), ..SourceOptions::default() };
    let source = source::open::open(&options).expect("an input");
    let failure = Arc::<FirstFailure>::default();
    let reopener = source.reopener().expect("a file");
    let (sender, rows) =
        row_queue(Some(deferring(reopener, window, Weighing::new(&Limits::default()), failure.clone())));
    let window = Arc::new(Window::new(if sink_has_window { window } else { u64::MAX }, 0));
    let input_rows = Arc::<OnceLock<u64>>::default();
    let thread = SourceThread {
        weighing: Weighing::new(&Limits::default()),
        row_count: Arc::default(),
        source,
        max_rows: None,
        done: DoneRows::default(),
        rows: sender,
        window: window.clone(),
        input_rows: input_rows.clone(),
        failure: failure.clone(),
        notes: Arc::default(),
    };
    source_thread::start(thread).expect("a thread");
    Reading { rows, window, failure, input_rows }
}

fn pattern(rows: u64) -> String {
    format!("http://host/[1-{rows}]")
}

impl Reading {
    /// Receives rows as a worker does that has nothing to do, which waits until there are some.
    fn recv(&self, max: usize) -> Result<Vec<u64>, NoRows> {
        let receive = async {
            loop {
                let available = self.rows.available();
                match self.try_recv(max) {
                    Err(NoRows::Empty) => available.await,
                    rows_or_end => return rows_or_end,
                }
            }
        };
        let runtime = runtime().expect("an event loop");
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, receive).await.expect("the worker is woken") })
    }

    fn try_recv(&self, max: usize) -> Result<Vec<u64>, NoRows> {
        // Read before the receive, or rows may have come in between.
        let rereading = self.rows.rereading();
        let is_stalled = rereading.is_source_stalled && rereading.first.is_some() && !rereading.active;
        self.rows.try_recv(max).map(|rows| ordinals(&rows)).map_err(|why| match why {
            rows::NoRows::Empty if is_stalled => NoRows::Stalled,
            rows::NoRows::Empty => NoRows::Empty,
            rows::NoRows::Ended => NoRows::Ended,
        })
    }

    /// Returns all rows that come by themselves, until the source stops with `end`.
    fn all_until(&self, end: NoRows) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            match self.recv(MAX_BATCH_ROWS) {
                Ok(rows) => all.extend(rows),
                Err(why) => {
                    assert_eq!(end, why);
                    return all;
                }
            }
        }
    }

    /// Draws this many rows, and defers them.
    fn defer(&self, count: usize) -> Vec<u64> {
        let mut drawn = Vec::new();
        while drawn.len() < count {
            drawn.extend(self.recv(count - drawn.len()).expect("rows"));
        }
        self.rows.defer(&drawn);
        drawn
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.rows.close();
        self.window.close();
    }
}

/// Returns the first deferred row, and how many there are.
fn deferred(reading: &Reading) -> (Option<u64>, u64) {
    (reading.rows.rereading().first, reading.rows.deferred_count())
}

fn ordinals(rows: &[Row]) -> Vec<u64> {
    rows.iter().map(|row| row.ordinal).collect()
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "not so: {what}");
        thread::yield_now();
    }
}

#[test]
fn deferred_rows_are_read_again_while_the_source_waits_for_the_window() {
    let reading = read(&pattern(10), 4, true);
    assert_eq!(vec![0, 1, 2], reading.defer(3));
    assert_eq!(vec![3], reading.all_until(NoRows::Stalled));
    assert_eq!((true, (Some(0), 3)), (reading.rows.rereading().is_source_stalled, deferred(&reading)));

    reading.rows.reread(1);
    assert_eq!(vec![1, 2], reading.all_until(NoRows::Stalled), "row 0 is still deferred, and the window full");
    assert_eq!((Some(0), 1), deferred(&reading));
    let rereading = reading.rows.rereading();
    assert_eq!((false, true), (rereading.active, rereading.ended_at.is_some()));

    reading.rows.reread(0);
    assert_eq!(Ok(vec![0]), reading.recv(10));
    reading.window.advance(10);
    assert_eq!((4..10).collect::<Vec<_>>(), reading.all_until(NoRows::Ended));
    assert_eq!(Some(&10), reading.input_rows.get());
}

#[test]
fn the_input_ends_only_after_its_deferred_rows_are_read_again() {
    let reading = read(&pattern(5), 100, true);
    assert_eq!(vec![0, 1, 2, 3, 4], reading.defer(5));
    assert_eq!(Err(NoRows::Stalled), reading.recv(1));
    assert_eq!(Err(NoRows::Stalled), reading.try_recv(1), "nothing has ended");
    for from in [0, 3] {
        reading.rows.reread(from);
        let drawn = reading.all_until(if from == 0 { NoRows::Ended } else { NoRows::Stalled });
        assert_eq!((from..5).collect::<Vec<_>>(), drawn);
        // A worker may still have them when another learns of the end.
        reading.rows.defer(&drawn);
    }
    reading.rows.reread(0);
    assert_eq!(vec![0, 1, 2, 3, 4], reading.all_until(NoRows::Ended));
}

#[test]
fn without_a_window_the_first_deferred_row_limits_the_source() {
    let reading = read(&pattern(100_000), 100, false);
    reading.defer(1);
    let last = reading.all_until(NoRows::Stalled).pop().expect("rows");
    assert!((100..100 + QUEUED).contains(&last), "{last}");
    assert!(reading.rows.rereading().is_source_stalled);
    reading.rows.reread(0);
    let rest = reading.all_until(NoRows::Ended);
    assert_eq!((0, last + 1, 99_999), (rest[0], rest[1], rest[rest.len() - 1]));
}

#[test]
fn rows_that_are_not_read_stay_deferred_if_the_reading_ends_early() {
    let count = 3 * QUEUED;
    let reading = read(&pattern(2 * count), count, true);
    reading.defer(count as usize);
    assert_eq!(Err(NoRows::Stalled), reading.recv(1));
    reading.rows.reread(0);
    let mut all = reading.recv(10).expect("rows");
    reading.rows.end_rereading();
    eventually("it ends", || !reading.rows.rereading().active);
    let (_, left) = deferred(&reading);
    assert!((count - QUEUED - 10..count).contains(&left), "{left}");
    all.extend(reading.all_until(NoRows::Stalled));
    assert_eq!(count - left, all.len() as u64);
    // From where it was left, without a row missing, although some had been read and not handed on.
    reading.rows.reread(0);
    while (all.len() as u64) < count {
        all.extend(reading.recv(MAX_BATCH_ROWS).expect("rows"));
    }
    reading.window.advance(count);
    all.extend(reading.all_until(NoRows::Ended));
    assert_eq!((0..2 * count).collect::<Vec<_>>(), all);
}

#[test]
fn a_stop_ends_the_source_and_the_rereading_at_once() {
    for requested in [false, true] {
        let reading = read(&pattern(100), 10, true);
        reading.defer(10);
        if requested {
            reading.rows.reread(0);
        }
        reading.rows.close();
        reading.window.close();
        assert_eq!(Err(NoRows::Ended), reading.recv(1));
        eventually("the source's thread has ended", || Arc::strong_count(&reading.window) == 1);
        eventually("no thread holds the input open", || Arc::strong_count(&reading.failure) == 1);
    }
}

#[test]
fn the_opened_file_is_reread_although_it_grew_and_its_path_was_replaced() {
    for extension in ["txt", "csv"] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(format!("urls.{extension}"));
        let text: String = "url\n".chars().chain((0..5).flat_map(|_| "http://host/\n".chars())).collect();
        fs::write(&path, text.strip_prefix(if extension == "txt" { "url\n" } else { "" }).expect("a header"))
            .expect("written");
        let reading = read(path.to_str().expect("text"), 100, true);
        reading.defer(5);
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("the file");
        std::io::Write::write_all(&mut file, b"http://added/\n").expect("appended");
        fs::rename(&path, directory.path().join("moved")).expect("moved");
        fs::write(&path, "url\nhttp://another/\n").expect("written");
        reading.rows.reread(0);
        assert_eq!(vec![0, 1, 2, 3, 4], reading.all_until(NoRows::Ended), "{extension}");
        assert_eq!(None, reading.failure.get());
    }
}

#[test]
fn a_file_that_was_changed_meanwhile_ends_the_run_as_it_does_when_it_is_read_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("urls.txt");
    fs::write(&path, "http://host/1\nhttp://host/2\n").expect("written");
    let reading = read(path.to_str().expect("text"), 100, true);
    reading.defer(2);
    assert_eq!(Err(NoRows::Stalled), reading.recv(1));
    fs::write(&path, "http://host/3\nhttp://host/4\nhttp://host/5\n").expect("written");
    reading.rows.reread(0);
    assert_eq!(Err(NoRows::Ended), reading.recv(1), "the run ends");
    let failure = reading.failure.get().expect("it failed").to_string();
    assert!(failure.contains("urls.txt: changed while it was read"), "{failure}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_row_is_drawn_by_one_worker_at_a_time_until_it_is_done_and_the_input_ends(
        count in 0_u64..6000,
        size in 1_u64..6000,
        sink_has_window in any::<bool>(),
        takes in proptest::collection::vec(1_usize..200, 1..8),
        picks in proptest::collection::vec(any::<Index>(), 1..400),
    ) {
        let reading = read(&pattern(count + 1), size, sink_has_window);
        let count = count + 1;
        let (mut takes, mut picks) = (takes.iter().cycle(), picks.iter());
        // When all picks are used up, every row is done as it comes.
        let mut pick = |of: usize| picks.next().map_or(of - 1, |index| index.index(of));
        let (mut in_hand, mut done, mut deferrals) = (Vec::<u64>::new(), BTreeSet::new(), vec![0_u8; count as usize]);
        let mut watermark = 0;
        loop {
            let max = *takes.next().expect("without end");
            // Waits only if nothing is in hand: the window may wait for rows in hand.
            let drawn = if in_hand.is_empty() {
                reading.recv(max)
            } else {
                reading.try_recv(max)
            };
            match drawn {
                Ok(drawn) => {
                    for row in &drawn {
                        prop_assert!(!done.contains(row) && !in_hand.contains(row), "row {row} came twice");
                        prop_assert!(!sink_has_window || *row < watermark + size, "row {row} is beyond the window");
                    }
                    in_hand.extend(drawn);
                }
                Err(NoRows::Ended) if in_hand.is_empty() => break,
                Err(NoRows::Stalled) => {
                    let (first, left) = deferred(&reading);
                    prop_assert!(left > 0);
                    reading.rows.reread(first.expect("one was deferred"));
                }
                Err(_) => {}
            }
            match pick(8) {
                0 => reading.rows.reread(pick(count as usize) as u64),
                1 => reading.rows.end_rereading(),
                2..=4 => {
                    let mut left: Vec<u64> = in_hand.split_off(pick(in_hand.len() + 1));
                    // Each is deferred a few times at most, so that the test ends.
                    in_hand.extend(left.extract_if(.., |row| deferrals[*row as usize] == 3));
                    for row in &left {
                        deferrals[*row as usize] += 1;
                    }
                    reading.rows.defer(&left);
                }
                _ => {
                    let kept = in_hand.split_off(pick(in_hand.len() + 1));
                    done.extend(std::mem::replace(&mut in_hand, kept));
                    watermark += (watermark..count).take_while(|row| done.contains(row)).count() as u64;
                    reading.window.advance(watermark);
                }
            }
            if let (Some(first), _) = deferred(&reading) {
                prop_assert!(first < count);
            }
        }
        prop_assert_eq!((0..count).collect::<BTreeSet<_>>(), done);
        prop_assert_eq!(None, reading.failure.get());
        prop_assert_eq!(Some(&count), reading.input_rows.get());
    }
}
