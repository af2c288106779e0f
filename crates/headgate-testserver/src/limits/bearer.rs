//! Bearer tokens that expire (RFC 6750). A token states when it was issued, so none has to be stored.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Bearers {
    started: Instant,
    ttl: Duration,
}

impl Bearers {
    pub(super) fn new(ttl: Duration, now: Instant) -> Self {
        Self { started: now, ttl }
    }

    pub(super) fn issue(&self, now: Instant) -> String {
        format!("issued-{}", now.duration_since(self.started).as_micros())
    }

    /// Returns whether the value of `Authorization` has a token that has not expired.
    pub(super) fn accept(&self, authorization: Option<&str>, now: Instant) -> bool {
        let issued = authorization
            .and_then(|value| value.strip_prefix("Bearer issued-")?.parse().ok())
            .and_then(|micros| self.started.checked_add(Duration::from_micros(micros)));
        issued.and_then(|issued| now.checked_duration_since(issued)).is_some_and(|age| age < self.ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_accepted_until_it_expires() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let bearers = Bearers::new(Duration::from_secs(20), start);
        let value = format!("Bearer {}", bearers.issue(at(5)));
        let accepted = [4, 5, 24, 25].map(|seconds| bearers.accept(Some(&value), at(seconds)));
        assert_eq!([false, true, true, false], accepted);
        for other in [None, Some("Bearer secret"), Some("issued-0"), Some("Bearer issued-18446744073709551615")] {
            assert!(!bearers.accept(other, at(5)), "{other:?}");
        }
    }
}
