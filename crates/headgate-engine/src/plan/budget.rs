//! What a job would use of its budgets, as far as its first rows tell.

use headgate_core::grouped::grouped;
use headgate_core::limits::Limits;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use serde::Serialize;

use super::sample::InputSample;
use crate::job::look::FoundJob;

/// The requests and costs of a job: those of earlier runs, and those that are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExpectedUse {
    /// Requests of earlier runs.
    pub requests_before: u64,
    pub max_requests: Option<u64>,
    /// What earlier runs have cost.
    pub cost_before: u64,
    /// The estimated cost of the rows that are left, if their first attempts succeed. `None`: rows have no costs, or their number
    /// is unknown.
    pub cost_left: Option<u64>,
    pub max_cost: Option<u64>,
}

impl ExpectedUse {
    /// Returns the use of a job, of which this sample was read.
    pub(super) fn of_job(limits: &Limits, found: &FoundJob, requests_left: Option<u64>, sample: &InputSample) -> Self {
        let before = if let FoundJob::Resumed { used, .. } = found { *used } else { (0, 0) };
        // If all sampled rows are done, the other rows may be like them.
        let sampled = if sample.undone.0 > 0 { sample.undone } else { (sample.valid(), sample.cost) };
        Self::of(limits, before, requests_left, sampled)
    }

    /// Extrapolates from sampled rows: `sampled` is how many could be sent, and their cost.
    fn of(limits: &Limits, before: (u64, u64), requests_left: Option<u64>, sampled: (u64, u64)) -> Self {
        let (requests, cost) = sampled;
        let cost_left = requests_left.filter(|_| limits.cost.is_some()).map(|left| match requests {
            0 => 0,
            _ => (left as f64 * cost as f64 / requests as f64).ceil() as u64,
        });
        Self {
            requests_before: before.0,
            max_requests: limits.max_requests,
            cost_before: before.1,
            cost_left,
            max_cost: limits.max_cost,
        }
    }

    /// Returns a note for each budget that will not suffice.
    pub(super) fn notes(&self, requests_left: Option<u64>) -> impl Iterator<Item = Message> {
        [
            (OptionName::MaxRequests, self.max_requests, self.requests_before, requests_left, "requests"),
            (OptionName::MaxCost, self.max_cost, self.cost_before, self.cost_left, "of costs"),
        ]
        .into_iter()
        .filter_map(|(option, max, before, expected, what)| {
            let allowed = max?.saturating_sub(before);
            let expected = expected.filter(|expected| *expected > allowed)?;
            let (allowed, expected) = (grouped(allowed), grouped(expected));
            Some(message!(
                option,
                " allows {allowed} more {what}, and {expected} are expected: the job will stop before its end"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::limits::{CostLimit, CostOf};

    use super::*;

    #[test]
    fn a_budget_that_will_not_suffice_has_a_note() {
        let cost = Some(CostLimit { rate: None, of: CostOf::Row });
        let limits = Limits { max_requests: Some(1000), max_cost: Some(5000), cost, ..Limits::default() };
        for (expected, before, left) in [
            (vec![], (0, 0), Some(1000)),
            (
                vec!["max_requests allows 999 more requests, and 1,000 are expected: the job will stop before its end"],
                (1, 0),
                Some(1000),
            ),
            (
                vec!["max_cost allows 1,000 more of costs, and 1,250 are expected: the job will stop before its end"],
                (0, 4000),
                Some(500),
            ),
            (vec![], (0, 0), None),
        ] {
            let used = ExpectedUse::of(&limits, before, left, (10, 25));
            assert_eq!(expected, used.notes(left).map(|note| note.to_string()).collect::<Vec<_>>());
        }
    }
}
