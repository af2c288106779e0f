//! Whether a Parquet file has encrypted columns, which we can't read and must not call damaged.
//!
//! A file whose footer is encrypted says so in its first bytes. Another looks as any, and says in its footer how its columns are
//! encrypted, if they are: in a field that our reader passes over (parquet.thrift, `FileMetaData`, field 8). So the footer's
//! outermost fields are walked through once more, which is done only where the file can't be read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;

/// What a file begins with whose footer is encrypted.
pub(super) const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";
pub(super) const ENCRYPTED: &str = "encrypted Parquet, which headgate can't decrypt: write it without encryption";

/// `FileMetaData.encryption_algorithm`
const ENCRYPTION_ALGORITHM: i64 = 8;
/// The type of no field: the end of a struct.
const STOP: u8 = 0;
/// Structs, lists and maps within one another; a footer has six.
const MAX_DEPTH: usize = 32;

/// Whether the footer of a file of so many bytes tells of encryption; not, where there is none that can be read.
pub(super) fn has_encryption(file: &File, bytes: u64) -> bool {
    let footer = || -> io::Result<Vec<u8>> {
        let end = bytes.checked_sub(FOOTER_SIZE as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut tail = [0; FOOTER_SIZE];
        file.read_exact_at(&mut tail, end)?;
        let length = FooterTail::try_new(&tail).map_err(io::Error::other)?.metadata_length();
        let start = end.checked_sub(length as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut footer = vec![0; length];
        file.read_exact_at(&mut footer, start)?;
        Ok(footer)
    };
    footer().is_ok_and(|footer| Compact(&footer).has_field(ENCRYPTION_ALGORITHM) == Some(true))
}

/// Bytes of Thrift's compact protocol; `None` where they are none of it, or end.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn has_field(&mut self, wanted: i64) -> Option<bool> {
        let mut id = 0;
        loop {
            let kind = self.field(&mut id)?;
            if kind == STOP || id == wanted {
                return Some(kind != STOP);
            }
            self.skip(kind, 0)?;
        }
    }

    /// The type of the next field, or [`STOP`], and its number in place of that of the one before.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let header = self.byte()?;
        let (delta, kind) = (header >> 4, header & 0xF);
        if kind != STOP {
            *id = if delta == 0 { unzigzag(self.varint()?) } else { id.checked_add(i64::from(delta))? };
        }
        Some(kind)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match kind {
            // The value of a boolean field is its type.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.bytes(8),
            8 => {
                let length = self.varint()?;
                self.bytes(length)
            }
            9 | 10 => {
                let header = self.byte()?;
                let count = if header >> 4 == 0xF { self.varint()? } else { u64::from(header >> 4) };
                (0..count).try_for_each(|_| self.skip_element(header & 0xF, depth + 1))
            }
            11 => {
                let count = self.varint()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0xF, depth + 1)
                })
            }
            12 => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        STOP => return Some(()),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => None,
        }
    }

    /// Within a list or map a boolean takes a byte.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Option<()> {
        if matches!(kind, 1 | 2) { self.bytes(1) } else { self.skip(kind, depth) }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each type before the field that is looked for.
    #[test]
    fn a_field_is_found_behind_those_of_every_type() {
        let booleans = [0x11, 0x12];
        let numbers = [0x13, 0xFF, 0x14, 0x80, 0x01, 0x17, 1, 2, 3, 4, 5, 6, 7, 8];
        let texts = [0x18, 2, b'a', b'b', 0x19, 0x21, 1, 2, 0x1B, 0, 0x1B, 1, 0x51, 9, 1];
        let structs = [0x1C, 0x15, 2, 0x19, 0x1C, 0x15, 2, 0x00, 0x00];
        let long_list = [&[0x19, 0xF3, 20][..], &[0; 20]].concat();
        let before: [&[u8]; 5] = [&booleans, &numbers, &texts, &structs, &long_list];
        // Fields 1 to 11, and then 40: by its number, as the step to it is too long.
        let fields = [before.concat().as_slice(), &[0x05, 80, 7]].concat();
        for (wanted, expected) in [(1, true), (11, true), (40, true), (12, false), (41, false)] {
            let ended = [fields.as_slice(), &[0]].concat();
            assert_eq!(Some(expected), Compact(&ended).has_field(wanted), "{wanted}");
        }
        for length in 0..fields.len() {
            assert_eq!(None, Compact(&fields[..length]).has_field(99), "{length}");
        }
    }

    #[test]
    fn nesting_without_end_is_given_up() {
        assert_eq!(None, Compact(&vec![0x1C; 100_000]).has_field(99));
    }
}
