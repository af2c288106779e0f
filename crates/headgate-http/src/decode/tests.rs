use std::future::{Future, poll_fn};
use std::io::Write;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use headgate_core::headers::Headers;
use headgate_core::memory::MemoryBudget;

use super::*;

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
    Decoder::new(Arc::new(ThreadPool::new("decode", 1, async_channel::bounded(1).0)))
}

fn on_event_loop<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop").block_on(future)
}

fn named(names: &str) -> ContentEncodings {
    ContentEncodings::of(&Headers::from_iter([("Content-Encoding", names.as_bytes())]))
}

#[expect(clippy::needless_pass_by_value, reason = "callers create the bytes")]
fn decoded(names: &str, bytes: Vec<u8>, max_bytes: u64) -> Result<Vec<u8>, ErrorKind> {
    decoded_by(names, &bytes, max_bytes, Instant::now() + Duration::from_secs(60))
}

fn decoded_by(names: &str, bytes: &[u8], max_bytes: u64, by: Instant) -> Result<Vec<u8>, ErrorKind> {
    let result = result_of(names, bytes.to_vec(), up_to(max_bytes), by);
    assert!(!result.truncated);
    let Some(failure) = result.failure else { return Ok(result.body.bytes) };
    assert_eq!((Some(&*names.to_ascii_lowercase()), true), (result.remaining.as_deref(), bytes == result.body.bytes));
    Err(failure.kind)
}

fn up_to(max_bytes: u64) -> DecodeOptions {
    DecodeOptions { max_bytes, truncates: false, is_cut: false }
}

fn result_of(names: &str, bytes: Vec<u8>, options: DecodeOptions, by: Instant) -> DecodeResult {
    let body = Body { bytes, ..Body::default() };
    on_event_loop(async { decoder().decode(named(names), body, options, &mut Deadline::new(by)).await })
}

/// Returns the decoded body, or the kind of the failure.
fn body_of(result: DecodeResult) -> Result<Body, ErrorKind> {
    result.failure.map_or(Ok(result.body), |failure| Err(failure.kind))
}

/// Returns the reason why decoding stops in one thread with these bounds.
fn stopped(encodings: &[Encoding], encoded: &[u8], bounds: u64, memory: u64) -> Option<StopReason> {
    let budget = MemoryBudget::new(memory);
    let mut other = budget.reservation();
    assert!(other.try_grow(memory + 1), "no other body may overdraw");
    other.shrink_to(1);
    let until = Instant::now() + Duration::from_secs(60);
    let meter = Meter::new(Bounds { bytes: bounds, until }, until, &|| true, budget.reservation(), 0);
    Decoding::new(encodings, encoded, 1 << 30, meter).read_to_end(&mut Vec::new()).err()
}

/// Returns a zstd frame with `count` empty blocks (RFC 8878 section 3.1.1).
fn empty_blocks(count: usize) -> Vec<u8> {
    let frame_header = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    let last = [1, 0, 0];
    [&frame_header[..], &[0, 0, 0].repeat(count), &last].concat()
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
fn members_that_meet_at_a_buffer_boundary_are_all_decoded() {
    for length in 8150..8200 {
        let encoded = [stored(length), gzip(b"second")].concat();
        let plain = [vec![b'x'; length], b"second".to_vec()].concat();
        assert_eq!(Ok(plain), decoded("gzip", encoded, 1 << 20), "{length}");
    }
}

#[test]
fn decoding_ends_at_its_deadline() {
    let by = Instant::now();
    assert_eq!(Err(ErrorKind::Timeout), decoded_by("gzip", &gzip(b"hello"), 1 << 20, by));
}

#[test]
fn each_encoding_is_decoded() {
    let plain = b"hello, hello, hello".repeat(10_000);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(&plain).expect("memory");
    for (names, encoded) in [
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
        assert_eq!(Ok(plain.clone()), decoded(names, encoded, plain.len() as u64), "{names}");
    }
}

#[test]
fn a_body_with_an_unknown_encoding_is_not_decoded() {
    for names in ["unheard-of", "gzip, unheard-of"] {
        let result = result_of(names, b"as it came".to_vec(), up_to(100), Instant::now() + Duration::from_mins(1));
        assert_eq!(
            (&b"as it came"[..], Some(names), None),
            (&*result.body.bytes, result.remaining.as_deref(), result.failure)
        );
    }
}

#[test]
fn a_truncated_body_is_its_first_bytes_whichever_bound_cut_it() {
    let plain = large();
    let by = Instant::now() + Duration::from_mins(1);
    for (names, encoded) in [
        ("gzip", gzip(&plain)),
        ("deflate", deflate(&plain)),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("br, gzip", gzip(&brotli(&plain))),
    ] {
        for max_bytes in [0, 1, 1000, encoded.len(), plain.len() - 1] {
            let is_cut = encoded.len() > max_bytes;
            let options = DecodeOptions { max_bytes: max_bytes as u64, truncates: true, is_cut };
            let result = result_of(names, encoded[..encoded.len().min(max_bytes)].to_vec(), options, by);
            let length = result.body.bytes.len();
            // The encoded body and the output of each layer are also bounded, so the body may be shorter.
            assert!(length == max_bytes || length < max_bytes && (is_cut || names.contains(',')), "{names}: {length}");
            assert!(plain.starts_with(&result.body.bytes), "{names}");
            assert_eq!((true, None, None), (result.truncated, result.failure, result.remaining), "{names}");
        }
        let (cut, options) = (encoded[..encoded.len() / 2].to_vec(), DecodeOptions { is_cut: true, ..up_to(1 << 30) });
        let result = result_of(names, cut, options, by);
        assert!(plain.starts_with(&result.body.bytes) && !result.body.bytes.is_empty(), "{names}");
        assert_eq!((true, None), (result.truncated, result.failure), "{names}");
    }
}

#[test]
fn the_decoded_body_is_bounded_while_it_is_decoded() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert_eq!(Ok(64 << 20), decoded("gzip", bomb.clone(), 64 << 20).map(|body| body.len()));
    assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("gzip", bomb.clone(), 1 << 20));
    assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("br, gzip", gzip(&brotli(&vec![0; 1 << 20])), (1 << 20) - 1));
}

#[test]
fn the_output_of_an_inner_layer_is_bounded_as_well() {
    // Many empty gzip members: they compress to very little, and decode to nothing.
    let nothing = gzip(b"").repeat(100_000);
    assert_eq!(Ok(Vec::new()), decoded("gzip, gzip", gzip(&nothing), nothing.len() as u64));
    for (outer, encoded) in [("gzip", gzip(&nothing)), ("br", brotli(&nothing))] {
        let names = format!("gzip, {outer}");
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded(&names, encoded, nothing.len() as u64 - 1), "{outer}");
    }
}

#[test]
fn a_truncated_or_corrupt_body_fails() {
    let plain = b"hello, hello, hello".repeat(100);
    let cut = |mut encoded: Vec<u8>| {
        encoded.truncate(encoded.len() / 2);
        encoded
    };
    for (names, encoded) in [
        ("gzip", cut(gzip(&plain))),
        ("br", cut(brotli(&plain))),
        ("zstd", cut(zstd::encode_all(&*plain, 3).expect("memory"))),
        ("gzip", b"not gzip at all".to_vec()),
        ("zstd", b"not zstd at all".to_vec()),
        ("gzip, gzip, gzip, gzip, gzip, gzip", plain.clone()),
    ] {
        assert_eq!(Err(ErrorKind::Decode), decoded(names, encoded, 1 << 20), "{names}");
    }
}

/// Returns text that compresses to about a third, and is too much for a worker to decode.
fn large() -> Vec<u8> {
    (0_u32..100_000).flat_map(|number| number.wrapping_mul(2_654_435_761).to_string().into_bytes()).collect()
}

#[test]
fn a_body_that_the_pool_decodes_is_the_same() {
    let plain = large();
    assert!(plain.len() > 900_000);
    for (names, encoded) in [
        ("gzip", gzip(&plain)),
        ("deflate", deflate(&plain)),
        ("br", brotli(&plain)),
        ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
        ("gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(&plain))))),
        ("zstd, br, gzip", gzip(&brotli(&zstd::encode_all(&*plain, 3).expect("memory")))),
    ] {
        let max_bytes = plain.len() as u64;
        assert_eq!(Ok(&plain), decoded(names, encoded.clone(), max_bytes).as_ref(), "{names}");
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded(names, encoded.clone(), max_bytes - 1), "{names}");
        let cut = encoded[..encoded.len() - 20].to_vec();
        assert_eq!(Err(ErrorKind::Decode), decoded(names, cut, max_bytes), "{names}");
    }
}

#[test]
fn input_that_decodes_to_nothing_counts_as_work() {
    let encoded = (0..4).fold(empty_blocks(5_000_000), |inner, _| deflate(&inner));
    assert!(encoded.len() < 2500, "{}", encoded.len());
    let encodings = [Encoding::Zstd, Encoding::Deflate, Encoding::Deflate, Encoding::Deflate, Encoding::Deflate];
    assert!(matches!(stopped(&encodings, &encoded, INLINE_BYTES, 1 << 40), Some(StopReason::Paused)));
    assert!(stopped(&encodings, &encoded, u64::MAX, 16 << 20).is_none(), "it is a body of no bytes");
    assert_eq!(Ok(Vec::new()), decoded("zstd, deflate, deflate, deflate, deflate", encoded, 16 << 20));
}

#[test]
fn a_large_brotli_window_is_too_much_for_a_worker() {
    let bomb = brotli(&vec![0; 16 << 20]);
    assert!(matches!(stopped(&[Encoding::Brotli], &bomb, INLINE_BYTES, 1 << 40), Some(StopReason::Paused)));
}

#[test]
fn large_brotli_windows_are_refused_as_by_browsers_and_curl() {
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
fn windows_are_reserved_before_they_are_allocated() {
    let plain = vec![0; 8 << 20];
    let five_times = (0..5).fold(plain.clone(), |inner, _| zstd::encode_all(&*inner, 3).expect("memory"));
    for (encodings, encoded, at_least) in [
        (vec![Encoding::Brotli], brotli(&plain), 4 << 20),
        (vec![Encoding::Zstd], zstd::encode_all(&*plain, 3).expect("memory"), 12 << 20),
        (vec![Encoding::Zstd; 5], five_times, 14 << 20),
        (vec![Encoding::Gzip], gzip(&plain), 8 << 20),
    ] {
        let stop = stopped(&encodings, &encoded, u64::MAX, at_least);
        assert!(matches!(stop, Some(StopReason::NoMemory { .. })), "{encodings:?}: {stop:?}");
        assert!(stopped(&encodings, &encoded, u64::MAX, 40 << 20).is_none(), "{encodings:?}");
    }
}

/// Returns a budget without a free byte, whose overdraft is used as well.
fn exhausted(limit: u64) -> (MemoryBudget, Reservation, Reservation) {
    let budget = MemoryBudget::new(limit);
    let (mut within, mut beyond) = (budget.reservation(), budget.reservation());
    assert!(within.try_grow(limit) && beyond.try_grow(1));
    beyond.settle();
    (budget, within, beyond)
}

/// Returns whether a reservation waits for memory. If so, it gets the byte that is released here.
fn has_waiter(budget: &MemoryBudget, within: &mut Reservation) -> bool {
    within.shrink_to(within.bytes() - 1);
    let mut probe = budget.reservation();
    let is_free = probe.try_grow(1);
    probe.transfer(within, 1);
    !is_free
}

#[test]
fn a_body_that_waits_for_memory_holds_only_its_encoded_bytes_and_its_deadline_is_extended() {
    const LIMIT: u64 = 100 << 20;
    for plain in [vec![b'x'; 100_000], large()] {
        let (budget, mut within, beyond) = exhausted(LIMIT);
        let bytes = gzip(&plain);
        let mut reservation = Reservation::default();
        within.transfer(&mut reservation, bytes.len() as u64);
        on_event_loop(async {
            let decoder = decoder();
            let by = Instant::now() + Duration::from_secs(60);
            let mut deadline = Deadline::new(by);
            let body = Body { bytes, reservation };
            let mut decoding = Box::pin(decoder.decode(named("gzip"), body, up_to(LIMIT), &mut deadline));
            let waits = async {
                while !has_waiter(&budget, &mut within) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                _ = &mut decoding => panic!("there is no memory"),
                () = waits => {}
            }
            assert_eq!(LIMIT + 1, budget.used());
            drop((within, beyond));
            let body = decoding.await;
            let waited_for_memory = deadline.take_excused(OwnWait::Memory);
            let body = body_of(body).expect("it is decoded");
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
fn a_body_that_is_not_decoded_in_time_fails_and_is_returned_encoded() {
    // About 15 GiB would pass through the layers.
    let encoded = gzip(&gzip(&empty_blocks(5_000_000)).repeat(1000));
    let budget = MemoryBudget::new(1 << 30);
    let mut reservation = budget.reservation();
    assert!(reservation.try_grow(encoded.len() as u64));
    let length = encoded.len();
    let body = Body { bytes: encoded, reservation };
    let (alive, ended) = async_channel::bounded(1);
    on_event_loop(async {
        let by = Instant::now() + Duration::from_millis(50);
        let threads = Arc::new(ThreadPool::new("decode", 1, alive));
        let (options, mut deadline) = (up_to(u64::MAX), Deadline::new(by));
        let result = Decoder::new(threads).decode(named("zstd, gzip, gzip"), body, options, &mut deadline).await;
        assert_eq!(length, result.body.bytes.len());
        assert_eq!(result.body.bytes.capacity() as u64, result.body.reservation.bytes());
        assert_eq!(Some(ErrorKind::Timeout), body_of(result).err());
    });
    assert!(ended.recv_blocking().is_err(), "the threads have ended with their pool");
    assert_eq!(0, budget.used());
}

#[test]
fn the_wait_for_a_thread_extends_the_deadline() {
    // Decoding takes a few milliseconds, and longer on a busy machine.
    let timeouts = [1, 4, 16].map(|halves| Duration::from_millis(500) * halves);
    assert!(timeouts.into_iter().any(|timeout| decoded_after_its_deadline(timeout) == Ok(300_000)));
}

/// Returns the length of a decoded body that gets a thread only after its deadline, which is `time` from now.
fn decoded_after_its_deadline(time: Duration) -> Result<usize, ErrorKind> {
    on_event_loop(async {
        let threads = Arc::new(ThreadPool::new("decode", 1, async_channel::bounded(1).0));
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        let blocked = [WorkLength::Long, WorkLength::Short].map(|length| {
            let (threads, starts, (release, released)) = (threads.clone(), starts.clone(), mpsc::channel::<()>());
            let work = move |_, _: &dyn Fn() -> bool| (starts.send(()).is_ok(), released.recv().is_err());
            tokio::spawn(async move { threads.run(length, Instant::now(), work).await });
            release
        });
        assert_eq!((Some(()), Some(())), (started.recv().await, started.recv().await), "there is a thread for each");
        let by = Instant::now() + time;
        let (mut deadline, mut same) = (Deadline::new(by), Deadline::new(by));
        let body = Body { bytes: stored(300_000), ..Body::default() };
        let decoder = Decoder::new(threads);
        let release = async {
            poll_fn(|cx| if same.poll_passed(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            drop(blocked);
        };
        let (result, ()) = tokio::join!(decoder.decode(named("gzip"), body, up_to(1 << 20), &mut deadline), release);
        let length = body_of(result)?.bytes.len();
        let waited = deadline.take_excused(OwnWait::Decoder);
        assert!(waited > Duration::ZERO);
        assert_eq!(by + waited, deadline.at());
        Ok(length)
    })
}

#[test]
fn a_body_that_fits_the_budget_never_needs_more_than_the_budget() {
    let bytes = gzip(&vec![0; 1 << 20]);
    for (limit, of_another, expected) in [
        // Decoding stops slightly beyond the free memory, and the further memory it needs fits the budget.
        (1 << 20, 400_000, Some(1 << 20)),
        (8 << 20, 7_900_000, None),
        // The further memory it needs does not fit.
        (300_000, 0, None),
    ] {
        let budget = MemoryBudget::new(limit);
        let (mut beyond, mut another, mut reservation) =
            (budget.reservation(), budget.reservation(), budget.reservation());
        // No other body may overdraw.
        assert!(beyond.try_grow(limit + 1));
        assert!(another.try_grow_within(of_another) && reservation.try_grow_within(bytes.len() as u64));
        let encoded = EncodedBody {
            encodings: vec![Encoding::Gzip],
            bytes: bytes.clone(),
            reservation,
            options: up_to(u64::MAX),
        };
        let by = Instant::now() + Duration::from_secs(60);
        let Err((_, StopReason::NoMemory { needed })) = encoded.decode(WorkLength::Long, by, &|| true) else {
            panic!("it does not fit into {limit}");
        };
        let free = limit - of_another;
        match expected {
            Some(bytes) => assert_eq!(bytes, needed),
            None if free < limit => assert!((2 * free..limit).contains(&needed), "{needed}"),
            None => assert!((limit + 1..2 * limit).contains(&needed), "{needed}"),
        }
    }
}

#[test]
fn bytes_after_a_gzip_body_are_not_read_as_its_length() {
    let length = |bytes: Vec<u8>| {
        let encoded = EncodedBody {
            encodings: vec![Encoding::Gzip],
            bytes,
            reservation: Reservation::default(),
            options: up_to(u64::MAX),
        };
        encoded.likely_length()
    };
    assert_eq!(None, length(gzip(b"hello")));
    assert_eq!(None, length([gzip(b"hello"), vec![0xff; 4]].concat()));
    assert_eq!(Some(WorkLength::Short), length(gzip(&vec![0; 1 << 20])));
    assert_eq!(Some(WorkLength::Long), length(gzip(&vec![0; 16 << 20])));
    assert_eq!(Some(WorkLength::Short), length([stored(300_000), vec![0xff; 4]].concat()));
}
