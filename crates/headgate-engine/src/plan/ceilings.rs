//! How fast the options let a job proceed: a rate for each limit, as if it were the only one. The lowest rate bounds the job.
//!
//! A limit of each host bounds the job by the host that takes longest. If a host with a tenth of the rows is limited to
//! 10/s, ten times as many requests are made in all meanwhile. So the job as a whole proceeds at 100/s. Concurrency bounds
//! it by Little's law: with c in flight for L seconds each, c/L end every second (J. D. C. Little, "A Proof for the Queuing
//! Formula L = λW", 1961). Retries, this machine and the servers are not considered.

use headgate_core::limits::HostConcurrency;
use headgate_core::message::OptionName;
use headgate_core::options::RunOptions;
use serde::Serialize;

/// The rate that one limit allows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// The option that sets the limit.
    pub option: OptionName,
    /// Requests of the whole job each second.
    pub per_s: f64,
    /// The limit itself, each second or in flight: of the whole job, or of `host`.
    pub limit: f64,
    /// The host that takes longest, where each has a limit.
    pub host: Option<String>,
    /// Its share of the rows, from 0 to 1.
    pub host_share: Option<f64>,
}

/// The work of a job, as far as it was sampled.
pub(super) struct SampledWork<H> {
    /// The rows of each host.
    pub(super) hosts: H,
    pub(super) requests: u64,
    /// The total cost of the requests.
    pub(super) cost: u64,
}

/// The mean time of a response, and the number of requests in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct AssumedLatency {
    pub(super) seconds: f64,
    pub(super) in_flight: usize,
}

/// Returns the ceilings, the lowest first; none if nothing is to be sent.
pub(super) fn ceilings<'a, H>(run: &RunOptions, work: &SampledWork<H>, latency: Option<AssumedLatency>) -> Vec<Ceiling>
where
    H: Iterator<Item = (&'a str, u64)> + Clone,
{
    if work.requests == 0 {
        return Vec::new();
    }
    let limits = &run.limits;
    let of_all = |option, limit, per_s| Ceiling { option, per_s, limit, host: None, host_share: None };
    let mut found = Vec::new();
    if let Some(rate) = limits.rate {
        found.push(of_all(OptionName::Rate, rate.per_second(), rate.per_second()));
    }
    if let Some(rate) = limits.cost_rate().filter(|_| work.cost > 0) {
        let per_s = rate.per_second() * work.requests as f64 / work.cost as f64;
        found.push(of_all(OptionName::CostRate, rate.per_second(), per_s));
    }
    found.extend(of_slowest_host(OptionName::RatePerHost, work, |host| {
        let per_s = limits.rate_per_host.of(host)?.per_second();
        Some((per_s, per_s))
    }));
    if let Some(AssumedLatency { seconds, in_flight }) = latency.filter(|latency| latency.seconds > 0.0) {
        let in_flight = in_flight as f64;
        found.push(of_all(OptionName::Concurrency, in_flight, in_flight / seconds));
        found.extend(of_slowest_host(OptionName::ConcurrencyPerHost, work, |host| {
            match limits.concurrency_of(host)? {
                HostConcurrency::Fixed(number) => Some((f64::from(number), f64::from(number) / seconds)),
                HostConcurrency::Auto => None,
            }
        }));
    }
    found.sort_by(|one, other| one.per_s.total_cmp(&other.per_s));
    found
}

/// Returns the ceiling of limits for each host; `limit_of` returns a host's limit, and its requests per second.
fn of_slowest_host<'a, H>(
    option: OptionName,
    work: &SampledWork<H>,
    limit_of: impl Fn(&str) -> Option<(f64, f64)>,
) -> Option<Ceiling>
where
    H: Iterator<Item = (&'a str, u64)> + Clone,
{
    let timed = work.hosts.clone().filter_map(|(host, rows)| {
        let (limit, per_s) = limit_of(host)?;
        Some((rows as f64 / per_s, host, rows, limit))
    });
    // Of equals, always the same host.
    let (seconds, host, rows, limit) =
        timed.max_by(|one, other| one.0.total_cmp(&other.0).then_with(|| other.1.cmp(one.1)))?;
    Some(Ceiling {
        option,
        per_s: work.requests as f64 / seconds,
        limit,
        host: Some(host.to_owned()),
        host_share: Some(rows as f64 / work.requests as f64),
    })
}

#[cfg(test)]
mod tests {
    use headgate_core::limits::{CostLimit, CostOf, Limits, PerHost};

    use super::*;

    const HOSTS: [(&str, u64); 3] = [("a", 600), ("b", 300), ("c", 100)];

    fn found(limits: Limits, latency_s: Option<f64>) -> Vec<(&'static str, f64, Option<String>)> {
        let run = RunOptions { limits, ..RunOptions::default() };
        let work = SampledWork { hosts: HOSTS.into_iter(), requests: 1000, cost: 50_000 };
        let latency = latency_s.map(|seconds| AssumedLatency { seconds, in_flight: 200 });
        let rounded = |per_s: f64| (per_s * 1000.0).round() / 1000.0;
        let found = ceilings(&run, &work, latency);
        found.into_iter().map(|one| (one.option.name(), rounded(one.per_s), one.host)).collect()
    }

    fn rate(text: &str) -> headgate_core::limits::Rate {
        text.parse().expect("a rate")
    }

    #[test]
    fn each_limit_gives_a_rate_of_the_whole_job() {
        let host = |name: &str| Some(name.to_owned());
        let per_host = |each: Option<&str>, named: &[(&str, &str)]| PerHost {
            each: each.map(rate),
            named: named.iter().map(|(name, text)| ((*name).into(), rate(text))).collect(),
        };
        let in_flight = |each: HostConcurrency| PerHost { each: Some(each), named: Vec::new() };
        for (expected, limits, latency_s) in [
            (vec![], Limits::default(), None),
            (vec![("rate", 100.0, None)], Limits { rate: Some(rate("6000/m")), ..Limits::default() }, None),
            // Little's law.
            (vec![("concurrency", 2000.0, None)], Limits::default(), Some(0.1)),
            // 600 rows at 30/s take 20 s, in which 1,000 requests are made in all.
            (
                vec![("rate_per_host", 50.0, host("a"))],
                Limits { rate_per_host: per_host(Some("30/s"), &[]), ..Limits::default() },
                None,
            ),
            // 100 rows at 1/s take longer.
            (
                vec![("rate_per_host", 10.0, host("c"))],
                Limits { rate_per_host: per_host(Some("30/s"), &[("c", "1/s")]), ..Limits::default() },
                None,
            ),
            // A host without a row does not count.
            (vec![], Limits { rate_per_host: per_host(None, &[("elsewhere", "1/s")]), ..Limits::default() }, None),
            // 50 for each row.
            (
                vec![("cost_rate", 2.0, None)],
                Limits {
                    cost: Some(CostLimit { rate: Some(rate("6000/m")), of: CostOf::BodyBytes }),
                    ..Limits::default()
                },
                None,
            ),
            (
                vec![("concurrency_per_host", 33.333, host("a")), ("concurrency", 2000.0, None)],
                Limits { concurrency_per_host: in_flight(HostConcurrency::Fixed(2)), ..Limits::default() },
                Some(0.1),
            ),
            (
                vec![("concurrency", 2000.0, None)],
                Limits { concurrency_per_host: in_flight(HostConcurrency::Auto), ..Limits::default() },
                Some(0.1),
            ),
        ] {
            assert_eq!(expected, found(limits.clone(), latency_s), "{limits:?}");
        }
    }

    #[test]
    fn the_lowest_ceiling_is_first() {
        let limits = Limits { rate: Some(rate("5000/s")), ..Limits::default() };
        let order = |latency_s| found(limits.clone(), Some(latency_s)).into_iter().map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(vec!["concurrency", "rate"], order(0.1));
        assert_eq!(vec!["rate", "concurrency"], order(0.01));
    }

    #[test]
    fn a_job_that_sends_nothing_has_no_ceilings() {
        let run =
            RunOptions { limits: Limits { rate: Some(rate("1/s")), ..Limits::default() }, ..RunOptions::default() };
        let work = SampledWork { hosts: [].into_iter(), requests: 0, cost: 0 };
        assert_eq!(Vec::<Ceiling>::new(), ceilings(&run, &work, None));
    }
}
