//! Remembers the keys of requests, and decides for which of them the first attempt fails.
//!
//! A key is a hash, which decides whether the first attempt fails, so that each run has the same failures. Keys are kept in two
//! generations: when the younger one is full, the older one is dropped. So at least [`GENERATION_KEYS`] and at most twice as many
//! are known, in about 40 MB.

use std::collections::HashMap;

use crate::statistics::Limited;

const GENERATION_KEYS: usize = 1 << 19;
/// The precision of the share of failures.
const PARTS: u64 = 1_000_000;

/// An attempt for a key, by what is known of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAttempt {
    /// The first attempt fails in this way.
    FirstFails(Limited),
    Usual,
    /// The key has already got its response: the request is unnecessary, or the client has lost the response.
    AfterResponse,
}

#[derive(Debug)]
pub(crate) struct Keys {
    /// Ways to fail; the parts of a key are below the number of the first one that it fails in.
    fails_below: [(u64, Limited); 3],
    max_young: usize,
    /// Maps keys to whether they got a response.
    young: HashMap<u64, bool>,
    old: HashMap<u64, bool>,
}

impl Keys {
    /// Creates the state for shares of keys, from 0 to 1, whose first attempt fails.
    pub(super) fn new(shares: [(f64, Limited); 3]) -> Self {
        let mut sum = 0.0;
        let fails_below = shares.map(|(share, way)| {
            sum += share;
            ((sum * PARTS as f64).round() as u64, way)
        });
        Self { fails_below, max_young: GENERATION_KEYS, young: HashMap::new(), old: HashMap::new() }
    }

    /// Records an attempt that was admitted, and returns what it is.
    pub(super) fn record_attempt(&mut self, key: u64) -> KeyAttempt {
        match self.young.get(&key).or_else(|| self.old.get(&key)) {
            Some(true) => KeyAttempt::AfterResponse,
            Some(false) => KeyAttempt::Usual,
            None => {
                self.remember(key, false);
                let way = self.fails_below.iter().find(|(below, _)| key % PARTS < *below);
                way.map_or(KeyAttempt::Usual, |(_, way)| KeyAttempt::FirstFails(*way))
            }
        }
    }

    pub(super) fn record_response(&mut self, key: u64) {
        self.remember(key, true);
    }

    fn remember(&mut self, key: u64, has_response: bool) {
        if self.young.len() >= self.max_young {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, has_response);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(fail_first: f64, html_first: f64) -> Keys {
        Keys::new([(fail_first, Limited::FailedFirst), (html_first, Limited::HtmlFirst), (0.0, Limited::CutFirst)])
    }

    #[test]
    fn only_the_first_attempts_of_the_shares_fail() {
        let mut keys = keys(0.05, 0.02);
        let stride = u64::MAX / 100_000;
        for expected in [[4_800..=5_200, 1_900..=2_100, 0..=0], [0..=0, 0..=0, 0..=0]] {
            let attempts: Vec<_> = (0..100_000).map(|at| keys.record_attempt(at * stride)).collect();
            for (way, expected) in
                [Limited::FailedFirst, Limited::HtmlFirst, Limited::CutFirst].into_iter().zip(expected)
            {
                let failed = attempts.iter().filter(|attempt| **attempt == KeyAttempt::FirstFails(way)).count();
                assert!(expected.contains(&failed), "{way:?}: {failed}");
            }
        }
    }

    #[test]
    fn an_attempt_after_the_response_differs_from_one_before() {
        let mut keys = keys(0.0, 0.0);
        assert_eq!([KeyAttempt::Usual; 2], [keys.record_attempt(7), keys.record_attempt(7)]);
        keys.record_response(7);
        assert_eq!([KeyAttempt::AfterResponse; 2], [keys.record_attempt(7), keys.record_attempt(7)]);
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_the_latest_are_known() {
        let mut keys = Keys { max_young: 100, ..keys(0.0, 0.0) };
        for key in 0..10_000 {
            keys.record_attempt(key);
            keys.record_response(key);
            assert!(keys.young.len() + keys.old.len() <= 200);
        }
        assert!((9_900..10_000).all(|key| keys.record_attempt(key) == KeyAttempt::AfterResponse));
    }
}
