//! The options that a retry has from its job, unless it names them itself.

use std::num::NonZeroU32;

use crate::error::JobError;
use crate::limits::CostOptions;
use crate::live::{Live, Settings, number, or_none, seconds_of};
use crate::message::OptionName;
use crate::option_rules::{Mistake, refuse};
use crate::options::JobOptions;
use crate::target::host_key;

/// The options of one limit: a retry that names one of them has none of these from its job.
const COSTS: [OptionName; 4] =
    [OptionName::CostRate, OptionName::CostColumn, OptionName::CostEstimate, OptionName::CostFromResponse];

/// Applies the stored options of a job to those of its retry, and returns those that were applied, with their values.
///
/// # Errors
/// `Usage`: a stored option contradicts a named one.
pub fn inherit(job: &mut JobOptions, stored: &Settings) -> Result<Vec<(OptionName, String)>, JobError> {
    let named = &job.run.named_options;
    let names_costs = COSTS.iter().any(|option| named.contains(option));
    let is_own = |option: &OptionName| named.contains(option) || names_costs && COSTS.contains(option);
    let inheritable = OptionName::ALL.iter().copied().filter(|option| option.entry().inherited && !is_own(option));
    let inherited: Vec<_> =
        inheritable.filter_map(|option| Some((option, stored.get(option.name())?.clone()))).collect();
    let mut cost = CostOptions { budget: job.run.limits.max_cost, ..CostOptions::default() };
    let (mut settings, mut mistakes) = (Settings::new(), Vec::new());
    for (option, text) in &inherited {
        if let Err(wrong) = set(job, *option, text, &mut cost, &mut settings) {
            mistakes.push(Mistake { option: *option, message: wrong.into() });
        }
    }
    refuse(mistakes)?;
    if let Some(cost) = cost.limit() {
        job.run.limits.cost = Some(cost);
    }
    // After `host_by`, which decides how hosts are named.
    Live::new(&job.run).with(&settings, host_key)?.put_into(&mut job.run);
    let limits = &job.run.limits;
    let mut mistakes = limits.mistakes();
    if limits.max_cost.is_some() && limits.cost.is_none() {
        let message = "limits nothing: neither the job nor the retry has the cost of each row".into();
        mistakes.push(Mistake { option: OptionName::MaxCost, message });
    }
    // What the job had may have no effect beside what the retry names.
    mistakes.retain(|mistake| job.run.named_options.contains(&mistake.option));
    refuse(mistakes)?;
    Ok(inherited)
}

/// Sets an option, or adds it to the settings, which are applied together.
fn set(
    job: &mut JobOptions,
    option: OptionName,
    text: &str,
    cost: &mut CostOptions,
    settings: &mut Settings,
) -> Result<(), String> {
    let (limits, retrying) = (&mut job.run.limits, &mut job.run.retrying);
    match option {
        OptionName::HostBy => limits.host_by = text.parse()?,
        OptionName::MaxConnectionsPerHost => limits.max_connections_per_host = NonZeroU32::new(number(option, text)?),
        OptionName::CostRate => cost.rate = or_none(text, str::parse)?,
        OptionName::MaxCost => {
            cost.budget = or_none(text, |text| number(option, text))?;
            settings.insert(option.name().into(), text.into());
        }
        OptionName::CostEstimate => cost.of_body = true,
        OptionName::CostColumn => {
            cost.column = Some(text.into());
            job.source.cost_column = Some(text.into());
        }
        OptionName::CostFromResponse => {
            cost.is_found = true;
            job.selection.cost_from_response = Some(text.into());
        }
        OptionName::RetryOn => retrying.on = text.parse()?,
        OptionName::RetryNonIdempotent => retrying.non_idempotent = text == true.to_string(),
        OptionName::IdempotencyKey => retrying.idempotency_key = text == true.to_string(),
        OptionName::Timeout => job.request.timeout = seconds_of(option, text)?,
        OptionName::ConnectTimeout => job.request.connect_timeout = seconds_of(option, text)?,
        _ => {
            settings.insert(option.name().into(), text.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::HostConcurrency;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn each_inherited_option_is_applied_unless_the_retry_names_it() {
        let stored = settings(&[
            ("burst", "3"),
            ("concurrency", "7"),
            ("concurrency_per_host", "2,http://a.example:8080=1"),
            ("connect_timeout", "1.5"),
            ("cost_column", "tokens"),
            ("cost_from_response", "used"),
            ("cost_rate", "9/s"),
            ("host_by", "origin"),
            ("host_down_after", "4"),
            ("idempotency_key", "true"),
            ("max_connections_per_host", "5"),
            ("max_cost", "900"),
            ("max_failures", "never"),
            ("max_requests", "700"),
            ("network_down_after", "4"),
            ("rate", "100/s"),
            ("rate_per_host", "50/s"),
            ("retries", "9"),
            ("retry_delay", "0"),
            ("retry_max_delay", "3"),
            ("retry_max_pause", "3"),
            ("retry_non_idempotent", "true"),
            ("retry_on", "429"),
            ("timeout", "12"),
            ("total_timeout", "60"),
        ]);
        let default = format!("{:?}", JobOptions::default());
        // That one needs the option before it.
        for (name, text) in stored.iter().filter(|(name, _)| *name != "concurrency_per_host") {
            let mut job = JobOptions::default();
            let one = settings(&[(name.as_str(), text.as_str())]);
            // These limit nothing without the cost of a row.
            let costs = settings(&[(name.as_str(), text.as_str()), ("cost_column", "tokens")]);
            let needs_costs = matches!(name.as_str(), "cost_rate" | "max_cost");
            let (before, own) = if needs_costs { (costs.clone(), costs) } else { (one.clone(), one) };
            let inherited = inherit(&mut job, &before).expect(name);
            assert_eq!(own.len(), inherited.len(), "{name}");
            let is_alone = name.starts_with("cost_") && name != "cost_rate";
            assert!(is_alone || default != format!("{job:?}"), "{name}");
            let mut named = JobOptions::default();
            named.run.named_options = inherited.iter().map(|(option, _)| *option).collect();
            let before = format!("{named:?}");
            assert_eq!((Ok(Vec::new()), before), (inherit(&mut named, &own), format!("{named:?}")), "{name}");
        }
        let mut job = JobOptions::default();
        assert_eq!(stored.len(), inherit(&mut job, &stored).expect("all").len());
        let limits = &job.run.limits;
        assert_eq!(Some(HostConcurrency::Fixed(1)), limits.concurrency_per_host.of("http://a.example:8080"));
        let all = OptionName::ALL.iter().filter(|option| option.entry().inherited);
        // `cost_estimate` is an alternative to `cost_column`.
        let missing: Vec<_> = all.map(|option| option.name()).filter(|name| !stored.contains_key(*name)).collect();
        assert_eq!(vec!["cost_estimate"], missing);
    }

    #[test]
    fn a_retry_that_names_a_cost_has_none_from_its_job() {
        let mut job = JobOptions::default();
        job.run.named_options = vec![OptionName::CostRate];
        assert_eq!(
            Ok(Vec::new()),
            inherit(&mut job, &settings(&[("cost_rate", "9/s"), ("cost_estimate", "body-bytes")]))
        );
    }
}
