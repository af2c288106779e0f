//! The failure limit stops a job that can't succeed: a wrong token or an expired certificate must not cost a hundred million rows.
//!
//! By default it stops if its first outcomes have all failed with one kind, and one broken host of many is not the reason:
//! the rows were of many hosts, or there is only one. Rows of a host that is down count as failed with the kind of the
//! other rows.

use std::collections::{BTreeSet, VecDeque};

use crate::error::ErrorKind;
use crate::failed_by::status_key;
use crate::grouped::grouped;
use crate::limits::MaxFailures;
use crate::message;
use crate::message::Message;

/// How many outcomes count: the first, or the last.
const OUTCOMES: usize = 1000;
const MANY_HOSTS: usize = 10;

/// Why a row failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedWith {
    Kind(ErrorKind),
    Status(u16),
}

impl FailedWith {
    fn name(self) -> String {
        match self {
            Self::Kind(kind) => kind.name().to_owned(),
            Self::Status(status) => status_key(status),
        }
    }
}

/// A row that has ended.
pub trait EndedRow {
    /// Returns the host that it goes to.
    fn host(&self) -> Box<str>;
    /// Returns whether all rows that were read and not started yet go to the same host as this one.
    fn is_of_the_only_host(&self) -> bool;
    /// Returns the row, and why it failed, for the user.
    fn example(&self) -> String;
}

#[derive(Debug)]
pub struct FailureLimit {
    rule: MaxFailures,
    outcomes: u64,
    failed: u64,
    /// The failure of all; `None`: none has ended, or only with `host_down`.
    with: Option<FailedWith>,
    hosts: BTreeSet<Box<str>>,
    /// The last outcomes; `true` is a failure.
    last: VecDeque<bool>,
    last_failed: usize,
    /// The first row that failed.
    example: Option<String>,
    is_settled: bool,
}

impl FailureLimit {
    pub fn new(rule: MaxFailures) -> Self {
        Self {
            rule,
            outcomes: 0,
            failed: 0,
            with: None,
            hosts: BTreeSet::new(),
            last: VecDeque::new(),
            last_failed: 0,
            example: None,
            is_settled: rule == MaxFailures::Never,
        }
    }

    /// Applies another rule from the next outcome on.
    pub fn set(&mut self, rule: MaxFailures) {
        if rule != self.rule {
            *self = Self { example: self.example.take(), failed: self.failed, ..Self::new(rule) };
        }
    }

    /// Returns whether later outcomes no longer matter.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Counts a row that has ended; `failed`: why it failed, if it did. Returns why the job stops, if it does.
    pub fn count(&mut self, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<Message> {
        if self.is_settled {
            return None;
        }
        self.outcomes += 1;
        if failed.is_some() {
            self.failed += 1;
            self.example.get_or_insert_with(|| row.example());
        }
        let why = match self.rule {
            MaxFailures::Never => None,
            MaxFailures::Count(count) => {
                (self.failed > count).then(|| format!("more than {} rows failed", grouped(count)))
            }
            MaxFailures::Share(share) => self.share_failed(share, failed.is_some()),
            MaxFailures::AllAlike => self.all_alike(failed, row),
        };
        self.is_settled |= why.is_some();
        let example = self.example.as_deref().unwrap_or_default();
        why.map(|why| message!("{why}; the first: {example}"))
    }

    fn share_failed(&mut self, share: f64, failed: bool) -> Option<String> {
        self.last.push_back(failed);
        self.last_failed += usize::from(failed);
        if self.last.len() > OUTCOMES {
            self.last_failed -= usize::from(self.last.pop_front().unwrap_or_default());
        }
        // At least, and not more than: there is no share above 100 %.
        let is_too_many = self.last.len() == OUTCOMES && self.last_failed as f64 >= share * OUTCOMES as f64;
        is_too_many.then(|| {
            format!("{} of the last {} rows failed", grouped(self.last_failed as u64), grouped(OUTCOMES as u64))
        })
    }

    fn all_alike(&mut self, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<String> {
        let is_another = match failed {
            None => true,
            Some(FailedWith::Kind(ErrorKind::HostDown)) => false,
            Some(with) => *self.with.get_or_insert(with) != with,
        };
        if is_another {
            self.is_settled = true;
            self.hosts.clear();
            return None;
        }
        if self.hosts.len() < MANY_HOSTS {
            self.hosts.insert(row.host());
        }
        if self.outcomes < OUTCOMES as u64 {
            return None;
        }
        let is_conclusive = self.hosts.len() >= MANY_HOSTS || self.hosts.len() == 1 && row.is_of_the_only_host();
        // Later outcomes are no longer among the first.
        self.is_settled = true;
        is_conclusive.then(|| {
            let with = self.with.unwrap_or(FailedWith::Kind(ErrorKind::HostDown)).name();
            format!("the first {} rows all failed with {with}", grouped(self.outcomes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row {
        host: usize,
        is_only: bool,
    }

    impl EndedRow for Row {
        fn host(&self) -> Box<str> {
            self.host.to_string().into()
        }

        fn is_of_the_only_host(&self) -> bool {
            self.is_only
        }

        fn example(&self) -> String {
            format!("row of host {}", self.host)
        }
    }

    const TLS: Option<FailedWith> = Some(FailedWith::Kind(ErrorKind::Tls));
    const DOWN: Option<FailedWith> = Some(FailedWith::Kind(ErrorKind::HostDown));

    /// Returns the number of rows after which the limit stops the run, and the reason.
    fn stops(rule: MaxFailures, hosts: usize, outcome: impl Fn(u64) -> Option<FailedWith>) -> Option<(u64, String)> {
        let mut limit = FailureLimit::new(rule);
        (1..=5000).find_map(|number| {
            let row = Row { host: number as usize % hosts, is_only: hosts == 1 };
            limit.count(outcome(number), &row).map(|why| (number, why.to_string()))
        })
    }

    #[test]
    fn by_default_a_run_stops_if_the_first_thousand_rows_fail_alike_whatever_the_host() {
        let why = "the first 1,000 rows all failed with tls; the first: row of host";
        assert_eq!(Some((1000, format!("{why} 1"))), stops(MaxFailures::AllAlike, 10, |_| TLS));
        assert_eq!(Some((1000, format!("{why} 0"))), stops(MaxFailures::AllAlike, 1, |_| TLS));
        assert_eq!(
            Some((1000, format!("{why} 0"))),
            stops(MaxFailures::AllAlike, 1, |row| if row < 9 { TLS } else { DOWN })
        );
        // One or two hosts are no evidence about other hosts.
        assert_eq!(None, stops(MaxFailures::AllAlike, 9, |_| TLS));
        assert_eq!(None, stops(MaxFailures::AllAlike, 10, |row| TLS.filter(|_| row != 1000)));
        let other = |row| if row == 7 { Some(FailedWith::Status(404)) } else { TLS };
        assert_eq!(None, stops(MaxFailures::AllAlike, 10, other));
    }

    #[test]
    fn a_share_is_one_of_the_last_thousand_and_a_count_is_one_of_all() {
        let every_second = |row| TLS.filter(|_| row % 2 == 0);
        let (row, why) = stops(MaxFailures::Share(0.5), 2, every_second).expect("half of them fail");
        assert_eq!((1000, "500 of the last 1,000 rows failed; the first: row of host 0"), (row, &*why));
        assert_eq!(None, stops(MaxFailures::Share(0.51), 2, every_second));
        let later = |row| TLS.filter(|_| row > 3000);
        assert_eq!(Some(3510), stops(MaxFailures::Share(0.51), 2, later).map(|(row, _)| row));
        let (row, why) = stops(MaxFailures::Count(20), 2, every_second).expect("more than 20 fail");
        assert_eq!((42, "more than 20 rows failed; the first: row of host 0"), (row, &*why));
        assert_eq!(Some(1), stops(MaxFailures::Count(0), 2, |_| TLS).map(|(row, _)| row));
        assert_eq!(None, stops(MaxFailures::Never, 1, |_| TLS));
    }
}
