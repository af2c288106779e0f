//! Decodes streamed bodies: chunks go in, chunks come out, and nothing blocks in between. The worker decodes in short steps,
//! since a hundred bytes can take a second to decode to nothing.
//!
//! The state and the window of a decompressor are reserved in the memory budget, within its limit: up to 16 MiB for brotli,
//! 8 MiB for zstd and 32 KiB for the others, for at most two encodings. A body first waits for the initial memory of its
//! decompressors ([`initial_bytes`]). After that it cannot wait for memory: decoding cannot start over once chunks were
//! returned, and one thread may have many open bodies. So a body fails if there is no memory for its window.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::memory::Reservation;
use headgate_core::message::OptionName;
use headgate_core::reason::Reason;

use super::DecodeOptions;
use super::decoding::Decoding;
use super::encoding::ContentEncodings;
use super::meter::{Bounds, Meter, StopReason};

/// The bound of a decoded chunk.
const CHUNK_BYTES: usize = 64 * 1024;
/// The bound of bytes that pass all layers together in one step.
const STEP_BYTES: u64 = 512 * 1024;
/// The bound of the time of one step: some input takes long and lets few bytes pass.
const STEP_TIME: Duration = Duration::from_millis(5);
/// Longer than any body takes: the reader of the stream bounds its time.
const NO_DEADLINE: Duration = Duration::from_hours(24 * 365);

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamStep {
    Chunk(Vec<u8>),
    /// There is no output yet, and more to decode.
    Unfinished,
    /// All input so far is decoded.
    NeedsInput,
    /// The body has ended. Input after it is ignored.
    Ended,
}

/// Decodes a streamed body.
pub struct StreamDecoder {
    incoming: Rc<RefCell<Incoming>>,
    decoding: Decoding<'static>,
    has_ended: bool,
}

/// Input that is not decoded yet.
#[derive(Default)]
struct Incoming {
    bytes: VecDeque<u8>,
    /// No more input follows.
    is_complete: bool,
}

/// Returns the bytes to reserve before a body with these encodings is decoded; 0 if it is not decoded.
pub fn initial_bytes(encodings: &ContentEncodings) -> u64 {
    encodings.supported_in_stream().unwrap_or_default().iter().map(|encoding| encoding.layer_bytes()).sum()
}

impl StreamDecoder {
    /// Creates a decoder; `reservation` has [`initial_bytes`]. Returns `None` if there are no encodings, or unknown ones.
    ///
    /// # Errors
    /// `decode`: there are too many encodings.
    pub fn new(encodings: &ContentEncodings, reservation: Reservation) -> Result<Option<Self>, Failure> {
        let known = encodings.supported_in_stream()?;
        if known.is_empty() {
            return Ok(None);
        }
        let meter = Meter::resuming(step_bounds(), clock::now() + NO_DEADLINE, reservation);
        let incoming = Rc::<RefCell<Incoming>>::default();
        let decoding = Decoding::new(known, IncomingReader(incoming.clone()), u64::MAX, meter);
        Ok(Some(Self { incoming, decoding, has_ended: false }))
    }

    /// Adds input.
    pub fn feed(&mut self, bytes: Vec<u8>) {
        if !self.has_ended {
            let mut incoming = self.incoming.borrow_mut();
            if incoming.bytes.is_empty() {
                incoming.bytes = bytes.into();
            } else {
                incoming.bytes.extend(bytes);
            }
        }
    }

    /// Marks the end of the input.
    pub fn finish(&mut self) {
        self.incoming.borrow_mut().is_complete = true;
    }

    /// Decodes for one step.
    ///
    /// # Errors
    /// `decode`: the body is not in its encoding, ends too early, or has a window for which there is no memory.
    pub fn step(&mut self) -> Result<StreamStep, Failure> {
        if self.has_ended {
            return Ok(StreamStep::Ended);
        }
        self.decoding.meter().resume(step_bounds());
        let mut chunk = vec![0; CHUNK_BYTES];
        match self.decoding.read(&mut chunk) {
            Ok(0) => {
                self.has_ended = true;
                self.incoming.borrow_mut().bytes = VecDeque::new();
                Ok(StreamStep::Ended)
            }
            Ok(length) => {
                chunk.truncate(length);
                chunk.shrink_to_fit();
                Ok(StreamStep::Chunk(chunk))
            }
            Err(StopReason::Paused) => {
                let incoming = self.incoming.borrow();
                let needs_input =
                    incoming.bytes.is_empty() && !incoming.is_complete && !self.decoding.meter().is_paused();
                Ok(if needs_input { StreamStep::NeedsInput } else { StreamStep::Unfinished })
            }
            Err(StopReason::NoMemory { needed }) => Err(no_memory(needed)),
            Err(stop) => Err(DecodeOptions { max_bytes: u64::MAX, truncates: false, is_cut: false }.failure(stop)),
        }
    }
}

fn step_bounds() -> Bounds {
    Bounds { bytes: STEP_BYTES, until: clock::now() + STEP_TIME }
}

/// Returns the failure of a body whose decompressor needs so many bytes of memory that are not available.
pub fn no_memory(needed: u64) -> Failure {
    let reason = Reason::new("there is no memory to decode a body that is taken while it comes");
    let failure = Failure::new(ErrorKind::Decode, reason.with(format!("{needed} bytes")));
    failure.with_option(OptionName::MaxMemory).of_ours()
}

/// Reads the input so far.
struct IncomingReader(Rc<RefCell<Incoming>>);

impl Read for IncomingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.0.borrow_mut();
        if incoming.bytes.is_empty() && !incoming.is_complete {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        incoming.bytes.read(buffer)
    }
}

impl std::fmt::Debug for StreamDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamDecoder").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use headgate_core::headers::Headers;
    use proptest::prelude::*;

    use super::*;

    fn stream_decoder(names: &str) -> StreamDecoder {
        let headers: Headers = [("content-encoding", names.as_bytes())].into_iter().collect();
        StreamDecoder::new(&ContentEncodings::of(&headers), Reservation::default())
            .expect("few encodings")
            .expect("known ones")
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).expect("in memory");
        encoder.finish().expect("in memory")
    }

    /// Returns the text in each encoding.
    fn encoded(plain: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 18);
        zlib.write_all(plain).expect("in memory");
        bare.write_all(plain).expect("in memory");
        brotli.write_all(plain).expect("in memory");
        let half = plain.len() / 2;
        let members = [gzip(&plain[..half]), gzip(&plain[half..])].concat();
        let zstd = zstd::encode_all(plain, 3).expect("in memory");
        vec![
            ("gzip", gzip(plain)),
            ("gzip", members),
            ("deflate", zlib.finish().expect("in memory")),
            ("deflate", bare.finish().expect("in memory")),
            ("br", brotli.into_inner()),
            ("zstd", zstd.clone()),
            ("zstd, gzip", gzip(&zstd)),
        ]
    }

    /// Decodes everything until the decoder needs input, ends or fails.
    fn drain(stream_decoder: &mut StreamDecoder, into: &mut Vec<u8>) -> Result<StreamStep, Failure> {
        loop {
            match stream_decoder.step()? {
                StreamStep::Chunk(chunk) => into.extend(chunk),
                StreamStep::Unfinished => {}
                end => return Ok(end),
            }
        }
    }

    /// Decodes a body that arrives in pieces of these lengths, repeated.
    fn decode(names: &str, encoded: &[u8], lengths: &[usize]) -> Result<Vec<u8>, Failure> {
        let (mut stream_decoder, mut plain, mut rest) = (stream_decoder(names), Vec::new(), encoded);
        for length in lengths.iter().cycle() {
            let (chunk, remaining) = rest.split_at(rest.len().min(*length));
            stream_decoder.feed(chunk.to_vec());
            drain(&mut stream_decoder, &mut plain)?;
            rest = remaining;
            if rest.is_empty() {
                break;
            }
        }
        stream_decoder.finish();
        assert_eq!(StreamStep::Ended, drain(&mut stream_decoder, &mut plain)?);
        Ok(plain)
    }

    fn text(length: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..length).map(|_| random.alphabetic() as u8).collect()
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_cut(lengths in prop::collection::vec(1_usize..5000, 1..8), length in 0_usize..40_000) {
            let plain = text(length);
            for (names, encoded) in encoded(&plain) {
                prop_assert!(Ok(&plain) == decode(names, &encoded, &lengths).as_ref(), "{}", names);
            }
        }
    }

    #[test]
    fn a_body_may_arrive_byte_by_byte_and_a_truncated_one_fails() {
        let plain = text(3000);
        for (names, encoded) in encoded(&plain) {
            assert!(Ok(&plain) == decode(names, &encoded, &[1]).as_ref(), "{names}");
            let cut = decode(names, &encoded[..encoded.len() - 1], &[1000]);
            assert_eq!(Some(ErrorKind::Decode), cut.err().map(|failure| failure.kind), "{names}");
        }
    }

    #[test]
    fn flushed_input_is_decoded_before_more_input_arrives() {
        // The longest text takes many chunks. It compresses so well that the decoder holds most of it.
        for length in [1, 1000, CHUNK_BYTES, CHUNK_BYTES + 1, 10 * CHUNK_BYTES + 77] {
            let message = vec![b'a'; length];
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 18);
            let mut zstd = zstd::Encoder::new(Vec::new(), 3).expect("in memory");
            for writer in [&mut gzip as &mut dyn io::Write, &mut brotli, &mut zstd] {
                writer.write_all(&message).and_then(|()| writer.flush()).expect("in memory");
            }
            let flushed = [("gzip", gzip.get_ref()), ("br", brotli.get_ref()), ("zstd", zstd.get_ref())];
            for (names, flushed) in flushed {
                let (mut stream_decoder, mut plain) = (stream_decoder(names), Vec::new());
                stream_decoder.feed(flushed.clone());
                assert_eq!(Ok(StreamStep::NeedsInput), drain(&mut stream_decoder, &mut plain));
                assert!(message == plain, "{names}: {} of {length} bytes", plain.len());
            }
        }
    }

    #[test]
    fn more_than_two_encodings_are_refused() {
        for (names, expected) in [("br, zstd", None), ("br, br, br", Some(ErrorKind::Decode))] {
            let headers: Headers = [("content-encoding", names.as_bytes())].into_iter().collect();
            let stream_decoder = StreamDecoder::new(&ContentEncodings::of(&headers), Reservation::default());
            assert_eq!(expected, stream_decoder.err().map(|failure| failure.kind), "{names}");
        }
    }

    /// CVE-2025-66471 of urllib3 and RUSTSEC-2024-0332 of h2 are of this class: a few bytes make the client allocate much memory.
    #[test]
    fn windows_of_many_streams_are_reserved_in_the_budget_and_released() {
        const BUDGET_BYTES: u64 = 8 * 1024 * 1024;
        let budget = headgate_core::memory::MemoryBudget::new(BUDGET_BYTES);
        let plain = text(3 * 1024 * 1024);
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 22);
        brotli.write_all(&plain).and_then(|()| brotli.flush()).expect("in memory");
        let zstd = zstd::encode_all(&*plain, 1).expect("in memory");
        for (names, encoded) in [("br", brotli.get_ref()), ("zstd", &zstd)] {
            let headers: Headers = [("content-encoding", names.as_bytes())].into_iter().collect();
            let encodings = ContentEncodings::of(&headers);
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..8 {
                let mut reservation = budget.reservation();
                if !reservation.try_grow_within(initial_bytes(&encodings)) {
                    refused += 1;
                    continue;
                }
                let mut stream_decoder =
                    StreamDecoder::new(&encodings, reservation).expect("few encodings").expect("known ones");
                stream_decoder.feed(encoded.clone());
                match drain(&mut stream_decoder, &mut Vec::new()) {
                    Ok(_) => open.push(stream_decoder),
                    Err(failure) => {
                        refused += 1;
                        assert_eq!((ErrorKind::Decode, Some(OptionName::MaxMemory)), (failure.kind, failure.option));
                        assert!(failure.is_ours, "{failure}");
                    }
                }
                assert!(budget.used() <= BUDGET_BYTES);
            }
            assert!(!open.is_empty() && refused > 0, "{names}: {} open, {refused} refused", open.len());
            drop(open);
            assert_eq!(0, budget.used(), "{names}");
        }
    }

    #[test]
    fn steps_are_short_though_there_is_no_output() {
        let nothing = gzip(b"").repeat(100_000);
        let mut stream_decoder = stream_decoder("gzip, gzip");
        stream_decoder.feed(gzip(&nothing));
        stream_decoder.finish();
        let mut steps = 0;
        while stream_decoder.step().expect("it is gzip") == StreamStep::Unfinished {
            steps += 1;
        }
        assert!(steps >= nothing.len() as u64 / STEP_BYTES, "{steps} steps");
        assert_eq!(Ok(StreamStep::Ended), stream_decoder.step());
    }
}
