//! Thrift's compact protocol, the format of Parquet's metadata, read field by field.

use std::io::{self, Read};

/// The maximum nesting of structures: those of Parquet are six deep.
const MAX_DEPTH: u32 = 16;

/// Reads Thrift's compact protocol.
pub(super) struct Compact<R> {
    pub(super) input: R,
    read: u64,
    max_bytes: u64,
}

/// A field of a structure: its number and the type of its value.
#[derive(Clone, Copy)]
pub(super) struct ThriftField {
    pub(super) id: i64,
    pub(super) kind: u8,
}

pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const I16: u8 = 4;
pub(super) const I64: u8 = 6;
pub(super) const STRUCT: u8 = 12;

impl<R: Read> Compact<R> {
    /// Reads at most `max_bytes`.
    pub(super) fn new(input: R, max_bytes: u64) -> Self {
        Self { input, read: 0, max_bytes }
    }

    /// Returns how many bytes were read.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// Calls `take` with each field of a structure, and skips those that it leaves unread. `parquet` reads fields of
    /// another type, or repeated ones, in its own manner: both would read different headers, so such a structure is broken.
    pub(super) fn structure(
        &mut self,
        depth: u32,
        take: &mut dyn FnMut(&mut Self, ThriftField) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut id = 0;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            let before = id;
            id = match byte >> 4 {
                0 => self.small_number()?,
                step => id + i64::from(step),
            };
            if id <= before || id > i64::from(i16::MAX) {
                return Err(broken());
            }
            let field = ThriftField { id, kind: byte & 0xf };
            if !take(self, field)? {
                self.skip(field.kind, depth + 1)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(broken());
        }
        match kind {
            TRUE | FALSE => {}
            3 => drop(self.byte()?),
            I16..=I64 => drop(self.varint()?),
            7 => self.pass(8)?,
            8 => {
                let length = self.varint()?;
                self.pass(length)?;
            }
            9 | 10 => {
                let byte = self.byte()?;
                let items = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
                for _ in 0..items {
                    self.skip_item(byte & 0xf, depth)?;
                }
            }
            11 => {
                let items = self.varint()?;
                let kinds = if items > 0 { self.byte()? } else { 0 };
                for _ in 0..items {
                    self.skip_item(kinds >> 4, depth)?;
                    self.skip_item(kinds & 0xf, depth)?;
                }
            }
            STRUCT => self.structure(depth, &mut |_, _| Ok(false))?,
            _ => return Err(broken()),
        }
        Ok(())
    }

    fn skip_item(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        // `parquet` reads no byte for a truth value in a list.
        if matches!(kind, TRUE | FALSE) { Err(broken()) } else { self.skip(kind, depth + 1) }
    }

    pub(super) fn length(&mut self) -> io::Result<u64> {
        u64::try_from(self.small_number()?).map_err(|_| broken())
    }

    /// Reads a number of 32 bits: `parquet` truncates larger ones.
    pub(super) fn small_number(&mut self) -> io::Result<i64> {
        let number = self.number()?;
        i32::try_from(number).map(i64::from).map_err(|_| broken())
    }

    fn number(&mut self) -> io::Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(broken())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.count(1)?;
        Ok(byte[0])
    }

    fn pass(&mut self, length: u64) -> io::Result<()> {
        self.count(length)?;
        let passed = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
        if passed == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn count(&mut self, length: u64) -> io::Result<()> {
        self.read = self.read.saturating_add(length);
        if self.read > self.max_bytes { Err(broken()) } else { Ok(()) }
    }
}

pub(super) fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the header of a page is broken")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requested field comes after a field of each type.
    #[test]
    fn a_field_is_found_after_fields_of_every_type() {
        let booleans = [0x11, 0x12];
        let numbers = [0x13, 0xFF, 0x14, 0x80, 0x01, 0x17, 1, 2, 3, 4, 5, 6, 7, 8];
        let texts = [0x18, 2, b'a', b'b', 0x19, 0x23, 1, 2, 0x1B, 0, 0x1B, 1, 0x53, 9, 1];
        let structs = [0x1C, 0x15, 2, 0x19, 0x1C, 0x15, 2, 0x00, 0x00];
        let long_list = [&[0x19, 0xF3, 20][..], &[0; 20]].concat();
        let before: [&[u8]; 5] = [&booleans, &numbers, &texts, &structs, &long_list];
        // Fields 1 to 11, and then 40: by its number, as the step to it is too long.
        let fields = [before.concat().as_slice(), &[0x05, 80, 7]].concat();
        let read = |bytes: &[u8]| {
            let mut ids = Vec::new();
            let read = Compact::new(bytes, u64::MAX).structure(0, &mut |_, field| {
                ids.push(field.id);
                Ok(false)
            });
            read.map(|()| ids)
        };
        let expected: Vec<i64> = (1..=11).chain([40]).collect();
        assert_eq!(expected, read(&[fields.as_slice(), &[0]].concat()).expect("whole"));
        for length in 0..fields.len() {
            assert!(read(&fields[..length]).is_err(), "{length}");
        }
        assert!(read(&vec![0x1C; 100_000]).is_err());
    }
}
