//! The hosts of rows, counted: at most as many as there are sampled rows.

use std::cmp::Reverse;
use std::collections::HashMap;

use headgate_core::limits::HostBy;
use headgate_core::origin::Origin;
use serde::Serialize;

/// The maximum number of hosts that are listed.
const MAX_LISTED: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRows {
    pub host: String,
    pub rows: u64,
}

#[derive(Debug)]
pub(super) struct HostCounts {
    by: HostBy,
    rows: HashMap<Box<str>, u64>,
}

impl HostCounts {
    pub(super) fn new(by: HostBy) -> Self {
        Self { by, rows: HashMap::new() }
    }

    pub(super) fn add(&mut self, origin: &Origin) {
        *self.rows.entry(origin.key(self.by)).or_default() += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&str, u64)> + Clone {
        self.rows.iter().map(|(host, rows)| (&**host, *rows))
    }

    /// Returns the hosts with the most rows, in descending order.
    pub(super) fn top(&self) -> Vec<HostRows> {
        let mut hosts: Vec<_> = self.all().collect();
        hosts.sort_unstable_by_key(|(host, rows)| (Reverse(*rows), *host));
        hosts.truncate(MAX_LISTED);
        hosts.into_iter().map(|(host, rows)| HostRows { host: host.to_owned(), rows }).collect()
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::origin::HostName;

    use super::*;

    #[test]
    fn a_host_is_a_hostname_by_default_whatever_its_scheme_and_port() {
        let origin = |https, port| Origin { https, name: HostName::Domain("a".into()), port };
        let both = [origin(false, 80), origin(true, 443), origin(false, 81), origin(false, 80)];
        for (expected, by) in [
            (vec![("a", 4)], HostBy::Name),
            (vec![("a", 4)], HostBy::Address),
            (vec![("http://a", 2), ("http://a:81", 1), ("https://a", 1)], HostBy::Origin),
        ] {
            let mut counts = HostCounts::new(by);
            for origin in &both {
                counts.add(origin);
            }
            let top: Vec<_> = counts.top();
            assert_eq!(expected, top.iter().map(|host| (host.host.as_str(), host.rows)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_ten_with_the_most_rows_are_named_and_all_are_counted() {
        let mut counts = HostCounts::new(HostBy::Name);
        for number in 0..40_u8 {
            let name = HostName::Domain(format!("h{number:02}").into());
            let origin = Origin { https: false, name, port: 80 };
            (0..=number).for_each(|_| counts.add(&origin));
        }
        let top = counts.top();
        assert_eq!((40, 10), (counts.count(), top.len()));
        assert_eq!(("h39", 40, "h30", 31), (&*top[0].host, top[0].rows, &*top[9].host, top[9].rows));
    }
}
