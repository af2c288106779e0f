//! The list of the current parts, and a checksum over it.
//!
//! The checksum is the sum of a hash of each record, so that a part is added or removed in one step, in any order. Every commit
//! has it: a list that is put together from several commits, or from the files themselves, is the committed one if the
//! checksums are equal. So a damaged commit is harmless as long as no part is damaged.

use std::collections::BTreeMap;

use headgate_table::parts::name::PartName;
use twox_hash::XxHash3_128;

use super::commit::{Commit, PartRecord};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartList {
    records: BTreeMap<PartName, PartRecord>,
    bytes: u64,
    sum: u128,
}

impl PartList {
    /// # Errors
    /// The mistake in the records: a name that is not one of ours, or that occurs twice.
    pub(super) fn new(records: impl IntoIterator<Item = PartRecord>) -> Result<Self, String> {
        let mut list = Self::default();
        records.into_iter().try_for_each(|record| list.add(record)).map(|()| list)
    }

    /// Applies the changes of a commit.
    ///
    /// # Errors
    /// As [`PartList::new`]; or the commit removes a part that is not in the list.
    pub(super) fn apply(&mut self, commit: &Commit) -> Result<(), String> {
        commit.removes.iter().try_for_each(|name| self.remove(name))?;
        commit.adds.iter().try_for_each(|record| self.add(record.clone()))
    }

    /// Returns whether the list may be the one after a commit: it has the parts that the commit adds, and none that it removes.
    pub(super) fn follows(&self, commit: &Commit) -> bool {
        let record = |name: &str| self.records.get(&PartName::parse(name)?);
        commit.adds.iter().all(|added| record(&added.name) == Some(added))
            && commit.removes.iter().all(|name| record(name).is_none())
    }

    /// Returns whether a part with this name is in the list.
    pub(super) fn has(&self, name: &str) -> bool {
        PartName::parse(name).is_some_and(|name| self.records.contains_key(&name))
    }

    fn add(&mut self, record: PartRecord) -> Result<(), String> {
        let name = parse(&record.name)?;
        if self.records.contains_key(&name) {
            return Err(format!("it adds {} a second time", record.name));
        }
        self.bytes += record.bytes;
        self.sum = self.sum.wrapping_add(hash(&record));
        self.records.insert(name, record);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), String> {
        let removed =
            self.records.remove(&parse(name)?).ok_or_else(|| format!("it removes {name}, which is not there"))?;
        self.bytes -= removed.bytes;
        self.sum = self.sum.wrapping_sub(hash(&removed));
        Ok(())
    }

    /// Returns the parts of succeeded rows first, each kind by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PartRecord> {
        self.records.values()
    }

    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns the total size of the parts.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the list is the one that the commit was made with.
    pub(super) fn is_that_of(&self, commit: &Commit) -> bool {
        let totals = &commit.totals;
        let rows: u64 = self.records.values().map(|record| record.rows).sum();
        let has_sum = commit.parts_sum == self.sum();
        has_sum && (totals.parts, totals.bytes, totals.succeeded + totals.failed) == (self.len(), self.bytes, rows)
    }

    /// Returns the checksum as a commit has it.
    pub(super) fn sum(&self) -> String {
        format!("{:032x}", self.sum)
    }
}

fn parse(name: &str) -> Result<PartName, String> {
    PartName::parse(name).ok_or_else(|| format!("it names {name:?}, which is not the name of a part"))
}

fn hash(record: &PartRecord) -> u128 {
    let PartRecord { name, rows, bytes, crc32 } = record;
    XxHash3_128::oneshot(format!("{name} {rows} {bytes} {crc32}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> PartRecord {
        PartRecord { name: format!("part-{number:08}.parquet"), rows: number, bytes: 10 * number, crc32: 7 }
    }

    #[test]
    fn the_sum_depends_on_the_parts_and_not_on_their_order() {
        let mut list = PartList::new([3, 1, 2].map(record)).expect("names of ours");
        let merge = Commit { adds: vec![record(4)], removes: vec![record(1).name, record(3).name], ..Commit::zero() };
        list.apply(&merge).expect("parts that are there");
        assert_eq!(PartList::new([2, 4].map(record)), Ok(list.clone()));
        assert_eq!((2, 60), (list.len(), list.bytes()));
        let other = PartRecord { crc32: 8, ..record(4) };
        assert_ne!(list.sum(), PartList::new([record(2), other]).expect("names of ours").sum());
    }

    #[test]
    fn an_impossible_change_of_the_list_is_refused() {
        let list = PartList::new([record(1)]).expect("a name of ours");
        let refused = |commit: Commit| list.clone().apply(&commit).expect_err("it was taken");
        assert_eq!(
            "it adds part-00000001.parquet a second time",
            refused(Commit { adds: vec![record(1)], ..Commit::zero() })
        );
        assert_eq!(
            "it removes part-00000002.parquet, which is not there",
            refused(Commit { removes: vec![record(2).name], ..Commit::zero() })
        );
        let outside = PartRecord { name: "../part-00000001.parquet".into(), ..record(1) };
        assert!(refused(Commit { adds: vec![outside], ..Commit::zero() }).contains("is not the name of a part"));
    }
}
