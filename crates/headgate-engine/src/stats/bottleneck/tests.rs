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
            BoundKind::Connecting,
            "bound by connecting: 63 % of requests needed a new connection, workers 98 % busy; max_idle_connections \
             bounds how many are kept",
            Stretch { connections: 4202, ..stretch(1000, None, 9.8) },
        ),
        (
            BoundKind::Connecting,
            "bound by connecting: 63 % of requests needed a new connection, which takes 40 % of their time; raise \
             concurrency",
            Stretch { connections: 4202, ..stretch(1000, Some((Wait::Connection, 4)), 1.0) },
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
            Stretch { window: blocking_row(1234, Some("slow.example")), ..stretch(10, Some((Wait::Input, 8)), 1.0) },
        ),
        (
            BoundKind::Window,
            "bound by row 1,234: until it is done, no more than the window of 4,000,000 rows is read; \
             raise window",
            Stretch { window: blocking_row(1234, None), concurrency: 256, ..stretch(10, None, 1.0) },
        ),
        (
            BoundKind::Window,
            "bound by the window: 50 % of the time 4,000,000 rows waited for the oldest; \
             raise window or lower timeout_s",
            Stretch {
                window: WindowStretch { rows: 4_000_000, full: Duration::from_secs(5), blocking_row: None },
                ..stretch(10, Some((Wait::Input, 8)), 1.0)
            },
        ),
        (
            BoundKind::Concurrency,
            "bound by concurrency: 1,000 in flight at a mean of 1.50 s allow 667 requests/s; raise concurrency",
            Stretch { window: blocking_row(1234, Some("slow.example")), ..stretch(1000, None, 1.0) },
        ),
        (
            BoundKind::Output,
            "bound by the disk: results wait to be written 50 % of the time",
            stretch(10, Some((Wait::Sink, 5)), 1.0),
        ),
        (BoundKind::Output, "bound by the reader of the output: results wait to be written 50 % of the time", piped),
        (BoundKind::Nothing, "nothing yet: no request has been sent", Stretch::default()),
    ] {
        let bound_by = bound_by(&stretch);
        assert_eq!((kind, text.to_owned()), (bound_by.kind, bound_by.text.to_string()));
    }
}

#[test]
fn the_reason_why_requests_in_flight_wait_is_named() {
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
            Wait::Dns,
            BoundKind::Dns,
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
fn figures_are_formatted_for_readers() {
    assert_eq!(["7", "1,234", "1,000,000"], [7.4, 1234.0, 999_999.9].map(whole).each_ref().map(String::as_str));
    assert_eq!(["1.50 s", "2.5 ms", "73 µs"], [1.5, 0.0025, 0.000_073].map(duration).each_ref().map(String::as_str));
}
