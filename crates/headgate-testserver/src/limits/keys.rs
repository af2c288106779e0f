//! Which requests were asked before, by their keys; and for which of them the first try fails.
//!
//! A key is a hash, and the hash decides whether the first try fails, so that each run has the same failures. What was
//! asked is remembered in two generations: when the younger is full, the older is forgotten. So at least
//! [`GENERATION_KEYS`] and at most twice as many are known, in about 40 MB.

use std::collections::HashMap;

const GENERATION_KEYS: usize = 1 << 19;
/// A share is kept to this.
const PARTS: u64 = 1_000_000;

/// How often a key was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    FirstFails,
    Usual,
    /// It was answered before: the client asks for no need, or has lost the answer.
    AfterAnswer,
}

#[derive(Debug)]
pub(crate) struct Keys {
    fails_below: u64,
    most_young: usize,
    /// By key, whether it was answered.
    young: HashMap<u64, bool>,
    old: HashMap<u64, bool>,
}

impl Keys {
    /// For this share of all keys, from 0 to 1, the first try fails.
    pub fn new(fail_first: f64) -> Self {
        let fails_below = (fail_first * PARTS as f64).round() as u64;
        Self { fails_below, most_young: GENERATION_KEYS, young: HashMap::new(), old: HashMap::new() }
    }

    /// What becomes of a try that was let through.
    pub fn tried(&mut self, key: u64) -> Try {
        match self.young.get(&key).or_else(|| self.old.get(&key)) {
            Some(true) => Try::AfterAnswer,
            Some(false) => Try::Usual,
            None => {
                self.remember(key, false);
                if key % PARTS < self.fails_below { Try::FirstFails } else { Try::Usual }
            }
        }
    }

    pub fn answered(&mut self, key: u64) {
        self.remember(key, true);
    }

    fn remember(&mut self, key: u64, is_answered: bool) {
        if self.young.len() >= self.most_young {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, is_answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_share_the_first_try_fails_and_no_other() {
        let mut keys = Keys::new(0.05);
        let stride = u64::MAX / 100_000;
        let of = |keys: &mut Keys| (0..100_000).filter(|at| keys.tried(at * stride) == Try::FirstFails).count();
        let failed = of(&mut keys);
        assert!((4_800..=5_200).contains(&failed), "{failed}");
        assert_eq!(0, of(&mut keys));
    }

    #[test]
    fn a_try_after_the_answer_is_told_from_one_before() {
        let mut keys = Keys::new(0.0);
        assert_eq!([Try::Usual; 2], [keys.tried(7), keys.tried(7)]);
        keys.answered(7);
        assert_eq!([Try::AfterAnswer; 2], [keys.tried(7), keys.tried(7)]);
    }

    #[test]
    fn the_keys_that_are_remembered_are_bounded_and_the_latest_are_among_them() {
        let mut keys = Keys { most_young: 100, ..Keys::new(0.0) };
        for key in 0..10_000 {
            keys.tried(key);
            keys.answered(key);
            assert!(keys.young.len() + keys.old.len() <= 200);
        }
        assert!((9_900..10_000).all(|key| keys.tried(key) == Try::AfterAnswer));
    }
}
