//! What a job does over time, in points that can be merged: the plots of its report are drawn from them.

use std::collections::BTreeMap;

use headgate_core::failed_by::status_of;
use serde::{Deserialize, Serialize};

use crate::stats::worker::Figures;

/// Buckets of latencies for each doubling: their bounds are 9 % apart, and 31 doublings are an hour.
const BUCKETS_PER_DOUBLING: f64 = 8.0;

/// What happened in an interval. Counts of neighbours can be added, and so can their histograms, so that percentiles of merged
/// points are as exact as before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// The end of the interval, in milliseconds since 1970.
    pub at_ms: u64,
    /// The length of the interval. The time between two runs belongs to none.
    pub ms: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Attempts that were followed by a retry.
    pub retried: u64,
    pub received_bytes: u64,
    /// The time in which the process was stopped, or its machine suspended.
    pub stalled_ms: u64,
    /// Means of the number of requests in flight, and of its limit.
    pub in_flight: u64,
    pub concurrency: u64,
    /// Rows by their outcome: the class of a status, such as `2xx`, or `error`.
    pub outcomes: BTreeMap<String, u64>,
    /// Latencies of the last attempts of rows by bucket: those in bucket `b` are less than 2^((b + 1) / 8) microseconds.
    pub latencies: BTreeMap<u8, u64>,
    /// Milliseconds by the kind of bottleneck.
    pub bottlenecks: BTreeMap<String, u64>,
}

impl Point {
    /// Returns the counts of these figures, as of an interval since the start of their run.
    pub(crate) fn of(figures: &Figures) -> Self {
        let mut point = Self {
            succeeded: figures.succeeded,
            failed: figures.failed,
            retried: figures.retries.causes.values().sum(),
            received_bytes: figures.received_bytes,
            ..Self::default()
        };
        let succeeded = figures.statuses().into_iter().map(|(status, rows)| (Some(status), rows));
        let failed = figures
            .failures
            .counts()
            .into_iter()
            .map(|(cause, rows)| (status_of(&cause).and_then(|status| status.parse().ok()), rows));
        for (status, rows) in succeeded.chain(failed) {
            *point.outcomes.entry(outcome(status)).or_default() += rows;
        }
        for recorded in figures.latency_us.iter_recorded() {
            *point.latencies.entry(bucket(recorded.value_iterated_to())).or_default() += recorded.count_at_value();
        }
        point
    }

    /// Returns what happened since `earlier`, where both count from the start of a run.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            ms: self.ms.saturating_sub(earlier.ms),
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            failed: self.failed.saturating_sub(earlier.failed),
            retried: self.retried.saturating_sub(earlier.retried),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            stalled_ms: self.stalled_ms.saturating_sub(earlier.stalled_ms),
            outcomes: difference(&self.outcomes, &earlier.outcomes),
            latencies: difference(&self.latencies, &earlier.latencies),
            ..self.clone()
        }
    }

    /// Adds the interval that follows.
    pub(crate) fn merge(&mut self, next: &Self) {
        let (ms, next_ms) = (self.ms as f64, next.ms.max(1) as f64);
        let mean =
            |mine: u64, theirs: u64| ((mine as f64 * ms + theirs as f64 * next_ms) / (ms + next_ms)).round() as u64;
        self.in_flight = mean(self.in_flight, next.in_flight);
        self.concurrency = mean(self.concurrency, next.concurrency);
        self.at_ms = next.at_ms;
        for (mine, theirs) in [
            (&mut self.ms, next.ms),
            (&mut self.succeeded, next.succeeded),
            (&mut self.failed, next.failed),
            (&mut self.retried, next.retried),
            (&mut self.received_bytes, next.received_bytes),
            (&mut self.stalled_ms, next.stalled_ms),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        add(&mut self.outcomes, &next.outcomes);
        add(&mut self.latencies, &next.latencies);
        add(&mut self.bottlenecks, &next.bottlenecks);
    }
}

fn outcome(status: Option<u16>) -> String {
    match status {
        Some(status @ 100..=599) => format!("{}xx", status / 100),
        Some(_) => "other".into(),
        None => "error".into(),
    }
}

fn bucket(latency_us: u64) -> u8 {
    ((latency_us.max(1) as f64).log2() * BUCKETS_PER_DOUBLING) as u8
}

fn difference<K: Ord + Clone>(now: &BTreeMap<K, u64>, earlier: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let since = |key: &K, count: u64| count.saturating_sub(earlier.get(key).copied().unwrap_or_default());
    now.iter().map(|(key, count)| (key.clone(), since(key, *count))).filter(|(_, count)| *count > 0).collect()
}

fn add<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, counts: &BTreeMap<K, u64>) {
    for (key, count) in counts {
        let sum = to.entry(key.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_ms: u64, ms: u64, rows: u64, in_flight: u64) -> Point {
        Point {
            at_ms,
            ms,
            succeeded: rows,
            in_flight,
            outcomes: BTreeMap::from([("2xx".to_owned(), rows)]),
            latencies: BTreeMap::from([(bucket(rows), 1)]),
            ..Point::default()
        }
    }

    #[test]
    fn merged_points_have_the_sums_and_means_of_both() {
        let mut merged = point(1_000, 1_000, 10, 4);
        merged.merge(&point(4_000, 3_000, 20, 8));
        let expected = Point { latencies: BTreeMap::from([(26, 1), (34, 1)]), ..point(4_000, 4_000, 30, 7) };
        assert_eq!(expected, merged);
    }

    #[test]
    fn what_happened_since_an_earlier_moment_and_that_moment_add_up() {
        let (earlier, now) = (point(1, 1_000, 10, 4), point(1, 3_000, 25, 4));
        let now = Point { latencies: BTreeMap::from([(26, 1), (37, 2)]), ..now };
        let mut sum = earlier.clone();
        sum.merge(&now.since(&earlier));
        assert_eq!(now, sum);
    }

    #[test]
    fn buckets_hold_all_latencies_in_their_order() {
        let buckets = [0, 1, 2, 3, 1_000, 3_600_000_000].map(bucket);
        assert_eq!([0, 0, 8, 12, 79, 253], buckets);
    }
}
