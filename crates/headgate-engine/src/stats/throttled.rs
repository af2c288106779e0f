//! Rows that limits, pauses and retries throttle, for the bottleneck line.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use headgate_core::grouped::grouped;
use headgate_core::limits::{HostConcurrency, Limits};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::schedule::scheduler::SchedulerFigures;
use headgate_core::schedule::throttled::{HostFigures, ThrottledBy, ThrottledTime};

use crate::stats::bottleneck_kind::BottleneckKind;

/// The figures of the scheduler of a run.
pub(crate) trait FigureSource: Debug + Send + Sync {
    fn figures(&self, now: Instant) -> SchedulerFigures;
    fn limits(&self) -> Limits;
}

/// The throttled rows of a stretch of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThrottledStretch {
    pub time: ThrottledTime,
    /// The host that most rows wait for.
    pub host: Option<HostFigures>,
    pub waiting: u64,
    /// The rest of that host's pause.
    pub pause_left: Option<Duration>,
    pub paused_hosts: u64,
    /// For how long no host could be reached.
    pub network_down: Option<Duration>,
    pub limits: Limits,
}

impl ThrottledStretch {
    /// Returns what throttled rows for most of the time, with a sentence for the user, if it took at least this share of it.
    pub(crate) fn bottleneck(&self, wall: Duration, at_least: f64) -> Option<(BottleneckKind, Message)> {
        let (by, time) = self.time.most();
        let share = time.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        (share >= at_least).then(|| (kind(by), self.text(by, share)))
    }

    fn text(&self, by: ThrottledBy, share: f64) -> Message {
        let percent = format!("{:.0} %", (share * 100.0).clamp(0.0, 100.0));
        // The host counts only if it is throttled for the same reason.
        let host = self.host.as_ref().filter(|host| host.throttled_by == Some(by) || by == ThrottledBy::HeadOfLine);
        let name = host.map_or("a host", |host| &*host.name);
        let rows = rows(host.map_or(self.waiting, |host| host.waiting), &percent);
        match by {
            ThrottledBy::Rate => {
                let rate = self.limits.rate.map_or_else(String::new, |rate| format!(" of {rate}"));
                message!("bottleneck: rate. The limit{rate} throttled rows {percent} of the time; raise ", OptionName::Rate)
            }
            ThrottledBy::Cost => {
                let rate = self.limits.cost_rate().map_or_else(String::new, |rate| format!(" of {rate}"));
                message!("bottleneck: cost rate. The limit{rate} throttled rows {percent} of the time; raise ", OptionName::CostRate)
            }
            ThrottledBy::Budget => format!("bottleneck: budget. Rows waited {percent} of the time until a commit had reserved more of it, or until it was known whether it was used up").into(),
            ThrottledBy::HostRate => {
                let waits = host.map_or_else(String::new, |_| format!(": {rows} for {name}"));
                message!("bottleneck: rate per host. It throttled rows {percent} of the time{waits}; raise ", OptionName::RatePerHost)
            }
            ThrottledBy::HostConcurrency => {
                let in_flight = host.map_or(0, |host| host.in_flight);
                if self.limits.concurrency_of(name) == Some(HostConcurrency::Auto) {
                    let in_flight = grouped(in_flight.into());
                    return format!("bottleneck: {name}. More than {in_flight} requests in flight bring no more responses, and {rows} for it").into();
                }
                let waits = host.map_or_else(String::new, |_| format!(": {rows} for {name}, which has {in_flight} in flight"));
                let is_limited_by_connections = self.limits.concurrency_of(name) != self.limits.concurrency_per_host.of(name);
                let (what, option) = if is_limited_by_connections {
                    ("connections", OptionName::MaxConnectionsPerHost)
                } else {
                    ("concurrency", OptionName::ConcurrencyPerHost)
                };
                message!("bottleneck: {what} per host. It throttled rows {percent} of the time{waits}; raise ", option)
            }
            ThrottledBy::Pause => {
                let left = self.pause_left.map_or_else(String::new, |left| format!(" for another {:.0} s", left.as_secs_f64().ceil()));
                let more = match self.paused_hosts.saturating_sub(1) {
                    0 => String::new(),
                    1 => ", as did 1 other host".to_owned(),
                    hosts => format!(", as did {} other hosts", grouped(hosts)),
                };
                format!("bottleneck: {name}. It requested a pause{left}{more}, and {rows} for it").into()
            }
            ThrottledBy::CircuitBreaker if self.network_down.is_some() => message!(
                "bottleneck: {name}. No host has responded yet, and {rows}; set how long the job waits with ",
                OptionName::NetworkDownAfter
            ),
            ThrottledBy::CircuitBreaker => message!(
                "bottleneck: {name}. Its circuit breaker is open because its requests fail, and {rows} for it; if it sends nothing, its rows fail after ",
                OptionName::HostDownAfter
            ),
            ThrottledBy::Network => match self.network_down {
                Some(time) => {
                    let time = time.as_secs_f64();
                    format!("bottleneck: network. No host could be reached for {time:.0} s; the run continues when one can be").into()
                }
                None => format!("bottleneck: network. No host could be reached {percent} of the time").into(),
            },
            ThrottledBy::Backoff => format!("bottleneck: retry backoff. {rows} for the next attempt").into(),
            ThrottledBy::RetryBudget => format!("bottleneck: retry budget. {rows}, so that retries are at most 20 % of all requests").into(),
            ThrottledBy::HeadOfLine => format!(
                "bottleneck: input. The {} rows that were read ahead wait, most of them for {name}, and this input can't be read \
                 again; mix its hosts, or use a file",
                grouped(self.waiting)
            )
            .into(),
            ThrottledBy::Credentials => format!("bottleneck: credentials. {rows} for new ones").into(),
            ThrottledBy::Paused => format!("bottleneck: pause of the job. No request was started {percent} of the time").into(),
        }
    }
}

/// Says how many rows wait, or for which share of the time rows waited if none waits any more.
fn rows(count: u64, percent: &str) -> String {
    match count {
        0 => format!("{percent} of the time rows waited"),
        1 => "1 row waits".to_owned(),
        _ => format!("{} rows wait", grouped(count)),
    }
}

fn kind(by: ThrottledBy) -> BottleneckKind {
    match by {
        ThrottledBy::Rate => BottleneckKind::Rate,
        ThrottledBy::Cost => BottleneckKind::Cost,
        ThrottledBy::Budget => BottleneckKind::Budget,
        ThrottledBy::HostRate => BottleneckKind::HostRate,
        ThrottledBy::HostConcurrency => BottleneckKind::HostConcurrency,
        ThrottledBy::Pause => BottleneckKind::Pause,
        ThrottledBy::CircuitBreaker => BottleneckKind::CircuitBreaker,
        ThrottledBy::Network => BottleneckKind::Network,
        ThrottledBy::Backoff | ThrottledBy::RetryBudget => BottleneckKind::Retries,
        ThrottledBy::HeadOfLine => BottleneckKind::Input,
        ThrottledBy::Credentials => BottleneckKind::Credentials,
        ThrottledBy::Paused => BottleneckKind::Paused,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use headgate_core::limits::PerHost;
    use headgate_core::schedule::throttled::ThrottledClock;

    use super::*;

    #[test]
    fn the_option_is_named_that_sets_the_lower_limit_of_a_host() {
        let start = Instant::now();
        let mut clock = ThrottledClock::default();
        clock.set(Some(ThrottledBy::HostConcurrency), start);
        let time = clock.time(start + Duration::from_secs(1));
        for (expected, requests, connections) in [
            ("bottleneck: concurrency per host. It throttled rows 100 % of the time; raise concurrency_per_host", 3, 4),
            (
                "bottleneck: connections per host. It throttled rows 100 % of the time; raise max_connections_per_host",
                8,
                4,
            ),
        ] {
            let limits = Limits {
                concurrency_per_host: PerHost { each: Some(HostConcurrency::Fixed(requests)), named: Vec::new() },
                max_connections_per_host: NonZeroU32::new(connections),
                ..Limits::default()
            };
            let stretch = ThrottledStretch { time, limits, ..ThrottledStretch::default() };
            let (_, text) = stretch.bottleneck(Duration::from_secs(1), 0.3).expect("it throttled rows");
            assert_eq!(expected, text.to_string());
        }
    }
}
