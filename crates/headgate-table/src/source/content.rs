//! Hashes of the rows that were read of an input. When it is read again, they tell whether the rows are the same, and if
//! not, which is the first that differs.
//!
//! Each row has a hash of its own bytes, without its line end: neither a file's time nor its compression counts. Hashes are
//! kept for blocks of rows, at most 1,024: when there would be more, pairs of blocks are joined. So a row that differs is
//! known exactly among the first 1,024, and elsewhere to within a five-hundredth of the rows. Two blocks can be joined
//! without their rows because a block's hash is a polynomial of its rows' hashes, in numbers of 128 bits.
//!
//! The hash is XXH3 of 128 bits. It notices accidents; nothing is gained by making two inputs alike on purpose.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};

/// Each takes 22 bytes of a commit.
const MAX_BLOCKS: usize = 1024;
const BLOCK_BYTES: usize = size_of::<u128>();
/// Odd, so that multiplying by it loses nothing.
const BASE: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;

/// Hashes of the rows of an input, from the first one on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Content {
    /// A hash of the columns of the input; 0 for forms without columns.
    header: u128,
    rows: u64,
    /// The rows of a block, a power of two; the last block may have fewer.
    block_rows: u64,
    blocks: Vec<u128>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    header: String,
    rows: u64,
    block_rows: u64,
    /// The hashes in Base64, 16 bytes for each.
    blocks: String,
}

impl Content {
    pub(super) fn new(header: u128) -> Self {
        Self { header, rows: 0, block_rows: 1, blocks: Vec::new() }
    }

    /// Returns how many rows the hashes cover.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn header(&self) -> u128 {
        self.header
    }

    /// Returns the content of at least `rows` rows, and few more, or `None` if fewer are known.
    pub fn up_to(&self, rows: u64) -> Option<Self> {
        if self.rows < rows {
            return None;
        }
        let blocks = rows.div_ceil(self.block_rows);
        let rows = (blocks * self.block_rows).min(self.rows);
        Some(Self { rows, blocks: self.blocks[..blocks as usize].to_vec(), ..*self })
    }

    fn push(&mut self, row: u128) {
        if self.is_block_end(self.rows) {
            if self.blocks.len() == MAX_BLOCKS {
                self.join_blocks();
            }
            self.blocks.push(0);
        }
        if let Some(last) = self.blocks.last_mut() {
            *last = with_row(*last, row);
        }
        self.rows += 1;
    }

    /// Returns whether a block ends after `rows` rows. A division for each row would cost as much as its hash.
    fn is_block_end(&self, rows: u64) -> bool {
        rows & (self.block_rows - 1) == 0
    }

    /// Joins pairs of blocks; all blocks must be full.
    fn join_blocks(&mut self) {
        // Repeated squaring, as a block has a power of two of rows.
        let power = (0..self.block_rows.ilog2()).fold(BASE, |power, _| power.wrapping_mul(power));
        let (pairs, _) = self.blocks.as_chunks();
        self.blocks = pairs.iter().map(|[first, second]| first.wrapping_mul(power).wrapping_add(*second)).collect();
        self.block_rows *= 2;
    }
}

fn with_row(block: u128, row: u128) -> u128 {
    block.wrapping_mul(BASE).wrapping_add(row)
}

impl From<Content> for Stored {
    fn from(content: Content) -> Self {
        let blocks: Vec<u8> = content.blocks.iter().flat_map(|block| block.to_le_bytes()).collect();
        Self {
            header: format!("{:032x}", content.header),
            rows: content.rows,
            block_rows: content.block_rows,
            blocks: BASE64_STANDARD.encode(blocks),
        }
    }
}

impl TryFrom<Stored> for Content {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let Stored { header, rows, block_rows, blocks } = stored;
        let header = u128::from_str_radix(&header, 16).map_err(|error| error.to_string())?;
        let bytes = BASE64_STANDARD.decode(blocks).map_err(|error| error.to_string())?;
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        let blocks: Vec<u128> = blocks.iter().map(|block| u128::from_le_bytes(*block)).collect();
        let fits = block_rows.is_power_of_two() && rows.div_ceil(block_rows) == blocks.len() as u64;
        if !fits || !rest.is_empty() || blocks.len() > MAX_BLOCKS {
            return Err(format!("{} blocks of {block_rows} rows are not {rows} rows", blocks.len()));
        }
        Ok(Self { header, rows, block_rows, blocks })
    }
}

/// The content that has been read so far, for the commits of a job.
#[derive(Debug, Clone)]
pub struct Tracked(Arc<Mutex<Content>>);

impl Tracked {
    pub(super) fn new(content: &Content) -> Self {
        Self(Arc::new(Mutex::new(content.clone())))
    }

    /// Returns [`Content::up_to`] of it.
    pub fn up_to(&self, rows: u64) -> Option<Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).up_to(rows)
    }

    pub(super) fn set(&self, content: &Content) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(content);
    }
}

/// How to handle skipped rows that need not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// They are assumed unchanged.
    Trusted,
    /// They are read all the same, and compared.
    Compared,
}

/// Compares rows, as they pass, with those of the earlier pass, as far as it went, and adds the rows that follow.
#[derive(Debug)]
pub(super) struct Passing {
    content: Content,
    unread: Unread,
    /// The number of rows that have passed.
    passed: u64,
    /// The hash of the rows since the end of the last block.
    block: u128,
    /// Whether all rows of the block were read.
    is_whole: bool,
    /// The range of the first row that differs.
    differs: Option<Range<u64>>,
    /// Whether rows were skipped unread that have no hash.
    lost: bool,
    /// A hash that is combined with each row's hash: the columns of its file. 0 for a single file.
    file: u128,
}

impl Passing {
    pub(super) fn new(then: Content, unread: Unread) -> Self {
        Self { content: then, unread, passed: 0, block: 0, is_whole: true, differs: None, lost: false, file: 0 }
    }

    /// Begins a file with this hash.
    pub(super) fn begin_file(&mut self, file: u128) {
        self.file = file;
    }

    /// Adds a row with this hash.
    pub(super) fn add(&mut self, row: u128) {
        let row = row ^ self.file;
        if self.lost {
            return;
        }
        if self.passed == self.content.rows {
            self.content.push(row);
            self.passed += 1;
            return;
        }
        self.block = with_row(self.block, row);
        self.passed += 1;
        if self.is_at_block_end() {
            self.end_block();
        }
    }

    /// Returns whether the next row must be read even if it is skipped.
    pub(super) fn wants_unread(&self) -> bool {
        self.unread == Unread::Compared && self.passed < self.content.rows
    }

    /// Skips `rows` rows that were not read.
    pub(super) fn skip_unread(&mut self, rows: u64) {
        if rows == 0 {
            return;
        }
        self.passed += rows;
        self.lost |= self.passed > self.content.rows;
        // A block that was read in part can't be compared.
        (self.block, self.is_whole) = (0, self.is_at_block_end());
    }

    fn is_at_block_end(&self) -> bool {
        self.content.is_block_end(self.passed) || self.passed == self.content.rows
    }

    fn end_block(&mut self) {
        let at = (self.passed - 1) / self.content.block_rows;
        if self.is_whole && self.differs.is_none() && self.content.blocks.get(at as usize) != Some(&self.block) {
            self.differs = Some(at * self.content.block_rows..self.passed);
        }
        (self.block, self.is_whole) = (0, true);
    }

    /// Returns the range that contains the first row that differs.
    pub(super) fn difference(&self) -> Option<Range<u64>> {
        self.differs.clone()
    }

    /// Returns how many rows of the earlier pass have not come yet.
    pub(super) fn missing(&self) -> u64 {
        self.content.rows.saturating_sub(self.passed)
    }

    /// Returns the content of all rows, or `None` if some of them have no hash.
    pub(super) fn content(&self) -> Option<&Content> {
        (!self.lost).then_some(&self.content)
    }
}

#[cfg(test)]
mod tests {
    use twox_hash::XxHash3_128;

    use super::*;

    fn of(rows: impl IntoIterator<Item = u64>) -> Content {
        let mut passing = Passing::new(Content::new(0), Unread::Trusted);
        rows.into_iter().for_each(|row| passing.add(XxHash3_128::oneshot(&row.to_le_bytes())));
        passing.content().expect("all rows passed").clone()
    }

    fn difference(then: &Content, now: impl IntoIterator<Item = u64>) -> Option<Range<u64>> {
        let mut passing = Passing::new(then.clone(), Unread::Trusted);
        now.into_iter().for_each(|row| passing.add(XxHash3_128::oneshot(&row.to_le_bytes())));
        passing.difference()
    }

    #[test]
    fn the_first_row_that_differs_is_found_exactly_among_a_thousand_and_to_within_a_block_among_more() {
        for rows in [1, 2, 1000, 1024, 1025, 5000, 100_000] {
            let then = of(0..rows);
            assert_eq!(None, difference(&then, 0..rows), "{rows}");
            for changed in [0, rows / 2, rows - 1] {
                let now = (0..rows).map(|row| if row == changed { u64::MAX } else { row });
                let found = difference(&then, now).expect("a row was changed");
                assert!(found.contains(&changed), "{rows}: {changed} is not in {found:?}");
                assert!(found.end - found.start <= 1.max(rows / 512), "{rows}: {found:?}");
            }
        }
    }

    #[test]
    fn rows_that_have_swapped_positions_differ() {
        let rows = 1 << 16;
        let then = of(0..rows);
        for distance in [1, 2, 64, 1 << 10, 1 << 15] {
            let swapped = (0..rows).map(|row| match row {
                7 => 7 + distance,
                row if row == 7 + distance => 7,
                row => row,
            });
            assert_eq!(Some(true), difference(&then, swapped).map(|found| found.contains(&7)), "{distance}");
        }
    }

    #[test]
    fn stored_content_is_bounded_and_can_be_continued() {
        let rows = 100_000;
        let whole = of(0..rows);
        for cut in [0, 1, 777, 1024, 1025, 60_000] {
            let then = of(0..cut);
            let stored = serde_json::to_string(&then).expect("in memory");
            assert!(stored.len() < 24_000, "{}", stored.len());
            let then: Content = serde_json::from_str(&stored).expect("what was written");
            let mut passing = Passing::new(then, Unread::Trusted);
            (0..rows).for_each(|row| passing.add(XxHash3_128::oneshot(&row.to_le_bytes())));
            assert_eq!((None, Some(&whole)), (passing.difference(), passing.content()), "{cut}");
        }
    }

    #[test]
    fn few_rows_are_kept_beyond_the_done_ones_however_far_the_reader_is_ahead() {
        let whole = of(0..100_000);
        for done in [0, 1, 128, 129, 99_999, 100_000] {
            let kept = whole.up_to(done).expect("as many as that");
            assert!((done..done + 128).contains(&kept.rows()), "{done}: {}", kept.rows());
            let changed_behind = (0..100_000).map(|row| if row < kept.rows() { row } else { row + 1 });
            assert_eq!(None, difference(&kept, changed_behind), "{done}");
        }
        assert_eq!(None, whole.up_to(100_001));
    }

    #[test]
    fn skipped_rows_are_trusted_and_later_ones_compared() {
        let then = of(0..5000);
        for (from, to) in [(0, 8), (3, 9), (0, 4999), (0, 5000), (4100, 4200)] {
            let mut passing = Passing::new(then.clone(), Unread::Trusted);
            (0..from).for_each(|row: u64| passing.add(XxHash3_128::oneshot(&row.to_le_bytes())));
            passing.skip_unread(to - from);
            (to..6000).for_each(|row| passing.add(XxHash3_128::oneshot(&row.to_le_bytes())));
            assert_eq!((None, Some(&of(0..6000))), (passing.difference(), passing.content()), "{from} to {to}");
        }
        let mut passing = Passing::new(then, Unread::Trusted);
        passing.skip_unread(80);
        (80..5000)
            .for_each(|row: u64| passing.add(XxHash3_128::oneshot(&if row == 4000 { 0 } else { row }.to_le_bytes())));
        assert_eq!(Some(true), passing.difference().map(|found| found.contains(&4000)));
    }

    #[test]
    fn rows_that_were_never_read_are_unknown() {
        let mut passing = Passing::new(of(0..10), Unread::Trusted);
        passing.skip_unread(11);
        assert_eq!(None, passing.content());
    }

    #[test]
    fn invalid_content_is_refused() {
        for (rows, block_rows, blocks) in [(1, 1, ""), (3, 3, "A"), (1, 3, "AAAAAAAAAAAAAAAAAAAAAA=="), (2, 1, "AAAA")]
        {
            let json = format!(r#"{{"header":"0","rows":{rows},"block_rows":{block_rows},"blocks":"{blocks}"}}"#);
            assert!(serde_json::from_str::<Content>(&json).is_err(), "{json}");
        }
    }
}
