//! Whether a row is asked again after an attempt that failed, and when.
//!
//! Delays have full jitter: a random time up to a bound that doubles with each attempt, so that rows that failed together
//! don't come back together (M. Brooker, "Exponential Backoff And Jitter", AWS 2015). What a server may have acted on is only
//! sent again if that does no harm (RFC 9110 section 9.2.2).

use std::time::{Duration, Instant};

use crate::model::error::{ErrorKind, Failure};
use crate::model::limits::{RetryOn, Retrying};
use crate::model::outcome::OutcomeRef;
use crate::model::random::Rng;
use crate::model::row::Before;
use crate::schedule::network::Sign;

/// How an attempt ended, as far as its row's fate depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd {
    pub status: Option<u16>,
    /// Why there is no whole answer, if there is none.
    pub error: Option<ErrorKind>,
    /// It would be the same the next time: the name does not exist. Or there is no next time, since its answer was handed out.
    pub is_lasting: bool,
    /// The host refused the connection, or one side the other in the TLS handshake.
    pub is_refused: bool,
    /// It waited for something of this process, and shows nothing about its host.
    pub is_ours: bool,
}

/// What the end of an attempt shows about the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A response head came: the host is up, whatever became of the body.
    Responded,
    /// A response head came whose status asks for less load.
    Overloaded,
    /// No response head came: the host could not be reached, or did not respond.
    Silent,
    Nothing,
}

/// Of the row whose attempt ended.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Attempts that ended before this one.
    pub before: Option<Before>,
    /// When the first of all began.
    pub first: Instant,
    /// When this one began, at the host that it ended at.
    pub started: Instant,
    /// Sending the request twice has the effect of sending it once, or the server can tell.
    pub may_repeat: bool,
    /// A server has acted on it before, and what ended was a request for what came of that (RFC 9110 section 15.4.4).
    pub was_acted_on: bool,
    /// The server has named a time.
    pub was_told_when: bool,
}

/// What becomes of a row whose attempt has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// This was the last attempt.
    Final,
    /// It was, since the server may have acted on it, and could not tell a second request from the first.
    Unrepeatable,
    /// It is asked again, not before this time.
    Again(Instant),
}

impl AttemptEnd {
    pub fn responded(status: u16) -> Self {
        Self { status: Some(status), error: None, is_lasting: false, is_refused: false, is_ours: false }
    }

    /// `status`: of the response head, if one came.
    pub fn failed(status: Option<u16>, failure: &Failure) -> Self {
        let Failure { kind, is_lasting, is_refused, is_ours, .. } = *failure;
        Self { status, error: Some(kind), is_lasting, is_refused, is_ours }
    }

    pub fn of(outcome: OutcomeRef<'_>) -> Self {
        let status = outcome.answer.map(|answer| answer.status);
        match outcome.failure {
            Some(failure) => Self::failed(status, failure),
            None => Self { status, error: None, is_lasting: false, is_refused: false, is_ours: false },
        }
    }

    pub fn is_worth_another(&self, on: &RetryOn) -> bool {
        match (self.error, self.status) {
            (Some(kind), _) => !self.is_lasting && on.has_kind(kind),
            (None, status) => !self.is_lasting && status.is_some_and(|status| on.has_status(status)),
        }
    }

    /// Whether a complete response came that does not ask for less load.
    pub fn is_answer(&self) -> bool {
        matches!(self.error, None | Some(ErrorKind::UnexpectedAnswer)) && self.evidence() == Evidence::Responded
    }

    /// What it shows about the host.
    pub fn evidence(&self) -> Evidence {
        use ErrorKind as Kind;
        match (self.status, self.error) {
            (Some(429 | 502 | 503 | 504), _) => Evidence::Overloaded,
            (Some(_), _) => Evidence::Responded,
            (None, None) => Evidence::Nothing,
            _ if self.is_ours => Evidence::Nothing,
            // A name that does not exist and a refused certificate end their rows at once: there is nothing to probe for.
            (None, Some(Kind::Resolve | Kind::Connect | Kind::ConnectTimeout)) if self.is_lasting => Evidence::Nothing,
            (None, Some(Kind::Tls)) if self.is_refused || self.is_lasting => Evidence::Nothing,
            (None, Some(kind)) => match kind {
                Kind::Resolve | Kind::Connect | Kind::ConnectTimeout | Kind::Tls | Kind::Timeout | Kind::Closed => {
                    Evidence::Silent
                }
                // Bytes came, if not a head.
                Kind::Protocol => Evidence::Responded,
                Kind::InvalidRequest
                | Kind::BodyTooLarge
                | Kind::Decode
                | Kind::HostDown
                | Kind::Proxy
                | Kind::TooManyRedirects
                | Kind::BlockedByRobots
                | Kind::BlockedByNetworkPolicy
                | Kind::RedirectLoop
                | Kind::UnexpectedAnswer
                | Kind::ChecksumMismatch
                | Kind::DuplicateName
                | Kind::Cancelled => Evidence::Nothing,
            },
        }
    }

    /// What it shows about the network.
    pub fn sign(&self) -> Sign {
        use ErrorKind as Kind;
        match self.error {
            _ if self.status.is_some() || self.evidence() == Evidence::Responded => Sign::Response,
            _ if self.is_ours => Sign::Nothing,
            Some(Kind::Resolve) if self.is_lasting => Sign::Works,
            Some(Kind::Tls) => {
                if self.is_refused {
                    Sign::Works
                } else {
                    Sign::Nothing
                }
            }
            Some(Kind::Connect) if self.is_refused => Sign::Refused,
            Some(Kind::Resolve | Kind::Connect | Kind::ConnectTimeout | Kind::Proxy) if !self.is_lasting => {
                Sign::Unreachable
            }
            _ => Sign::Nothing,
        }
    }

    /// Whether it may be since too much was asked at once.
    pub fn is_overload(&self) -> bool {
        match (self.error, self.status) {
            (Some(kind), _) => {
                matches!(kind, ErrorKind::ConnectTimeout | ErrorKind::Timeout | ErrorKind::Closed | ErrorKind::Connect)
            }
            (None, status) => matches!(status, Some(429 | 503)),
        }
    }

    /// Whether the server has surely done nothing.
    fn did_nothing(self, was_told_when: bool) -> bool {
        match (self.error, self.status) {
            (Some(kind), _) => {
                use ErrorKind::{Connect, ConnectTimeout, Proxy, Resolve, Tls};
                matches!(kind, Resolve | Connect | ConnectTimeout | Proxy | Tls)
            }
            (None, Some(429)) => true,
            (None, Some(503)) => was_told_when,
            (None, _) => false,
        }
    }
}

/// What becomes of a row after an attempt that ended so.
pub fn fate(rules: &Retrying, end: &AttemptEnd, asked: &Asked, now: Instant, rng: &mut Rng) -> Fate {
    let retries_before = asked.before.map_or(0, |before| before.attempts);
    if retries_before >= rules.retries || !end.is_worth_another(&rules.on) {
        return Fate::Final;
    }
    let did_nothing = !asked.was_acted_on && end.did_nothing(asked.was_told_when);
    if !(asked.may_repeat || rules.also_unsafe || did_nothing) {
        return Fate::Unrepeatable;
    }
    let due = now + delay(rules, retries_before, rng);
    match rules.deadline {
        Some(deadline) if due >= asked.first + deadline => Fate::Final,
        _ => Fate::Again(due),
    }
}

fn delay(rules: &Retrying, retries_before: u16, rng: &mut Rng) -> Duration {
    let doubled = rules.delay.saturating_mul(1_u32.checked_shl(retries_before.into()).unwrap_or(u32::MAX));
    doubled.min(rules.max_delay).mul_f64(rng.f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ended(error: Option<ErrorKind>, status: Option<u16>) -> AttemptEnd {
        AttemptEnd { status, error, is_lasting: false, is_refused: false, is_ours: false }
    }

    fn asked(started: Instant) -> Asked {
        Asked { before: None, first: started, started, may_repeat: true, was_acted_on: false, was_told_when: false }
    }

    fn is_again(rules: &Retrying, end: AttemptEnd, asked: &Asked) -> bool {
        matches!(fate(rules, &end, asked, asked.started, &mut fastrand::Rng::with_seed(1)), Fate::Again(_))
    }

    #[test]
    fn what_may_be_otherwise_the_next_time_is_asked_again() {
        let (rules, asked) = (Retrying::default(), asked(Instant::now()));
        for kind in ErrorKind::ALL {
            use ErrorKind as Kind;
            let expected = matches!(
                kind,
                Kind::Connect | Kind::Resolve | Kind::Proxy | Kind::Closed | Kind::Timeout | Kind::ConnectTimeout
            );
            assert_eq!(expected, is_again(&rules, ended(Some(*kind), None), &asked), "{kind}");
        }
        for status in [200, 301, 400, 401, 404, 408, 425, 429, 500, 501, 502, 503, 504, 505] {
            let expected = matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
            assert_eq!(expected, is_again(&rules, ended(None, Some(status)), &asked), "{status}");
        }
        let no_such_name = AttemptEnd { is_lasting: true, ..ended(Some(ErrorKind::Resolve), None) };
        assert!(!is_again(&rules, no_such_name, &asked));
        // The head of an answer came, and its body did not.
        assert!(is_again(&rules, ended(Some(ErrorKind::Closed), Some(200)), &asked));
        assert!(!is_again(&rules, ended(Some(ErrorKind::BodyTooLarge), Some(503)), &asked));
    }

    #[test]
    fn what_a_server_may_have_acted_on_is_sent_again_only_if_that_does_no_harm() {
        let rules = Retrying::default();
        let post = Asked { may_repeat: false, ..asked(Instant::now()) };
        for (expected, end) in [
            (true, ended(Some(ErrorKind::Connect), None)),
            (true, ended(Some(ErrorKind::ConnectTimeout), None)),
            (true, ended(Some(ErrorKind::Proxy), None)),
            (true, ended(None, Some(429))),
            (false, ended(None, Some(503))),
            (false, ended(None, Some(500))),
            (false, ended(Some(ErrorKind::Closed), None)),
            (false, ended(Some(ErrorKind::Timeout), None)),
        ] {
            assert_eq!(expected, is_again(&rules, end, &post), "{end:?}");
            assert!(is_again(&Retrying { also_unsafe: true, ..rules.clone() }, end, &post));
        }
        let acted_on = Asked { was_acted_on: true, ..post };
        assert!(!is_again(&rules, ended(Some(ErrorKind::Connect), None), &acted_on));
        let told = Asked { was_told_when: true, ..post };
        assert!(is_again(&rules, ended(None, Some(503)), &told));
        let fate = fate(&rules, &ended(None, Some(500)), &post, post.started, &mut fastrand::Rng::with_seed(1));
        assert_eq!(Fate::Unrepeatable, fate);
    }

    #[test]
    fn what_a_row_waited_for_on_its_way_counts_for_its_deadline() {
        let first = Instant::now();
        let started = first + Duration::from_secs(9);
        let rules = Retrying { deadline: Some(Duration::from_secs(5)), ..Retrying::default() };
        assert!(!is_again(&rules, ended(None, Some(503)), &Asked { first, ..asked(started) }));
        assert!(is_again(&rules, ended(None, Some(503)), &asked(started)));
    }

    #[test]
    fn what_an_attempt_shows_about_its_host_and_the_network() {
        use ErrorKind as Kind;
        let failed = |kind| AttemptEnd::failed(None, &Failure::new(kind, ""));
        let refused = |kind| AttemptEnd { is_refused: true, ..failed(kind) };
        let lasting = |kind| AttemptEnd { is_lasting: true, ..failed(kind) };
        for (evidence, sign, end) in [
            (Evidence::Responded, Sign::Response, ended(None, Some(200))),
            (Evidence::Responded, Sign::Response, ended(None, Some(500))),
            (Evidence::Overloaded, Sign::Response, ended(None, Some(429))),
            (Evidence::Overloaded, Sign::Response, ended(None, Some(503))),
            // A body that breaks off, or takes too long.
            (Evidence::Responded, Sign::Response, ended(Some(Kind::Closed), Some(200))),
            (Evidence::Responded, Sign::Response, ended(Some(Kind::Timeout), Some(200))),
            (Evidence::Silent, Sign::Nothing, failed(Kind::Closed)),
            (Evidence::Silent, Sign::Nothing, failed(Kind::Timeout)),
            (Evidence::Silent, Sign::Unreachable, failed(Kind::Connect)),
            (Evidence::Silent, Sign::Refused, refused(Kind::Connect)),
            (Evidence::Silent, Sign::Unreachable, failed(Kind::ConnectTimeout)),
            (Evidence::Silent, Sign::Unreachable, failed(Kind::Resolve)),
            (Evidence::Nothing, Sign::Works, lasting(Kind::Resolve)),
            // A handshake that breaks off, and a certificate that is not trusted.
            (Evidence::Silent, Sign::Nothing, failed(Kind::Tls)),
            (Evidence::Nothing, Sign::Works, refused(Kind::Tls)),
            // Waiting for a connection of ours to close.
            (Evidence::Nothing, Sign::Nothing, AttemptEnd { is_ours: true, ..failed(Kind::ConnectTimeout) }),
            (Evidence::Nothing, Sign::Nothing, failed(Kind::InvalidRequest)),
        ] {
            assert_eq!((evidence, sign), (end.evidence(), end.sign()), "{end:?}");
        }
    }

    proptest! {
        #[test]
        fn delays_and_attempts_keep_within_their_bounds(
            seed in any::<u64>(), retries in 0_u16..100, delay_ms in 0_u64..5000, max_ms in 0_u64..100_000,
            deadline_ms in proptest::option::of(0_u64..500_000),
        ) {
            let (delay, max_delay) = (Duration::from_millis(delay_ms), Duration::from_millis(max_ms));
            let deadline = deadline_ms.map(Duration::from_millis);
            let rules = Retrying { retries, delay, max_delay, deadline, ..Retrying::default() };
            let mut rng = fastrand::Rng::with_seed(seed);
            let first = Instant::now();
            let (mut now, mut before) = (first, None);
            let mut attempts = 0_u16;
            loop {
                let asked = Asked { before, first, ..asked(now) };
                attempts += 1;
                match fate(&rules, &ended(None, Some(503)), &asked, now, &mut rng) {
                    Fate::Again(due) => {
                        let bound = delay.saturating_mul(1 << (attempts - 1).min(30)).min(max_delay);
                        prop_assert!(due - now <= bound);
                        prop_assert!(deadline.is_none_or(|deadline| due < first + deadline));
                        now = due;
                    }
                    last => {
                        prop_assert_eq!(Fate::Final, last);
                        break;
                    }
                }
                before = Some(Before { attempts, first });
            }
            prop_assert!(attempts <= retries + 1);
            prop_assert!(deadline.is_some() || attempts == retries + 1);
        }
    }
}
