//! Limits per address: rows wait under their hostname until its address is known, and then under that.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::row::Row;
use crate::schedule::rows_to_cancel::RowsToCancel;

/// Hostnames whose addresses are remembered, at some 100 bytes each. If there are more, all are looked up anew.
const MAX_NAMES: usize = 131_072;

#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// The key of a hostname in limits: its address, or if it has none, the hostname.
    known: HashMap<Box<str>, Box<str>>,
    waiting: HashMap<Box<str>, Vec<Row>>,
    /// Hostnames with waiting rows that are not being looked up yet.
    to_resolve: VecDeque<Box<str>>,
}

impl Addresses {
    /// Returns the key of a host in limits, or `None` if its address is not known yet.
    pub(super) fn key<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let is_address = name.parse::<IpAddr>().is_ok();
        if is_address { Some(name) } else { self.known.get(name).map(|key| &**key) }
    }

    /// Lets a row wait for the address of this hostname.
    pub(super) fn wait(&mut self, name: &str, row: Row) {
        if let Some(rows) = self.waiting.get_mut(name) {
            rows.push(row);
            return;
        }
        self.waiting.insert(name.into(), vec![row]);
        self.to_resolve.push_back(name.into());
    }

    /// Returns the next hostname to look up, with the URL of a row that has it.
    pub(super) fn next_to_resolve(&mut self) -> Option<(Box<str>, Box<str>)> {
        while let Some(name) = self.to_resolve.pop_front() {
            let url = self.waiting.get(&name).and_then(|rows| rows.first()).map(|row| row.target().into());
            if let Some(url) = url {
                return Some((name, url));
            }
            // All of its rows were cancelled: the next row looks it up.
            self.waiting.remove(&name);
        }
        None
    }

    pub(super) fn has_hostnames_to_resolve(&self) -> bool {
        !self.to_resolve.is_empty()
    }

    /// Records the result of a look-up; `None`: the hostname has no address, or none is known. Returns the rows that waited
    /// for it.
    pub(super) fn found(&mut self, name: &str, address: Option<IpAddr>) -> Vec<Row> {
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        let key = address.map_or_else(|| name.into(), |address| address.to_string().into());
        self.known.insert(name.into(), key);
        self.waiting.remove(name).unwrap_or_default()
    }

    /// Returns all waiting rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.waiting.values().flatten()
    }

    /// Removes all waiting rows.
    pub(super) fn drain(&mut self) -> Vec<Row> {
        self.to_resolve.clear();
        self.waiting.drain().flat_map(|(_, rows)| rows).collect()
    }

    /// Removes the waiting rows that are cancelled.
    pub(super) fn remove(&mut self, cancelled: RowsToCancel) -> Vec<Row> {
        self.waiting.values_mut().flat_map(|rows| rows.extract_if(.., |row| cancelled.includes(row))).collect()
    }
}
