//! The scheduler against a model of servers, workers and an input that is read again, on a virtual clock.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::limits::CostLimit;

/// The reaction of a server to a request.
#[derive(Debug, Clone, Copy)]
enum Reaction {
    Ok,
    Status(u16),
    Pause(u64),
    Closed,
}

fn reaction() -> impl Strategy<Value = Reaction> {
    prop_oneof![
        8 => Just(Reaction::Ok),
        1 => prop::sample::select(vec![404, 429, 500, 503]).prop_map(Reaction::Status),
        1 => (0_u64..5000).prop_map(Reaction::Pause),
        1 => Just(Reaction::Closed),
    ]
}

#[derive(Debug, Clone)]
struct Scene {
    rows: u64,
    hosts: u64,
    /// Rows of a host are adjacent.
    is_sorted: bool,
    can_defer: bool,
    rate: Option<u32>,
    rate_per_host: Option<u32>,
    concurrency_per_host: Option<u32>,
    cost_rate: Option<u32>,
    lanes: usize,
    max_rows: usize,
    reactions: Vec<Reaction>,
    latencies_ms: Vec<u64>,
}

fn scene() -> impl Strategy<Value = Scene> {
    let limits = (
        proptest::option::of(1_u32..500),
        proptest::option::of(1_u32..200),
        proptest::option::of(1_u32..4),
        proptest::option::of(50_u32..2000),
    );
    let shape = (1_u64..300, 1_u64..12, any::<bool>(), any::<bool>(), 1_usize..20, 4_usize..60);
    (shape, limits, prop::collection::vec(reaction(), 1..40), prop::collection::vec(1_u64..300, 1..10)).prop_map(
        |((rows, hosts, is_sorted, can_defer, lanes, max_rows), limits, reactions, latencies_ms)| Scene {
            rows,
            hosts,
            is_sorted,
            can_defer,
            rate: limits.0,
            rate_per_host: limits.1,
            concurrency_per_host: limits.2,
            cost_rate: limits.3,
            lanes,
            max_rows,
            reactions,
            latencies_ms,
        },
    )
}

impl Scene {
    fn rules(&self) -> Rules {
        let limits = Limits {
            max_connections_per_host: None,
            rate: per_second(self.rate),
            rate_per_host: PerHost { each: per_second(self.rate_per_host), named: Vec::new() },
            burst: None,
            concurrency_per_host: PerHost {
                each: self.concurrency_per_host.map(HostConcurrency::Fixed),
                named: Vec::new(),
            },
            host_by: HostBy::Name,
            cost: per_second(self.cost_rate)
                .map(|rate| CostLimit { rate: Some(rate), of: CostOf::Column("cost".into()) }),
            max_requests: None,
            max_cost: None,
        };
        Rules { limits, ..rules() }
    }

    fn host_of(&self, ordinal: u64) -> String {
        let host = if self.is_sorted { ordinal * self.hosts / self.rows } else { ordinal % self.hosts };
        format!("h{host}")
    }

    fn row(&self, ordinal: u64) -> Row {
        let mut row = Row::new(ordinal, format!("http://{}/{ordinal}", self.host_of(ordinal)));
        row.extra.get_or_insert_default().cost = Some(1 + ordinal % 7);
        row
    }
}

fn time_of(decision: &Decision) -> Option<Instant> {
    if let Decision::WaitUntil(until) = decision { Some(*until) } else { None }
}

/// Returns the maximum of `sent` beyond `rate` in any interval; its times are in order.
fn most_beyond(rate: u32, sent: &[(Instant, u64)]) -> f64 {
    let Some((first, _)) = sent.first() else { return 0.0 };
    let (mut sum, mut low, mut most) = (0.0, f64::MAX, 0.0);
    for (at, cost) in sent {
        let paid = (*at - *first).as_secs_f64() * f64::from(rate);
        low = f64::min(low, sum - paid);
        sum += *cost as f64;
        most = f64::max(most, sum - paid - low);
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every row ends once. Meanwhile no limit is exceeded, no pause is broken, and the rows in memory are bounded. Rows of
    /// a host start in their order unless they are retries or were deferred.
    #[test]
    fn no_row_is_lost_and_no_limit_exceeded(scene in scene()) {
        let start = Instant::now();
        let bounds = (scene.max_rows, usize::MAX, 64);
        let mut scheduler = Scheduler::bounded(scene.rules(), scene.can_defer, 7, start, bounds);
        let mut now = start;
        let mut unread: BTreeSet<u64> = (0..scene.rows).collect();
        let mut deferred = BTreeSet::new();
        // The position of the reading of deferred rows, and when the last one began.
        let (mut reread_from, mut read_at) = (None, None);
        let mut in_flight: BTreeMap<(Instant, u64), (Row, Option<HostIndex>, Instant)> = BTreeMap::new();
        let mut by_host: BTreeMap<String, u32> = BTreeMap::new();
        let mut paused: BTreeMap<String, Instant> = BTreeMap::new();
        let (mut sent, mut sent_to, mut costs) = (Vec::new(), BTreeMap::<String, Vec<(Instant, u64)>>::new(), Vec::new());
        let mut ended = BTreeSet::new();
        let mut attempts = 0_usize;
        let mut steps = 0;
        while ended.len() < scene.rows as usize {
            steps += 1;
            prop_assert!(steps < 200_000, "{} of {} ended", ended.len(), scene.rows);
            let mut until = None;
            while in_flight.len() < scene.lanes {
                match scheduler.next(now) {
                    Decision::Start(row, host) => {
                        let name = scene.host_of(row.ordinal);
                        prop_assert!(paused.get(&name).is_none_or(|until| now >= *until), "{name} is paused");
                        let count = by_host.entry(name.clone()).or_default();
                        *count += 1;
                        prop_assert!(scene.concurrency_per_host.is_none_or(|limit| *count <= limit));
                        prop_assert!(row.attempts_before() <= 3);
                        let when = scheduler.reserve_send(host, now);
                        sent.push((when, 1));
                        sent_to.entry(name).or_default().push((when, 1));
                        costs.push((now, 1 + row.ordinal % 7));
                        let latency = ms(scene.latencies_ms[attempts % scene.latencies_ms.len()]);
                        attempts += 1;
                        in_flight.insert((when + latency, row.ordinal), (row, host, when));
                    }
                    Decision::Fail(row, _) => prop_assert!(ended.insert(row.ordinal)),
                    decision @ (Decision::Wait | Decision::WaitUntil(_))
                        if scheduler.wants_rows() && has_space_after_eviction(&mut scheduler, now) =>
                    {
                        let next = reread_from.and_then(|from| deferred.range(from..).next().copied());
                        reread_from = next.map(|ordinal| ordinal + 1);
                        if let Some(ordinal) = next {
                            deferred.remove(&ordinal);
                        }
                        let Some(ordinal) = next.or_else(|| unread.pop_first()) else {
                            let is_wanted = scheduler.wants_deferred_rows() || scheduler.is_empty();
                            if deferred.is_empty() || read_at == Some(now) || !is_wanted {
                                until = time_of(&decision);
                                break;
                            }
                            scheduler.begin_rereading();
                            (reread_from, read_at) = (Some(0), Some(now));
                            continue;
                        };
                        scheduler.offer(scene.row(ordinal), Some(&scene.host_of(ordinal)), now);
                        let newly = scheduler.drain_deferred();
                        prop_assert!(scene.can_defer || newly.is_empty());
                        deferred.extend(newly);
                    }
                    decision => {
                        until = time_of(&decision);
                        break;
                    }
                }
                deferred.extend(scheduler.drain_deferred());
            }
            let next_end = in_flight.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = next_end.into_iter().chain(until).min() else {
                if deferred.is_empty() && unread.is_empty() { prop_assert!(ended.len() == scene.rows as usize, "it stands still"); }
                now += ms(1);
                continue;
            };
            now = now.max(at);
            while let Some(first) = in_flight.first_entry().filter(|entry| entry.key().0 <= now) {
                let (row, host, began) = first.remove();
                let name = scene.host_of(row.ordinal);
                *by_host.get_mut(&name).expect("it was started") -= 1;
                let (end, requested_pause) = match scene.reactions[(row.ordinal as usize + attempts) % scene.reactions.len()] {
                    Reaction::Ok => (end(200), None),
                    Reaction::Status(status) => (end(status), None),
                    Reaction::Pause(time) => (end(429), Some(ms(time))),
                    Reaction::Closed => (silent(ErrorKind::ConnectionClosed), None),
                };
                if let Some(time) = requested_pause {
                    let until = paused.entry(name).or_insert(now);
                    *until = (*until).max(now + time);
                }
                let ordinal = row.ordinal;
                let attempt = FinishedAttempt { requested_pause, ..attempt(&row, began, end) };
                match scheduler.finish_attempt(host, || None, &attempt, || (row, host, None), now) {
                    RetryDecision::At(_) => deferred.extend(scheduler.drain_deferred()),
                    RetryDecision::No | RetryDecision::NotIdempotent | RetryDecision::BodyConsumed => prop_assert!(ended.insert(ordinal), "it ended twice"),
                }
            }
            prop_assert!(scheduler.look_ahead.rows() <= scene.max_rows + scene.lanes + 1);
        }
        sent.sort();
        if let Some(rate) = scene.rate {
            prop_assert!(most_beyond(rate, &sent) <= 1.0_f64.max(f64::from(rate) / 100.0) + 1e-3);
        }
        if let Some(rate) = scene.rate_per_host {
            for sent in sent_to.values_mut() {
                sent.sort();
                prop_assert!(most_beyond(rate, sent) <= 1.0_f64.max(f64::from(rate) / 100.0) + 1e-3);
            }
        }
        if let Some(rate) = scene.cost_rate {
            prop_assert!(most_beyond(rate, &costs) <= 7.0_f64.max(f64::from(rate) / 100.0) + 1e-3);
        }
    }
}
