//! How rows come to the gate: under which host they wait, or why they don't.

use std::net::IpAddr;
use std::time::Instant;

use super::ending::cancelled;
use super::{Gate, HostIndex};
use crate::model::limits::LimitBy;
use crate::model::row::Row;
use crate::schedule::host::{Host, Parked};

impl Gate {
    /// A row that was drawn, and the host that it goes to; `None`: it can't be sent to any.
    pub fn offer(&mut self, mut row: Row, name: Option<&str>, now: Instant) {
        if self.is_stopped {
            return;
        }
        let is_new = self.newest.is_none_or(|newest| row.ordinal > newest);
        if is_new {
            self.newest = Some(row.ordinal);
        }
        self.look_ahead.recall(&mut row);
        if row.is_cancelled() {
            self.fail(row, cancelled());
            return;
        }
        let Some(name) = name else {
            self.hostless.push_back(row);
            return;
        };
        if self.rules.limits.limit_by != LimitBy::Address {
            self.admit(row, name, is_new, now);
        } else if let Some(key) = self.addresses.key(name).map(Box::<str>::from) {
            self.admit(row, &key, is_new, now);
        } else if self.look_ahead.is_full() && self.look_ahead.can_pass_over() {
            self.look_ahead.give_up(&row);
        } else {
            self.look_ahead.enters(&row);
            self.addresses.wait(name, row);
        }
    }

    /// A row whose attempt was redirected to this host, in the middle of it: it comes before rows that were not asked yet.
    /// `None`: it leads to no host.
    pub fn offer_hop(&mut self, row: Row, name: Option<&str>, now: Instant) {
        if self.is_stopped {
            return;
        }
        let Some(name) = name else {
            self.hostless.push_back(row);
            return;
        };
        if self.rules.limits.limit_by != LimitBy::Address {
            self.admit(row, name, true, now);
        } else if let Some(key) = self.addresses.key(name).map(Box::<str>::from) {
            self.admit(row, &key, true, now);
        } else {
            self.look_ahead.enters(&row);
            self.addresses.wait(name, row);
        }
    }

    /// The next name whose address is to be found, and a URL that leads there: [`Gate::found_address`] has to follow.
    pub fn name_to_look_up(&mut self) -> Option<(Box<str>, Box<str>)> {
        self.addresses.ask()
    }

    /// Whether there is such a name.
    pub fn has_names_to_look_up(&self) -> bool {
        self.addresses.has_unasked()
    }

    /// The address of a name was found; `None`: there is none.
    pub fn found_address(&mut self, name: &str, address: Option<IpAddr>, now: Instant) {
        let key = address.map_or_else(|| name.into(), |address| address.to_string());
        for row in self.addresses.found(name, address) {
            self.look_ahead.leaves(&row);
            self.admit(row, &key, true, now);
        }
    }

    pub(super) fn admit(&mut self, row: Row, name: &str, is_new: bool, now: Instant) {
        let index = self.host(name, now);
        let host = self.hosts.at(index);
        if !is_new && host.passed_over > 0 {
            host.passed_over -= 1;
            self.passed_over -= 1;
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        let others = self.hosts.at(index).waiting();
        if self.is_refused(index, others, now) {
            self.fail_down(index, row, now);
        } else {
            if self.look_ahead.may_make_room() {
                self.make_room(now);
            }
            self.park(index, Parked { turn, row });
        }
        self.settle(index, now);
    }

    /// Whether a row of this host is to fail without being asked, where so many others of it wait: one at a time may see
    /// whether the host is well again.
    pub(super) fn is_refused(&mut self, index: HostIndex, others: u64, now: Instant) -> bool {
        let view = self.network.view(&self.rules.retrying);
        let host = self.hosts.at(index);
        let may_probe = || host.breaker.as_ref().is_some_and(|breaker| breaker.may_be_asked(now));
        host.is_down(view, now) && !(others == 0 && host.in_flight == 0 && may_probe())
    }

    pub(super) fn park(&mut self, index: HostIndex, parked: Parked) {
        if parked.row.trail().is_some() {
            self.look_ahead.enters(&parked.row);
            self.hosts.at(index).hops.push_back(Parked { turn: self.next_hop, row: parked.row });
            self.next_hop += 1;
            return;
        }
        let host = self.hosts.at(index);
        if self.look_ahead.can_pass_over() && self.look_ahead.is_full_for(host.parked.len(), host.retries.len()) {
            self.pass_over(index, &parked.row);
            return;
        }
        self.look_ahead.enters(&parked.row);
        host.parked.push_back(parked);
    }

    pub(super) fn pass_over(&mut self, index: HostIndex, row: &Row) {
        self.look_ahead.give_up(row);
        self.hosts.at(index).passed_over += 1;
        self.passed_over += 1;
    }

    /// Takes from those that have more than their share.
    pub(super) fn make_room(&mut self, now: Instant) {
        let hosts = self.hosts.iter().filter(|host| host.waiting() > 0).count();
        self.look_ahead.divide(hosts);
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let share = self.look_ahead.share();
            // Half of it is for rows that were not asked yet: those that are asked again are a part of them, and go with them.
            let retries = host.retries.len().saturating_sub(share / 2);
            let retries = (0..retries).map_while(|_| host.retries.pop_last().map(|(_, row)| row));
            let retries: Vec<Row> = retries.take(self.look_ahead.room_for_before()).collect();
            let kept = host.parked.len().min(share.saturating_sub(host.retries.len()).max(share.div_ceil(2)));
            let parked = host.parked.split_off(kept).into_iter().map(|parked| parked.row);
            for row in parked.chain(retries) {
                self.look_ahead.leaves(&row);
                self.pass_over(index, &row);
            }
            if self.hosts.get(index).is_some_and(|host| host.counted != host.waiting()) {
                self.settle(index, now);
            }
        }
        self.look_ahead.has_made_room();
        self.weigh_all();
    }

    pub(super) fn find(&self, name: &str) -> Option<HostIndex> {
        self.hosts.find(name)
    }

    pub(super) fn host(&mut self, name: &str, now: Instant) -> HostIndex {
        if let Some(index) = self.hosts.find(name) {
            return index;
        }
        self.make_room_for_a_host(now);
        let mut host = Host::new(name, &self.rules.limits, self.rules.concurrency, now);
        host.responded_earlier = self.responded_earlier.contains(name);
        self.hosts.insert(host)
    }

    /// Rows are about to be read again: each host has a share of the room.
    pub fn reads_again(&mut self) {
        let hosts = self.hosts.iter().filter(|host| host.passed_over > 0 || !host.parked.is_empty()).count();
        self.look_ahead.divide(hosts);
        self.weigh_all();
    }

    /// Whether another host would have no place: then no more rows are to be drawn.
    pub fn is_full_of_hosts(&mut self, now: Instant) -> bool {
        !self.make_room_for_a_host(now)
    }

    fn make_room_for_a_host(&mut self, now: Instant) -> bool {
        let mut forgotten = 0;
        let has_room = self.hosts.make_room(now, &mut forgotten);
        self.in_trouble -= forgotten;
        has_room
    }
}
