mod simulation;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use simulation::*;

const KINDS: [Beyond; 3] = [Beyond::Shares, Beyond::Queues, Beyond::Refuses];
const MS_50: f64 = 0.05;

/// Returns a server with latencies that scatter by a fifth.
fn server(beyond: Beyond, capacity: u32, mean_s: f64) -> Server {
    Server { beyond, capacity, latency: Latency { mean_s, noise: 0.2, slow_share: 0.0 }, reset_share: 0.0 }
}

/// Returns the responses in relation to those with the best fixed limit, with which the server is fully used all the time.
fn goodput(seconds: &[Second], server: &Server) -> f64 {
    let best = f64::from(server.capacity) / server.latency.mean_of_all_s();
    seconds.iter().map(|second| f64::from(second.responses)).sum::<f64>() / seconds.len() as f64 / best
}

fn refused_share(seconds: &[Second]) -> f64 {
    let refused: u32 = seconds.iter().map(|second| second.refused).sum();
    let responses: u32 = seconds.iter().map(|second| second.responses).sum();
    f64::from(refused) / f64::from(refused + responses)
}

/// Returns the mean limit in relation to the server's capacity.
fn limit(seconds: &[Second], server: &Server) -> f64 {
    let sum = seconds.iter().map(|second| f64::from(second.limit)).sum::<f64>();
    sum / seconds.len() as f64 / f64::from(server.capacity)
}

fn at_least(least: f64, actual: f64, what: &str) {
    assert!(actual >= least, "{what}: {actual:.3} instead of at least {least}");
}

fn at_most(most: f64, actual: f64, what: &str) {
    assert!(actual <= most, "{what}: {actual:.3} instead of at most {most}");
}

#[test]
fn goodput_is_within_a_tenth_of_the_best_fixed_limit_including_the_start() {
    for beyond in KINDS {
        for (capacity, mean_s, seconds) in [(8, MS_50, 20), (200, MS_50, 20), (5000, 1.0, 90)] {
            let server = server(beyond, capacity, mean_s);
            let mut simulation = Simulation::new(server, 1);
            let seconds = simulation.run(seconds);
            let what = format!("{beyond:?} more than {capacity}");
            // No limit brings a response before the first can arrive.
            let (all, late) = (&seconds[mean_s as usize..], &seconds[seconds.len() / 2..]);
            at_least(0.9, goodput(all, &server), &what);
            at_least(0.9, goodput(late, &server), &what);
            at_least(0.9, limit(late, &server), &what);
            at_most(1.5, limit(late, &server), &what);
            at_most(0.02, refused_share(seconds), &what);
        }
    }
}

#[test]
fn an_overloaded_server_with_falling_throughput_is_kept_near_its_best() {
    let server = server(Beyond::Thrashes, 200, MS_50);
    let mut simulation = Simulation::new(server, 10);
    simulation.run(10);
    let seconds = simulation.run(20);
    // The best limit is the capacity, with which requests take twice as long.
    at_least(0.9, 2.0 * goodput(seconds, &server), "goodput");
    at_most(1.1, limit(seconds, &server), "limit");
}

#[test]
fn goodput_follows_a_change_of_capacity_within_20_round_trips_or_10_seconds() {
    for beyond in KINDS {
        for (before, after, mean_s) in
            [(8, 200, MS_50), (200, 8, MS_50), (200, 50, MS_50), (5000, 1000, 1.0), (1000, 5000, 1.0)]
        {
            let mut simulation = Simulation::new(server(beyond, before, mean_s), 2);
            simulation.run(if mean_s < 1.0 { 20 } else { 40 });
            simulation.server.capacity = after;
            simulation.run(if mean_s < 1.0 { 10 } else { 20 });
            let (server, what) = (simulation.server, format!("{beyond:?}, {before} and then {after}"));
            let seconds = simulation.run(10);
            at_least(0.9, goodput(seconds, &server), &what);
            at_most(0.02, refused_share(seconds), &what);
        }
    }
}

#[test]
fn the_limit_stays_near_the_best_one_when_the_server_gets_slower_or_faster() {
    for beyond in KINDS {
        for (before_s, after_s) in [(MS_50, 0.15), (0.15, MS_50)] {
            let mut simulation = Simulation::new(server(beyond, 100, before_s), 3);
            simulation.run(20);
            simulation.server.latency.mean_s = after_s;
            simulation.run(10);
            let (server, what) = (simulation.server, format!("{beyond:?}, {before_s} s and then {after_s} s"));
            let seconds = simulation.run(10);
            at_least(0.9, goodput(seconds, &server), &what);
            at_most(1.5, limit(seconds, &server), &what);
        }
    }
}

#[test]
fn a_lasting_load_is_not_mistaken_for_calm() {
    for beyond in KINDS {
        let server = server(beyond, 20, MS_50);
        let mut simulation = Simulation::new(server, 4);
        simulation.run(200);
        let seconds = simulation.run(100);
        at_least(0.9, goodput(seconds, &server), &format!("{beyond:?}"));
        at_most(1.3, limit(seconds, &server), &format!("{beyond:?}"));
    }
}

#[test]
fn a_mixture_of_quick_and_slow_requests_is_not_throttled() {
    for beyond in KINDS {
        for (slow_share, least) in [(0.02, 0.9), (0.1, 0.85)] {
            let latency = Latency { mean_s: MS_50, noise: 0.2, slow_share };
            let server = Server { latency, ..server(beyond, 200, MS_50) };
            let mut simulation = Simulation::new(server, 5);
            simulation.run(20);
            at_least(least, goodput(simulation.run(40), &server), &format!("{beyond:?}, {slow_share} are slow"));
        }
    }
}

#[test]
fn connections_that_are_reset_whatever_the_load_throttle_nothing() {
    for beyond in KINDS {
        for reset_share in [0.01, 0.04] {
            let server = Server { reset_share, ..server(beyond, 200, MS_50) };
            let mut simulation = Simulation::new(server, 6);
            simulation.run(30);
            at_least(0.85, goodput(simulation.run(30), &server), &format!("{beyond:?}, {reset_share} are reset"));
        }
    }
}

#[test]
fn the_limit_does_not_change_while_a_client_has_few_rows() {
    let server = server(Beyond::Queues, 200, MS_50);
    let mut simulation = Simulation::new(server, 7);
    simulation.rows_per_s = Some(100.0);
    let limits: Vec<_> = simulation.run(60).iter().map(|second| second.limit).collect();
    assert_eq!(vec![START; 60], limits, "5 are in flight");
    simulation.rows_per_s = None;
    simulation.run(10);
    at_least(0.9, goodput(simulation.run(10), &server), "when there are more");
}

#[test]
fn pauses_between_the_attempts_of_the_client_do_not_matter() {
    let server = server(Beyond::Shares, 200, MS_50);
    let mut simulation = Simulation::new(server, 8);
    simulation.gap_s = 0.005;
    simulation.run(10);
    let seconds = simulation.run(20);
    at_least(0.9, goodput(seconds, &server), "goodput");
    at_most(1.6, limit(seconds, &server), "limit");
}

#[test]
fn the_capacity_is_found_again_after_total_refusal() {
    let mut simulation = Simulation::new(server(Beyond::Refuses, 100, MS_50), 9);
    simulation.run(10);
    simulation.server.capacity = 0;
    assert!(simulation.run(5).iter().all(|second| second.limit == 1));
    simulation.server.capacity = 100;
    simulation.run(10);
    let server = simulation.server;
    at_least(0.9, goodput(simulation.run(10), &server), "goodput");
}

/// Refuses `times` attempts that started at `started`, at a limit of ten.
fn refuse(adaptive: &mut Adaptive, times: u32, started: Instant, in_flight: u32, now: Instant) {
    for left in 0..times {
        adaptive.ended(EndedAttempt { started, load: LoadEvidence::MaybeOverload }, in_flight - left, now);
    }
}

#[test]
fn refusals_cut_the_limit_once_and_attempts_that_started_before_do_not_count() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(100, start);
    let now = start + Duration::from_millis(50);
    refuse(&mut adaptive, 1, start, 10, now);
    assert_eq!(10, adaptive.limit(), "one may be chance");
    refuse(&mut adaptive, 9, start, 9, now);
    assert_eq!(8, adaptive.limit(), "nine tenths of what was in flight");
    refuse(&mut adaptive, 8, now, 8, now + Duration::from_millis(50));
    assert!(adaptive.limit() < 8, "it was not enough");
}

#[test]
fn failures_of_other_kinds_change_nothing() {
    let start = Instant::now();
    let mut adaptive = Adaptive::new(100, start);
    let before = format!("{adaptive:?}");
    for _ in 0..1000 {
        let sample = EndedAttempt { started: start, load: LoadEvidence::Neutral };
        adaptive.ended(sample, 10, start + Duration::from_secs(1));
    }
    assert_eq!(before, format!("{adaptive:?}"));
}

#[test]
fn the_state_of_a_host_takes_less_than_256_bytes() {
    at_most(256.0, size_of::<Adaptive>() as f64, "bytes");
}

proptest! {
    #[test]
    fn the_limit_is_never_less_than_one_or_more_than_allowed(
        max in 0..100_u32,
        steps in prop::collection::vec((0..4_u8, 0..200_u32, 0..2_000_000_u64, 0..1_000_000_u64), 0..2000),
    ) {
        let epoch = Instant::now();
        let (mut now_us, mut max) = (0, max);
        let mut adaptive = Adaptive::new(max, epoch);
        for (what, number, started_before_us, after_us) in steps {
            now_us += after_us / 50;
            let at = |us| epoch + Duration::from_micros(us);
            let load = match what {
                0 => LoadEvidence::MaybeOverload,
                1 if number < 2 => {
                    max = started_before_us as u32 % 150;
                    adaptive.set_max(max);
                    LoadEvidence::Neutral
                }
                _ => LoadEvidence::Responded,
            };
            // A clock that steps back, too.
            let started = at(now_us.saturating_sub(started_before_us / 10).saturating_add(u64::from(number == 0)));
            adaptive.ended(EndedAttempt { started, load }, number, at(now_us));
            prop_assert!((1..=max.max(1)).contains(&adaptive.limit()), "{} of {max}", adaptive.limit());
        }
    }
}
