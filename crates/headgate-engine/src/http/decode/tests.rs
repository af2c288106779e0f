use std::future::{Future, poll_fn};
use std::io::Write;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;
use crate::model::headers::Headers;
use crate::model::memory::MemoryBudget;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn brotli(data: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    ::brotli::CompressorWriter::new(&mut encoded, 4096, 5, 22).write_all(data).expect("memory");
    encoded
}

fn decoder() -> Decoder {
    Decoder::new(Arc::new(Pool::new("decode", 1, async_channel::bounded(1).0)))
}

fn on_event_loop<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop").block_on(future)
}

fn named(coding: &str) -> ContentEncodings {
    ContentEncodings::of(&Headers::from_iter([("Content-Encoding", coding.as_bytes())]))
}

#[expect(clippy::needless_pass_by_value, reason = "who calls it makes it")]
fn decoded(coding: &str, bytes: Vec<u8>, max_bytes: u64) -> Result<Vec<u8>, ErrorKind> {
    decoded_by(coding, &bytes, max_bytes, Instant::now() + Duration::from_secs(60))
}

fn decoded_by(coding: &str, bytes: &[u8], max_bytes: u64, by: Instant) -> Result<Vec<u8>, ErrorKind> {
    let undone = undone(coding, bytes.to_vec(), whole_up_to(max_bytes), by);
    assert!(!undone.truncated);
    let Some(failure) = undone.failure else { return Ok(undone.body.bytes) };
    assert_eq!((Some(&*coding.to_ascii_lowercase()), true), (undone.left.as_deref(), bytes == undone.body.bytes));
    Err(failure.kind)
}

fn whole_up_to(max_bytes: u64) -> Undo {
    Undo { max_bytes, truncates: false, is_cut: false }
}

fn undone(coding: &str, bytes: Vec<u8>, undo: Undo, by: Instant) -> Undone {
    let body = Body { bytes, ..Body::default() };
    on_event_loop(async { decoder().decode(named(coding), body, undo, &mut Deadline::new(by)).await })
}

/// What a decoder came to, or why it did not.
fn came_to(undone: Undone) -> Result<Body, ErrorKind> {
    undone.failure.map_or(Ok(undone.body), |failure| Err(failure.kind))
}

/// What stops decoding in one thread with these bounds.
fn stopped(encodings: &[Encoding], encoded: &[u8], bounds: u64, memory: u64) -> Option<Stop> {
    let budget = MemoryBudget::new(memory);
    let mut other = budget.reservation();
    assert!(other.try_grow(memory + 1), "nobody else may overdraw");
    other.shrink_to(1);
    let until = Instant::now() + Duration::from_secs(60);
    let meter = Meter::new(Bounds { bytes: bounds, until }, until, &|| true, budget.reservation(), 0);
    Decoding::new(encodings, encoded, 1 << 30, meter).read_to_end(&mut Vec::new()).err()
}

/// A frame of zstd with so many blocks of nothing (RFC 8878 section 3.1.1).
fn blocks_of_nothing(count: usize) -> Vec<u8> {
    let head = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    let last = [1, 0, 0];
    [&head[..], &[0, 0, 0].repeat(count), &last].concat()
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(data).expect("memory");
    deflate.finish().expect("memory")
}

fn stored(length: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(&vec![b'x'; length]).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn members_that_meet_at_the_end_of_a_buffer_are_all_read() {
    for length in 8150..8200 {
        let encoded = [stored(length), gzip(b"second")].concat();
        let plain = [vec![b'x'; length], b"second".to_vec()].concat();
        assert_eq!(Ok(plain), decoded("gzip", encoded, 1 << 20), "{length}");
    }
}

#[test]
fn decoding_ends_with_its_time() {
    let by = Instant::now();
    assert_eq!(Err(ErrorKind::Timeout), decoded_by("gzip", &gzip(b"hello"), 1 << 20, by));
}

#[test]
fn each_coding_is_undone() {
    let plain = b"hello, hello, hello".repeat(10_000);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&plain).expect("memory");
    for (coding, encoded) in [
        ("gzip", gzip(&plain)),
        ("X-GZIP", [gzip(&plain[..100_000]), gzip(&plain[100_000..])].concat()),
        ("gzip", [gzip(&plain), vec![0; 512]].concat()),
        ("deflate", zlib.finish().expect("memory")),
        ("deflate", deflate(&plain)),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("gzip, br", brotli(&gzip(&plain))),
        ("identity", plain.clone()),
        ("gzip, gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(&gzip(&plain)))))),
    ] {
        assert_eq!(Ok(plain.clone()), decoded(coding, encoded, plain.len() as u64), "{coding}");
    }
}

#[test]
fn what_is_in_a_coding_that_we_do_not_know_stays_as_it_came_and_says_so() {
    for coding in ["unheard-of", "gzip, unheard-of"] {
        let undone = undone(coding, b"as it came".to_vec(), whole_up_to(100), Instant::now() + Duration::from_mins(1));
        assert_eq!(
            (&b"as it came"[..], Some(coding), None),
            (&*undone.body.bytes, undone.left.as_deref(), undone.failure)
        );
    }
}

#[test]
fn what_may_be_truncated_is_its_first_bytes_however_its_end_was_missed() {
    let plain = large();
    let by = Instant::now() + Duration::from_mins(1);
    for (coding, encoded) in [
        ("gzip", gzip(&plain)),
        ("deflate", deflate(&plain)),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("br, gzip", gzip(&brotli(&plain))),
    ] {
        for max_bytes in [0, 1, 1000, encoded.len(), plain.len() - 1] {
            let is_cut = encoded.len() > max_bytes;
            let undo = Undo { max_bytes: max_bytes as u64, truncates: true, is_cut };
            let undone = undone(coding, encoded[..encoded.len().min(max_bytes)].to_vec(), undo, by);
            let length = undone.body.bytes.len();
            // What came is bounded as well, and what one coding hands to the next: then it may be less.
            assert!(
                length == max_bytes || length < max_bytes && (is_cut || coding.contains(',')),
                "{coding}: {length}"
            );
            assert!(plain.starts_with(&undone.body.bytes), "{coding}");
            assert_eq!((true, None, None), (undone.truncated, undone.failure, undone.left), "{coding}");
        }
        let (cut, undo) = (encoded[..encoded.len() / 2].to_vec(), Undo { is_cut: true, ..whole_up_to(1 << 30) });
        let undone = undone(coding, cut, undo, by);
        assert!(plain.starts_with(&undone.body.bytes) && !undone.body.bytes.is_empty(), "{coding}");
        assert_eq!((true, None), (undone.truncated, undone.failure), "{coding}");
    }
}

#[test]
fn what_comes_out_is_capped_while_it_comes_out() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert_eq!(Ok(64 << 20), decoded("gzip", bomb.clone(), 64 << 20).map(|body| body.len()));
    assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("gzip", bomb.clone(), 1 << 20));
    assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("br, gzip", gzip(&brotli(&vec![0; 1 << 20])), (1 << 20) - 1));
}

#[test]
fn what_is_between_two_codings_is_capped_as_well() {
    // A gzip member of nothing, over and over: it shrinks to next to nothing, and comes to nothing.
    let nothing = gzip(b"").repeat(100_000);
    assert_eq!(Ok(Vec::new()), decoded("gzip, gzip", gzip(&nothing), nothing.len() as u64));
    for (outer, encoded) in [("gzip", gzip(&nothing)), ("br", brotli(&nothing))] {
        let coding = format!("gzip, {outer}");
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded(&coding, encoded, nothing.len() as u64 - 1), "{outer}");
    }
}

#[test]
fn a_body_that_is_cut_off_or_something_else_is_a_failure() {
    let plain = b"hello, hello, hello".repeat(100);
    let cut = |mut encoded: Vec<u8>| {
        encoded.truncate(encoded.len() / 2);
        encoded
    };
    for (coding, encoded) in [
        ("gzip", cut(gzip(&plain))),
        ("br", cut(brotli(&plain))),
        ("zstd", cut(zstd::encode_all(&*plain, 3).expect("memory"))),
        ("gzip", b"not gzip at all".to_vec()),
        ("zstd", b"not zstd at all".to_vec()),
        ("gzip, gzip, gzip, gzip, gzip, gzip", plain.clone()),
    ] {
        assert_eq!(Err(ErrorKind::Decode), decoded(coding, encoded, 1 << 20), "{coding}");
    }
}

/// Text that shrinks to a third or so, and is too much to be decoded at once.
fn large() -> Vec<u8> {
    (0_u32..100_000).flat_map(|number| number.wrapping_mul(2_654_435_761).to_string().into_bytes()).collect()
}

#[test]
fn what_is_more_than_a_worker_decodes_at_once_comes_out_the_same() {
    let plain = large();
    assert!(plain.len() > 900_000);
    for (coding, encoded) in [
        ("gzip", gzip(&plain)),
        ("deflate", deflate(&plain)),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(&plain))))),
        ("zstd, br, gzip", gzip(&brotli(&zstd::encode_all(&*plain, 3).expect("memory")))),
    ] {
        let max_bytes = plain.len() as u64;
        assert_eq!(Ok(&plain), decoded(coding, encoded.clone(), max_bytes).as_ref(), "{coding}");
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded(coding, encoded.clone(), max_bytes - 1), "{coding}");
        let cut = encoded[..encoded.len() - 20].to_vec();
        assert_eq!(Err(ErrorKind::Decode), decoded(coding, cut, max_bytes), "{coding}");
    }
}

#[test]
fn what_comes_to_nothing_is_work_all_the_same() {
    let encoded = (0..4).fold(blocks_of_nothing(5_000_000), |inner, _| deflate(&inner));
    assert!(encoded.len() < 2500, "{}", encoded.len());
    let codings = [Encoding::Zstd, Encoding::Deflate, Encoding::Deflate, Encoding::Deflate, Encoding::Deflate];
    assert!(matches!(stopped(&codings, &encoded, AT_ONCE_BYTES, 1 << 40), Some(Stop::Paused)));
    assert!(stopped(&codings, &encoded, u64::MAX, 16 << 20).is_none(), "it is a body of no bytes");
    assert_eq!(Ok(Vec::new()), decoded("zstd, deflate, deflate, deflate, deflate", encoded, 16 << 20));
}

#[test]
fn a_window_that_brotli_would_fill_at_once_is_too_much_for_a_worker() {
    let bomb = brotli(&vec![0; 16 << 20]);
    assert!(matches!(stopped(&[Encoding::Brotli], &bomb, AT_ONCE_BYTES, 1 << 40), Some(Stop::Paused)));
}

#[test]
fn windows_beyond_those_of_the_content_coding_are_refused_as_browsers_and_curl_do() {
    let plain = large();
    for (large_window, lgwin) in [(false, 24), (true, 24), (true, 30)] {
        let params = ::brotli::enc::BrotliEncoderParams { large_window, lgwin, quality: 1, ..Default::default() };
        let mut encoded = Vec::new();
        ::brotli::BrotliCompress(&mut &*plain, &mut encoded, &params).expect("memory");
        let expected = if large_window { Err(ErrorKind::Decode) } else { Ok(plain.clone()) };
        assert!(expected == decoded("br", encoded, 1 << 30), "{large_window} {lgwin}");
    }
}

#[test]
fn windows_are_set_aside_before_they_are_there() {
    let plain = vec![0; 8 << 20];
    let five_times = (0..5).fold(plain.clone(), |inner, _| zstd::encode_all(&*inner, 3).expect("memory"));
    for (codings, encoded, at_least) in [
        (vec![Encoding::Brotli], brotli(&plain), 4 << 20),
        (vec![Encoding::Zstd], zstd::encode_all(&*plain, 3).expect("memory"), 12 << 20),
        (vec![Encoding::Zstd; 5], five_times, 14 << 20),
        (vec![Encoding::Gzip], gzip(&plain), 8 << 20),
    ] {
        let stop = stopped(&codings, &encoded, u64::MAX, at_least);
        assert!(matches!(stop, Some(Stop::NoMemory { .. })), "{codings:?}: {stop:?}");
        assert!(stopped(&codings, &encoded, u64::MAX, 40 << 20).is_none(), "{codings:?}");
    }
}

/// A budget whose last byte is used by another body, as is its overdraft.
fn used_up(limit: u64) -> (MemoryBudget, Reservation, Reservation) {
    let budget = MemoryBudget::new(limit);
    let (mut within, mut beyond) = (budget.reservation(), budget.reservation());
    assert!(within.try_grow(limit) && beyond.try_grow(1));
    beyond.settle();
    (budget, within, beyond)
}

/// A byte that is free goes to who waits for more, and so is not to be had.
fn somebody_waits(budget: &MemoryBudget, within: &mut Reservation) -> bool {
    within.shrink_to(within.bytes() - 1);
    let mut asking = budget.reservation();
    let free = asking.try_grow(1);
    asking.transfer(within, 1);
    !free
}

#[test]
fn a_body_waits_for_memory_holding_no_more_than_came_and_not_on_its_own_time() {
    const LIMIT: u64 = 100 << 20;
    for plain in [vec![b'x'; 100_000], large()] {
        let (budget, mut within, beyond) = used_up(LIMIT);
        let bytes = gzip(&plain);
        let mut reservation = Reservation::default();
        within.transfer(&mut reservation, bytes.len() as u64);
        on_event_loop(async {
            let decoder = decoder();
            let by = Instant::now() + Duration::from_secs(60);
            let mut deadline = Deadline::new(by);
            let body = Body { bytes, reservation };
            let mut decoding = Box::pin(decoder.decode(named("gzip"), body, whole_up_to(LIMIT), &mut deadline));
            let waits = async {
                while !somebody_waits(&budget, &mut within) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                _ = &mut decoding => panic!("there is no room"),
                () = waits => {}
            }
            assert_eq!(LIMIT + 1, budget.used());
            drop((within, beyond));
            let body = decoding.await;
            let waited_for_memory = deadline.take_excused(OwnWait::Memory);
            let body = came_to(body).expect("it is decoded");
            assert!(body.bytes == plain);
            assert_eq!(body.bytes.capacity() as u64, body.reservation.bytes());
            assert!(waited_for_memory > Duration::ZERO);
            assert_eq!(by + waited_for_memory + deadline.take_excused(OwnWait::Decoder), deadline.at());
            drop(body);
        });
        assert_eq!(0, budget.used());
    }
}

#[test]
fn a_body_that_is_not_decoded_in_time_fails_and_is_given_back_as_it_came() {
    // Some 15 GiB would pass.
    let encoded = gzip(&gzip(&blocks_of_nothing(5_000_000)).repeat(1000));
    let budget = MemoryBudget::new(1 << 30);
    let mut reservation = budget.reservation();
    assert!(reservation.try_grow(encoded.len() as u64));
    let length = encoded.len();
    let body = Body { bytes: encoded, reservation };
    let (alive, ended) = async_channel::bounded(1);
    on_event_loop(async {
        let by = Instant::now() + Duration::from_millis(50);
        let threads = Arc::new(Pool::new("decode", 1, alive));
        let (undo, mut deadline) = (whole_up_to(u64::MAX), Deadline::new(by));
        let undone = Decoder::new(threads).decode(named("zstd, gzip, gzip"), body, undo, &mut deadline).await;
        assert_eq!(length, undone.body.bytes.len());
        assert_eq!(undone.body.bytes.capacity() as u64, undone.body.reservation.bytes());
        assert_eq!(Some(ErrorKind::Timeout), came_to(undone).err());
    });
    assert!(ended.recv_blocking().is_err(), "the threads have ended with their pool");
    assert_eq!(0, budget.used());
}

#[test]
fn a_body_that_waits_for_a_thread_does_so_beyond_its_deadline_and_has_all_its_time_afterwards() {
    // What is decoded here takes a few milliseconds; the busier the machine, the more time it has.
    let may_take = [1, 4, 16].map(|halves| Duration::from_millis(500) * halves);
    let in_time = may_take.iter().find(|time| decoded_after_its_deadline(**time) == Ok(300_000));
    assert!(in_time.is_some());
}

/// What a body comes to, here its length, that has this much time and does not get a thread before that is over.
fn decoded_after_its_deadline(time: Duration) -> Result<usize, ErrorKind> {
    on_event_loop(async {
        let threads = Arc::new(Pool::new("decode", 1, async_channel::bounded(1).0));
        let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let stuck = [Length::Long, Length::Short].map(|length| {
            let (threads, told, (let_go, stays)) = (threads.clone(), told.clone(), mpsc::channel::<()>());
            let work = move |_, _: &dyn Fn() -> bool| (told.send(()).is_ok(), stays.recv().is_err());
            tokio::spawn(async move { threads.run(length, Instant::now(), work).await });
            let_go
        });
        assert_eq!((Some(()), Some(())), (begun.recv().await, begun.recv().await), "there is a thread for each");
        let by = Instant::now() + time;
        let (mut deadline, mut same) = (Deadline::new(by), Deadline::new(by));
        let body = Body { bytes: stored(300_000), ..Body::default() };
        let decoder = Decoder::new(threads);
        let let_go = async {
            poll_fn(|cx| if same.poll_passed(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            drop(stuck);
        };
        let (came_to, ()) =
            tokio::join!(decoder.decode(named("gzip"), body, whole_up_to(1 << 20), &mut deadline), let_go);
        let length = self::came_to(came_to)?.bytes.len();
        let waited = deadline.take_excused(OwnWait::Decoder);
        assert!(waited > Duration::ZERO);
        assert_eq!(by + waited, deadline.at());
        Ok(length)
    })
}

#[test]
fn a_body_that_fits_the_budget_never_asks_for_more_than_that() {
    let bytes = gzip(&vec![0; 1 << 20]);
    for (limit, of_another, asks_for) in [
        // It stops where there is no more, somewhat beyond what was free, and what it then needs fits.
        (1 << 20, 400_000, Some(1 << 20)),
        (8 << 20, 7_900_000, None),
        // What it then needs does not.
        (300_000, 0, None),
    ] {
        let budget = MemoryBudget::new(limit);
        let (mut beyond, mut another, mut reservation) =
            (budget.reservation(), budget.reservation(), budget.reservation());
        // Nobody else may overdraw.
        assert!(beyond.try_grow(limit + 1));
        assert!(another.try_grow_within(of_another) && reservation.try_grow_within(bytes.len() as u64));
        let encoded =
            Encoded { encodings: vec![Encoding::Gzip], bytes: bytes.clone(), reservation, undo: whole_up_to(u64::MAX) };
        let by = Instant::now() + Duration::from_secs(60);
        let Err((_, Stop::NoMemory { needed: asked })) = encoded.decode(Length::Long, by, &|| true) else {
            panic!("there is no room for it in {limit}");
        };
        let free = limit - of_another;
        match asks_for {
            Some(bytes) => assert_eq!(bytes, asked),
            None if free < limit => assert!((2 * free..limit).contains(&asked), "{asked}"),
            None => assert!((limit + 1..2 * limit).contains(&asked), "{asked}"),
        }
    }
}

#[test]
fn what_is_behind_a_gzip_body_is_not_taken_for_its_length() {
    let length = |bytes: Vec<u8>| {
        let encoded = Encoded {
            encodings: vec![Encoding::Gzip],
            bytes,
            reservation: Reservation::default(),
            undo: whole_up_to(u64::MAX),
        };
        encoded.likely_length()
    };
    assert_eq!(None, length(gzip(b"hello")));
    assert_eq!(None, length([gzip(b"hello"), vec![0xff; 4]].concat()));
    assert_eq!(Some(Length::Short), length(gzip(&vec![0; 1 << 20])));
    assert_eq!(Some(Length::Long), length(gzip(&vec![0; 16 << 20])));
    assert_eq!(Some(Length::Short), length([stored(300_000), vec![0xff; 4]].concat()));
}
