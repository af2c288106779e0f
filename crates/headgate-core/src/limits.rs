//! The limits on requests that options set: plain data, which `schedule/` enforces.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

pub use crate::choices::{HostBy, RowCost};
use crate::defaults::{
    DEFAULT_HOST_DOWN_AFTER, DEFAULT_HOST_NEVER_UP_AFTER, DEFAULT_NETWORK_DOWN_AFTER, DEFAULT_NETWORK_NEVER_UP_AFTER,
    DEFAULT_RETRIES, DEFAULT_RETRY_DELAY, DEFAULT_RETRY_MAX_DELAY, DEFAULT_RETRY_MAX_PAUSE, DEFAULT_RETRY_ON,
};
use crate::error::ErrorKind;
use crate::message;
use crate::message::{Message, OptionName};
use crate::option_rules::Mistake;
use crate::status_set::StatusSet;

/// The longest time that a rate can speak of.
const LONGEST_PER: Duration = Duration::from_secs(366 * 86_400);

/// Names all hosts without a limit of their own.
const ANY_HOST: &str = "*";

/// A number of requests in each period: `100/s`, `6000/m`, `1/10s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// At least 1.
    pub count: NonZeroU32,
    /// More than zero.
    pub per: Duration,
}

impl Rate {
    /// Returns the time between one and the next.
    pub fn interval(self) -> Duration {
        self.per / self.count.get()
    }

    pub fn per_second(self) -> f64 {
        f64::from(self.count.get()) / self.per.as_secs_f64()
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_rate(text).ok_or_else(|| {
            format!("'{text}' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s")
        })
    }
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (count, per) = text.split_once('/')?;
    let count = count.trim().parse().ok()?;
    let per = per.trim();
    let unit_at = per.len() - per.chars().rev().take_while(char::is_ascii_alphabetic).count();
    let (number, unit) = per.split_at(unit_at);
    let number: f64 = if number.is_empty() { 1.0 } else { number.parse().ok()? };
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let per = Duration::try_from_secs_f64(number * unit).ok()?;
    let rate = Rate { count, per };
    (per <= LONGEST_PER && !rate.interval().is_zero()).then_some(rate)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.per.as_secs_f64();
        let known = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
        match known.iter().find(|(_, length)| (seconds - length).abs() < 1e-9) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{seconds}s", self.count),
        }
    }
}

/// A limit of each host: one for all hosts, and exceptions by name.
#[derive(Debug, Clone, PartialEq)]
pub struct PerHost<T> {
    /// `None`: no limit.
    pub each: Option<T>,
    /// Names in lower case, as [`HostBy`] writes them. The last entry of a name counts.
    pub named: Vec<(Box<str>, T)>,
}

impl<T> Default for PerHost<T> {
    fn default() -> Self {
        Self { each: None, named: Vec::new() }
    }
}

impl<T: FromStr<Err = String>> PerHost<T> {
    /// Parses a limit for all hosts, and limits of hosts: `10/s,api.example.com=5/s`. `host_key` returns the name of a host.
    ///
    /// # Errors
    /// Why a limit or a host is invalid.
    pub fn parse(text: &str, host_key: impl Fn(&str) -> Result<Box<str>, String>) -> Result<Self, String> {
        let mut limits = Self::default();
        for part in text.split(',') {
            match part.rsplit_once('=').unwrap_or((ANY_HOST, part)) {
                (ANY_HOST, limit) => limits.each = Some(limit.parse()?),
                (host, limit) => limits.named.push((host_key(host)?, limit.parse()?)),
            }
        }
        Ok(limits)
    }
}

impl<T: Copy> PerHost<T> {
    pub fn of(&self, host: &str) -> Option<T> {
        let named = self.named.iter().rev().find(|(name, _)| **name == *host);
        named.map(|(_, limit)| *limit).or(self.each)
    }

    pub fn is_none(&self) -> bool {
        self.each.is_none() && self.named.is_empty()
    }
}

/// The limit of requests in flight to one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostConcurrency {
    /// At least 1.
    Fixed(u32),
    /// As many as bring the most responses, as they come.
    Auto,
}

impl FromStr for HostConcurrency {
    type Err = String;

    /// Parses a number, or `auto`.
    fn from_str(text: &str) -> Result<Self, String> {
        match (text.trim(), text.trim().parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(number)) if number > 0 => Ok(Self::Fixed(number)),
            _ => Err(format!("'{text}': write a number of requests, at least 1, or auto")),
        }
    }
}

/// The cost of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostOf {
    /// Each row costs 1, until its response has another cost.
    Row,
    /// The value of this column of the input; 1 if it has none.
    Column(String),
    /// The bytes of its body.
    BodyBytes,
}

/// The unit of limits on something other than requests: each row uses its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct CostLimit {
    /// `None`: only the budget limits costs.
    pub rate: Option<Rate>,
    pub of: CostOf,
}

/// The options of a limit on costs, before they are combined.
#[derive(Debug, Default)]
pub struct CostOptions {
    pub rate: Option<Rate>,
    pub budget: Option<u64>,
    /// There may be a budget: not for clients.
    pub may_have_budget: bool,
    pub column: Option<String>,
    pub of_body: bool,
    /// The response has the cost of a row.
    pub is_found: bool,
}

impl CostOptions {
    /// Returns all mistakes in the combination of the options.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        let mut add = |option, message| found.push(Mistake { option, message });
        let of_row = [(OptionName::CostColumn, self.column.is_some()), (OptionName::CostEstimate, self.of_body)];
        let of_rows = of_row.into_iter().chain([(OptionName::CostFromResponse, self.is_found)]);
        let mut set_options = of_rows.filter(|(_, is_set)| *is_set).map(|(option, _)| option).peekable();
        let limits = [(OptionName::CostRate, self.rate.is_some()), (OptionName::MaxCost, self.budget.is_some())];
        let mut limits = limits.into_iter().filter(|(_, is_set)| *is_set).map(|(option, _)| option).peekable();
        if limits.peek().is_none() {
            let mut needed = Message::from(OptionName::CostRate.set("150000/m"));
            if self.may_have_budget {
                needed = message!(needed, " or ", OptionName::MaxCost);
            }
            set_options.for_each(|option| add(option, message!("limits nothing without ", needed.clone())));
        } else if set_options.peek().is_none() {
            let body = OptionName::CostEstimate.set("body-bytes");
            let known = message!(OptionName::CostColumn, ", ", body, " or ", OptionName::CostFromResponse);
            limits.for_each(|option| add(option, message!("needs the cost of each row: give ", known.clone())));
        }
        if self.column.is_some() && self.of_body {
            add(
                OptionName::CostEstimate,
                message!("can't be combined with ", OptionName::CostColumn, ": a row has one cost"),
            );
        }
        found
    }

    /// Returns the limit, or `None` if nothing limits costs, or rows have none.
    pub fn limit(self) -> Option<CostLimit> {
        let of = if self.of_body {
            CostOf::BodyBytes
        } else if let Some(column) = self.column {
            CostOf::Column(column)
        } else if self.is_found {
            CostOf::Row
        } else {
            return None;
        };
        (self.rate.is_some() || self.budget.is_some()).then_some(CostLimit { rate: self.rate, of })
    }
}

/// The limits on requests.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Requests of the whole run.
    pub rate: Option<Rate>,
    pub rate_per_host: PerHost<Rate>,
    /// Requests at once after a pause; `None`: those of 10 ms, and at least 1.
    pub burst: Option<NonZeroU32>,
    pub concurrency_per_host: PerHost<HostConcurrency>,
    /// Connections to each host over HTTP/1.1, idle ones included; `None`: as many as its requests in flight.
    pub max_connections_per_host: Option<NonZeroU32>,
    pub host_by: HostBy,
    pub cost: Option<CostLimit>,
    /// Requests of all runs of the job.
    pub max_requests: Option<u64>,
    /// The cost of all runs of the job.
    pub max_cost: Option<u64>,
}

impl Limits {
    /// Returns all mistakes in the combination of the options.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let is_without_rate = self.burst.is_some() && !self.has_rates();
        let message = || message!("limits nothing without ", OptionName::Rate, " or ", OptionName::RatePerHost);
        is_without_rate.then(|| Mistake { option: OptionName::Burst, message: message() }).into_iter().collect()
    }

    /// Returns whether there is a rate limit for the run or for hosts.
    pub fn has_rates(&self) -> bool {
        self.rate.is_some() || !self.rate_per_host.is_none()
    }

    pub fn cost_rate(&self) -> Option<Rate> {
        self.cost.as_ref()?.rate
    }

    /// Returns how many requests to a host may be in flight: no more than connections to it, or requests would wait for one.
    pub fn concurrency_of(&self, host: &str) -> Option<HostConcurrency> {
        match self.concurrency_per_host.of(host) {
            Some(HostConcurrency::Auto) => Some(HostConcurrency::Auto),
            _ => self.most_of(host).map(HostConcurrency::Fixed),
        }
    }

    /// Returns the maximum number of requests in flight to a host, and of connections to it over HTTP/1.1.
    pub fn most_of(&self, host: &str) -> Option<u32> {
        let requests = match self.concurrency_per_host.of(host) {
            Some(HostConcurrency::Fixed(requests)) => Some(requests),
            Some(HostConcurrency::Auto) | None => None,
        };
        requests.into_iter().chain(self.max_connections_per_host.map(NonZeroU32::get)).min()
    }

    pub fn is_none(&self) -> bool {
        self.rate.is_none()
            && self.rate_per_host.is_none()
            && self.concurrency_per_host.is_none()
            && self.max_connections_per_host.is_none()
            && self.cost.is_none()
            && self.max_requests.is_none()
            && self.max_cost.is_none()
    }
}

/// The error kinds and statuses that are retried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryOn {
    /// A bit for each kind.
    kinds: u32,
    statuses: StatusSet,
}

impl RetryOn {
    pub(crate) fn has_kind(&self, kind: ErrorKind) -> bool {
        self.kinds >> (kind as u32) & 1 == 1
    }

    pub(crate) fn has_status(&self, status: u16) -> bool {
        self.statuses.contains(status)
    }

    /// Adds a kind, a status or a class of statuses, or removes it. Returns `None` if the text is none of these.
    fn set(&mut self, text: &str, is_included: bool) -> Option<()> {
        let kinds: &[ErrorKind] = match ErrorKind::of_name(text) {
            Some(ErrorKind::Timeout) => &[ErrorKind::Timeout, ErrorKind::ConnectTimeout],
            Some(kind) => &[kind],
            None => return self.statuses.set(text.strip_prefix("status:").unwrap_or(text), is_included),
        };
        for bit in kinds.iter().map(|kind| 1 << *kind as u32) {
            self.kinds = if is_included { self.kinds | bit } else { self.kinds & !bit };
        }
        Some(())
    }
}

impl FromStr for RetryOn {
    type Err = String;

    /// Parses kinds, statuses and classes between commas: `connect,timeout,429,5xx`; `timeout` includes `connect_timeout`.
    /// `none` alone or an empty text is the empty set. If each has a sign, they change the default: `+protocol,-429`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "none" {
            return Ok(Self::default());
        }
        let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let is_change = |part: &str| part.starts_with(['+', '-']);
        if !parts().any(is_change) {
            let mut on = Self::default();
            for part in parts() {
                on.set(part, true).ok_or_else(|| wrong_failures(text))?;
            }
            return Ok(on);
        }
        if !parts().all(is_change) {
            return Err(format!(
                "'{text}': give each failure a sign to change the default list, as in +404,-429, or none of them"
            ));
        }
        let mut on: Self = DEFAULT_RETRY_ON.parse()?;
        for part in parts() {
            on.set(&part[1..], part.starts_with('+')).ok_or_else(|| wrong_failures(text))?;
        }
        Ok(on)
    }
}

fn wrong_failures(text: &str) -> String {
    format!(
        "'{text}': write error kinds, statuses and classes, such as connect,timeout,429,5xx, or none alone; with signs, +404,-429"
    )
}

/// When a row is retried, and when retries are exhausted.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrying {
    /// Attempts after the first; 0: none.
    pub retries: u16,
    pub on: RetryOn,
    /// The first delay is at most this long, and each further one up to twice as long as the one before.
    pub delay: Duration,
    pub max_delay: Duration,
    /// The timeout of a row, over all its attempts.
    pub total_timeout: Option<Duration>,
    /// Whether methods are retried that may do something twice.
    pub non_idempotent: bool,
    /// Whether each row has a key of its own, by which a server recognises a retry.
    pub idempotency_key: bool,
    /// If a server requests a longer pause, its waiting rows fail.
    pub retry_max_pause: Duration,
    /// The rows of a host that has sent no response for this long fail; `None`: [`DEFAULT_HOST_DOWN_AFTER`], or
    /// [`DEFAULT_HOST_NEVER_UP_AFTER`] if it has never sent one.
    pub host_down_after: Option<Duration>,
    pub network_down_after: NetworkDownAfter,
}

/// When a run stops because no host can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkDownAfter {
    /// [`DEFAULT_NETWORK_DOWN_AFTER`], or [`DEFAULT_NETWORK_NEVER_UP_AFTER`].
    #[default]
    Default,
    After(Duration),
    /// The network is not judged: each row fails on its own, for callers that wait for single requests.
    Never,
}

impl NetworkDownAfter {
    /// Returns the time; `has_responded`: any host has sent a response in this job.
    pub fn time(self, has_responded: bool) -> Duration {
        match self {
            Self::After(time) => time,
            Self::Default | Self::Never if has_responded => DEFAULT_NETWORK_DOWN_AFTER,
            Self::Default | Self::Never => DEFAULT_NETWORK_NEVER_UP_AFTER,
        }
    }
}

impl Retrying {
    /// Returns how long a host may send no response; `has_responded`: it has sent one before.
    pub fn host_down_after(&self, has_responded: bool) -> Duration {
        let default = if has_responded { DEFAULT_HOST_DOWN_AFTER } else { DEFAULT_HOST_NEVER_UP_AFTER };
        self.host_down_after.unwrap_or(default)
    }
}

impl Default for Retrying {
    fn default() -> Self {
        Self {
            retries: DEFAULT_RETRIES,
            on: DEFAULT_RETRY_ON.parse().expect("the default is a list of failures"),
            delay: DEFAULT_RETRY_DELAY,
            max_delay: DEFAULT_RETRY_MAX_DELAY,
            total_timeout: None,
            non_idempotent: false,
            idempotency_key: false,
            retry_max_pause: DEFAULT_RETRY_MAX_PAUSE,
            host_down_after: None,
            network_down_after: NetworkDownAfter::default(),
        }
    }
}

/// When a job stops that can't succeed. Counted over its first outcomes, or the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MaxFailures {
    /// The first 1,000 outcomes have all failed with one kind, over at least 10 hosts or in an input of one host.
    #[default]
    AllAlike,
    /// This share of the last 1,000 outcomes has failed: above 0 and up to 1.
    Share(f64),
    /// More rows than this have failed.
    Count(u64),
    Never,
}

impl FromStr for MaxFailures {
    type Err = String;

    /// Parses `50%`, a number of rows, or `never`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let share = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
        match (share, text.parse::<u64>()) {
            _ if text == "never" => Ok(Self::Never),
            (Some(share), _) if share > 0.0 && share <= 100.0 => Ok(Self::Share(share / 100.0)),
            (None, Ok(count)) => Ok(Self::Count(count)),
            _ => Err(format!("'{text}': write a share such as 50%, a number of failed rows, or never")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_on(text: &str) -> RetryOn {
        text.parse().expect("a list of failures")
    }

    #[test]
    fn signs_change_the_default_list_of_retried_failures() {
        let default = retry_on(DEFAULT_RETRY_ON);
        let changed = retry_on("+protocol, -5xx,+404");
        for (kind, status) in [(ErrorKind::Connect, 429), (ErrorKind::Timeout, 408), (ErrorKind::ConnectTimeout, 425)] {
            assert!(changed.has_kind(kind) && changed.has_status(status), "{kind}");
        }
        assert_eq!((false, true), (default.has_kind(ErrorKind::Protocol), changed.has_kind(ErrorKind::Protocol)));
        assert_eq!((false, true), (default.has_status(404), changed.has_status(404)));
        assert_eq!((true, false), (default.has_status(503), changed.has_status(503)));
        let without = retry_on("-timeout");
        assert!(!without.has_kind(ErrorKind::Timeout) && !without.has_kind(ErrorKind::ConnectTimeout));
        assert_eq!(default, retry_on("+timeout"));
    }

    #[test]
    fn a_list_with_some_signs_or_an_unknown_failure_is_refused() {
        for text in ["+protocol,429", "connect,-429"] {
            let error = text.parse::<RetryOn>().expect_err(text);
            assert!(error.contains("give each failure a sign"), "{error}");
        }
        for text in ["+protocols", "timeouts", "-", "status:9", "connect,none"] {
            assert!(text.parse::<RetryOn>().expect_err(text).contains("write error kinds"), "{text}");
        }
        assert_eq!(RetryOn::default(), retry_on("none"));
        assert_eq!(RetryOn::default(), retry_on(""));
    }
}
