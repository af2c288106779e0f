//! Decodes nested content encodings in one thread, within the bounds of a meter.

use std::io::{self, BufReader, Read};
use std::rc::Rc;

use headgate_core::memory::Reservation;

use super::brotli::Brotli;
use super::decompress::DecompressReader;
use super::encoding::Encoding;
use super::inflate::{Deflate, Gzip};
use super::meter::{Meter, StopReason};

/// A zstd window of more than 8 MiB is refused (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// The bytes that are decoded between two checks of the bound.
const STEP_BYTES: u64 = 64 * 1024;
/// The initial memory of a decompressor: its state, its tables and the buffer below it.
const LAYER_BYTES: u64 = 64 * 1024;
/// The initial memory of zstd, which also buffers a block of input.
const ZSTD_LAYER_BYTES: u64 = 384 * 1024;

/// A body that is being decoded: in memory, in a file, or streamed.
pub(super) struct Decoding<'a> {
    reader: LayerReader<'a>,
    meter: Rc<Meter<'a>>,
}

impl<'a> Decoding<'a> {
    /// Creates the layers for `encodings` over `encoded`; no layer may return more than `max_bytes`. `encoded` fails with
    /// `WouldBlock` while it has no input.
    pub(super) fn new(encodings: &[Encoding], encoded: impl Read + 'a, max_bytes: u64, meter: Meter<'a>) -> Self {
        let meter = Rc::new(meter);
        let layer = |inner, window, is_source| {
            let meter = meter.clone();
            LayerReader { inner, left: max_bytes, window, is_source, meter }
        };
        let mut reader = layer(Box::new(encoded), 0, true);
        for encoding in encodings.iter().rev() {
            reader = layer(decoder_of(*encoding, reader, &meter), encoding.window_bytes(), false);
        }
        Self { reader, meter }
    }

    /// Reads decoded bytes, and returns their number; 0 at the end.
    ///
    /// # Errors
    /// [`StopReason::Paused`]: more input has to arrive, or the bounds of a step are reached. Any other reason is final.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StopReason> {
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
    pub(super) fn read_to_end(&mut self, output: &mut Vec<u8>) -> Result<(), StopReason> {
        self.append_all(output).map_err(|error| self.meter.reason(error))
    }

    fn append_all(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        loop {
            if output.len() == output.capacity() {
                // The capacity is exactly what was reserved. The system moves large blocks without a copy.
                let more = (output.len() as u64 / 4).max(STEP_BYTES);
                self.meter.reserve(more)?;
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
    /// Returns the largest window: as much of it as has passed is in memory. Brotli reserves its window itself.
    fn window_bytes(self) -> u64 {
        match self {
            Self::Zstd => 1 << ZSTD_WINDOW_LOG_MAX,
            Self::Gzip | Self::Deflate | Self::Brotli => 0,
        }
    }

    /// Returns the initial memory of its decompressor.
    pub(super) const fn layer_bytes(self) -> u64 {
        match self {
            Self::Zstd => ZSTD_LAYER_BYTES,
            Self::Gzip | Self::Deflate | Self::Brotli => LAYER_BYTES,
        }
    }
}

/// Reads one layer. Its output has the bound of the body, too: a body that is compressed twice can decode to gibibytes of
/// compressed nothing, and those to no byte at all.
struct LayerReader<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    window: u64,
    /// `inner` is the encoded body.
    is_source: bool,
    meter: Rc<Meter<'a>>,
}

impl Read for LayerReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.is_paused() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let within = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // At the bound, one more byte is read to find out whether there is more.
        let is_at_bound = within == 0 && !buffer.is_empty();
        let read = match self.inner.read(if is_at_bound { &mut buffer[..1] } else { &mut buffer[..within] }) {
            Err(error) if self.is_source && !is_temporary(&error) => {
                return Err(self.meter.stop(StopReason::Unreadable(error)));
            }
            read => read?,
        };
        let passed = read as u64;
        self.meter.pass(passed)?;
        if is_at_bound && read > 0 {
            return Err(self.meter.stop(StopReason::TooLarge));
        }
        self.left -= passed;
        let in_window = passed.min(self.window);
        self.window -= in_window;
        if in_window > 0 {
            self.meter.reserve(in_window)?;
        }
        Ok(read)
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Returns a reader that decodes `inner`. If there is no memory for it, the meter has stopped, and the reader is empty.
fn decoder_of<'a>(encoding: Encoding, inner: LayerReader<'a>, meter: &Rc<Meter<'a>>) -> Box<dyn Read + 'a> {
    let layer =
        meter.reserve(encoding.layer_bytes()).and_then(|()| new_decoder(encoding, BufReader::new(inner), meter));
    layer.unwrap_or_else(|error| {
        meter.stop(StopReason::Broken(error));
        Box::new(io::empty())
    })
}

fn new_decoder<'a>(
    encoding: Encoding,
    inner: BufReader<LayerReader<'a>>,
    meter: &Rc<Meter<'a>>,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match encoding {
        Encoding::Gzip => Box::new(DecompressReader::new(inner, Gzip::new())),
        Encoding::Deflate => Box::new(DecompressReader::new(inner, Deflate::default())),
        Encoding::Brotli => Box::new(DecompressReader::new(inner, Brotli::new(meter))),
        Encoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(inner)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    })
}
