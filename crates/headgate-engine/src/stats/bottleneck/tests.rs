use std::time::Instant;

use super::*;
use crate::stats::lanes::LaneClock;

/// Returns ten seconds of `lanes` lanes, each of which waits for `wait` for this many seconds.
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
        window: WindowStretch { rows: 4_000_000, full: Duration::from_secs(2), blocking_row: None },
        ..Stretch::default()
    }
}

fn blocking_row(row: u64, host: Option<&str>) -> WindowStretch {
    let blocking_row = Some(BlockingRow { row, host: host.map(Into::into) });
    WindowStretch { rows: 4_000_000, full: Duration::ZERO, blocking_row }
}

#[test]
fn each_bottleneck_is_named_with_the_option_to_change() {
    let piped =
        Stretch { output_is_pipe: true, input_is_pipe: true, workers: 2, ..stretch(10, Some((Wait::Sink, 5)), 19.9) };
    for (kind, text, stretch) in [
        (
            BottleneckKind::Concurrency,
            "bottleneck: concurrency. 1,000 requests in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
            stretch(1000, None, 1.0),
        ),
        (
            BottleneckKind::Machine,
            "bottleneck: this machine. Its workers are 98 % busy; raise threads (1 of 2 cores in use)",
            stretch(1000, None, 9.8),
        ),
        (
            BottleneckKind::Machine,
            "bottleneck: this machine. Its cores are 99 % busy, headgate's workers 40 % of the time",
            Stretch { cores_busy: Some(0.99), ..stretch(1000, None, 4.0) },
        ),
        (
            BottleneckKind::Concurrency,
            "bottleneck: concurrency. 1,000 requests in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
            Stretch { cores_busy: Some(1.0), ..stretch(1000, None, 0.5) },
        ),
        (
            BottleneckKind::Connecting,
            "bottleneck: connecting. 63 % of requests needed a new connection, and workers are 98 % busy; \
             raise max_idle_connections if hosts recur",
            Stretch { connections: 4202, ..stretch(1000, None, 9.8) },
        ),
        (
            BottleneckKind::Connecting,
            "bottleneck: connecting. 63 % of requests needed a new connection, which takes 40 % of their time; raise \
             concurrency",
            Stretch { connections: 4202, ..stretch(1000, Some((Wait::Connection, 4)), 1.0) },
        ),
        (
            BottleneckKind::Input,
            "bottleneck: input. Its 40 rows are all in flight at once",
            Stretch { rows_known: Some(40), ..stretch(40, None, 0.5) },
        ),
        (
            BottleneckKind::Input,
            "bottleneck: input. It has one row",
            Stretch { rows_known: Some(1), ..stretch(40, None, 0.5) },
        ),
        (
            BottleneckKind::Input,
            "bottleneck: input. It supplied rows for only 10 of the 256 requests that may be in flight",
            Stretch { concurrency: 256, ..stretch(10, None, 1.0) },
        ),
        (
            BottleneckKind::Input,
            "bottleneck: input. No row was ready 80 % of the time",
            stretch(10, Some((Wait::Input, 8)), 1.0),
        ),
        (
            BottleneckKind::ReadAhead,
            "bottleneck: row 1,234 (slow.example). Until it finishes, at most 4,000,000 rows are read ahead; \
             raise read_ahead or lower timeout",
            Stretch { window: blocking_row(1234, Some("slow.example")), ..stretch(10, Some((Wait::Input, 8)), 1.0) },
        ),
        (
            BottleneckKind::ReadAhead,
            "bottleneck: row 1,234. Until it is written, at most 4,000,000 rows are read ahead; raise read_ahead",
            Stretch { window: blocking_row(1234, None), concurrency: 256, ..stretch(10, None, 1.0) },
        ),
        (
            BottleneckKind::ReadAhead,
            "bottleneck: read-ahead. 50 % of the time 4,000,000 rows waited for the oldest unfinished one; \
             raise read_ahead or lower timeout",
            Stretch {
                window: WindowStretch { rows: 4_000_000, full: Duration::from_secs(5), blocking_row: None },
                ..stretch(10, Some((Wait::Input, 8)), 1.0)
            },
        ),
        (
            BottleneckKind::Concurrency,
            "bottleneck: concurrency. 1,000 requests in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
            Stretch { window: blocking_row(1234, Some("slow.example")), ..stretch(1000, None, 1.0) },
        ),
        (
            BottleneckKind::Output,
            "bottleneck: disk. Results wait 50 % of the time to be written",
            stretch(10, Some((Wait::Sink, 5)), 1.0),
        ),
        (
            BottleneckKind::Output,
            "bottleneck: reader of the output. Results wait 50 % of the time to be written",
            piped,
        ),
        (BottleneckKind::Nothing, "bottleneck: none yet. No request has been sent", Stretch::default()),
    ] {
        let bottleneck = bottleneck_of(&stretch);
        assert_eq!((kind, text.to_owned()), (bottleneck.kind, bottleneck.text.to_string()));
    }
}

#[test]
fn the_reason_why_requests_in_flight_wait_is_named() {
    for (wait, kind, text) in [
        (
            Wait::Memory,
            BottleneckKind::Memory,
            "bottleneck: memory. Requests wait 40 % of the time for memory for responses; raise max_memory",
        ),
        (
            Wait::Decoder,
            BottleneckKind::Decoding,
            "bottleneck: decoding. Large bodies wait 40 % of the time for one of 2 cores to decode them",
        ),
        (
            Wait::Dns,
            BottleneckKind::Dns,
            "bottleneck: DNS. Requests wait 40 % of the time for lookups; \
             choose a faster DNS server with dns_server",
        ),
        (
            Wait::Stream,
            BottleneckKind::Streams,
            "bottleneck: HTTP/2 streams. Requests wait 40 % of the time for a free stream; \
             raise http2_streams if servers allow more, or lower concurrency",
        ),
        (
            Wait::Files,
            BottleneckKind::Files,
            "bottleneck: files. Requests wait 40 % of the time until the files that they send are read",
        ),
    ] {
        let bottleneck = bottleneck_of(&stretch(10, Some((wait, 4)), 1.0));
        assert_eq!((kind, text.to_owned()), (bottleneck.kind, bottleneck.text.to_string()));
    }
}

#[test]
fn figures_are_formatted_for_readers() {
    assert_eq!(["7", "1,234", "1,000,000"], [7.4, 1234.0, 999_999.9].map(whole).each_ref().map(String::as_str));
    assert_eq!(["1.50 s", "2.5 ms", "73 µs"], [1.5, 0.0025, 0.000_073].map(duration).each_ref().map(String::as_str));
}
