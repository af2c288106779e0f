//! Limits per address: rows wait under the name of their host until its address is known, and then under that.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::model::row::Row;

/// Names whose addresses are remembered, at some 100 bytes each. When there are more, all are looked up anew.
const MAX_NAMES: usize = 131_072;

#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// What limits know a name by: its address or, where it has none, the name.
    known: HashMap<Box<str>, Box<str>>,
    waiting: HashMap<Box<str>, Vec<Row>>,
    /// Those of them that are not being looked up yet.
    to_look_up: VecDeque<Box<str>>,
}

impl Addresses {
    /// Returns what limits know a host by. `None`: its address is not known yet.
    pub(super) fn key<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let is_address = name.parse::<IpAddr>().is_ok();
        if is_address { Some(name) } else { self.known.get(name).map(|key| &**key) }
    }

    /// Has a row wait for the address of this name.
    pub(super) fn wait(&mut self, name: &str, row: Row) {
        if let Some(rows) = self.waiting.get_mut(name) {
            rows.push(row);
            return;
        }
        self.waiting.insert(name.into(), vec![row]);
        self.to_look_up.push_back(name.into());
    }

    /// Takes the next name to look up, and returns it with the URL of a row that has it.
    pub(super) fn next_to_look_up(&mut self) -> Option<(Box<str>, Box<str>)> {
        while let Some(name) = self.to_look_up.pop_front() {
            let url = self.waiting.get(&name).and_then(|rows| rows.first()).map(|row| row.target().into());
            if let Some(url) = url {
                return Some((name, url));
            }
            // All of its rows were cancelled: the next one looks it up.
            self.waiting.remove(&name);
        }
        None
    }

    pub(super) fn has_names_to_look_up(&self) -> bool {
        !self.to_look_up.is_empty()
    }

    /// Notes that a name was looked up; `None`: it has no address, or none is known. Returns the rows that waited for it.
    pub(super) fn found(&mut self, name: &str, address: Option<IpAddr>) -> Vec<Row> {
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        let key = address.map_or_else(|| name.into(), |address| address.to_string().into());
        self.known.insert(name.into(), key);
        self.waiting.remove(name).unwrap_or_default()
    }

    /// Takes all rows that wait.
    pub(super) fn drain(&mut self) -> Vec<Row> {
        self.to_look_up.clear();
        self.waiting.drain().flat_map(|(_, rows)| rows).collect()
    }

    /// Takes a row that waits, if it is here.
    pub(super) fn remove(&mut self, ordinal: u64) -> Option<Row> {
        self.waiting.values_mut().find_map(|rows| {
            let at = rows.iter().position(|row| row.ordinal == ordinal)?;
            Some(rows.remove(at))
        })
    }
}
