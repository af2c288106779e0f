//! The names of output files.

use std::fmt;

use headgate_core::options::Format;

/// The kind of rows that a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    Succeeded,
    Failed,
}

/// The name of a part, such as `part-00000001.parquet`. The order is that of reading: succeeded rows first, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartName {
    pub kind: PartKind,
    pub number: u64,
    extension: &'static str,
}

/// The suffix of the name of a part that is not in its place yet.
pub const UNPLACED: &str = ".tmp";

const EXTENSIONS: [&str; 2] = ["parquet", "ndjson"];

impl PartName {
    pub fn new(kind: PartKind, number: u64, format: Format) -> Self {
        let extension = EXTENSIONS[usize::from(format == Format::Ndjson)];
        Self { kind, number, extension }
    }

    /// Returns the name of the file without rows that is there before the first commit.
    pub fn placeholder() -> Self {
        Self::new(PartKind::Succeeded, 0, Format::Parquet)
    }

    /// Returns whether no commit names this file: parts are numbered from 1.
    pub fn is_placeholder(&self) -> bool {
        self.number == 0
    }

    /// Parses the name of a part; `None`: headgate gives no such name.
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, extension) = name.split_once('.')?;
        let extension = EXTENSIONS.into_iter().find(|known| *known == extension)?;
        let (prefix, digits) = stem.split_once('-')?;
        let kind = match prefix {
            "part" => PartKind::Succeeded,
            "failed" => PartKind::Failed,
            _ => return None,
        };
        let name_of_number = Self { kind, number: digits.parse().ok()?, extension };
        (name_of_number.to_string() == name).then_some(name_of_number)
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            PartKind::Succeeded => "part",
            PartKind::Failed => "failed",
        };
        write!(f, "{prefix}-{:08}.{}", self.number, self.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_generated_names_are_part_names() {
        let part = PartName::new(PartKind::Succeeded, 1, Format::Parquet);
        assert_eq!(Some(part), PartName::parse("part-00000001.parquet"));
        let failed = PartName::new(PartKind::Failed, 1_234_567_890, Format::Ndjson);
        assert_eq!(Some(failed), PartName::parse("failed-1234567890.ndjson"));
        for foreign in ["part-1.parquet", "part-00000001.csv", "part-0000000a.parquet", "parts-00000001.parquet"] {
            assert_eq!(None, PartName::parse(foreign), "{foreign}");
        }
        for foreign in ["part-+0000001.parquet", "part-00000001.parquet.bak", "part-00000001", ""] {
            assert_eq!(None, PartName::parse(foreign), "{foreign}");
        }
    }

    #[test]
    fn succeeded_parts_come_first_and_then_by_number() {
        let name = |text| PartName::parse(text).expect("ours");
        assert!(name("part-100000000.parquet") > name("part-00000002.parquet"));
        assert!(name("failed-00000001.parquet") > name("part-00000002.parquet"));
    }
}
