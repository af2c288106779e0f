//! The bottleneck of a job, with the option to change. A pure decision over the figures of a stretch of time.
//!
//! Little's law decides the commonest case: attempts in flight equal the rate times the mean time of an attempt. With both
//! known, the rate has a ceiling that no faster client can exceed (J. D. C. Little, "A Proof for the Queuing Formula L =
//! λW", 1961).

use std::time::Duration;

pub use crate::stats::bottleneck_kind::BottleneckKind;
use crate::stats::lanes::{LaneTime, Wait};
use crate::stats::throttled::ThrottledStretch;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use serde::Serialize;

/// A worker that is busy for this share of the time is saturated.
const SATURATED: f64 = 0.9;
/// Cores that are busy for this share of the time are saturated.
const CORES_SATURATED: f64 = 0.95;
/// Workers that are busy for this share of the time need more CPU time than they get, if the cores are saturated.
const CONTENDING: f64 = 0.3;
/// Lanes that wait for one thing for this share of the time are limited by it.
const LIMITING: f64 = 0.3;

/// If this share of the requests need a new connection, connecting is most of the work: several times as much as a request.
const MOSTLY_CONNECTING: f64 = 0.3;

/// If this share of the rows fail, it matters more than anything else.
const MOST: f64 = 0.5;

/// With less than this share of the concurrency in flight there were too few rows, and more concurrency would not help.
const FEW: f64 = 0.5;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bottleneck {
    pub kind: BottleneckKind,
    /// One line for the user.
    pub text: Message,
}

/// How the limit of rows read ahead limited the input.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowStretch {
    /// Its size, in rows.
    pub rows: u64,
    /// How long the source waited for it.
    pub full: Duration,
    /// The row that the source waits for now, if any.
    pub blocking_row: Option<BlockingRow>,
}

/// The row that keeps the window full.
#[derive(Debug, Clone)]
pub(crate) struct BlockingRow {
    pub row: u64,
    /// Its host, if it is known: the row may have ended and not be written yet.
    pub host: Option<Box<str>>,
}

/// The figures of a stretch of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stretch {
    pub wall: Duration,
    /// Attempts that ended, and the sum of their times.
    pub attempts: u64,
    /// Connections that were made for them.
    pub connections: u64,
    pub attempt_time: Duration,
    pub lane_time: LaneTime,
    /// The time in which workers did not sleep, summed over all of them.
    pub busy: Duration,
    /// The share of the time in which the cores worked, for any process; `None` if the system does not report it.
    pub cores_busy: Option<f64>,
    /// The number of rows, if it is known.
    pub rows_known: Option<u64>,
    pub workers: usize,
    pub concurrency: usize,
    /// Cores this process may use.
    pub cores: usize,
    pub output_is_pipe: bool,
    pub input_is_pipe: bool,
    pub window: WindowStretch,
    pub throttled: ThrottledStretch,
    /// Rows that ended, and those of them that failed.
    pub rows: u64,
    pub failed: u64,
    /// The most frequent failure of the whole run.
    pub failed_with: Option<String>,
}

impl Stretch {
    fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.lane_time.total.as_secs_f64().max(1e-9)
    }
}

/// Returns the bottleneck of a stretch of time.
pub(crate) fn bottleneck_of(stretch: &Stretch) -> Bottleneck {
    let wall = stretch.wall.as_secs_f64();
    let busy = stretch.busy.as_secs_f64() / (wall * stretch.workers as f64).max(1e-9);
    let waiting = |wait| stretch.share(stretch.lane_time.waiting(wait));
    let (kind, text) = if stretch.attempts == 0 && stretch.lane_time.total.is_zero() {
        let throttled = stretch.throttled.bottleneck(stretch.wall, LIMITING);
        throttled.unwrap_or_else(|| (BottleneckKind::Nothing, "bottleneck: none yet. No request has been sent".into()))
    } else if let Some(failures) = failures(stretch).filter(|_| waiting(Wait::Dns) < LIMITING) {
        (BottleneckKind::Failures, failures.into())
    } else if waiting(Wait::Sink) >= LIMITING {
        (BottleneckKind::Output, output(stretch, waiting(Wait::Sink)).into())
    } else if busy >= SATURATED {
        connecting(stretch, busy, None).unwrap_or_else(|| (BottleneckKind::Machine, machine(stretch, busy)))
    } else if waiting(Wait::Decoder) >= LIMITING {
        // Before memory: bodies in this queue have their memory already, and more memory would only lengthen the queue.
        (BottleneckKind::Decoding, decoding(stretch, waiting(Wait::Decoder)).into())
    } else if waiting(Wait::Memory) >= LIMITING {
        let share = percent(waiting(Wait::Memory));
        let text = "bottleneck: memory. Requests wait";
        (
            BottleneckKind::Memory,
            message!("{text} {share} of the time for memory for responses; raise ", OptionName::MaxMemory),
        )
    } else if waiting(Wait::Dns) >= LIMITING {
        (BottleneckKind::Dns, dns(waiting(Wait::Dns)))
    } else if waiting(Wait::Stream) >= LIMITING {
        (BottleneckKind::Streams, streams(waiting(Wait::Stream)))
    } else if waiting(Wait::Files) >= LIMITING {
        let share = percent(waiting(Wait::Files));
        let text =
            format!("bottleneck: files. Requests wait {share} of the time until the files that they send are read");
        (BottleneckKind::Files, text.into())
    } else if let Some(throttled) = stretch.throttled.bottleneck(stretch.wall, LIMITING) {
        throttled
    } else if let Some(input) = input(stretch) {
        read_ahead(stretch).map_or((BottleneckKind::Input, input.into()), |text| (BottleneckKind::ReadAhead, text))
    } else if let Some(cores) = stretch.cores_busy.filter(|cores| *cores >= CORES_SATURATED && busy >= CONTENDING) {
        connecting(stretch, busy, None).unwrap_or_else(|| (BottleneckKind::Machine, shared_machine(cores, busy).into()))
    } else if let Some(connecting) = Some(waiting(Wait::Connection))
        .filter(|share| *share >= LIMITING)
        .and_then(|share| connecting(stretch, busy, Some(share)))
    {
        connecting
    } else {
        (BottleneckKind::Concurrency, concurrency(stretch))
    };
    Bottleneck { kind, text }
}

/// Returns the sentence for the time after the last row, in which part files are merged.
pub(crate) fn merging(merged: u64, parts: u64) -> Bottleneck {
    let (merged, parts) = (grouped(merged), grouped(parts));
    let text =
        format!("bottleneck: disk. All rows are done, and small part files are being merged: {merged} of {parts}");
    Bottleneck { kind: BottleneckKind::Output, text: text.into() }
}

/// Returns the sentence for the time in which a job only keeps replaced files.
pub(crate) fn keeping(left: Duration) -> Bottleneck {
    let left = left.as_secs();
    let text = message!(
        "bottleneck: none. All results are committed, and replaced files stay for readers for another {left} s, as ",
        OptionName::KeepReplaced,
        " says; an interrupt ends that"
    );
    Bottleneck { kind: BottleneckKind::Nothing, text }
}

fn output(stretch: &Stretch, share: f64) -> String {
    let what = if stretch.output_is_pipe { "reader of the output" } else { "disk" };
    format!("bottleneck: {what}. Results wait {} of the time to be written", percent(share))
}

fn failures(stretch: &Stretch) -> Option<String> {
    let share = stretch.failed as f64 / stretch.rows.max(1) as f64;
    let with = stretch.failed_with.as_ref().filter(|_| share >= MOST)?;
    Some(format!("bottleneck: failures. {} of the rows fail, most of them with {with}", percent(share)))
}

fn decoding(stretch: &Stretch, share: f64) -> String {
    let (share, cores) = (percent(share), stretch.cores);
    format!("bottleneck: decoding. Large bodies wait {share} of the time for one of {cores} cores to decode them")
}

fn dns(share: f64) -> Message {
    let share = percent(share);
    message!(
        "bottleneck: DNS. Requests wait {share} of the time for lookups; choose a faster DNS server with ",
        OptionName::DnsServer
    )
}

fn streams(share: f64) -> Message {
    let share = percent(share);
    message!(
        "bottleneck: HTTP/2 streams. Requests wait {share} of the time for a free stream; raise ",
        OptionName::Http2Streams,
        " if servers allow more, or lower ",
        OptionName::Concurrency
    )
}

fn machine(stretch: &Stretch, busy: f64) -> Message {
    let Stretch { workers, cores, .. } = stretch;
    let mut text = Message::from(format!("bottleneck: this machine. Its workers are {} busy", percent(busy)));
    if workers < cores {
        text.push(message!("; raise ", OptionName::Threads, " ({workers} of {cores} cores in use)"));
    }
    text
}

/// Returns the sentence if connecting takes the time of the workers, or the share `waiting` of the lanes' time.
fn connecting(stretch: &Stretch, busy: f64, waiting: Option<f64>) -> Option<(BottleneckKind, Message)> {
    let share = stretch.connections as f64 / stretch.attempts.max(1) as f64;
    if share < MOSTLY_CONNECTING {
        return None;
    }
    let mut text =
        Message::from(format!("bottleneck: connecting. {} of requests needed a new connection", percent(share)));
    if let Some(waiting) = waiting {
        let share = percent(waiting);
        text.push(message!(", which takes {share} of their time; raise ", OptionName::Concurrency));
    } else {
        let busy = percent(busy);
        text.push(message!(", and workers are {busy} busy; raise ", OptionName::MaxIdleConnections, " if hosts recur"));
    }
    Some((BottleneckKind::Connecting, text))
}

fn shared_machine(cores: f64, busy: f64) -> String {
    format!(
        "bottleneck: this machine. Its cores are {} busy, headgate's workers {} of the time",
        percent(cores),
        percent(busy)
    )
}

/// Returns why rows are not started, if lanes wait for the input.
fn input(stretch: &Stretch) -> Option<String> {
    let share = stretch.share(stretch.lane_time.waiting(Wait::Input));
    if share >= LIMITING {
        let what = if stretch.input_is_pipe { "writer of the input" } else { "input" };
        return Some(format!("bottleneck: {what}. No row was ready {} of the time", percent(share)));
    }
    if let Some(rows) = stretch.rows_known.filter(|rows| *rows <= stretch.concurrency as u64) {
        return Some(match rows {
            1 => "bottleneck: input. It has one row".to_owned(),
            _ => format!("bottleneck: input. Its {} rows are all in flight at once", grouped(rows)),
        });
    }
    (in_flight(stretch) < FEW * stretch.concurrency as f64).then(|| few_rows(stretch))
}

/// Returns the sentence on the limit of rows read ahead, if the source waits for it.
fn read_ahead(stretch: &Stretch) -> Option<Message> {
    let WindowStretch { rows, full, blocking_row } = &stretch.window;
    let size = grouped(*rows);
    if let Some(BlockingRow { row, host }) = blocking_row {
        let row = grouped(*row);
        return Some(match host {
            Some(host) => message!(
                "bottleneck: row {row} ({host}). Until it finishes, at most {size} rows are read ahead; raise ",
                OptionName::ReadAhead,
                " or lower ",
                OptionName::Timeout
            ),
            None => message!(
                "bottleneck: row {row}. Until it is written, at most {size} rows are read ahead; raise ",
                OptionName::ReadAhead
            ),
        });
    }
    let share = full.as_secs_f64() / stretch.wall.as_secs_f64().max(1e-9);
    (share >= LIMITING).then(|| {
        let share = percent(share);
        message!(
            "bottleneck: read-ahead. {share} of the time {size} rows waited for the oldest unfinished one; raise ",
            OptionName::ReadAhead,
            " or lower ",
            OptionName::Timeout
        )
    })
}

fn few_rows(stretch: &Stretch) -> String {
    let (mean, allowed) = (whole(in_flight(stretch).ceil()), grouped(stretch.concurrency as u64));
    format!("bottleneck: input. It supplied rows for only {mean} of the {allowed} requests that may be in flight")
}

/// Returns the mean number of attempts in flight.
fn in_flight(stretch: &Stretch) -> f64 {
    stretch.lane_time.in_flight().as_secs_f64() / stretch.wall.as_secs_f64().max(1e-9)
}

fn concurrency(stretch: &Stretch) -> Message {
    if stretch.attempts == 0 {
        return format!(
            "bottleneck: concurrency. {} requests are in flight, and none has finished yet",
            whole(in_flight(stretch))
        )
        .into();
    }
    let mean_s = stretch.attempt_time.as_secs_f64() / stretch.attempts as f64;
    let allowed = grouped(stretch.concurrency as u64);
    let ceiling = whole(stretch.concurrency as f64 / mean_s.max(1e-9));
    let mean = duration(mean_s);
    message!(
        "bottleneck: concurrency. {allowed} requests in flight at a mean of {mean} allow {ceiling} requests/s; raise ",
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

/// Rounds to the nearest whole number.
fn whole(number: f64) -> String {
    grouped(number.round_ties_even() as u64)
}

#[cfg(test)]
mod tests;
