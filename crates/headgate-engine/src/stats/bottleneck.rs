//! What holds a job back, named with the number to turn. A pure decision over the figures of a stretch of time.
//!
//! Little's law says it for the commonest case: what is in flight equals the rate times the mean time each takes, so with
//! both known the rate has a ceiling that no faster client can pass (J. D. C. Little, "A Proof for the Queuing Formula
//! L = λW", 1961).

use std::time::Duration;

use serde::Serialize;

use crate::message;
use crate::model::grouped::grouped;
use crate::model::message::{Message, OptionName};
pub use crate::stats::bound_kind::BoundKind;
use crate::stats::held::HeldStretch;
use crate::stats::lanes::{LaneTime, Wait};

/// A worker that is busy for this share of the time has nothing left to give.
const SATURATED: f64 = 0.9;
/// Cores that are busy for this share of the time have nothing left for anybody.
const CORES_SATURATED: f64 = 0.95;
/// Workers that are busy for this share of the time want more of the cores than they get, if those are saturated.
const CONTENDING: f64 = 0.3;
/// Lanes that wait for one thing for this share of the time are held back by it.
const HELD_BACK: f64 = 0.3;

/// Where this share of the rows fail, it matters more than anything else.
const MOST: f64 = 0.5;

/// With less than this share of the concurrency in flight there were too few rows, and more concurrency would not help.
const FEW: f64 = 0.5;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundBy {
    pub kind: BoundKind,
    /// One line for a person.
    pub text: Message,
}

/// How the window held back the input.
#[derive(Debug, Clone, Default)]
pub struct WindowStretch {
    /// Its size, in rows.
    pub rows: u64,
    /// How long the source waited for it.
    pub full: Duration,
    /// What the source waits for now, if it does.
    pub behind: Option<Behind>,
}

/// The row that the window is full behind.
#[derive(Debug, Clone)]
pub struct Behind {
    pub row: u64,
    /// Whom it asks, as far as that is known: it may have ended and not be written yet.
    pub host: Option<Box<str>>,
}

/// What happened in a stretch of time.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    pub wall: Duration,
    /// Attempts that ended, and their time added up.
    pub attempts: u64,
    pub attempt_time: Duration,
    pub lane_time: LaneTime,
    /// Time the workers were not asleep, over all of them.
    pub busy: Duration,
    /// Share of their time that the cores worked, for us or anybody; `None` where the system does not tell.
    pub cores_busy: Option<f64>,
    /// Rows there are, where that is known.
    pub rows_known: Option<u64>,
    pub workers: usize,
    pub concurrency: usize,
    /// Cores this process may use.
    pub cores: usize,
    pub output_is_pipe: bool,
    pub input_is_pipe: bool,
    pub window: WindowStretch,
    pub held: HeldStretch,
    /// Rows that ended, and those of them that failed.
    pub rows: u64,
    pub failed: u64,
    /// What most of them failed with, in the whole run.
    pub failed_with: Option<String>,
}

impl Stretch {
    fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.lane_time.total.as_secs_f64().max(1e-9)
    }
}

pub fn bound_by(stretch: &Stretch) -> BoundBy {
    let wall = stretch.wall.as_secs_f64();
    let busy = stretch.busy.as_secs_f64() / (wall * stretch.workers as f64).max(1e-9);
    let waiting = |wait| stretch.share(stretch.lane_time.waiting(wait));
    let (kind, text) = if stretch.attempts == 0 && stretch.lane_time.total.is_zero() {
        let held = stretch.held.bound_by(stretch.wall, HELD_BACK);
        held.unwrap_or_else(|| (BoundKind::Nothing, "nothing yet: no request has been sent".into()))
    } else if let Some(failures) = failures(stretch).filter(|_| waiting(Wait::Names) < HELD_BACK) {
        (BoundKind::Failures, failures.into())
    } else if waiting(Wait::Sink) >= HELD_BACK {
        (BoundKind::Output, output(stretch, waiting(Wait::Sink)).into())
    } else if busy >= SATURATED {
        (BoundKind::Machine, machine(stretch, busy))
    } else if waiting(Wait::Decoder) >= HELD_BACK {
        // Before memory: what stands in this queue has its memory already, and with more of it the queue is longer.
        (BoundKind::Decoding, decoding(stretch, waiting(Wait::Decoder)).into())
    } else if waiting(Wait::Memory) >= HELD_BACK {
        let share = percent(waiting(Wait::Memory));
        let text = "bound by memory for responses: requests wait for it";
        (BoundKind::Memory, message!("{text} {share} of the time; allow more (", OptionName::MaxMemoryBytes, ")"))
    } else if waiting(Wait::Names) >= HELD_BACK {
        (BoundKind::Names, names(waiting(Wait::Names)))
    } else if waiting(Wait::Stream) >= HELD_BACK {
        (BoundKind::Streams, streams(waiting(Wait::Stream)))
    } else if waiting(Wait::Files) >= HELD_BACK {
        let share = percent(waiting(Wait::Files));
        let text = format!("bound by files to be sent: requests wait {share} of the time for them to be read");
        (BoundKind::Files, text.into())
    } else if let Some(held) = stretch.held.bound_by(stretch.wall, HELD_BACK) {
        held
    } else if let Some(input) = input(stretch) {
        window(stretch).map_or((BoundKind::Input, input.into()), |window| (BoundKind::Window, window))
    } else if let Some(cores) = stretch.cores_busy.filter(|cores| *cores >= CORES_SATURATED && busy >= CONTENDING) {
        (BoundKind::Machine, shared_machine(cores, busy).into())
    } else {
        (BoundKind::Concurrency, concurrency(stretch))
    };
    BoundBy { kind, text }
}

/// What is left to do after the last row.
pub fn merging(merged: u64, parts: u64) -> BoundBy {
    let (merged, parts) = (grouped(merged), grouped(parts));
    let text = format!("bound by the disk: all rows are done, small files are being merged: {merged} of {parts}");
    BoundBy { kind: BoundKind::Output, text: text.into() }
}

fn output(stretch: &Stretch, share: f64) -> String {
    let what = if stretch.output_is_pipe { "the reader of the output" } else { "the disk" };
    format!("bound by {what}: results wait to be written {} of the time", percent(share))
}

fn failures(stretch: &Stretch) -> Option<String> {
    let share = stretch.failed as f64 / stretch.rows.max(1) as f64;
    let with = stretch.failed_with.as_ref().filter(|_| share >= MOST)?;
    Some(format!("bound by failures: {} of the rows fail, most of them with {with}", percent(share)))
}

fn decoding(stretch: &Stretch, share: f64) -> String {
    let (share, cores) = (percent(share), stretch.cores);
    format!("bound by decoding: large bodies wait {share} of the time for one of {cores} cores to decode them")
}

fn names(share: f64) -> Message {
    let share = percent(share);
    message!(
        "bound by name look-ups: requests wait for them {share} of the time; ask a name server that answers sooner (",
        OptionName::Dns,
        ")"
    )
}

fn streams(share: f64) -> Message {
    let share = percent(share);
    message!(
        "bound by HTTP/2 streams: requests wait for a connection with room {share} of the time; raise ",
        OptionName::Http2Streams,
        " if servers allow more, or lower ",
        OptionName::Concurrency
    )
}

fn machine(stretch: &Stretch, busy: f64) -> Message {
    let Stretch { workers, cores, .. } = stretch;
    let mut text = Message::from(format!("bound by this machine: workers {} busy", percent(busy)));
    if workers < cores {
        text.push(message!("; raise ", OptionName::Threads, " ({workers} of {cores} cores in use)"));
    }
    text
}

fn shared_machine(cores: f64, busy: f64) -> String {
    format!(
        "bound by this machine: its cores are {} busy, headgate's workers {} of the time",
        percent(cores),
        percent(busy)
    )
}

/// What keeps rows from being started, where that is what they wait for.
fn input(stretch: &Stretch) -> Option<String> {
    let share = stretch.share(stretch.lane_time.waiting(Wait::Input));
    if share >= HELD_BACK {
        let what = if stretch.input_is_pipe { "the writer of the input" } else { "the input" };
        return Some(format!("bound by {what}: {} of the time there was no row to start", percent(share)));
    }
    if let Some(rows) = stretch.rows_known.filter(|rows| *rows <= stretch.concurrency as u64) {
        return Some(match rows {
            1 => "bound by the input: it has one row".to_owned(),
            _ => format!("bound by the input: its {} rows are all in flight at once", grouped(rows)),
        });
    }
    (in_flight(stretch) < FEW * stretch.concurrency as f64).then(|| few_rows(stretch))
}

/// What keeps the input from being read, where that is the window.
fn window(stretch: &Stretch) -> Option<Message> {
    let WindowStretch { rows, full, behind } = &stretch.window;
    let size = grouped(*rows);
    if let Some(Behind { row, host }) = behind {
        let row = grouped(*row);
        return Some(match host {
            Some(host) => message!(
                "bound by row {row} ({host}): until it ends, no more than the window of {size} rows is read; raise ",
                OptionName::Window,
                " or lower ",
                OptionName::TimeoutS
            ),
            None => message!(
                "bound by row {row}: until it is done, no more than the window of {size} rows is read; raise ",
                OptionName::Window
            ),
        });
    }
    let share = full.as_secs_f64() / stretch.wall.as_secs_f64().max(1e-9);
    (share >= HELD_BACK).then(|| {
        let share = percent(share);
        message!(
            "bound by the window: {share} of the time {size} rows waited for the oldest; raise ",
            OptionName::Window,
            " or lower ",
            OptionName::TimeoutS
        )
    })
}

fn few_rows(stretch: &Stretch) -> String {
    let (mean, allowed) = (whole(in_flight(stretch).ceil()), grouped(stretch.concurrency as u64));
    format!("bound by the input: it supplied rows for only {mean} of the {allowed} requests allowed in flight")
}

/// Mean number of attempts in flight.
fn in_flight(stretch: &Stretch) -> f64 {
    stretch.lane_time.in_flight().as_secs_f64() / stretch.wall.as_secs_f64().max(1e-9)
}

fn concurrency(stretch: &Stretch) -> Message {
    if stretch.attempts == 0 {
        return format!("bound by concurrency: {} in flight, none has ended yet", whole(in_flight(stretch))).into();
    }
    let mean_s = stretch.attempt_time.as_secs_f64() / stretch.attempts as f64;
    let allowed = grouped(stretch.concurrency as u64);
    let ceiling = whole(stretch.concurrency as f64 / mean_s.max(1e-9));
    let mean = duration(mean_s);
    message!(
        "bound by concurrency: {allowed} in flight at a mean of {mean} allow {ceiling} requests/s; raise ",
        OptionName::Concurrency
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).clamp(0.0, 100.0))
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 => format!("{s:.2} s"),
        s if s >= 0.000_999_5 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} µs", s * 1e6),
    }
}

/// To the nearest whole number.
fn whole(number: f64) -> String {
    grouped(number.round_ties_even() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::stats::lanes::LaneClock;

    /// Ten seconds of `lanes` lanes of which each waits for `wait` for so many seconds.
    fn stretch(lanes: u32, wait: Option<(Wait, u64)>, busy_s: f64) -> Stretch {
        let start = Instant::now();
        let mut clock = LaneClock::new(start);
        for _ in 0..lanes {
            clock.start(start);
        }
        if let Some((wait, seconds)) = wait {
            (0..lanes).for_each(|_| clock.enter(wait, start));
            (0..lanes).for_each(|_| clock.leave(wait, start + Duration::from_secs(seconds)));
        }
        let wall = Duration::from_secs(10);
        Stretch {
            wall,
            attempts: 6670,
            attempt_time: Duration::from_secs(10_005),
            lane_time: clock.time(start + wall),
            busy: Duration::from_secs_f64(busy_s),
            cores_busy: Some(0.5),
            rows_known: None,
            workers: 1,
            concurrency: lanes as usize,
            cores: 2,
            output_is_pipe: false,
            input_is_pipe: false,
            window: WindowStretch { rows: 4_000_000, full: Duration::from_secs(2), behind: None },
            ..Stretch::default()
        }
    }

    fn behind(row: u64, host: Option<&str>) -> WindowStretch {
        let behind = Some(Behind { row, host: host.map(Into::into) });
        WindowStretch { rows: 4_000_000, full: Duration::ZERO, behind }
    }

    #[test]
    fn each_bound_is_named_with_the_number_to_turn() {
        let piped = Stretch {
            output_is_pipe: true,
            input_is_pipe: true,
            workers: 2,
            ..stretch(10, Some((Wait::Sink, 5)), 19.9)
        };
        for (kind, text, stretch) in [
            (
                BoundKind::Concurrency,
                "bound by concurrency: 1,000 in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
                stretch(1000, None, 1.0),
            ),
            (
                BoundKind::Machine,
                "bound by this machine: workers 98 % busy; raise threads (1 of 2 cores in use)",
                stretch(1000, None, 9.8),
            ),
            (
                BoundKind::Machine,
                "bound by this machine: its cores are 99 % busy, headgate's workers 40 % of the time",
                Stretch { cores_busy: Some(0.99), ..stretch(1000, None, 4.0) },
            ),
            (
                BoundKind::Concurrency,
                "bound by concurrency: 1,000 in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
                Stretch { cores_busy: Some(1.0), ..stretch(1000, None, 0.5) },
            ),
            (
                BoundKind::Input,
                "bound by the input: its 40 rows are all in flight at once",
                Stretch { rows_known: Some(40), ..stretch(40, None, 0.5) },
            ),
            (
                BoundKind::Input,
                "bound by the input: it has one row",
                Stretch { rows_known: Some(1), ..stretch(40, None, 0.5) },
            ),
            (
                BoundKind::Input,
                "bound by the input: it supplied rows for only 10 of the 256 requests allowed in flight",
                Stretch { concurrency: 256, ..stretch(10, None, 1.0) },
            ),
            (
                BoundKind::Input,
                "bound by the input: 80 % of the time there was no row to start",
                stretch(10, Some((Wait::Input, 8)), 1.0),
            ),
            (
                BoundKind::Window,
                "bound by row 1,234 (slow.example): until it ends, no more than the window of 4,000,000 rows is read; \
                 raise window or lower timeout_s",
                Stretch { window: behind(1234, Some("slow.example")), ..stretch(10, Some((Wait::Input, 8)), 1.0) },
            ),
            (
                BoundKind::Window,
                "bound by row 1,234: until it is done, no more than the window of 4,000,000 rows is read; \
                 raise window",
                Stretch { window: behind(1234, None), concurrency: 256, ..stretch(10, None, 1.0) },
            ),
            (
                BoundKind::Window,
                "bound by the window: 50 % of the time 4,000,000 rows waited for the oldest; \
                 raise window or lower timeout_s",
                Stretch {
                    window: WindowStretch { rows: 4_000_000, full: Duration::from_secs(5), behind: None },
                    ..stretch(10, Some((Wait::Input, 8)), 1.0)
                },
            ),
            (
                BoundKind::Concurrency,
                "bound by concurrency: 1,000 in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
                Stretch { window: behind(1234, Some("slow.example")), ..stretch(1000, None, 1.0) },
            ),
            (
                BoundKind::Output,
                "bound by the disk: results wait to be written 50 % of the time",
                stretch(10, Some((Wait::Sink, 5)), 1.0),
            ),
            (
                BoundKind::Output,
                "bound by the reader of the output: results wait to be written 50 % of the time",
                piped,
            ),
            (BoundKind::Nothing, "nothing yet: no request has been sent", Stretch::default()),
        ] {
            let bound_by = bound_by(&stretch);
            assert_eq!((kind, text.to_owned()), (bound_by.kind, bound_by.text.to_string()));
        }
    }

    #[test]
    fn what_requests_in_flight_wait_for_is_named() {
        for (wait, kind, text) in [
            (
                Wait::Memory,
                BoundKind::Memory,
                "bound by memory for responses: requests wait for it 40 % of the time; allow more (max_memory_bytes)",
            ),
            (
                Wait::Decoder,
                BoundKind::Decoding,
                "bound by decoding: large bodies wait 40 % of the time for one of 2 cores to decode them",
            ),
            (
                Wait::Names,
                BoundKind::Names,
                "bound by name look-ups: requests wait for them 40 % of the time; \
                 ask a name server that answers sooner (dns)",
            ),
            (
                Wait::Stream,
                BoundKind::Streams,
                "bound by HTTP/2 streams: requests wait for a connection with room 40 % of the time; \
                 raise http2_streams if servers allow more, or lower concurrency",
            ),
            (
                Wait::Files,
                BoundKind::Files,
                "bound by files to be sent: requests wait 40 % of the time for them to be read",
            ),
        ] {
            let bound_by = bound_by(&stretch(10, Some((wait, 4)), 1.0));
            assert_eq!((kind, text.to_owned()), (bound_by.kind, bound_by.text.to_string()));
        }
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(["7", "1,234", "1,000,000"], [7.4, 1234.0, 999_999.9].map(whole).each_ref().map(String::as_str));
        assert_eq!(
            ["1.50 s", "2.5 ms", "73 µs"],
            [1.5, 0.0025, 0.000_073].map(duration).each_ref().map(String::as_str)
        );
    }
}
