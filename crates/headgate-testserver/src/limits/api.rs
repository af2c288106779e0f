//! An API as it is sold: so many requests in a second, so many at once, so many tokens in a minute, for all or for each
//! host. Beyond any of these it answers 429 and says when to come again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::json;

use super::bucket::Bucket;
use super::keys::{Keys, Try};
use crate::answer::Answer;
use crate::config::ApiConfig;
use crate::helpers::chat;
use crate::received::Received;
use crate::statistics::Limited;

/// Hosts with an account of their own; those beyond share one.
const MAX_HOSTS: usize = 1 << 16;
/// Said by a server that can't know when one of the requests in progress ends.
const RETRY_AFTER_BUSY_S: u64 = 1;

#[derive(Debug)]
pub(crate) struct Api {
    config: ApiConfig,
    accounts: Mutex<HashMap<Box<str>, Arc<Account>>>,
    keys: Mutex<Keys>,
}

/// What one customer has used.
#[derive(Debug)]
struct Account {
    usage: Mutex<Usage>,
}

#[derive(Debug)]
struct Usage {
    in_progress: usize,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// Why a request is not answered as it asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub cause: Limited,
    /// `None`: it may be asked again at once.
    retry_after_s: Option<u64>,
}

/// A request in progress, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Slot {
    api: Arc<Api>,
    account: Arc<Account>,
    key: u64,
    pub is_repeated: bool,
}

impl Api {
    pub fn new(config: ApiConfig) -> Self {
        let keys = Mutex::new(Keys::new(config.fail_first));
        Self { config, accounts: Mutex::default(), keys }
    }

    /// Returns whether the API limits tokens.
    pub fn counts_tokens(&self) -> bool {
        self.config.tokens_per_s.is_some()
    }

    /// Lets a request through or refuses it; one that is refused has used nothing, but for the one whose first try fails.
    pub fn ask(self: &Arc<Self>, received: &Received, tokens: f64, now: Instant) -> Result<Slot, Refusal> {
        let host = if self.config.per_host { received.host() } else { "".into() };
        let account = self.account(&host, now);
        account.enter(self.config.concurrency, tokens, now)?;
        let key = key(received);
        let mut slot = Slot { api: self.clone(), account, key, is_repeated: false };
        match lock(&self.keys).tried(key) {
            Try::FirstFails => return Err(Refusal { cause: Limited::FailedFirst, retry_after_s: None }),
            Try::Usual => {}
            Try::AfterAnswer => slot.is_repeated = true,
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
        let account = Arc::new(Account { usage: Mutex::new(Usage { in_progress: 0, requests, tokens }) });
        accounts.insert(host.into(), account.clone());
        account
    }
}

impl Account {
    fn enter(&self, concurrency: Option<usize>, tokens: f64, now: Instant) -> Result<(), Refusal> {
        let mut usage = lock(&self.usage);
        let refusal = |cause, retry_after_s| Err(Refusal { cause, retry_after_s: Some(retry_after_s) });
        if concurrency.is_some_and(|most| usage.in_progress >= most) {
            return refusal(Limited::ApiConcurrency, RETRY_AFTER_BUSY_S);
        }
        // Both are looked at before anything is taken of either.
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

impl Refusal {
    pub fn answer(&self) -> Answer {
        let body = json!({ "error": { "type": self.cause.name(), "retry_after_s": self.retry_after_s } });
        match self.retry_after_s {
            None => Answer::json(&body).with_status(500),
            Some(seconds) => Answer::json(&body).with_status(429).with_field("Retry-After", &seconds.to_string()),
        }
    }
}

impl Slot {
    /// An answer begins that is no failure of the server.
    pub fn answered(&self) {
        lock(&self.api.keys).answered(self.key);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.account.usage).in_progress -= 1;
    }
}

/// The same in every run.
fn key(received: &Received) -> u64 {
    let mut hasher = DefaultHasher::new();
    match received.field("idempotency-key") {
        Some(key) => key.hash(&mut hasher),
        None => (received.host(), &received.target).hash(&mut hasher),
    }
    hasher.finish()
}

/// What a request costs: what its field `X-Tokens` says, or `tokens` of its body in JSON, or what the answer of a model will say,
/// or the bytes of its body.
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

    fn refusal(result: Result<Slot, Refusal>) -> Option<(Limited, Option<u64>)> {
        result.err().map(|refusal| (refusal.cause, refusal.retry_after_s))
    }

    #[test]
    fn each_limit_refuses_for_itself_and_says_for_how_long() {
        let now = Instant::now();
        let burst = Duration::from_secs(2);
        let cases = [
            (ApiConfig { requests_per_s: Some(1.0), ..ApiConfig::default() }, Limited::ApiRate, 2),
            (ApiConfig { tokens_per_s: Some(10.0), ..ApiConfig::default() }, Limited::ApiTokens, 2),
            (ApiConfig { concurrency: Some(2), ..ApiConfig::default() }, Limited::ApiConcurrency, 1),
        ];
        for (config, cause, seconds) in cases {
            let api = Arc::new(Api::new(ApiConfig { burst, ..config }));
            let ask = || api.ask(&received("a", "/", None), 10.0, now);
            let _in_progress = [ask().expect("room"), ask().expect("room")];
            assert_eq!(Some((cause, Some(seconds))), refusal(ask()));
        }
    }

    #[test]
    fn a_refused_request_uses_nothing() {
        let now = Instant::now();
        let (requests_per_s, tokens_per_s) = (Some(2.0), Some(10.0));
        let burst = Duration::from_secs(1);
        let api = Arc::new(Api::new(ApiConfig { requests_per_s, tokens_per_s, burst, ..ApiConfig::default() }));
        let ask = |tokens| refusal(api.ask(&received("a", "/", None), tokens, now)).map(|(cause, _)| cause);
        assert_eq!([None, Some(Limited::ApiTokens), None], [ask(9.0), ask(9.0), ask(1.0)]);
        assert_eq!(Some(Limited::ApiRate), ask(0.0));
    }

    #[test]
    fn a_request_in_progress_has_its_place_until_it_ends() {
        let now = Instant::now();
        let api = Arc::new(Api::new(ApiConfig { concurrency: Some(1), ..ApiConfig::default() }));
        let ask = || api.ask(&received("a", "/", None), 0.0, now);
        let first = ask().expect("room");
        assert!(ask().is_err());
        drop(first);
        assert!(ask().is_ok());
    }

    #[test]
    fn hosts_have_limits_of_their_own_if_asked_for() {
        let now = Instant::now();
        for (per_host, expected) in [(true, true), (false, false)] {
            let api = Arc::new(Api::new(ApiConfig { requests_per_s: Some(1.0), per_host, ..ApiConfig::default() }));
            assert!(api.ask(&received("a", "/", None), 0.0, now).is_ok());
            assert!(api.ask(&received("a", "/", None), 0.0, now).is_err());
            assert_eq!(expected, api.ask(&received("b", "/", None), 0.0, now).is_ok());
        }
    }

    #[test]
    fn the_first_try_of_a_key_fails_whatever_its_url_and_no_other() {
        let now = Instant::now();
        let api = Arc::new(Api::new(ApiConfig { fail_first: 1.0, ..ApiConfig::default() }));
        let ask = |target: &str, key| refusal(api.ask(&received("a", target, key), 0.0, now));
        let failed = Some((Limited::FailedFirst, None));
        assert_eq!([failed, None], [ask("/1", Some("k")), ask("/2", Some("k"))]);
        assert_eq!([failed, None, failed], [ask("/1", None), ask("/1", None), ask("/2", None)]);
    }

    #[test]
    fn a_request_costs_what_it_says_or_else_its_bytes() {
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
    fn what_is_asked_after_its_answer_is_known_as_repeated() {
        let now = Instant::now();
        let api = Arc::new(Api::new(ApiConfig::default()));
        let ask = || api.ask(&received("a", "/", None), 0.0, now).expect("no limit");
        assert!(!ask().is_repeated && !ask().is_repeated);
        ask().answered();
        assert!(ask().is_repeated);
    }
}
