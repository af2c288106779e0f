//! The options that can change during a run: plain data.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::JobError;
use crate::limits::{CostLimit, CostOf, HostBy, Limits, MaxFailures, NetworkDownAfter, PerHost, Rate, Retrying};
use crate::message::OptionName;
use crate::option_rules::{Mistake, parse_seconds, refuse, seconds, whole};
use crate::options::RunOptions;

/// Removes a limit, or restores the default of an option without a single default value.
const NONE: &str = "none";
const WITHOUT_COSTS: &str = "limits nothing: the job was started without costs of its rows";

/// Options by their names, each with its value as text: `rate` as `50/s` or `none`, `rate_per_host` as
/// `10/s,api.example.com=5/s`.
pub type Settings = BTreeMap<String, String>;

/// Returns the key of a hostname in limits.
pub(crate) type HostKey = fn(&str, HostBy) -> Result<Box<str>, String>;

/// Returns all mistakes in settings, except those that only the job knows: what its hosts are, and whether its rows have
/// costs.
///
/// # Errors
/// `Usage`: there is no such option.
pub fn mistakes_in(settings: &Settings) -> Result<Vec<Mistake>, JobError> {
    let mut live = Live::new(&RunOptions::default());
    let rate = Rate { count: NonZeroU32::MIN, per: Duration::from_secs(1) };
    live.limits.cost = Some(CostLimit { rate: Some(rate), of: CostOf::Row });
    live.apply(settings, |host, _| Ok(host.into()))
}

/// The options that can change during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// The maximum number of attempts in flight, over all workers; at least 1.
    pub concurrency: usize,
    pub limits: Limits,
    pub retrying: Retrying,
    pub max_failures: MaxFailures,
    /// The file with the token, if it was set during the run.
    pub bearer: Option<PathBuf>,
    /// Nothing new starts; what is in flight continues.
    pub paused: bool,
}

impl Live {
    pub fn new(run: &RunOptions) -> Self {
        Self {
            concurrency: run.concurrency,
            limits: run.limits.clone(),
            retrying: run.retrying.clone(),
            max_failures: run.max_failures,
            bearer: None,
            paused: false,
        }
    }

    /// Applies these values to the options of a run.
    pub fn put_into(&self, run: &mut RunOptions) {
        let Self { concurrency, limits, retrying, max_failures, bearer: _, paused: _ } = self.clone();
        *run = RunOptions { concurrency, limits, retrying, max_failures, ..run.clone() };
    }

    /// Returns the values after these settings.
    ///
    /// # Errors
    /// `Usage`: options can't be set, or have invalid values.
    pub fn with(&self, settings: &Settings, host_key: HostKey) -> Result<Self, JobError> {
        let mut live = self.clone();
        refuse(live.apply(settings, host_key)?)?;
        Ok(live)
    }

    /// Applies the valid settings, and returns the mistakes in the others.
    fn apply(&mut self, settings: &Settings, host_key: HostKey) -> Result<Vec<Mistake>, JobError> {
        let mut mistakes = Vec::new();
        for (name, text) in settings {
            let Some(option) = OptionName::ALL.iter().copied().find(|option| option.name() == name) else {
                return Err(JobError::usage(format!("there is no option {name}")));
            };
            if let Err(wrong) = self.set(option, text, host_key) {
                mistakes.push(Mistake { option, message: wrong.into() });
            }
        }
        Ok(mistakes)
    }

    fn set(&mut self, option: OptionName, text: &str, host_key: HostKey) -> Result<(), String> {
        let Self { concurrency, limits, retrying, max_failures, bearer, paused: _ } = self;
        let by = limits.host_by;
        match option {
            OptionName::Concurrency => *concurrency = number(option, text)?,
            OptionName::ConcurrencyPerHost => {
                let per_host = or_none(text, |text| PerHost::parse(text, |host| host_key(host, by)))?;
                limits.concurrency_per_host = per_host.unwrap_or_default();
            }
            OptionName::Rate => limits.rate = or_none(text, str::parse)?,
            OptionName::RatePerHost => {
                let per_host = or_none(text, |text| PerHost::parse(text, |host| host_key(host, by)))?;
                limits.rate_per_host = per_host.unwrap_or_default();
            }
            OptionName::Burst => {
                let burst = or_none(text, |text| number(option, text))?;
                limits.burst = burst.and_then(NonZeroU32::new);
            }
            OptionName::CostRate => {
                let rate = or_none(text, str::parse)?;
                match &mut limits.cost {
                    Some(cost) => cost.rate = rate,
                    None if rate.is_some() => return Err(WITHOUT_COSTS.into()),
                    None => {}
                }
            }
            OptionName::MaxRequests => limits.max_requests = or_none(text, |text| number(option, text))?,
            OptionName::MaxCost => {
                let max = or_none(text, |text| number(option, text))?;
                if max.is_some() && limits.cost.is_none() {
                    return Err(WITHOUT_COSTS.into());
                }
                limits.max_cost = max;
            }
            OptionName::Retries => retrying.retries = number(option, text)?,
            OptionName::RetryDelay => retrying.delay = seconds_of(option, text)?,
            OptionName::RetryMaxDelay => retrying.max_delay = seconds_of(option, text)?,
            OptionName::TotalTimeout => retrying.total_timeout = or_none(text, |text| seconds_of(option, text))?,
            OptionName::RetryMaxPause => retrying.retry_max_pause = seconds_of(option, text)?,
            OptionName::HostDownAfter => retrying.host_down_after = or_none(text, |text| seconds_of(option, text))?,
            OptionName::NetworkDownAfter => {
                let time = or_none(text, |text| seconds_of(option, text))?;
                retrying.network_down_after = time.map_or(NetworkDownAfter::Default, NetworkDownAfter::After);
            }
            // `never` differs from the default.
            OptionName::MaxFailures => *max_failures = or_none(text, str::parse)?.unwrap_or_default(),
            // A secret is not stored: its file is named.
            OptionName::Bearer => *bearer = or_none(text, file)?,
            _ => return Err("can't be set while a job runs".into()),
        }
        Ok(())
    }
}

fn file(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix('@').map(PathBuf::from).filter(|path| path.is_absolute());
    path.ok_or_else(|| "must be @FILE, a file that holds the token: a secret is not stored".into())
}

pub(crate) fn or_none<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == NONE { Ok(None) } else { parse(text).map(Some) }
}

pub(crate) fn number<T: TryFrom<u64>>(option: OptionName, text: &str) -> Result<T, String> {
    let not_a_number = || format!("must be a whole number, not '{text}'");
    let number = whole(option, text.parse().map_err(|_| not_a_number())?, text)?;
    number.try_into().map_err(|_| not_a_number())
}

pub(crate) fn seconds_of(option: OptionName, text: &str) -> Result<Duration, String> {
    seconds(option, parse_seconds(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HostConcurrency;

    fn as_named(text: &str, _: HostBy) -> Result<Box<str>, String> {
        if text.contains(' ') { Err(format!("'{text}' is not a host")) } else { Ok(text.into()) }
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn each_settable_option_is_set_and_can_be_reset() {
        let base = Live::new(&RunOptions {
            limits: Limits {
                cost: Some(CostLimit { rate: "1/s".parse().ok(), of: CostOf::BodyBytes }),
                ..Limits::default()
            },
            ..RunOptions::default()
        });
        for (name, text, back) in [
            ("concurrency", "7", "256"),
            ("concurrency_per_host", "auto,a.example=2", "none"),
            ("rate", "50/s", "none"),
            ("rate_per_host", "10/s,a.example=5/s", "none"),
            ("burst", "9", "none"),
            ("cost_rate", "none", "1/s"),
            ("max_requests", "9", "none"),
            ("max_cost", "9", "none"),
            ("retries", "0", "3"),
            ("retry_delay", "2.5", "0.5"),
            ("retry_max_delay", "9", "60"),
            ("total_timeout", "5", "none"),
            ("retry_max_pause", "1", "3600"),
            ("host_down_after", "1", "none"),
            ("network_down_after", "1", "none"),
            ("max_failures", "never", "none"),
            ("bearer", "@/run/token", "none"),
        ] {
            assert!(OptionName::settable().any(|option| option.name() == name));
            let changed = base.with(&settings(&[(name, text)]), as_named).expect(name);
            assert_ne!(base, changed, "{name}");
            assert_eq!(Ok(&base), base.with(&settings(&[(name, back)]), as_named).as_ref(), "{name}");
        }
    }

    #[test]
    fn limits_of_hosts_are_read_with_their_hosts() {
        let base = Live::new(&RunOptions::default());
        let set = settings(&[("concurrency_per_host", "8,a.example=2,b.example=auto")]);
        let limits = base.with(&set, as_named).expect("limits").limits.concurrency_per_host;
        assert_eq!(Some(HostConcurrency::Fixed(8)), limits.of("c.example"));
        assert_eq!(Some(HostConcurrency::Fixed(2)), limits.of("a.example"));
        assert_eq!(Some(HostConcurrency::Auto), limits.of("b.example"));
    }

    #[test]
    fn all_mistakes_are_found_at_once() {
        let set = settings(&[("burst", "0"), ("concurrency", "7"), ("rate", "5"), ("rate_per_host", "*=1/s,a b=5/s")]);
        let refused = Live::new(&RunOptions::default()).with(&set, as_named).expect_err("three mistakes");
        let rate = "'5' is not a rate: write a number and a time, such as 100/s, 6000/m, 5000/h or 1/10s";
        let expected = format!("burst must be at least 1, not 0; rate {rate}; rate_per_host 'a b' is not a host");
        assert_eq!(expected, refused.to_string());
        let options = mistakes_in(&set).expect("known options").into_iter().map(|mistake| mistake.option);
        assert_eq!(vec![OptionName::Burst, OptionName::Rate], options.collect::<Vec<_>>());
        assert_eq!(Ok(Vec::new()), mistakes_in(&settings(&[("cost_rate", "5/s")])));
    }

    #[test]
    fn an_option_that_cannot_be_set_is_refused_by_name() {
        let base = Live::new(&RunOptions::default());
        for (expected, name, text) in [
            ("concurrency must be at least 1, not 0", "concurrency", "0"),
            ("retries must be at most 65535, not 65536", "retries", "65536"),
            ("rate_per_host 'a b' is not a host", "rate_per_host", "a b=5/s"),
            ("cost_rate limits nothing: the job was started without costs of its rows", "cost_rate", "5/s"),
            ("max_cost limits nothing: the job was started without costs of its rows", "max_cost", "5"),
            ("max_requests must be at least 1, not 0", "max_requests", "0"),
            ("total_timeout must be a duration such as 30s, 500ms or 5m, not 'soon'", "total_timeout", "soon"),
            ("method can't be set while a job runs", "method", "PUT"),
            ("there is no option speed", "speed", "1"),
        ] {
            let refused = base.with(&settings(&[(name, text)]), as_named).expect_err(name);
            assert_eq!(expected, refused.to_string());
        }
    }
}
