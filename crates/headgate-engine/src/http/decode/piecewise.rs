//! Content encodings undone as a body comes: pieces go in, pieces come out, and nothing waits in between. By the worker itself,
//! in turns that are short: a hundred bytes can take a second to come to nothing.
//!
//! The state and the window of a decompressor draw on the memory budget, never beyond its limit: up to 16 MiB for brotli, 8 MiB
//! for zstd and 32 KiB for the others, and no more than two of them. Before it begins, a body waits for what every decompressor
//! needs ([`first_bytes`]). After that it can't wait as bodies do that are kept: what has come out can't be begun again, and one
//! thread may have many bodies open. So a window for which there is no memory is a failure.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Undo;
use super::decoding::Decoding;
use super::encoding::ContentEncodings;
use super::meter::{Bounds, Meter, Stop};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::reason::Reason;

/// What comes out in one turn at the most.
const PIECE_BYTES: usize = 64 * 1024;
/// What may pass the layers in one turn, all of them together.
const TURN_BYTES: u64 = 512 * 1024;
/// How long a turn may take: input can be made that takes long and lets few bytes pass.
const TURN_TIME: Duration = Duration::from_millis(5);
/// Longer than any body takes: what bounds it is who takes it.
const WITHOUT_END: Duration = Duration::from_hours(24 * 365);

/// What a turn came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Piece(Vec<u8>),
    /// Nothing came out, and there is more to do.
    Unfinished,
    /// All that came is undone.
    Hungry,
    /// The body has ended. What comes behind it is ignored.
    Ended,
}

/// A body whose encodings are undone as it comes.
pub struct Piecewise {
    incoming: Rc<RefCell<Incoming>>,
    decoding: Decoding<'static>,
    has_ended: bool,
}

/// What has come and is not undone yet.
#[derive(Default)]
struct Incoming {
    bytes: VecDeque<u8>,
    /// No more comes.
    is_whole: bool,
}

/// Returns what must be reserved before a body with these encodings is undone; 0: none of them is undone.
pub fn first_bytes(encodings: &ContentEncodings) -> u64 {
    encodings.to_undo_of_stream().unwrap_or_default().iter().map(|encoding| encoding.layer_bytes()).sum()
}

impl Piecewise {
    /// Begins with what `reservation` holds, which is [`first_bytes`]. `None`: they can't be undone, or there are none.
    ///
    /// # Errors
    /// `decode`: there are too many encodings.
    pub fn of(encodings: &ContentEncodings, reservation: Reservation) -> Result<Option<Self>, Failure> {
        let known = encodings.to_undo_of_stream()?;
        if known.is_empty() {
            return Ok(None);
        }
        let meter = Meter::resuming(turn(), Instant::now() + WITHOUT_END, reservation);
        let incoming = Rc::<RefCell<Incoming>>::default();
        let decoding = Decoding::new(known, Waiting(incoming.clone()), u64::MAX, meter);
        Ok(Some(Self { incoming, decoding, has_ended: false }))
    }

    /// Takes in what has come.
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

    /// Takes note that no more comes.
    pub fn finish(&mut self) {
        self.incoming.borrow_mut().is_whole = true;
    }

    /// Undoes a little.
    ///
    /// # Errors
    /// `decode`: the body is not in its encoding, or ends too early, or there is no memory for its window.
    pub fn turn(&mut self) -> Result<Turn, Failure> {
        if self.has_ended {
            return Ok(Turn::Ended);
        }
        self.decoding.meter().resume(turn());
        let mut piece = vec![0; PIECE_BYTES];
        match self.decoding.read(&mut piece) {
            Ok(0) => {
                self.has_ended = true;
                self.incoming.borrow_mut().bytes = VecDeque::new();
                Ok(Turn::Ended)
            }
            Ok(length) => {
                piece.truncate(length);
                piece.shrink_to_fit();
                Ok(Turn::Piece(piece))
            }
            Err(Stop::Paused) => {
                let incoming = self.incoming.borrow();
                let is_hungry = incoming.bytes.is_empty() && !incoming.is_whole && !self.decoding.meter().has_used_up();
                Ok(if is_hungry { Turn::Hungry } else { Turn::Unfinished })
            }
            Err(Stop::NoMemory { needed }) => Err(no_memory(needed)),
            Err(stop) => Err(Undo { max_bytes: u64::MAX, truncates: false, is_cut: false }.failure(stop)),
        }
    }
}

fn turn() -> Bounds {
    Bounds { bytes: TURN_BYTES, until: Instant::now() + TURN_TIME }
}

/// Returns the failure of a body for whose decompressor there is no memory of so many bytes.
pub fn no_memory(needed: u64) -> Failure {
    let reason = Reason::new("there is no memory to decode a body that is taken while it comes");
    let failure = Failure::new(ErrorKind::Decode, reason.with(format!("{needed} bytes")));
    failure.with_option(OptionName::MaxMemoryBytes).of_ours()
}

/// Reads what has come.
struct Waiting(Rc<RefCell<Incoming>>);

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.0.borrow_mut();
        if incoming.bytes.is_empty() && !incoming.is_whole {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        incoming.bytes.read(buffer)
    }
}

impl std::fmt::Debug for Piecewise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piecewise").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use proptest::prelude::*;

    use super::*;
    use crate::model::headers::Headers;

    fn piecewise(names: &str) -> Piecewise {
        let headers: Headers = [("content-encoding", names.as_bytes())].into_iter().collect();
        Piecewise::of(&ContentEncodings::of(&headers), Reservation::default())
            .expect("few codings")
            .expect("known ones")
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).expect("in memory");
        encoder.finish().expect("in memory")
    }

    /// The same text in each coding.
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

    /// All that comes out before it wants more, or fails.
    fn drain(piecewise: &mut Piecewise, into: &mut Vec<u8>) -> Result<Turn, Failure> {
        loop {
            match piecewise.turn()? {
                Turn::Piece(piece) => into.extend(piece),
                Turn::Unfinished => {}
                end => return Ok(end),
            }
        }
    }

    /// What becomes of a body that comes in pieces of these lengths, over and over.
    fn undone(names: &str, encoded: &[u8], lengths: &[usize]) -> Result<Vec<u8>, Failure> {
        let (mut piecewise, mut plain, mut rest) = (piecewise(names), Vec::new(), encoded);
        for length in lengths.iter().cycle() {
            let (piece, behind) = rest.split_at(rest.len().min(*length));
            piecewise.feed(piece.to_vec());
            drain(&mut piecewise, &mut plain)?;
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        piecewise.finish();
        assert_eq!(Turn::Ended, drain(&mut piecewise, &mut plain)?);
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
                prop_assert!(Ok(&plain) == undone(names, &encoded, &lengths).as_ref(), "{}", names);
            }
        }
    }

    #[test]
    fn a_body_may_come_byte_by_byte_and_one_that_is_cut_off_fails() {
        let plain = text(3000);
        for (names, encoded) in encoded(&plain) {
            assert!(Ok(&plain) == undone(names, &encoded, &[1]).as_ref(), "{names}");
            let cut = undone(names, &encoded[..encoded.len() - 1], &[1000]);
            assert_eq!(Some(ErrorKind::Decode), cut.err().map(|failure| failure.kind), "{names}");
        }
    }

    #[test]
    fn what_was_flushed_comes_out_before_there_is_more() {
        // So long that it comes out in many pieces, and so much alike that what is left of it is in the decoder.
        for length in [1, 1000, PIECE_BYTES, PIECE_BYTES + 1, 10 * PIECE_BYTES + 77] {
            let message = vec![b'a'; length];
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 18);
            let mut zstd = zstd::Encoder::new(Vec::new(), 3).expect("in memory");
            for writer in [&mut gzip as &mut dyn io::Write, &mut brotli, &mut zstd] {
                writer.write_all(&message).and_then(|()| writer.flush()).expect("in memory");
            }
            let flushed = [("gzip", gzip.get_ref()), ("br", brotli.get_ref()), ("zstd", zstd.get_ref())];
            for (names, flushed) in flushed {
                let (mut piecewise, mut plain) = (piecewise(names), Vec::new());
                piecewise.feed(flushed.clone());
                assert_eq!(Ok(Turn::Hungry), drain(&mut piecewise, &mut plain));
                assert!(message == plain, "{names}: {} of {length} bytes", plain.len());
            }
        }
    }

    #[test]
    fn no_more_windows_are_taken_than_two() {
        for (names, expected) in [("br, zstd", None), ("br, br, br", Some(ErrorKind::Decode))] {
            let headers: Headers = [("content-encoding", names.as_bytes())].into_iter().collect();
            let piecewise = Piecewise::of(&ContentEncodings::of(&headers), Reservation::default());
            assert_eq!(expected, piecewise.err().map(|failure| failure.kind), "{names}");
        }
    }

    /// CVE-2025-66471 of urllib3 and RUSTSEC-2024-0332 of h2 are of this class: memory that a few bytes can make us take.
    #[test]
    fn windows_of_many_streams_draw_on_the_budget_and_give_it_back() {
        const BUDGET_BYTES: u64 = 8 * 1024 * 1024;
        let budget = crate::model::memory::MemoryBudget::new(BUDGET_BYTES);
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
                if !reservation.try_grow_within(first_bytes(&encodings)) {
                    refused += 1;
                    continue;
                }
                let mut piecewise = Piecewise::of(&encodings, reservation).expect("few codings").expect("known ones");
                piecewise.feed(encoded.clone());
                match drain(&mut piecewise, &mut Vec::new()) {
                    Ok(_) => open.push(piecewise),
                    Err(failure) => {
                        refused += 1;
                        assert_eq!(
                            (ErrorKind::Decode, Some(OptionName::MaxMemoryBytes)),
                            (failure.kind, failure.option)
                        );
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
    fn it_is_another_ones_turn_though_nothing_comes_out() {
        let nothing = gzip(b"").repeat(100_000);
        let mut piecewise = piecewise("gzip, gzip");
        piecewise.feed(gzip(&nothing));
        piecewise.finish();
        let mut turns = 0;
        while piecewise.turn().expect("it is gzip") == Turn::Unfinished {
            turns += 1;
        }
        assert!(turns >= nothing.len() as u64 / TURN_BYTES, "{turns} turns");
        assert_eq!(Ok(Turn::Ended), piecewise.turn());
    }
}
