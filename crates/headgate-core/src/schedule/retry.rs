//! Decides whether and when a row is retried after a failed attempt, and what an attempt shows about its host and the network.
//!
//! Delays have full jitter: a random time up to a bound that doubles with each attempt, so that rows that failed together
//! don't come back together (M. Brooker, "Exponential Backoff And Jitter", AWS 2015). A request that a server may have
//! acted on is resent only if that does no harm (RFC 9110 section 9.2.2).

use std::time::{Duration, Instant};

use crate::error::{ErrorKind, Failure, HostEvidence, LoadEvidence, NetworkEvidence, Processed};
use crate::limits::{RetryOn, Retrying};
use crate::random::Rng;
use crate::row::{Before, OwnRetrying};

/// How long fetching credentials may take before a row of [`NewCredentials::Later`] is sent.
const LATER: Duration = Duration::from_millis(500);

/// The end of an attempt, as far as decisions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The status of the response; `None`: no headers came.
    pub status: Option<u16>,
    /// Why there is no complete response, if there is none.
    pub error: Option<ErrorKind>,
    /// Whether no further attempt is useful: it would end in the same way, as the hostname does not exist, or the response
    /// was handed out.
    pub is_lasting: bool,
    /// Whether the host refused the connection, or either end the TLS handshake.
    pub is_refused: bool,
    /// Whether it waited for something of this process, and so shows nothing about its host.
    pub is_ours: bool,
}

/// An attempt that has ended, and what decides on its row.
#[expect(clippy::struct_excessive_bools, reason = "facts, each by itself")]
#[derive(Debug, Clone, Copy)]
pub struct FinishedAttempt {
    pub end: AttemptEnd,
    /// Whether only the headers have come, and the body is handed out: unless the row is retried, it stays in flight until
    /// [`Scheduler::release`](super::scheduler::Scheduler::release).
    pub body_continues: bool,
    /// Attempts of the row that ended before this one.
    pub before: Option<Before>,
    /// When the first of all attempts began.
    pub first: Instant,
    /// The row's own options.
    pub own: OwnRetrying,
    /// When this one began, at the host that it ended at.
    pub started: Instant,
    /// Whether a second request has the effect of a single one, or the server can recognise it.
    pub is_idempotent: bool,
    /// Whether its body can't be sent any more.
    pub body_is_consumed: bool,
    /// Whether a server has acted on it before, and this request fetches the result (RFC 9110 section 15.4.4).
    pub was_acted_on: bool,
    /// The pause that the server requested; zero: the request may be resent at once.
    pub requested_pause: Option<Duration>,
    /// When the host last responded, as far as the engine knows.
    pub responded_at: Option<Instant>,
    /// `Some`: the row was refused for its credentials, and is retried with new ones, whatever its method and the number of its
    /// retries.
    pub new_credentials: Option<NewCredentials>,
}

/// When a row that was refused for its credentials is sent with new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewCredentials {
    /// They have come since it was sent.
    Renewed,
    /// They are being renewed: nothing starts at hosts that get them until then.
    Awaited,
    /// They were renewed shortly before, so that the row itself may be the cause: they are renewed then.
    Later(Instant),
}

/// The decision whether another attempt at a row follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    No,
    /// No attempt follows, since the server may have acted on the request, and could not distinguish a second one from the
    /// first.
    NotIdempotent,
    /// No attempt follows, only because the body can't be sent any more.
    BodyConsumed,
    /// The next attempt starts at this time.
    At(Instant),
}

impl AttemptEnd {
    pub fn responded(status: u16) -> Self {
        Self { status: Some(status), error: None, is_lasting: false, is_refused: false, is_ours: false }
    }

    /// Returns the end of an attempt that failed. `status`: of the response, if headers came.
    pub fn failed(status: Option<u16>, failure: &Failure) -> Self {
        let Failure { kind, is_lasting, is_refused, is_ours, .. } = *failure;
        Self { status, error: Some(kind), is_lasting, is_refused, is_ours }
    }

    /// Returns whether `on` includes such an end of an attempt.
    pub fn is_retryable(&self, on: &RetryOn) -> bool {
        let is_listed = match (self.error, self.status) {
            (Some(kind), _) => on.has_kind(kind),
            (None, status) => status.is_some_and(|status| on.has_status(status)),
        };
        is_listed && !self.is_lasting
    }

    /// Returns the evidence about the host.
    pub fn evidence(&self) -> HostEvidence {
        match (self.status, self.error.map(ErrorKind::host_evidence)) {
            (Some(429 | 502 | 503 | 504), _) => HostEvidence::Overloaded,
            (Some(_), _) => HostEvidence::Responded,
            _ if self.is_ours => HostEvidence::Nothing,
            // A hostname that does not exist and a refused certificate end their rows at once: there is nothing to probe
            // for.
            (None, Some(HostEvidence::Silent)) if self.is_lasting || self.shows_a_refused_handshake() => {
                HostEvidence::Nothing
            }
            (None, evidence) => evidence.unwrap_or(HostEvidence::Nothing),
        }
    }

    /// Returns the evidence about the network.
    pub fn network_evidence(&self) -> NetworkEvidence {
        if self.status.is_some() || self.evidence() == HostEvidence::Responded {
            return NetworkEvidence::Response;
        }
        match self.error {
            _ if self.is_ours => NetworkEvidence::Nothing,
            _ if self.shows_a_refused_handshake() => NetworkEvidence::Works,
            Some(ErrorKind::Dns) if self.is_lasting => NetworkEvidence::Works,
            Some(ErrorKind::Connect) if self.is_refused => NetworkEvidence::Refused,
            Some(kind) if !self.is_lasting => kind.network_evidence(),
            _ => NetworkEvidence::Nothing,
        }
    }

    fn shows_a_refused_handshake(self) -> bool {
        self.error == Some(ErrorKind::Tls) && self.is_refused
    }

    /// Returns the evidence about the load of the host.
    pub(crate) fn load_evidence(self) -> LoadEvidence {
        match (self.error.map_or(LoadEvidence::Responded, ErrorKind::load_evidence), self.status) {
            (LoadEvidence::Responded, Some(429 | 503)) => LoadEvidence::MaybeOverload,
            (LoadEvidence::Responded, Some(502 | 504) | None) => LoadEvidence::Neutral,
            (evidence, _) => evidence,
        }
    }
}

impl FinishedAttempt {
    /// Returns whether the server has surely not acted on the request.
    fn was_not_processed(&self) -> bool {
        !self.was_acted_on
            && match (self.end.error, self.end.status) {
                (Some(kind), _) => kind.processed() == Processed::No,
                (None, Some(429)) => true,
                (None, Some(503)) => self.requested_pause.is_some(),
                (None, _) => false,
            }
    }

    /// Returns whether another attempt at the row follows, and when.
    pub fn retry(&self, rules: &Retrying, now: Instant, rng: &mut Rng) -> RetryDecision {
        let decision = self.retry_with_body(rules, now, rng);
        match decision {
            RetryDecision::At(_) if self.body_is_consumed => RetryDecision::BodyConsumed,
            _ => decision,
        }
    }

    /// Returns the same for a row whose body can be sent.
    fn retry_with_body(&self, rules: &Retrying, now: Instant, rng: &mut Rng) -> RetryDecision {
        match self.new_credentials {
            Some(NewCredentials::Renewed | NewCredentials::Awaited) => return RetryDecision::At(now),
            Some(NewCredentials::Later(at)) => return RetryDecision::At(at.max(now) + LATER),
            None => {}
        }
        let retries_before = self.before.map_or(0, |before| before.attempts - u16::from(before.was_refused));
        if retries_before >= self.own.retries(rules) || !self.end.is_retryable(&rules.on) {
            return RetryDecision::No;
        }
        if !(self.is_idempotent || rules.non_idempotent || self.was_not_processed()) {
            return RetryDecision::NotIdempotent;
        }
        let due = now + backoff(rules, retries_before, rng);
        let ends_at = self.own.ends_at(self.first, rules.total_timeout);
        if ends_at.is_some_and(|ends_at| due >= ends_at) { RetryDecision::No } else { RetryDecision::At(due) }
    }
}

fn backoff(rules: &Retrying, retries_before: u16, rng: &mut Rng) -> Duration {
    let doubled = rules.delay.saturating_mul(1_u32.checked_shl(retries_before.into()).unwrap_or(u32::MAX));
    doubled.min(rules.max_delay).mul_f64(rng.f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::TotalTimeout;

    fn ended(error: Option<ErrorKind>, status: Option<u16>) -> AttemptEnd {
        AttemptEnd { status, error, is_lasting: false, is_refused: false, is_ours: false }
    }

    fn attempt(started: Instant, end: AttemptEnd) -> FinishedAttempt {
        FinishedAttempt {
            end,
            body_continues: false,
            before: None,
            first: started,
            own: OwnRetrying::default(),
            started,
            is_idempotent: true,
            body_is_consumed: false,
            was_acted_on: false,
            requested_pause: None,
            responded_at: None,
            new_credentials: None,
        }
    }

    fn is_retried(rules: &Retrying, end: AttemptEnd, attempt: &FinishedAttempt) -> bool {
        let attempt = FinishedAttempt { end, ..*attempt };
        matches!(attempt.retry(rules, attempt.started, &mut fastrand::Rng::with_seed(1)), RetryDecision::At(_))
    }

    #[test]
    fn temporary_failures_are_retried() {
        let (rules, attempted) = (Retrying::default(), attempt(Instant::now(), ended(None, None)));
        for kind in ErrorKind::ALL {
            use ErrorKind as Kind;
            let expected = matches!(
                kind,
                Kind::Connect | Kind::Dns | Kind::Proxy | Kind::ConnectionClosed | Kind::Timeout | Kind::ConnectTimeout
            );
            assert_eq!(expected, is_retried(&rules, ended(Some(*kind), None), &attempted), "{kind}");
        }
        for status in [200, 301, 400, 401, 404, 408, 425, 429, 500, 501, 502, 503, 504, 505] {
            let expected = matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504);
            assert_eq!(expected, is_retried(&rules, ended(None, Some(status)), &attempted), "{status}");
        }
        let no_such_name = AttemptEnd { is_lasting: true, ..ended(Some(ErrorKind::Dns), None) };
        assert!(!is_retried(&rules, no_such_name, &attempted));
        // The headers of a response arrived, and its body did not.
        assert!(is_retried(&rules, ended(Some(ErrorKind::ConnectionClosed), Some(200)), &attempted));
        assert!(!is_retried(&rules, ended(Some(ErrorKind::BodyTooLarge), Some(503)), &attempted));
    }

    #[test]
    fn a_request_that_may_have_been_processed_is_resent_only_if_that_does_no_harm() {
        let rules = Retrying::default();
        let post = FinishedAttempt { is_idempotent: false, ..attempt(Instant::now(), ended(None, Some(500))) };
        for (expected, end) in [
            (true, ended(Some(ErrorKind::Connect), None)),
            (true, ended(Some(ErrorKind::ConnectTimeout), None)),
            (true, ended(Some(ErrorKind::Proxy), None)),
            (true, ended(None, Some(429))),
            (false, ended(None, Some(503))),
            (false, ended(None, Some(500))),
            (false, ended(Some(ErrorKind::ConnectionClosed), None)),
            (false, ended(Some(ErrorKind::Timeout), None)),
        ] {
            assert_eq!(expected, is_retried(&rules, end, &post), "{end:?}");
            assert!(is_retried(&Retrying { non_idempotent: true, ..rules.clone() }, end, &post));
        }
        let acted_on = FinishedAttempt { was_acted_on: true, ..post };
        assert!(!is_retried(&rules, ended(Some(ErrorKind::Connect), None), &acted_on));
        let at_once = FinishedAttempt { requested_pause: Some(Duration::ZERO), ..post };
        assert!(is_retried(&rules, ended(None, Some(503)), &at_once));
        let retry = post.retry(&rules, post.started, &mut fastrand::Rng::with_seed(1));
        assert_eq!(RetryDecision::NotIdempotent, retry);
        let connect = ended(Some(ErrorKind::Connect), None);
        for (expected, end, retries, new_credentials) in [
            (RetryDecision::BodyConsumed, connect, 3, None),
            (RetryDecision::BodyConsumed, connect, 0, Some(NewCredentials::Renewed)),
            (RetryDecision::No, connect, 0, None),
            (RetryDecision::NotIdempotent, post.end, 3, None),
        ] {
            let own = OwnRetrying { retries: Some(retries), ..OwnRetrying::default() };
            let consumed = FinishedAttempt { end, own, body_is_consumed: true, new_credentials, ..post };
            assert_eq!(expected, consumed.retry(&rules, post.started, &mut fastrand::Rng::with_seed(1)));
        }
    }

    #[test]
    fn the_time_that_a_row_waited_during_its_redirects_counts_for_its_total_timeout() {
        let first = Instant::now();
        let started = first + Duration::from_secs(9);
        let rules = Retrying { total_timeout: Some(Duration::from_secs(5)), ..Retrying::default() };
        let unavailable = attempt(started, ended(None, Some(503)));
        assert!(!is_retried(&rules, unavailable.end, &FinishedAttempt { first, ..unavailable }));
        assert!(is_retried(&rules, unavailable.end, &unavailable));
        for (expected, total_timeout) in [
            (true, TotalTimeout::After(Duration::from_secs(20))),
            (false, TotalTimeout::At(started)),
            (true, TotalTimeout::At(started + Duration::from_secs(20))),
        ] {
            let own = OwnRetrying { total_timeout: Some(total_timeout), ..OwnRetrying::default() };
            assert_eq!(expected, is_retried(&rules, unavailable.end, &FinishedAttempt { first, own, ..unavailable }));
        }
    }

    #[test]
    fn a_row_may_have_its_own_number_of_retries() {
        let unavailable = attempt(Instant::now(), ended(None, Some(503)));
        for (expected, retries, of_run) in [(false, Some(0), 3), (true, Some(1), 0), (true, None, 3), (false, None, 0)]
        {
            let rules = Retrying { retries: of_run, ..Retrying::default() };
            let own = OwnRetrying { retries, ..OwnRetrying::default() };
            let attempt = FinishedAttempt { own, ..unavailable };
            assert_eq!(expected, is_retried(&rules, attempt.end, &attempt), "{retries:?} of {of_run}");
        }
    }

    #[test]
    fn each_failure_has_its_evidence_about_the_host_and_the_network() {
        use ErrorKind as Kind;
        let failed = |kind| AttemptEnd::failed(None, &Failure::new(kind, ""));
        let refused = |kind| AttemptEnd { is_refused: true, ..failed(kind) };
        let lasting = |kind| AttemptEnd { is_lasting: true, ..failed(kind) };
        for (evidence, network, end) in [
            (HostEvidence::Responded, NetworkEvidence::Response, ended(None, Some(200))),
            (HostEvidence::Responded, NetworkEvidence::Response, ended(None, Some(500))),
            (HostEvidence::Overloaded, NetworkEvidence::Response, ended(None, Some(429))),
            (HostEvidence::Overloaded, NetworkEvidence::Response, ended(None, Some(503))),
            // A body that is incomplete, or takes too long.
            (HostEvidence::Responded, NetworkEvidence::Response, ended(Some(Kind::ConnectionClosed), Some(200))),
            (HostEvidence::Responded, NetworkEvidence::Response, ended(Some(Kind::Timeout), Some(200))),
            (HostEvidence::Silent, NetworkEvidence::Nothing, failed(Kind::ConnectionClosed)),
            (HostEvidence::Silent, NetworkEvidence::Nothing, failed(Kind::Timeout)),
            (HostEvidence::Silent, NetworkEvidence::Unreachable, failed(Kind::Connect)),
            (HostEvidence::Silent, NetworkEvidence::Refused, refused(Kind::Connect)),
            (HostEvidence::Silent, NetworkEvidence::Unreachable, failed(Kind::ConnectTimeout)),
            (HostEvidence::Silent, NetworkEvidence::Unreachable, failed(Kind::Dns)),
            (HostEvidence::Nothing, NetworkEvidence::Works, lasting(Kind::Dns)),
            // A handshake that is interrupted, and a certificate that is not trusted.
            (HostEvidence::Silent, NetworkEvidence::Nothing, failed(Kind::Tls)),
            (HostEvidence::Nothing, NetworkEvidence::Works, refused(Kind::Tls)),
            // An attempt that waited for an own connection to close.
            (
                HostEvidence::Nothing,
                NetworkEvidence::Nothing,
                AttemptEnd { is_ours: true, ..failed(Kind::ConnectTimeout) },
            ),
            (HostEvidence::Nothing, NetworkEvidence::Nothing, failed(Kind::InvalidRequest)),
        ] {
            assert_eq!((evidence, network), (end.evidence(), end.network_evidence()), "{end:?}");
        }
    }

    proptest! {
        #[test]
        fn delays_and_attempts_keep_within_their_bounds(
            seed in any::<u64>(), retries in 0_u16..100, delay_ms in 0_u64..5000, max_ms in 0_u64..100_000,
            timeout_ms in proptest::option::of(0_u64..500_000),
        ) {
            let (delay, max_delay) = (Duration::from_millis(delay_ms), Duration::from_millis(max_ms));
            let total_timeout = timeout_ms.map(Duration::from_millis);
            let rules = Retrying { retries, delay, max_delay, total_timeout, ..Retrying::default() };
            let mut rng = fastrand::Rng::with_seed(seed);
            let first = Instant::now();
            let (mut now, mut before) = (first, None);
            let mut attempts = 0_u16;
            loop {
                let attempt = FinishedAttempt { before, first, ..attempt(now, ended(None, Some(503))) };
                attempts += 1;
                match attempt.retry(&rules, now, &mut rng) {
                    RetryDecision::At(due) => {
                        let bound = delay.saturating_mul(1 << (attempts - 1).min(30)).min(max_delay);
                        prop_assert!(due - now <= bound);
                        prop_assert!(total_timeout.is_none_or(|timeout| due < first + timeout));
                        now = due;
                    }
                    last => {
                        prop_assert_eq!(RetryDecision::No, last);
                        break;
                    }
                }
                before = Some(Before { attempts, first, was_refused: false });
            }
            prop_assert!(attempts <= retries + 1);
            prop_assert!(total_timeout.is_some() || attempts == retries + 1);
        }
    }
}
