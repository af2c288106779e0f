//! The bytes of a text input, decompressed and without a byte-order mark, with what messages need to know of it.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::source_size::SourceSize;

use super::READ_BYTES;
use super::compressed::{Compression, Counted, is_window_too_large};
use super::fingerprint::Fingerprint;
use super::input_error::InputError;
use super::opened::{Opened, OpenedReader};
use super::whole_lines::WholeLines;

pub(super) type InputReader = Box<dyn Read + Send>;

#[derive(Debug)]
pub(super) struct OpenInput {
    pub(super) name: String,
    compression: Compression,
    /// `None`: standard input.
    opened: Option<Arc<Opened>>,
    bytes_read: Arc<AtomicU64>,
    /// Whether the last line was still being written, and is omitted.
    half_line: AtomicBool,
}

impl OpenInput {
    /// Opens the file from its beginning.
    ///
    /// # Errors
    /// The first read fails.
    pub(super) fn open(opened: Arc<Opened>) -> Result<(Self, InputReader), JobError> {
        let reader = OpenedReader::new(opened.clone());
        let (input, counted) = Self::counted(&opened.name, opened.form.compression(), Some(opened.clone()), reader);
        let decoded = input.compression.decode(counted).map_err(|error| input.failed(&error, 0))?;
        let lines = WholeLines::new(WithoutMark::new(decoded), opened, input.compression != Compression::None);
        Ok((input, Box::new(lines)))
    }

    /// Opens an input that is not a file.
    pub(super) fn stream(name: &str, reader: impl Read + Send + 'static) -> (Self, InputReader) {
        let (input, counted) = Self::counted(name, Compression::None, None, reader);
        (input, Box::new(WithoutMark::new(counted)))
    }

    fn counted<R: Read>(
        name: &str,
        compression: Compression,
        opened: Option<Arc<Opened>>,
        reader: R,
    ) -> (Self, Counted<R>) {
        let bytes_read = Arc::default();
        let counted = Counted::new(reader, READ_BYTES, Arc::clone(&bytes_read));
        (Self { name: name.to_owned(), compression, opened, bytes_read, half_line: AtomicBool::new(false) }, counted)
    }

    pub(super) fn size(&self) -> SourceSize {
        let bytes = self.opened.as_ref().and_then(|opened| opened.bytes());
        SourceSize { rows: None, bytes, bytes_read: self.bytes_read.load(Ordering::Relaxed) }
    }

    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.opened.as_ref()?.fingerprint()
    }

    pub(super) fn note(&self) -> Option<Message> {
        let half_line = if self.half_line.load(Ordering::Relaxed) {
            ", without the last line, which was still being written"
        } else {
            ""
        };
        self.opened.as_ref()?.note().map(|note| message!(note, half_line))
    }

    /// Returns `Ok` if `error` after `rows` rows is only an unfinished last line, else the error of the job.
    pub(super) fn ended_by(&self, error: &io::Error, rows: u64) -> Result<(), JobError> {
        match InputError::of(error) {
            Some(InputError::HalfLine) => {
                self.half_line.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(InputError::Refused(error)) => Err(error.clone()),
            _ => Err(self.failed(error, rows)),
        }
    }

    /// Returns the error of a job whose input can't be read further than `rows` rows.
    fn failed(&self, error: &io::Error, rows: u64) -> JobError {
        let Self { name, .. } = self;
        let at = self.bytes_read.load(Ordering::Relaxed);
        let position = format!("at byte {at}, after {rows} rows");
        if let Some(changed) = InputError::changed(error, name, &position) {
            return changed;
        }
        let known = InputError::of(error);
        if let Some(utf_16 @ InputError::Utf16) = known {
            return JobError::input(format!("{name}: {utf_16}"));
        }
        let is_gzip = !matches!(known, Some(InputError::NotGzip));
        let (compression, fresh) = (self.compression.name(), OptionName::IfExists.set("overwrite"));
        JobError::input(match (self.compression, error.kind()) {
            (Compression::Gzip | Compression::Zstd, io::ErrorKind::UnexpectedEof) if at == 0 => {
                message!(
                    "{name}: empty: {compression} data has some bytes even where it holds none; get the complete file"
                )
            }
            (Compression::Gzip | Compression::Zstd, io::ErrorKind::UnexpectedEof) => {
                let cause = match &self.opened {
                    Some(opened) if opened.has_grown() => "it was still being written when it was opened",
                    _ => "cut short",
                };
                message!(
                    "{name}: {cause}: its {compression} data is truncated, {position}; get the complete file and start over with ",
                    fresh
                )
            }
            (Compression::Gzip, _) if !is_gzip && at == 0 => {
                message!(
                    "{name}: it is not gzip data, although it is named like that: rename it, or get the right file"
                )
            }
            (Compression::Gzip, _) if !is_gzip => {
                let bytes = self.size().bytes.and_then(|bytes| bytes.checked_sub(at));
                let what = bytes.map_or("what follows is".into(), |bytes| format!("the last {bytes} bytes are"));
                message!(
                    "{name}: {what} not gzip data, after the end of the gzip data, {position}; get an intact copy, or cut them off (head -c {at}), and start over with ",
                    fresh
                )
            }
            (Compression::Zstd, _) if is_window_too_large(error) => message!(
                "{name}: its zstd data needs a window of more than 128 MiB to be decoded, {position}; compress it again with --long=27 or less (zstd -d --long=31 -c FILE | zstd --long=27), and start over with ",
                fresh
            ),
            // Decoders report bad data as errors of several kinds; errors of the operating system have a number.
            (Compression::Gzip | Compression::Zstd, _) if error.raw_os_error().is_none() => message!(
                "{name}: damaged: its {compression} data can't be decoded any further ({error}), {position}; get an intact copy and start over with ",
                fresh
            ),
            _ => message!("{name}: can't be read further ({error}), {position}"),
        })
    }
}

/// Removes a UTF-8 byte-order mark from the start, and refuses UTF-16, whose lines would all be nonsense.
struct WithoutMark<R> {
    reader: R,
    started: bool,
    /// The bytes that were read to look for a mark, last byte first.
    start: Vec<u8>,
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

impl<R> WithoutMark<R> {
    fn new(reader: R) -> Self {
        Self { reader, started: false, start: Vec::new() }
    }
}

impl<R: Read> Read for WithoutMark<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.started {
            (&mut self.reader).take(MARK.len() as u64).read_to_end(&mut self.start)?;
            self.started = true;
            if self.start.starts_with(b"\xFF\xFE") || self.start.starts_with(b"\xFE\xFF") {
                return Err(InputError::Utf16.into());
            }
            if self.start == MARK {
                self.start.clear();
            }
            self.start.reverse();
        }
        if self.start.is_empty() {
            return self.reader.read(buffer);
        }
        let mut read = 0;
        while let Some(slot) = buffer.get_mut(read)
            && let Some(byte) = self.start.pop()
        {
            *slot = byte;
            read += 1;
        }
        Ok(read)
    }
}
