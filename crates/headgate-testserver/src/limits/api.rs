//! The limits of a commercial API: requests a second, concurrent requests and tokens, for all hosts or for each. A request beyond
//! a limit gets status 429 and a `Retry-After` header, one without a valid bearer token 401.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::json;

use super::bearer::Bearers;
use super::bucket::Bucket;
use super::keys::{KeyAttempt, Keys};
use crate::config::ApiConfig;
use crate::helpers::chat;
use crate::received::Received;
use crate::response::FullResponse;
use crate::statistics::Limited;

/// The bound of hosts with an account of their own; further hosts share one.
const MAX_HOSTS: usize = 1 << 16;
/// The `Retry-After` beyond the concurrency limit, since the end of a request is unknown.
const RETRY_AFTER_BUSY_S: u64 = 1;
const ERROR_PAGE: &str = "<!doctype html>\n<title>Error</title>\n<p>Something went wrong.\n";

#[derive(Debug)]
pub(crate) struct ApiLimits {
    config: ApiConfig,
    bearers: Option<Bearers>,
    accounts: Mutex<HashMap<Box<str>, Arc<Account>>>,
    keys: Mutex<Keys>,
}

/// The account of one customer.
#[derive(Debug)]
struct Account {
    usage: Mutex<AccountUsage>,
}

#[derive(Debug)]
struct AccountUsage {
    in_progress: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiRefusal {
    pub cause: Limited,
    /// `None` if it may be retried at once.
    retry_after_s: Option<u64>,
}

/// A request that was admitted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    api: Arc<ApiLimits>,
    account: Arc<Account>,
    key: u64,
    pub is_repeated: bool,
}

impl ApiLimits {
    pub(crate) fn new(config: ApiConfig) -> Self {
        let shares = [
            (config.fail_first, Limited::FailedFirst),
            (config.html_first, Limited::HtmlFirst),
            (config.cut_first, Limited::CutFirst),
        ];
        let bearers = config.bearer_ttl.map(|ttl| Bearers::new(ttl, Instant::now()));
        Self { config, bearers, accounts: Mutex::default(), keys: Mutex::new(Keys::new(shares)) }
    }

    /// Returns whether the API limits tokens.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.config.tokens_per_s.is_some()
    }

    /// Returns a new bearer token, or `None` if the API needs none.
    pub(crate) fn issue_bearer(&self, now: Instant) -> Option<String> {
        Some(self.bearers.as_ref()?.issue(now))
    }

    /// Admits or refuses a request. A refused request uses nothing, except for one whose first attempt fails.
    pub(crate) fn admit(self: &Arc<Self>, received: &Received, tokens: f64, now: Instant) -> Result<Slot, ApiRefusal> {
        if let Some(bearers) = &self.bearers
            && !bearers.accept(received.field("authorization").as_deref(), now)
        {
            return Err(ApiRefusal { cause: Limited::Bearer, retry_after_s: None });
        }
        let host = if self.config.per_host { received.host() } else { "".into() };
        let account = self.account(&host, now);
        account.enter(self.config.concurrency, tokens, now)?;
        let key = key(received);
        let mut slot = Slot { api: self.clone(), account, key, is_repeated: false };
        match lock(&self.keys).record_attempt(key) {
            KeyAttempt::FirstFails(cause) => return Err(ApiRefusal { cause, retry_after_s: None }),
            KeyAttempt::Usual => {}
            KeyAttempt::AfterResponse => slot.is_repeated = true,
        }
        Ok(slot)
    }

    fn account(&self, host: &str, now: Instant) -> Arc<Account> {
        let mut accounts = lock(&self.accounts);
        let host = if accounts.len() < MAX_HOSTS || accounts.contains_key(host) { host } else { "" };
        if let Some(account) = accounts.get(host) {
            return account.clone();
        }
        let bucket = |per_s: Option<f64>| per_s.map(|per_s| Bucket::new(per_s, self.config.burst, now));
        let (requests, tokens) = (bucket(self.config.requests_per_s), bucket(self.config.tokens_per_s));
        let account = Arc::new(Account { usage: Mutex::new(AccountUsage { in_progress: 0, requests, tokens }) });
        accounts.insert(host.into(), account.clone());
        account
    }
}

impl Account {
    fn enter(&self, concurrency: Option<usize>, tokens: f64, now: Instant) -> Result<(), ApiRefusal> {
        let mut usage = lock(&self.usage);
        let refusal = |cause, retry_after_s| Err(ApiRefusal { cause, retry_after_s: Some(retry_after_s) });
        if concurrency.is_some_and(|most| usage.in_progress >= most) {
            return refusal(Limited::ApiConcurrency, RETRY_AFTER_BUSY_S);
        }
        // Both buckets are checked before anything is taken from either.
        if let Some(bucket) = &mut usage.requests
            && !bucket.has(1.0, now)
        {
            return refusal(Limited::ApiRate, bucket.seconds_until_full());
        }
        if let Some(bucket) = &mut usage.tokens
            && !bucket.has(tokens, now)
        {
            return refusal(Limited::ApiTokens, bucket.seconds_until_full());
        }
        if let Some(bucket) = &mut usage.requests {
            bucket.take(1.0);
        }
        if let Some(bucket) = &mut usage.tokens {
            bucket.take(tokens);
        }
        usage.in_progress += 1;
        Ok(())
    }
}

impl ApiRefusal {
    pub(crate) fn response(&self) -> FullResponse {
        let body = json!({ "error": { "type": self.cause.name(), "retry_after_s": self.retry_after_s } });
        match (self.cause, self.retry_after_s) {
            (Limited::HtmlFirst, _) => FullResponse::html(ERROR_PAGE),
            (Limited::Bearer, _) => FullResponse::json(&body)
                .with_status(401)
                .with_field("WWW-Authenticate", r#"Bearer error="invalid_token""#),
            (_, None) => FullResponse::json(&body).with_status(500),
            (_, Some(seconds)) => {
                FullResponse::json(&body).with_status(429).with_field("Retry-After", &seconds.to_string())
            }
        }
    }
}

impl Slot {
    /// Records that a response other than a server error starts.
    pub(crate) fn record_response(&self) {
        lock(&self.api.keys).record_response(self.key);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.account.usage).in_progress -= 1;
    }
}

/// Returns the key of a request, which is the same in every run: the port of the server doesn't matter.
fn key(received: &Received) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(key) = received.field("idempotency-key") {
        key.hash(&mut hasher);
    } else {
        let host = received.host();
        (host.rsplit_once(':').map_or(&*host, |(name, _)| name), &received.target).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the cost of a request: its header `X-Tokens`, or `tokens` of its JSON body, or the usage that the chat model will
/// report, or the length of its body.
pub(crate) fn tokens(received: &Received) -> f64 {
    #[derive(Deserialize)]
    struct Cost {
        tokens: f64,
    }
    let is_cost = |tokens: &f64| tokens.is_finite() && *tokens >= 0.0;
    let in_field = received.field("x-tokens").and_then(|text| text.trim().parse().ok()).filter(is_cost);
    let in_body = || serde_json::from_slice(&received.body).ok().map(|Cost { tokens }| tokens).filter(is_cost);
    let of_model = || (received.target == chat::PATH).then(|| chat::total_tokens(&received.body)).flatten();
    in_field.or_else(in_body).unwrap_or_else(|| of_model().unwrap_or(received.body.len()) as f64)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn received(host: &str, target: &str, key: Option<&str>) -> Received {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n");
        let key = key.map_or(String::new(), |key| format!("Idempotency-Key: {key}\r\n"));
        Received::of(format!("{head}{key}\r\n").as_bytes(), false)
    }

    fn refusal(result: Result<Slot, ApiRefusal>) -> Option<(Limited, Option<u64>)> {
        result.err().map(|refusal| (refusal.cause, refusal.retry_after_s))
    }

    #[test]
    fn each_limit_refuses_with_a_retry_after() {
        let now = Instant::now();
        let burst = Duration::from_secs(2);
        let cases = [
            (ApiConfig { requests_per_s: Some(1.0), ..ApiConfig::default() }, Limited::ApiRate, 2),
            (ApiConfig { tokens_per_s: Some(10.0), ..ApiConfig::default() }, Limited::ApiTokens, 2),
            (ApiConfig { concurrency: Some(2), ..ApiConfig::default() }, Limited::ApiConcurrency, 1),
        ];
        for (config, cause, seconds) in cases {
            let api = Arc::new(ApiLimits::new(ApiConfig { burst, ..config }));
            let admit = || api.admit(&received("a", "/", None), 10.0, now);
            let _in_progress = [admit().expect("a slot"), admit().expect("a slot")];
            assert_eq!(Some((cause, Some(seconds))), refusal(admit()));
        }
    }

    #[test]
    fn a_refused_request_uses_nothing() {
        let now = Instant::now();
        let (requests_per_s, tokens_per_s) = (Some(2.0), Some(10.0));
        let burst = Duration::from_secs(1);
        let api = Arc::new(ApiLimits::new(ApiConfig { requests_per_s, tokens_per_s, burst, ..ApiConfig::default() }));
        let admit = |tokens| refusal(api.admit(&received("a", "/", None), tokens, now)).map(|(cause, _)| cause);
        assert_eq!([None, Some(Limited::ApiTokens), None], [admit(9.0), admit(9.0), admit(1.0)]);
        assert_eq!(Some(Limited::ApiRate), admit(0.0));
    }

    #[test]
    fn a_request_in_progress_holds_its_slot_until_it_ends() {
        let now = Instant::now();
        let api = Arc::new(ApiLimits::new(ApiConfig { concurrency: Some(1), ..ApiConfig::default() }));
        let admit = || api.admit(&received("a", "/", None), 0.0, now);
        let first = admit().expect("a slot");
        assert!(admit().is_err());
        drop(first);
        assert!(admit().is_ok());
    }

    #[test]
    fn hosts_have_separate_limits_if_configured() {
        let now = Instant::now();
        for (per_host, expected) in [(true, true), (false, false)] {
            let api =
                Arc::new(ApiLimits::new(ApiConfig { requests_per_s: Some(1.0), per_host, ..ApiConfig::default() }));
            assert!(api.admit(&received("a", "/", None), 0.0, now).is_ok());
            assert!(api.admit(&received("a", "/", None), 0.0, now).is_err());
            assert_eq!(expected, api.admit(&received("b", "/", None), 0.0, now).is_ok());
        }
    }

    #[test]
    fn only_the_first_attempt_of_a_key_fails_whatever_its_url() {
        let now = Instant::now();
        let api = Arc::new(ApiLimits::new(ApiConfig { fail_first: 1.0, ..ApiConfig::default() }));
        let admit = |target: &str, key| refusal(api.admit(&received("a", target, key), 0.0, now));
        let failed = Some((Limited::FailedFirst, None));
        assert_eq!([failed, None], [admit("/1", Some("k")), admit("/2", Some("k"))]);
        assert_eq!([failed, None, failed], [admit("/1", None), admit("/1", None), admit("/2", None)]);
    }

    #[test]
    fn a_request_costs_what_it_states_or_else_its_bytes() {
        let of = |target: &str, fields: &str, body: &str| {
            let head = format!("POST {target} HTTP/1.1\r\n{fields}\r\n");
            tokens(&Received { body: body.into(), ..Received::of(head.as_bytes(), false) }).to_string()
        };
        let json = r#"{"prompt": "x", "tokens": 40}"#;
        assert_eq!("7.5", of("/", "X-Tokens: 7.5\r\n", json));
        assert_eq!("40", of("/", "", json));
        assert_eq!("40", of("/", "x-tokens: -1\r\n", json));
        assert_eq!("5", of("/", "", "Hello"));
        assert_eq!("14", of("/", "", r#"{"tokens": -1}"#));
        assert_eq!("0", of("/", "", ""));
        let conversation = r#"{"messages": [{"content": "three short words"}]}"#;
        assert_eq!("8", of("/v1/chat/completions", "", conversation));
        assert_eq!("48", of("/", "", conversation));
        assert_eq!("12", of("/v1/chat/completions", "", r#"{"messages"}"#));
    }

    #[test]
    fn a_request_after_its_response_is_counted_as_retried() {
        let now = Instant::now();
        let api = Arc::new(ApiLimits::new(ApiConfig::default()));
        let admit = || api.admit(&received("a", "/", None), 0.0, now).expect("no limit");
        assert!(!admit().is_repeated && !admit().is_repeated);
        admit().record_response();
        assert!(admit().is_repeated);
    }
}
