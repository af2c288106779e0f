//! The number of values that the data of a Parquet page states, for encodings whose reader trusts it.
//!
//! In the delta encodings of byte arrays (Parquet's Encodings.md, `DELTA_LENGTH_BYTE_ARRAY` and `DELTA_BYTE_ARRAY`),
//! lengths precede the bytes, with their number in a header of their own. The crate `parquet` allocates as many as this
//! header states: 10 KB can ask for terabytes. So the headers are read here first, and a page whose data states more values
//! than the header of the page is refused.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;

use super::thrift::Compact;

/// Encodings (`parquet.thrift`, `Encoding`): lengths, followed by all bytes.
pub(super) const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
/// Values that share a prefix with the one before: lengths of the prefixes, and then as above.
pub(super) const DELTA_BYTE_ARRAY: i64 = 7;
/// The encoding of levels in all files that have the encodings above.
const RLE: i64 = 3;

/// A page as its header describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated {
    pub encoding: i64,
    pub values: u64,
    pub decompressed: u64,
    /// Whether each kind of levels (repetition, definition) precedes the values within the compressed data, and its
    /// encoding.
    pub levels_within: [(bool, i64); 2],
}

/// Returns whether the reader of this encoding trusts the counts in the data.
pub(super) fn trusts_counts(encoding: i64) -> bool {
    matches!(encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY)
}

/// Checks the data of a page, after levels that are never compressed. `None`: it is not compressed.
///
/// # Errors
/// The data states more values than the header of its page does, or can't be read.
pub(super) fn check(data: &[u8], codec: Option<Compression>, page: Stated) -> Result<(), String> {
    if data.is_empty() {
        return Ok(());
    }
    let decompressed = codec.map(|codec| decompress(data, codec, page.decompressed)).transpose();
    let decompressed = decompressed.map_err(|error| format!("its data can't be decompressed: {error}"))?;
    let mut rest = decompressed.as_deref().unwrap_or(data);
    for (is_there, encoding) in page.levels_within {
        if is_there {
            rest = after_levels(rest, encoding).ok_or("its levels are broken")?;
        }
    }
    // If all values are null, nothing needs to follow.
    if rest.is_empty() {
        return Ok(());
    }
    let rest = after_numbers(rest, page.values)?;
    if page.encoding == DELTA_BYTE_ARRAY {
        after_numbers(rest, page.values)?;
    }
    Ok(())
}

fn decompress(data: &[u8], codec: Compression, length: u64) -> io::Result<Vec<u8>> {
    let capacity = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let decoder: Box<dyn Read + '_> = match codec {
        Compression::UNCOMPRESSED => Box::new(data),
        Compression::SNAPPY => {
            let mut out = vec![0; capacity];
            let length = snap::raw::Decoder::new().decompress(data, &mut out)?;
            out.truncate(length);
            return Ok(out);
        }
        Compression::LZ4_RAW => {
            return lz4_flex::block::decompress(data, capacity).map_err(io::Error::other);
        }
        Compression::GZIP(_) => Box::new(MultiGzDecoder::new(data)),
        Compression::BROTLI(_) => Box::new(brotli::Decompressor::new(data, 4096)),
        Compression::ZSTD(_) => Box::new(zstd::Decoder::with_buffer(data)?),
        Compression::LZ4 => Box::new(lz4_flex::frame::FrameDecoder::new(data)),
        Compression::LZO => return Err(io::ErrorKind::Unsupported.into()),
    };
    let mut out = Vec::with_capacity(capacity);
    decoder.take(length).read_to_end(&mut out)?;
    Ok(out)
}

/// Returns what follows the levels of a first-version page, which are preceded by their length in four bytes.
fn after_levels(data: &[u8], encoding: i64) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk().filter(|_| encoding == RLE)?;
    rest.get(u32::from_le_bytes(*length) as usize..)
}

/// Returns what follows numbers in `DELTA_BINARY_PACKED`.
fn after_numbers(data: &[u8], max: u64) -> Result<&[u8], String> {
    let broken = || "its lengths are broken".to_owned();
    let mut reader = Compact::new(data, u64::MAX);
    let mut varint = || reader.varint().map_err(|_| broken());
    let (block, parts, count) = (varint()?, varint()?, varint()?);
    if count > max {
        return Err(format!("its data states {count} values, and its header {max}"));
    }
    let _first = varint()?;
    let of_part = block.checked_div(parts).filter(|of_part| *of_part > 0 && of_part.is_multiple_of(32));
    let of_part = of_part.ok_or_else(broken)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let _least = reader.varint().map_err(|_| broken())?;
        let widths = usize::try_from(parts).ok().and_then(|parts| reader.input.split_at_checked(parts));
        let (widths, after) = widths.ok_or_else(broken)?;
        let mut bytes: u64 = 0;
        for width in widths {
            // The widths of parts without values are ignored.
            if left > 0 {
                bytes = bytes.saturating_add((of_part / 8).saturating_mul(u64::from(*width)));
                left = left.saturating_sub(of_part);
            }
        }
        reader.input = usize::try_from(bytes).ok().and_then(|bytes| after.get(bytes..)).ok_or_else(broken)?;
    }
    Ok(reader.input)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Stated =
        Stated { encoding: DELTA_BYTE_ARRAY, values: 3, decompressed: 1 << 20, levels_within: [(false, RLE); 2] };

    /// Returns numbers in one block of four parts, the first of which has these bytes.
    fn numbers(count: u8, width: u8) -> Vec<u8> {
        let mut data = vec![0x80, 1, 4, count, 2];
        if count > 1 {
            data.extend([0, width, 9, 9, 9]);
            data.extend(vec![0; usize::from(width) * 4]);
        }
        data
    }

    #[test]
    fn a_page_states_no_more_values_in_its_data_than_in_its_header() {
        for (expected, first, second) in [
            (true, numbers(3, 2), numbers(3, 1)),
            (true, numbers(1, 0), numbers(1, 0)),
            (true, numbers(0, 0), numbers(0, 0)),
            (false, numbers(4, 0), numbers(3, 0)),
            (false, numbers(3, 0), numbers(4, 0)),
            (false, numbers(3, 0), vec![]),
        ] {
            let data = [first, second].concat();
            assert_eq!(expected, check(&data, None, PLAIN).is_ok(), "{data:?}");
        }
        let lengths = Stated { encoding: DELTA_LENGTH_BYTE_ARRAY, ..PLAIN };
        assert_eq!(Ok(()), check(&numbers(3, 2), None, lengths));
        assert_eq!(
            Err("its data states 4 values, and its header 3".into()),
            check(&numbers(4, 2), Some(Compression::UNCOMPRESSED), lengths)
        );
        let with_levels = Stated { levels_within: [(true, RLE), (true, RLE)], ..lengths };
        let levels = [1, 0, 0, 0, 7, 2, 0, 0, 0, 7, 7];
        assert_eq!(Ok(()), check(&[&levels[..], &numbers(3, 2)].concat(), None, with_levels));
        assert!(check(&[&levels[..], &numbers(4, 2)].concat(), None, with_levels).is_err());
        let other = Stated { levels_within: [(true, 4), (true, RLE)], ..lengths };
        assert!(check(&[&levels[..], &numbers(3, 2)].concat(), None, other).is_err());
    }

    proptest! {
        #[test]
        fn no_data_makes_the_decoder_panic(data in prop::collection::vec(any::<u8>(), 0..200), codec in 0..8_usize) {
            let codecs = ["uncompressed", "snappy", "gzip(6)", "lz4", "brotli(1)", "zstd(1)", "lz4_raw"];
            let codec = codecs.get(codec).map(|codec| codec.parse().expect("a codec"));
            let _ = check(&data, codec, PLAIN);
        }
    }
}
