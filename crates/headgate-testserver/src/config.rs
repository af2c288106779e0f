//! The configuration of the server, and its validation.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The body of the default response, unless another is configured.
pub(crate) const DEFAULT_BODY: &str = "Hello, World!";
/// The longest delay of a response, in seconds.
pub(crate) const MAX_DELAY_S: f64 = 86_400.0;
/// The statuses of final responses.
pub(crate) const STATUSES: RangeInclusive<u16> = 200..=599;
const MAX_THREADS: usize = 1024;
pub(crate) const CAPACITIES: RangeInclusive<usize> = 1..=1_000_000;
/// The value that RFC 9113 section 6.5.2 recommends as a minimum.
pub const DEFAULT_HTTP2_STREAMS: u32 = 100;
const DEFAULT_API_BURST: Duration = Duration::from_millis(50);
/// The bound of the default body, which is held in memory once.
const MAX_BODY_BYTES: usize = 1024 * 1024 * 1024;

/// The limits of a commercial API; `None` means no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiConfig {
    pub requests_per_s: Option<f64>,
    pub tokens_per_s: Option<f64>,
    /// The bound of requests in progress.
    pub concurrency: Option<usize>,
    /// The size of the token buckets: what accumulates in this time may be used at once after a pause.
    pub burst: Duration,
    /// The share of requests whose first attempt gets status 500, from 0 to 1.
    pub fail_first: f64,
    /// The share of requests whose first attempt gets an HTML page with status 200.
    pub html_first: f64,
    /// The share of requests whose first attempt gets only half of a body.
    pub cut_first: f64,
    /// How long a bearer token of `/token` is valid; `None` means that none is needed.
    pub bearer_ttl: Option<Duration>,
    /// The limits apply to each value of `Host` separately.
    pub per_host: bool,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            requests_per_s: None,
            tokens_per_s: None,
            concurrency: None,
            burst: DEFAULT_API_BURST,
            fail_first: 0.0,
            html_first: 0.0,
            cut_first: 0.0,
            bearer_ttl: None,
            per_host: false,
        }
    }
}

/// The certificate of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// PEM files.
    Files { certificate: PathBuf, key: PathBuf },
    /// A new certificate for `localhost`, 127.0.0.1, 127.0.0.2 and `::1`, which is written to this file.
    Made { certificate: PathBuf },
}

/// The configuration of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub host: IpAddr,
    /// 0 stands for a free port.
    pub port: u16,
    /// `None` stands for the number of cores that this process may use.
    pub threads: Option<usize>,
    /// The delay of the default response in seconds, drawn uniformly. `0.0..=0.0` means no delay.
    pub delay_s: RangeInclusive<f64>,
    /// Draws only the start of `delay_s` plus a whole number of seconds.
    pub delay_whole: bool,
    /// The length of a body of text, drawn from `seed`; `None` stands for `Hello, World!`.
    pub body_bytes: Option<usize>,
    pub status: u16,
    /// Determines bodies and delays.
    pub seed: u64,
    /// The bound of requests in progress; further requests wait.
    pub capacity: Option<usize>,
    /// Requests beyond the capacity get status 503 at once.
    pub refuse: bool,
    pub api: Option<ApiConfig>,
    /// The file with a line for each request.
    pub log: Option<PathBuf>,
    /// `None` means no TLS.
    pub tls: Option<Tls>,
    /// Accepts HTTP/2, too: with TLS by ALPN, without it by prior knowledge.
    pub http2: bool,
    /// The bound of concurrent streams on an HTTP/2 connection.
    pub http2_streams: u32,
    /// The path of this server whose response replaces that of `/robots.txt`.
    pub robots: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            threads: None,
            delay_s: 0.0..=0.0,
            delay_whole: false,
            body_bytes: None,
            status: 200,
            seed: 0,
            capacity: None,
            refuse: false,
            api: None,
            log: None,
            tls: None,
            http2: false,
            http2_streams: DEFAULT_HTTP2_STREAMS,
            robots: None,
        }
    }
}

impl ApiConfig {
    fn has_valid_shares(&self) -> bool {
        let shares = [self.fail_first, self.html_first, self.cut_first];
        shares.iter().all(|share| *share >= 0.0) && shares.iter().sum::<f64>() <= 1.0
    }

    fn mistakes(&self) -> impl Iterator<Item = String> {
        let is_rate = |rate: Option<f64>| rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
        let rules = [
            (is_rate(self.requests_per_s), "the API's requests a second must be above 0"),
            (is_rate(self.tokens_per_s), "the API's tokens a second must be above 0"),
            (self.concurrency != Some(0), "the API's requests at once must be at least 1"),
            (self.has_valid_shares(), "the API's shares of failures must be from 0 to 1, also together"),
            (self.bearer_ttl != Some(Duration::ZERO), "the API's bearer tokens must be valid for some time"),
        ];
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, mistake)| mistake.to_owned())
    }
}

impl Config {
    /// Checks the configuration, and returns all mistakes at once.
    pub(crate) fn check(&self) -> io::Result<()> {
        let (min, max) = (*self.delay_s.start(), *self.delay_s.end());
        let mut mistakes = Vec::new();
        if !(0.0 <= min && min <= max && max <= MAX_DELAY_S) {
            mistakes.push(format!("delay {min}..{max}: must be seconds from low to high within 0..{MAX_DELAY_S}"));
        }
        if !STATUSES.contains(&self.status) {
            mistakes.push(format!("status {}: must be within {}..{}", self.status, STATUSES.start(), STATUSES.end()));
        }
        if let Some(threads) = self.threads.filter(|threads| !(1..=MAX_THREADS).contains(threads)) {
            mistakes.push(format!("threads {threads}: must be within 1..{MAX_THREADS}"));
        }
        if let Some(bytes) = self.body_bytes.filter(|bytes| *bytes > MAX_BODY_BYTES) {
            mistakes.push(format!("body of {bytes} bytes: must be at most {MAX_BODY_BYTES}"));
        }
        if let Some(capacity) = self.capacity.filter(|capacity| !CAPACITIES.contains(capacity)) {
            mistakes.push(format!("capacity {capacity}: must be within {}..{}", CAPACITIES.start(), CAPACITIES.end()));
        }
        if self.refuse && self.capacity.is_none() {
            mistakes.push("refuse: needs a capacity".to_owned());
        }
        if let Some(api) = &self.api {
            mistakes.extend(api.mistakes());
        }
        if mistakes.is_empty() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, mistakes.join("; ")))
    }

    pub(crate) fn delay(&self) -> Delay {
        let (min_s, max_s) = (*self.delay_s.start(), *self.delay_s.end());
        if max_s == 0.0 {
            return Delay::None;
        }
        if self.delay_whole {
            return Delay::Whole { min_s, steps: (max_s - min_s).floor() as u32 };
        }
        Delay::Uniform { min_s, width_s: max_s - min_s }
    }
}

/// The delay of the default response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Delay {
    None,
    Uniform { min_s: f64, width_s: f64 },
    Whole { min_s: f64, steps: u32 },
}

impl Delay {
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> Duration {
        match self {
            Delay::None => Duration::ZERO,
            Delay::Uniform { min_s, width_s } => Duration::from_secs_f64(min_s + width_s * random.f64()),
            Delay::Whole { min_s, steps } => Duration::from_secs_f64(min_s + f64::from(random.u32(0..=steps))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn draws(config: &Config) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(config.seed);
        (0..1000).map(|_| config.delay().draw(&mut random)).collect()
    }

    #[test]
    fn without_a_configured_delay_all_delays_are_zero() {
        assert_eq!(vec![Duration::ZERO; 1000], draws(&Config::default()));
    }

    #[test]
    fn whole_delays_are_each_second_of_the_range_and_nothing_else() {
        let config = Config { delay_s: 0.0..=3.0, delay_whole: true, ..Config::default() };
        let expected: BTreeSet<Duration> = (0..=3).map(Duration::from_secs).collect();
        assert_eq!(expected, draws(&config).into_iter().collect());
    }

    #[test]
    fn delays_fill_their_range_and_stay_within_it() {
        let delays = draws(&Config { delay_s: 1.0..=2.0, ..Config::default() });
        let (min, max) = (delays.iter().min().expect("drawn"), delays.iter().max().expect("drawn"));
        assert!((1.0..1.05).contains(&min.as_secs_f64()), "{min:?}");
        assert!((1.95..=2.0).contains(&max.as_secs_f64()), "{max:?}");
    }

    #[test]
    fn all_mistakes_of_a_configuration_are_named_at_once() {
        let config = Config { delay_s: 2.0..=1.0, status: 100, threads: Some(0), ..Config::default() };
        assert_eq!(
            "delay 2..1: must be seconds from low to high within 0..86400; status 100: must be within 200..599; \
             threads 0: must be within 1..1024",
            config.check().expect_err("three mistakes").to_string()
        );
    }

    #[test]
    fn invalid_limits_are_mistakes() {
        let zero = ApiConfig { requests_per_s: Some(0.0), tokens_per_s: Some(-1.0), ..ApiConfig::default() };
        let api = Some(ApiConfig { concurrency: Some(0), fail_first: 1.5, ..zero });
        assert_eq!(
            "capacity 0: must be within 1..1000000; the API's requests a second must be above 0; the API's tokens a \
             second must be above 0; the API's requests at once must be at least 1; the API's shares of failures must \
             be from 0 to 1, also together",
            Config { capacity: Some(0), api, ..Config::default() }.check().expect_err("five mistakes").to_string()
        );
        let error = Config { refuse: true, ..Config::default() }.check().expect_err("no capacity");
        assert_eq!("refuse: needs a capacity", error.to_string());
    }

    #[test]
    fn a_delay_that_is_not_a_finite_number_is_a_mistake() {
        assert!(Config { delay_s: f64::NAN..=1.0, ..Config::default() }.check().is_err());
        assert!(Config { delay_s: 0.0..=f64::INFINITY, ..Config::default() }.check().is_err());
    }
}
