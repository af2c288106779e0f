//! Rows that begin to wait for their hosts, and rows that leave without an attempt.

use std::net::IpAddr;
use std::time::Instant;

use super::{HostIndex, Scheduler};
use crate::error::{ErrorKind, Failure};
use crate::limits::HostBy;
use crate::message::OptionName;
use crate::row::{Before, Row};
use crate::schedule::budget::Allowance;
use crate::schedule::host_queue::{HostCredentials, HostQueue};
use crate::schedule::rows_to_cancel::RowsToCancel;

impl Scheduler {
    /// Accepts a row that was drawn, or whose attempt was redirected: that one starts before rows that had no attempt yet.
    /// `name`: its host; `None`: it can't be sent to any.
    pub fn offer(&mut self, mut row: Row, name: Option<&str>, now: Instant) {
        if self.is_stopped() {
            self.leave_row_undone(&row);
            return;
        }
        let is_redirected = row.chain().is_some();
        if is_redirected {
            row.record_wait();
        }
        let is_new = is_redirected || self.newest.is_none_or(|newest| row.ordinal > newest);
        if !is_redirected {
            self.newest = self.newest.max(Some(row.ordinal));
            self.look_ahead.recall(&mut row);
        }
        let Some(name) = name else {
            self.hostless.push_back(row);
            return;
        };
        if self.rules.limits.host_by != HostBy::Address {
            self.admit(row, name, is_new, now);
        } else if let Some(key) = self.addresses.key(name).map(Box::<str>::from) {
            self.admit(row, &key, is_new, now);
        } else if !is_redirected && self.look_ahead.is_full() && self.look_ahead.can_defer() {
            self.look_ahead.defer(&row);
        } else {
            self.look_ahead.enters(&row);
            self.addresses.wait(name, row);
        }
    }

    /// Returns the next hostname to look up, and a URL with it: the caller must report the result by
    /// [`Scheduler::found_address`].
    pub fn next_hostname_to_resolve(&mut self) -> Option<(Box<str>, Box<str>)> {
        self.addresses.next_to_resolve()
    }

    /// Returns whether there is such a hostname.
    pub fn has_hostnames_to_resolve(&self) -> bool {
        self.addresses.has_hostnames_to_resolve()
    }

    /// Records the address of a hostname; `None`: there is none.
    pub fn found_address(&mut self, name: &str, address: Option<IpAddr>, now: Instant) {
        let key = address.map_or_else(|| name.into(), |address| address.to_string());
        for row in self.addresses.found(name, address) {
            self.look_ahead.leaves(&row);
            self.admit(row, &key, true, now);
        }
    }

    fn admit(&mut self, row: Row, name: &str, is_new: bool, now: Instant) {
        let index = self.host(name, now);
        let host = self.hosts.at(index);
        if !is_new && host.deferred > 0 {
            host.deferred -= 1;
            self.deferred -= 1;
        }
        let others = self.hosts.at(index).waiting();
        if self.is_refused(index, others, now) {
            self.fail_down(index, row, now);
        } else if let Some(failure) = self.paused_too_long(index, row.own_retrying(), now) {
            self.failing.push_back((row, failure));
        } else if self.is_refused_by_breaker(index, &row, others, now) {
            self.failing.push_back((row, breaker_open()));
        } else {
            self.defer_if_full(now);
            self.enqueue(index, row);
        }
        self.settle(index, now);
    }

    /// Returns whether a row of this host fails without an attempt, while `others` more of its rows wait: one at a time may
    /// probe whether the host is healthy again.
    pub(super) fn is_refused(&mut self, index: HostIndex, others: u64, now: Instant) -> bool {
        let view = self.network.view(&self.rules.retrying);
        let host = self.hosts.at(index);
        let may_probe = || host.breaker.as_ref().is_some_and(|breaker| breaker.may_send(now));
        host.is_down(view, now) && !(others == 0 && host.in_flight == 0 && may_probe())
    }

    /// Returns whether a row fails that comes to its host, as it has no retries and would wait for others to probe the host.
    fn is_refused_by_breaker(&mut self, index: HostIndex, row: &Row, others: u64, now: Instant) -> bool {
        let host = self.hosts.at(index);
        let Some(breaker) = host.breaker.as_ref().filter(|breaker| breaker.is_open()) else { return false };
        let is_probe = others == 0 && host.in_flight == 0 && breaker.may_send(now);
        !is_probe && !breaker.is_paused(now) && row.has_no_retries()
    }

    /// Fails the waiting rows without retries of a host whose breaker has opened.
    pub(super) fn fail_without_retries(&mut self, index: HostIndex) {
        let Some(host) = self.hosts.get(index).filter(|host| host.rows().any(Row::has_no_retries)) else { return };
        for row in host.remove_where(Row::has_no_retries) {
            self.look_ahead.leaves(&row);
            self.failing.push_back((row, breaker_open()));
        }
    }

    fn enqueue(&mut self, index: HostIndex, row: Row) {
        let host = self.hosts.at(index);
        let is_redirected = row.chain().is_some();
        if !is_redirected
            && self.look_ahead.can_defer()
            && self.look_ahead.is_full_for(host.new_rows.len(), host.retries.len())
        {
            self.defer(index, &row);
            return;
        }
        self.look_ahead.enters(&row);
        if is_redirected { host.redirected.push_back(row) } else { host.new_rows.push_back(row) }
    }

    fn defer(&mut self, index: HostIndex, row: &Row) {
        self.look_ahead.defer(row);
        self.hosts.at(index).deferred += 1;
        self.deferred += 1;
    }

    /// Defers rows of the hosts that have more than their share, if the look-ahead is full.
    fn defer_if_full(&mut self, now: Instant) {
        if !self.look_ahead.can_defer_more() {
            return;
        }
        let hosts = self.hosts.iter().filter(|host| host.waiting() > 0).count();
        self.look_ahead.divide(hosts);
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let share = self.look_ahead.share();
            // Half of the share is for rows that had no attempt yet: retries are taken from them, and are deferred with
            // them.
            let retries = host.retries.len().saturating_sub(share / 2);
            let retries = (0..retries).map_while(|_| host.retries.pop_last().map(|(_, row)| row));
            let retries: Vec<Row> = retries.take(self.look_ahead.retried_capacity()).collect();
            let kept = host.new_rows.len().min(share.saturating_sub(host.retries.len()).max(share.div_ceil(2)));
            for row in host.new_rows.split_off(kept).into_iter().chain(retries) {
                self.look_ahead.leaves(&row);
                self.defer(index, &row);
            }
            if self.hosts.get(index).is_some_and(|host| host.counted != host.waiting()) {
                self.settle(index, now);
            }
        }
        self.look_ahead.end_deferring();
        self.weigh_all();
    }

    pub(super) fn host(&mut self, name: &str, now: Instant) -> HostIndex {
        if let Some(index) = self.hosts.find(name) {
            return index;
        }
        self.evict_hosts(now);
        let mut host = HostQueue::new(name, &self.rules.limits, self.rules.concurrency, now);
        host.responded_earlier = self.responded_earlier.contains(name);
        self.hosts.insert(host)
    }

    /// Evicts idle hosts if there are too many.
    pub fn evict_hosts(&mut self, now: Instant) {
        self.unhealthy -= self.hosts.evict(now);
    }

    /// Returns whether there is space for another host: otherwise no rows may be drawn.
    pub fn has_space_for_a_host(&self) -> bool {
        self.hosts.has_space()
    }

    /// Lets a row wait for its next attempt until `due`; `first`: when its first attempt began; `is_refused`: it is retried with
    /// new credentials.
    pub(super) fn enqueue_retry(
        &mut self,
        mut row: Row,
        (first, is_refused): (Instant, bool),
        (index, name): (Option<HostIndex>, Option<&str>),
        due: Instant,
        now: Instant,
    ) {
        let before = row.before();
        let first = before.map_or(first, |before| before.first);
        let was_refused = is_refused || before.is_some_and(|before| before.was_refused);
        row.set_before(Before { attempts: before.map_or(0, |before| before.attempts) + 1, first, was_refused });
        row.record_wait();
        if self.is_stopped() {
            self.leave_row_undone(&row);
            return;
        }
        let Some(index) = index.or_else(|| name.map(|name| self.host(name, now))) else {
            self.hostless.push_back(row);
            return;
        };
        if self.awaits_credentials && row.replaces_credentials() && row.reply_to.is_some() {
            // What provides the credentials may need this request for it, and must not wait for itself.
            self.hostless.push_back(row);
            return;
        }
        let view = self.network.view(&self.rules.retrying);
        if self.hosts.at(index).is_down(view, now) {
            self.fail_down(index, row, now);
            return;
        }
        self.defer_if_full(now);
        if self.look_ahead.is_full() && self.look_ahead.can_defer_retried() {
            self.defer(index, &row);
        } else {
            self.look_ahead.enters(&row);
            self.hosts.at(index).retries.insert((due, row.ordinal), row);
        }
        self.settle(index, now);
    }

    /// Requeues a row that was started and not sent, if its host has requested a pause meanwhile: it is the next one of its
    /// host. `name`: the host, if it was started without the scheduler. Returns whether it was requeued.
    pub fn requeue_unsent(
        &mut self,
        started_for: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        take_row: impl FnOnce() -> Row,
        now: Instant,
    ) -> bool {
        let index = started_for.or_else(|| name().and_then(|name| self.hosts.find(&name)));
        let paused = index.filter(|index| {
            let breaker = self.hosts.get(*index).and_then(|host| host.breaker.as_ref());
            breaker.is_some_and(|breaker| breaker.is_paused(now))
        });
        let Some(index) = paused else { return false };
        let row = take_row();
        self.refund(&row);
        self.requeue(index, started_for.is_some(), row, now);
        true
    }

    /// Spends a request that is sent once more within its attempt. If the budget doesn't allow that now, the row is requeued as
    /// the next one of its host, and the attempt begins again when there is more. Returns whether it was requeued.
    pub fn requeue_resent(
        &mut self,
        started_for: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        take_row: impl FnOnce() -> Row,
        now: Instant,
    ) -> bool {
        if self.budgets.try_spend_request() == Allowance::Allowed {
            return false;
        }
        let Some(index) = started_for.or_else(|| name().map(|name| self.host(&name, now))) else { return false };
        let row = take_row();
        self.budgets.cost.refund(self.rules.spent_by(&row));
        self.requeue(index, started_for.is_some(), row, now);
        true
    }

    /// Lets a row wait as the next one of its host, unless the run was stopped.
    fn requeue(&mut self, index: HostIndex, was_started_here: bool, row: Row, now: Instant) {
        if was_started_here {
            self.leave(index, None);
        }
        if self.is_stopped() {
            self.leave_row_undone(&row);
        } else {
            row.record_wait();
            let host = self.hosts.at(index);
            self.look_ahead.enters(&row);
            if row.chain().is_some() {
                host.redirected.push_front(row);
            } else if row.before().is_some() {
                host.retries.insert((now, row.ordinal), row);
            } else {
                host.new_rows.push_front(row);
            }
        }
        self.settle(index, now);
    }

    fn fail_down(&mut self, index: HostIndex, row: Row, now: Instant) {
        let host = self.hosts.at(index);
        let pause_exceeds_limit = host.breaker.as_ref().is_some_and(|breaker| breaker.pause_exceeds_limit(now));
        self.failing.push_back((row, host_down(pause_exceeds_limit)));
    }

    /// Fails all waiting rows of a host.
    pub(super) fn fail_all_of(&mut self, index: HostIndex, now: Instant) {
        for row in self.hosts.at(index).drain() {
            self.look_ahead.leaves(&row);
            self.fail_down(index, row, now);
        }
    }

    /// Notes that requests to this host have credentials that are renewed.
    pub fn note_credentials(&mut self, name: &str, now: Instant) {
        if self.rules.limits.host_by == HostBy::Address {
            // See `Scheduler::next`.
            return;
        }
        let index = self.host(name, now);
        let host = self.hosts.at(index);
        if host.credentials == HostCredentials::None {
            host.credentials = HostCredentials::awaited(self.awaits_credentials);
            self.settle(index, now);
        }
    }

    /// Starts nothing at hosts that get credentials while `awaits`. With limits per address, a host is known only after its
    /// name was looked up: then nothing starts at all.
    pub fn await_credentials(&mut self, awaits: bool, now: Instant) {
        if self.awaits_credentials == awaits {
            return;
        }
        self.awaits_credentials = awaits;
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index)
                && host.credentials != HostCredentials::None
            {
                host.credentials = HostCredentials::awaited(awaits);
                self.settle(index, now);
            }
        }
    }

    /// Returns whether hosts that get credentials wait for new ones.
    pub fn awaits_credentials(&self) -> bool {
        self.awaits_credentials
    }

    /// Ends a probe, as one of its rows has succeeded.
    pub fn end_probe(&mut self) {
        self.probe = None;
    }

    /// Fails waiting rows for which `fails` is true.
    pub fn fail_where(&mut self, mut fails: impl FnMut(&Row) -> bool, failure: &Failure, now: Instant) {
        if self.is_stopped() {
            return;
        }
        for index in self.hosts.indices() {
            let removed = self.hosts.get(index).map(|host| host.remove_where(&mut fails)).unwrap_or_default();
            if removed.is_empty() {
                continue;
            }
            for row in removed {
                self.look_ahead.leaves(&row);
                self.failing.push_back((row, failure.clone()));
            }
            self.settle(index, now);
        }
    }

    /// Fails the rows that wait for new credentials.
    pub fn fail_awaiting(&mut self, failure: &Failure, now: Instant) {
        let is_any_host = self.rules.limits.host_by == HostBy::Address;
        if is_any_host {
            for row in self.addresses.drain() {
                self.look_ahead.leaves(&row);
                self.failing.push_back((row, failure.clone()));
            }
        }
        for index in self.hosts.indices() {
            let awaits = |host: &&mut HostQueue| is_any_host || host.credentials == HostCredentials::Awaited;
            let Some(host) = self.hosts.get(index).filter(awaits) else { continue };
            for row in host.remove_where(|row| !row.replaces_credentials()) {
                self.look_ahead.leaves(&row);
                self.failing.push_back((row, failure.clone()));
            }
            self.settle(index, now);
        }
    }

    /// Fails a row that was drawn, and does not start.
    pub fn fail(&mut self, row: Row, failure: Failure) {
        if !self.is_stopped() {
            self.failing.push_back((row, failure));
        }
    }

    /// Returns whether `holds` is true for all rows that wait for their hosts.
    pub fn all_waiting(&self, mut holds: impl FnMut(&Row) -> bool) -> bool {
        self.hosts.iter().all(|host| host.rows().all(&mut holds))
    }

    /// Fails rows as cancelled: those that were found elsewhere and not sent, and those that wait here. Returns whether there
    /// are any.
    pub fn cancel(&mut self, mut rows: Vec<Row>, cancelled: RowsToCancel, now: Instant) -> bool {
        if self.is_stopped() {
            // They are left undone, as are all rows that wait.
            return !rows.is_empty();
        }
        let from_elsewhere = rows.len();
        if !cancelled.is_all_of(&rows) {
            rows.extend(self.addresses.remove(cancelled));
        }
        for index in self.hosts.indices() {
            if cancelled.is_all_of(&rows) {
                break;
            }
            let removed = self.hosts.get(index).map(|host| host.remove(cancelled)).unwrap_or_default();
            if !removed.is_empty() {
                rows.extend(removed);
                self.settle(index, now);
            }
        }
        rows[from_elsewhere..].iter().for_each(|row| self.look_ahead.leaves(row));
        let is_any = !rows.is_empty();
        self.failing.extend(rows.into_iter().map(|row| {
            let why = match row.chain() {
                Some(_) => "cancelled while it waited for the host of its redirect",
                None => "it was cancelled before it was sent",
            };
            (row, Failure::new(ErrorKind::Cancelled, why))
        }));
        is_any
    }
}

pub(super) fn host_down(requested_pause: bool) -> Failure {
    if requested_pause {
        Failure::new(ErrorKind::HostDown, "the host requested too long a pause").with_option(OptionName::RetryMaxPause)
    } else {
        Failure::new(ErrorKind::HostDown, "the host has sent no response for too long")
            .with_option(OptionName::HostDownAfter)
    }
}

fn breaker_open() -> Failure {
    Failure::new(
        ErrorKind::HostDown,
        "the host has failed so often that it only gets probes, and the row has no retries",
    )
    .with_option(OptionName::Retries)
}
