//! What limits a run, and when it asks again, from the options of Python; their texts are the engine's to read.

use std::num::NonZeroU32;
use std::str::FromStr;

use headgate_engine::http::target::{host_key, origin_pattern};
use headgate_engine::message;
use headgate_engine::model::error::JobError;
use headgate_engine::model::limits::{
    CostLimit, CostOf, HostConcurrency, LimitBy, Limits, NetworkDownAfter, PerHost, Rate, RetryOn, Retrying,
    StopWhenFailed,
};
use headgate_engine::model::live::SETTABLE;
use headgate_engine::model::message::OptionName;
use headgate_engine::model::network_options::parse_net;
use headgate_engine::model::options::RunOptions;
use pyo3::prelude::*;

use crate::options::Asked;

/// What stands for the hosts that are not named.
const ANY_HOST: &str = "*";

/// Hosts, each with its limit as text.
type PairsPerHost = Option<Vec<(String, String)>>;

impl Asked<'_, '_> {
    pub fn read_limits(&self, run: &mut RunOptions) -> PyResult<()> {
        let RunOptions { limits, retrying, stop_when_failed, .. } = run;
        let Limits { rate, rate_per_host, burst, concurrency_per_host, max_connections_per_host, limit_by, cost } =
            limits;
        self.read_parsed(OptionName::Rate, rate)?;
        self.read_as(OptionName::Burst, burst, |burst: Option<NonZeroU32>| Ok(burst))?;
        self.read_as(OptionName::LimitBy, limit_by, |name: String| {
            parsed_limit_by(&name).map_err(|error| wrong(OptionName::LimitBy, &error))
        })?;
        self.read_per_host(OptionName::RatePerHost, rate_per_host, *limit_by)?;
        self.read_per_host(OptionName::ConcurrencyPerHost, concurrency_per_host, *limit_by)?;
        self.read(OptionName::MaxConnectionsPerHost, max_connections_per_host)?;
        *cost = self.cost()?;
        self.read_retrying(retrying)?;
        self.read_as(OptionName::StopWhenFailed, stop_when_failed, |text: Option<String>| {
            parsed(OptionName::StopWhenFailed, text).map(Option::unwrap_or_default)
        })
    }

    /// Which of the options that can be set while a job runs were named.
    pub fn read_given(&self, given: &mut Vec<OptionName>) -> PyResult<()> {
        if let Some(names) = self.0.getattr_opt("given")? {
            let names: Vec<String> = names.extract()?;
            given.extend(SETTABLE.iter().filter(|option| names.iter().any(|name| name == option.name())));
        }
        Ok(())
    }

    fn read_retrying(&self, retrying: &mut Retrying) -> PyResult<()> {
        self.read(OptionName::Retries, &mut retrying.retries)?;
        self.read_as(OptionName::RetryOn, &mut retrying.on, |text: String| {
            text.parse().map_err(|error: String| wrong(OptionName::RetryOn, &error))
        })?;
        self.read_seconds(OptionName::RetryDelayS, &mut retrying.delay)?;
        self.read_seconds(OptionName::RetryMaxDelayS, &mut retrying.max_delay)?;
        self.read_seconds_or_none(OptionName::DeadlineS, &mut retrying.deadline)?;
        self.read(OptionName::RetryUnsafe, &mut retrying.also_unsafe)?;
        self.read(OptionName::IdempotencyKey, &mut retrying.idempotency_key)?;
        self.read_seconds(OptionName::MaxRetryAfterS, &mut retrying.max_retry_after)?;
        self.read_seconds_or_none(OptionName::HostDownAfterS, &mut retrying.host_down_after)?;
        let mut network_down_after = None;
        self.read_seconds_or_none(OptionName::NetworkDownAfterS, &mut network_down_after)?;
        retrying.network_down_after = network_down_after.map_or(NetworkDownAfter::Default, NetworkDownAfter::After);
        Ok(())
    }

    /// The limit of costs: of a rate without a cost there is none, nor of a cost without a rate.
    fn cost(&self) -> PyResult<Option<CostLimit>> {
        let (mut rate, mut column, mut of) = (None, None, None);
        self.read_parsed(OptionName::RateCost, &mut rate)?;
        self.read_as(OptionName::CostColumn, &mut column, |name: Option<String>| Ok(name.map(CostOf::Column)))?;
        let mut cost_from: Option<String> = None;
        self.read(OptionName::CostFrom, &mut cost_from)?;
        let until_answered = cost_from.map(|_| CostOf::Row);
        self.read_as(OptionName::CostOf, &mut of, |what: Option<String>| match what.as_deref() {
            None => Ok(None),
            Some("body-bytes") => Ok(Some(CostOf::BodyBytes)),
            Some(other) => Err(wrong(OptionName::CostOf, &format!("must be body-bytes, not '{other}'"))),
        })
        .map(|()| rate.zip(of.or(column).or(until_answered)).map(|(rate, of)| CostLimit { rate, of }))
    }

    fn read_parsed<T: FromStr<Err = String>>(&self, option: OptionName, place: &mut Option<T>) -> PyResult<()> {
        self.read_as(option, place, |text: Option<String>| parsed(option, text))
    }

    fn read_per_host<T>(&self, option: OptionName, place: &mut PerHost<T>, by: LimitBy) -> PyResult<()>
    where
        T: FromStr<Err = String>,
    {
        self.read_as(option, place, |pairs: PairsPerHost| {
            let mut per_host = PerHost { each: None, named: Vec::new() };
            for (host, limit) in pairs.unwrap_or_default() {
                let limit = limit.parse().map_err(|error: String| wrong(option, &error))?;
                if host == ANY_HOST {
                    per_host.each = Some(limit);
                } else {
                    per_host.named.push((host_key(&host, by).map_err(|error| wrong(option, &error))?, limit));
                }
            }
            Ok(per_host)
        })
    }
}

/// What is wrong with a text as the value of an option, in the engine's words; `None`: it is right, or no such option is
/// given as text.
#[pyfunction]
pub fn mistake_in(option: &str, text: &str) -> Option<String> {
    let is_of = |other: OptionName| option == other.name();
    if is_of(OptionName::Rate) {
        text.parse::<Rate>().err()
    } else if is_of(OptionName::ConcurrencyPerHost) {
        text.parse::<HostConcurrency>().err()
    } else if is_of(OptionName::RetryOn) {
        text.parse::<RetryOn>().err()
    } else if is_of(OptionName::StopWhenFailed) {
        text.parse::<StopWhenFailed>().err()
    } else if is_of(OptionName::AllowNet) || is_of(OptionName::DenyNet) {
        parse_net(text).err()
    } else if is_of(OptionName::CredentialsFor) {
        origin_pattern(text).err()
    } else {
        None
    }
}

/// What is wrong with a text as the name of a host, where hosts are told apart so.
#[pyfunction]
pub fn mistake_in_host(text: &str, limit_by: &str) -> Option<String> {
    parsed_limit_by(limit_by).and_then(|by| host_key(text, by)).err()
}

fn parsed<T: FromStr<Err = String>>(option: OptionName, text: Option<String>) -> Result<Option<T>, JobError> {
    text.map(|text| text.parse::<T>()).transpose().map_err(|error| wrong(option, &error))
}

fn parsed_limit_by(name: &str) -> Result<LimitBy, String> {
    match name {
        "name" => Ok(LimitBy::Name),
        "origin" => Ok(LimitBy::Origin),
        "address" => Ok(LimitBy::Address),
        other => Err(format!("must be one of name, origin, address, not '{other}'")),
    }
}

fn wrong(option: OptionName, error: &str) -> JobError {
    JobError::usage(message!(option, " {error}"))
}
