//! Rows with the number of attempts that were made at them, and that no outcome has yet: a bitmap for each number.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use roaring::{MultiOps as _, RoaringTreemap};
use serde::{Deserialize, Serialize};

/// Rows by the number of their attempts. It is bounded by the rows that may wait in a run, and by the window of those that were
/// read and are not done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u16, String)>", into = "Vec<(u16, String)>")]
pub struct TriedRows(BTreeMap<u16, RoaringTreemap>);

impl Eq for TriedRows {}

impl TriedRows {
    /// Adds attempts at a row.
    pub(super) fn add(&mut self, row: u64, attempts: u16) {
        let attempts = self.remove(row).unwrap_or_default().saturating_add(attempts);
        self.0.entry(attempts).or_default().insert(row);
    }

    /// Returns the attempts at a row; `None`: it is not one of these rows.
    pub(super) fn of(&self, row: u64) -> Option<u16> {
        self.0.iter().find(|(_, rows)| rows.contains(row)).map(|(attempts, _)| *attempts)
    }

    /// Removes a row, and returns the attempts at it.
    pub(super) fn remove(&mut self, row: u64) -> Option<u16> {
        let attempts = self.of(row)?;
        let rows = self.0.get_mut(&attempts)?;
        rows.remove(row);
        if rows.is_empty() {
            self.0.remove(&attempts);
        }
        Some(attempts)
    }

    pub(super) fn rows(&self) -> RoaringTreemap {
        self.0.values().union()
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> u64 {
        self.0.values().map(RoaringTreemap::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<TriedRows> for Vec<(u16, String)> {
    fn from(tried: TriedRows) -> Self {
        let encode = |mut rows: RoaringTreemap| {
            let mut bytes = Vec::new();
            rows.optimize();
            rows.serialize_into(&mut bytes).expect("memory");
            BASE64_STANDARD.encode(bytes)
        };
        tried.0.into_iter().map(|(attempts, rows)| (attempts, encode(rows))).collect()
    }
}

impl TryFrom<Vec<(u16, String)>> for TriedRows {
    type Error = String;

    fn try_from(stored: Vec<(u16, String)>) -> Result<Self, String> {
        let decode = |(attempts, rows): (u16, String)| {
            let bytes = BASE64_STANDARD.decode(rows).map_err(|error| error.to_string())?;
            let rows = RoaringTreemap::deserialize_from(&*bytes).map_err(|error| error.to_string())?;
            Ok((attempts, rows))
        };
        stored.into_iter().map(decode).collect::<Result<_, String>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_at_a_row_add_up_until_it_is_done() {
        let mut tried = TriedRows::default();
        for (row, attempts) in [(7, 1), (5_000_000_000, 1), (7, 2), (9, 1)] {
            tried.add(row, attempts);
        }
        assert_eq!((Some(3), Some(1), None, 3), (tried.of(7), tried.of(9), tried.of(8), tried.len()));
        let stored = serde_json::to_string(&tried).expect("text");
        assert_eq!(tried, serde_json::from_str(&stored).expect("what was written"));
        for (row, attempts) in [(7, 3), (5_000_000_000, 1), (9, 1)] {
            assert_eq!((Some(attempts), None), (tried.remove(row), tried.remove(row)));
        }
        assert!(tried.is_empty());
        assert!(serde_json::from_str::<TriedRows>(r#"[[1,"AAAA"]]"#).is_err());
    }

    #[test]
    fn as_many_rows_as_may_wait_take_little_space() {
        let mut tried = TriedRows::default();
        for row in 0..200_000 {
            tried.add(row * 20, (row % 3) as u16);
        }
        let stored = serde_json::to_string(&tried).expect("text").len();
        assert!(stored < 600_000, "{stored}");
    }
}
