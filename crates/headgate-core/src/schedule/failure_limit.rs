//! The failure limit stops a job that can't succeed: a wrong URL or an expired certificate must not cost a hundred million
//! rows.
//!
//! By default it stops if its first outcomes have all failed with one kind, and one broken host of many is not the reason:
//! the rows were of many hosts, or there is only one. Rows of a host that is down count as failed with the kind of the
//! other rows. A job that has stopped itself begins its next run with a probe: if its first rows all fail, it stops again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::ErrorKind;
use crate::failed_by::status_key;
use crate::grouped::grouped;
use crate::limits::MaxFailures;
use crate::message;
use crate::message::Message;

/// How many outcomes count: the first, or the last.
const OUTCOMES: usize = 1000;
const MANY_HOSTS: usize = 10;
/// The rows of a probe.
pub const PROBE_ROWS: u64 = 20;

/// Why a row failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    fn example(&self) -> Box<str>;
}

/// The failed rows that count, by their causes.
#[derive(Debug, Default)]
struct Causes {
    /// The number of rows with each cause, and the first of them if rows don't leave.
    counts: BTreeMap<FailedWith, (u64, Option<Box<str>>)>,
    /// The last outcomes, if only these count, the oldest first.
    last: VecDeque<Option<(FailedWith, Box<str>)>>,
}

impl Causes {
    fn add(&mut self, cause: FailedWith, row: &impl EndedRow) {
        let (count, first) = self.counts.entry(cause).or_default();
        *count += 1;
        first.get_or_insert_with(|| row.example());
    }

    /// Adds an outcome to the last ones, of which at most [`OUTCOMES`] count.
    fn push(&mut self, failed: Option<FailedWith>, row: &impl EndedRow) {
        if let Some(cause) = failed {
            self.counts.entry(cause).or_default().0 += 1;
        }
        self.last.push_back(failed.map(|cause| (cause, row.example())));
        if self.last.len() > OUTCOMES
            && let Some(Some((cause, _))) = self.last.pop_front()
            && let Some((count, _)) = self.counts.get_mut(&cause)
        {
            *count -= 1;
        }
    }

    fn failed(&self) -> u64 {
        self.counts.values().map(|(count, _)| count).sum()
    }

    /// Returns the most frequent cause with its number of rows and the first of these.
    fn most_frequent(&self) -> Message {
        let most = self.counts.iter().max_by_key(|(_, (count, _))| *count);
        let Some((cause, (count, first))) = most else { return Message::default() };
        let of_last = || self.last.iter().flatten().find(|(other, _)| other == cause).map(|(_, row)| &**row);
        let (name, first) = (cause.name(), first.as_deref().or_else(of_last).unwrap_or_default());
        let rows = if *count == 1 { "1 of them".to_owned() } else { format!("{} of them", grouped(*count)) };
        message!("{rows} with {name}, the first of these: {first}")
    }
}

#[derive(Debug)]
pub struct FailureLimit {
    rule: MaxFailures,
    outcomes: u64,
    /// The failure of all; `None`: none has ended, or only with `host_down`.
    with: Option<FailedWith>,
    hosts: BTreeSet<Box<str>>,
    causes: Causes,
    is_settled: bool,
    /// The first rows show whether the cause of an earlier stop is gone.
    is_probing: bool,
}

impl FailureLimit {
    pub fn new(rule: MaxFailures) -> Self {
        Self {
            rule,
            outcomes: 0,
            with: None,
            hosts: BTreeSet::new(),
            causes: Causes::default(),
            is_settled: rule == MaxFailures::Never,
            is_probing: false,
        }
    }

    /// Begins with a probe, unless nothing stops the job.
    #[must_use]
    pub fn probing(mut self, is_probing: bool) -> Self {
        self.is_probing = is_probing && !self.is_settled;
        self
    }

    /// Applies another rule from the next outcome on, without a probe. Returns whether it differs.
    pub fn set(&mut self, rule: MaxFailures) -> bool {
        if rule == self.rule {
            return false;
        }
        let keeps_rows = |rule| matches!(rule, MaxFailures::Count(_));
        let causes = if keeps_rows(self.rule) && keeps_rows(rule) {
            std::mem::take(&mut self.causes)
        } else {
            Causes::default()
        };
        *self = Self { causes, ..Self::new(rule) };
        true
    }

    /// Returns whether later outcomes no longer matter.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns whether the first rows are a probe, and none of them has succeeded yet.
    pub fn is_probing(&self) -> bool {
        self.is_probing
    }

    /// Counts a row that has ended; `failed`: why it failed, if it did. Returns why the job stops, if it does.
    pub fn count(&mut self, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<Message> {
        if self.is_settled {
            return None;
        }
        self.is_probing &= failed.is_some();
        self.outcomes += 1;
        let why = match self.rule {
            MaxFailures::Never => None,
            MaxFailures::Count(most) => self.too_many(most, failed, row),
            MaxFailures::Share(share) => self.share_failed(share, failed, row),
            MaxFailures::AllAlike => self.all_alike(failed, row),
        };
        let why = why.or_else(|| {
            let is_over = self.is_probing && self.outcomes >= PROBE_ROWS;
            is_over
                .then(|| format!("the job had stopped, and the first {} rows of this run failed, too", self.outcomes))
        });
        self.is_settled |= why.is_some();
        why.map(|why| message!("{why}: ", self.causes.most_frequent()))
    }

    fn too_many(&mut self, most: u64, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<String> {
        self.causes.add(failed?, row);
        (self.causes.failed() > most).then(|| format!("more than {} rows failed", grouped(most)))
    }

    fn share_failed(&mut self, share: f64, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<String> {
        self.causes.push(failed, row);
        let failed = self.causes.failed();
        // At least, and not more than: there is no share above 100 %.
        let is_too_many = self.causes.last.len() == OUTCOMES && failed as f64 >= share * OUTCOMES as f64;
        is_too_many.then(|| format!("{} of the last {} rows failed", grouped(failed), grouped(OUTCOMES as u64)))
    }

    fn all_alike(&mut self, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<String> {
        let is_another = match failed {
            None => true,
            Some(FailedWith::Kind(ErrorKind::HostDown)) => false,
            Some(with) => *self.with.get_or_insert(with) != with,
        };
        if is_another && !self.is_probing {
            self.is_settled = true;
            self.hosts.clear();
            return None;
        }
        self.causes.add(failed?, row);
        if self.hosts.len() < MANY_HOSTS {
            self.hosts.insert(row.host());
        }
        if self.outcomes < OUTCOMES as u64 {
            return None;
        }
        let is_conclusive = self.hosts.len() >= MANY_HOSTS || self.hosts.len() == 1 && row.is_of_the_only_host();
        // Later outcomes are no longer among the first.
        self.is_settled = true;
        is_conclusive.then(|| format!("the first {} rows all failed alike", grouped(self.outcomes)))
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

        fn example(&self) -> Box<str> {
            format!("row of host {}", self.host).into()
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
        let why = "the first 1,000 rows all failed alike: 1,000 of them with tls, the first of these: row of host";
        assert_eq!(Some((1000, format!("{why} 1"))), stops(MaxFailures::AllAlike, 10, |_| TLS));
        assert_eq!(Some((1000, format!("{why} 0"))), stops(MaxFailures::AllAlike, 1, |_| TLS));
        let mixed = stops(MaxFailures::AllAlike, 1, |row| if row < 9 { TLS } else { DOWN });
        assert_eq!(Some(1000), mixed.map(|(row, _)| row));
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
        assert_eq!(
            (1000, "500 of the last 1,000 rows failed: 500 of them with tls, the first of these: row of host 0"),
            (row, &*why)
        );
        assert_eq!(None, stops(MaxFailures::Share(0.51), 2, every_second));
        let later = |row| TLS.filter(|_| row > 3000);
        assert_eq!(Some(3510), stops(MaxFailures::Share(0.51), 2, later).map(|(row, _)| row));
        let (row, why) = stops(MaxFailures::Count(20), 2, every_second).expect("more than 20 fail");
        assert_eq!(
            (42, "more than 20 rows failed: 21 of them with tls, the first of these: row of host 0"),
            (row, &*why)
        );
        assert_eq!(Some(1), stops(MaxFailures::Count(0), 2, |_| TLS).map(|(row, _)| row));
        assert_eq!(None, stops(MaxFailures::Never, 1, |_| TLS));
    }

    #[test]
    fn the_most_frequent_cause_of_the_last_rows_is_named_with_the_first_of_them() {
        struct Numbered(u64);
        impl EndedRow for Numbered {
            fn host(&self) -> Box<str> {
                "a".into()
            }
            fn is_of_the_only_host(&self) -> bool {
                true
            }
            fn example(&self) -> Box<str> {
                format!("row {}", self.0).into()
            }
        }
        let mut limit = FailureLimit::new(MaxFailures::Share(0.9));
        let why = (0..9000).find_map(|row| {
            let failed = match row {
                100..5000 => None,
                5000..5100 => DOWN,
                _ => Some(FailedWith::Status(401)),
            };
            limit.count(failed, &Numbered(row))
        });
        let expected = "900 of the last 1,000 rows failed: 800 of them with status:401, the first of these: row 5100";
        assert_eq!(Some(expected.to_owned()), why.map(|why| why.to_string()));
    }

    #[test]
    fn a_run_after_a_stop_ends_its_probe_with_the_first_success() {
        let stops = |rule, succeeds: u64| {
            let mut limit = FailureLimit::new(rule).probing(true);
            let stopped_at = (1..=100_u64).find(|number| {
                let failed = TLS.filter(|_| *number != succeeds);
                limit.count(failed, &Row { host: 0, is_only: true }).is_some()
            });
            (stopped_at, limit.is_probing())
        };
        for rule in [MaxFailures::AllAlike, MaxFailures::Share(0.5), MaxFailures::Count(1000)] {
            assert_eq!((Some(PROBE_ROWS), true), stops(rule, 0), "{rule:?}");
            assert_eq!((None, false), stops(rule, 19), "{rule:?}");
        }
        assert_eq!((None, false), stops(MaxFailures::Never, 0));
    }
}
