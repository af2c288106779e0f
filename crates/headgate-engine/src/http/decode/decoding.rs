//! Content encodings undone one over the other, in one thread, as far as the meter lets them.

use std::io::{self, BufReader, Read};
use std::rc::Rc;

use super::brotli::Brotli;
use super::decompress::Decompressed;
use super::encoding::Encoding;
use super::inflate::{Deflate, Gzip};
use super::meter::{Meter, Stop};
use crate::model::memory::Reservation;

/// A zstd window of more than 8 MiB is refused (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// What is decoded between two looks at the cap.
const STEP_BYTES: u64 = 64 * 1024;
/// What a decompressor takes before anything has passed it: its state, its tables and the buffer below it.
const LAYER_BYTES: u64 = 64 * 1024;
/// The same of zstd, which also takes its input a block at a time.
const ZSTD_LAYER_BYTES: u64 = 384 * 1024;

/// A body that is being decoded. This one reader serves bodies in memory, bodies in files and bodies that are still coming.
pub(super) struct Decoding<'a> {
    reader: Passing<'a>,
    meter: Rc<Meter<'a>>,
}

impl<'a> Decoding<'a> {
    /// Begins to undo `encodings` of what `encoded` gives; no layer may give more than `max_bytes`. Where `encoded` has nothing
    /// yet, it fails with `WouldBlock`.
    pub(super) fn new(encodings: &[Encoding], encoded: impl Read + 'a, max_bytes: u64, meter: Meter<'a>) -> Self {
        let meter = Rc::new(meter);
        let passing = |inner, window, is_source| {
            let meter = meter.clone();
            Passing { inner, left: max_bytes, window, is_source, meter }
        };
        let mut reader = passing(Box::new(encoded), 0, true);
        for encoding in encodings.iter().rev() {
            reader = passing(undo(*encoding, reader, &meter), encoding.window_bytes(), false);
        }
        Self { reader, meter }
    }

    /// Reads decoded bytes: how many, 0 at the end.
    ///
    /// # Errors
    /// [`Stop::Paused`]: more input has to come, or more may be done later. After any other reason, nothing more comes out.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Stop> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read.map_err(|error| self.meter.reason(error)),
            }
        }
    }

    /// Appends all decoded bytes to `output`.
    ///
    /// # Errors
    /// As [`Decoding::read`].
    pub(super) fn read_to_end(&mut self, output: &mut Vec<u8>) -> Result<(), Stop> {
        self.append_all(output).map_err(|error| self.meter.reason(error))
    }

    fn append_all(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        loop {
            if output.len() == output.capacity() {
                // Exactly what was reserved; large blocks are moved by the system, without a copy.
                let more = (output.len() as u64 / 4).max(STEP_BYTES);
                self.meter.draw(more)?;
                output.reserve_exact(more as usize);
            }
            let step = STEP_BYTES.min((output.capacity() - output.len()) as u64);
            let read = self.reader.by_ref().take(step).read_to_end(output)?;
            if (read as u64) < step {
                return Ok(());
            }
        }
    }

    pub(super) fn meter(&self) -> &Meter<'a> {
        &self.meter
    }

    /// Ends decoding, and returns the reservation of the meter.
    pub(super) fn into_reservation(self) -> Reservation {
        let Self { reader, meter } = self;
        drop(reader);
        Rc::into_inner(meter).map(Meter::into_reservation).unwrap_or_default()
    }
}

impl Encoding {
    /// Returns what it looks back to at the most: as much of that as has passed is in its memory. Brotli draws it by itself.
    fn window_bytes(self) -> u64 {
        match self {
            Self::Zstd => 1 << ZSTD_WINDOW_LOG_MAX,
            Self::Gzip | Self::Deflate | Self::Brotli => 0,
        }
    }

    /// Returns what its decompressor takes before anything has passed it.
    pub(super) const fn layer_bytes(self) -> u64 {
        match self {
            Self::Zstd => ZSTD_LAYER_BYTES,
            Self::Gzip | Self::Deflate | Self::Brotli => LAYER_BYTES,
        }
    }
}

/// What one encoding hands to the next has the cap of the body, too: gibibytes of compressed nothing can be in a body
/// compressed twice that comes to no byte at all.
struct Passing<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    window: u64,
    /// `inner` is the encoded body.
    is_source: bool,
    meter: Rc<Meter<'a>>,
}

impl Read for Passing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.has_used_up() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let within = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // Up to the cap, everything passes; whether there is more is found out by a byte that does not.
        let is_over = within == 0 && !buffer.is_empty();
        let read = match self.inner.read(if is_over { &mut buffer[..1] } else { &mut buffer[..within] }) {
            Err(error) if self.is_source && !is_temporary(&error) => {
                return Err(self.meter.stop(Stop::Unreadable(error)));
            }
            read => read?,
        };
        let passed = read as u64;
        self.meter.pass(passed)?;
        if is_over && read > 0 {
            return Err(self.meter.stop(Stop::TooLarge));
        }
        self.left -= passed;
        let kept = passed.min(self.window);
        self.window -= kept;
        if kept > 0 {
            self.meter.draw(kept)?;
        }
        Ok(read)
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Where there is no memory for it, the meter has stopped, and nothing is read.
fn undo<'a>(encoding: Encoding, inner: Passing<'a>, meter: &Rc<Meter<'a>>) -> Box<dyn Read + 'a> {
    let layer = meter.draw(encoding.layer_bytes()).and_then(|()| decompressed(encoding, BufReader::new(inner), meter));
    layer.unwrap_or_else(|error| {
        meter.stop(Stop::Broken(error));
        Box::new(io::empty())
    })
}

fn decompressed<'a>(
    encoding: Encoding,
    inner: BufReader<Passing<'a>>,
    meter: &Rc<Meter<'a>>,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        Encoding::Gzip => Box::new(Decompressed::new(inner, Gzip::new())),
        Encoding::Deflate => Box::new(Decompressed::new(inner, Deflate::default())),
        Encoding::Brotli => Box::new(Decompressed::new(inner, Brotli::new(meter))),
        Encoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(inner)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    })
}
