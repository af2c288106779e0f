//! The adaptive limit of attempts in flight at one host, for `auto`: as many as bring the most responses a second, and no
//! more.
//!
//! **The rule** is a hill climb on goodput, by experiments. The limit stays for a round, then a fifth more or less is tried
//! for a round, and the two are compared. By Little's law throughput is attempts in flight divided by latency, so that a
//! step increases throughput as far as it does not increase latency. More is kept if at least a quarter of the step became
//! throughput; less is kept if no more than a quarter was lost. Refusals (429, 503, timeouts, resets) count as lost,
//! several times, so that a limit at which some are refused isn't worth it. A share of refusals that is the same with more
//! and with less changes nothing: load is not its cause.
//!
//! - *Start*: as long as the limit is reached and latency stays, each response adds two to the limit.
//! - *Hold*, and then *more*: steps get longer as long as they are worth it, and finally it starts again from there.
//! - *Less* is tried if latency rose since it was calm. If it rose much, Little's law says how much less (throughput times
//!   calm latency, and some headroom). Each of these trials measures calm latency anew: it comes from less load than the
//!   limit allows, so that a lasting load is not mistaken for calm. If latency didn't fall with load, then the server has
//!   changed, and the limit stays.
//! - *A cut*: refusals that are more than usual undo the step that brought them or, without one, a tenth (three tenths if
//!   most are refused). This happens at most once in a round trip, unless most are refused, and attempts from before the last
//!   cut don't count. The limit then stays below, rises half of the way to the cut limit step by step (binary search), and
//!   exceeds it only once in a while.
//!
//! **Prior art.** Slow start and one cut in a round trip: TCP (RFC 5681). Binary search below the last loss: BIC (Xu,
//! Harfoush, Rhee, INFOCOM 2004). Experiments with more and less that are compared by a utility: PCC (Dong et al., NSDI
//! 2015) and PCC Vivace (NSDI 2018). Latency against calm latency: TCP Vegas, and Gradient of Netflix's
//! concurrency-limits, whose baseline is measured under load and drifts with it (its issue 165, pull request 134);
//! hence the trials. Each attempt counts, below retries, and only responses have a latency: Vector's adaptive request
//! concurrency.
//!
//! **Differs from TCP** in starting with three for one instead of two: with responses of 1 s, it would take 9 s instead of
//! 6 to get 5,000 in flight from 10.
//!
//! **Cost.** A logarithm and some additions for each response; no allocation; less than 256 bytes for each host.
//!
//! **Doesn't** know which kind of request an attempt was. It needs dozens of responses to compare two limits, hundreds if
//! latencies differ by a factor of ten: it does not follow changes within fewer.

mod round;
#[cfg(test)]
mod tests;

use std::time::Instant;

use round::{LatencyRound, Recent};

use crate::error::LoadEvidence;

/// The initial limit.
const START: u32 = 10;
/// How much each response adds to the limit when starting.
const START_GAIN: u32 = 2;
/// The factor of the first step.
const STEP: f64 = 1.2;
/// If the next step would be longer, it starts again.
const MAX_STEP: f64 = 1.5;
/// The minimum share of a step that must become throughput.
const WORTH: f64 = 0.25;
/// How many responses a refusal outweighs.
const REFUSAL_COST: f64 = 4.0;
/// If latencies exceed calm ones by this factor, less is tried at once.
const MUCH_LONGER: f64 = 1.5;
/// If latencies exceed calm ones by this factor, less is tried in its turn.
const LONGER: f64 = 1.12;
/// A share of refusals above this has the same effect.
const MANY_REFUSALS: f64 = 0.02;
/// The interval of turns of less, in rounds.
const TURN_OF_LESS: u8 = 3;
/// The interval, in rounds, at which less is tried without a reason.
const TURNS: u8 = 12;
/// The factor by which the limit exceeds throughput times calm latency.
const HEADROOM: f64 = 1.1;
const CUT: f64 = 0.9;
/// The cut if most are refused.
const DEEP_CUT: f64 = 0.7;
/// A greater share of refusals is never usual.
const MAX_USUAL: f64 = 0.1;
/// The number of attempts over which the usual share is averaged.
const USUAL_OVER: f64 = 500.0;
/// Refusals are unusual beyond this many standard deviations; so few are never too many.
const UNUSUAL: f64 = 3.5;
const FEW: f64 = 1.5;
/// Rounds before the limit may exceed a cut one, and responses in all or for each attempt in flight.
const ROUNDS_BELOW_CEILING: u32 = 3;
const RESPONSES_BELOW_CEILING: u32 = 200;
const RESPONSES_EACH_BELOW_CEILING: u32 = 16;
/// The limit is near the ceiling within this fraction of it.
const NEAR_CEILING: u32 = 50;

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedAttempt {
    pub started: Instant,
    pub load: LoadEvidence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Hold,
    /// A higher limit is tried: it rises by one for each response up to this.
    More(u32),
    Less,
}

/// The limit of attempts below which refusals are not expected.
#[derive(Debug)]
struct RefusalLimit {
    limit: u32,
    rounds: u32,
    responses: u32,
}

/// The results of the current limit.
#[derive(Debug)]
struct Baseline {
    limit: u32,
    /// Mean logarithm of latencies.
    ln: f64,
    refused_share: f64,
}

/// The adaptive limit of a host.
#[derive(Debug)]
pub(crate) struct Adaptive {
    max: u32,
    limit: u32,
    phase: Phase,
    baseline: Baseline,
    /// The logarithm of the current or the next step.
    step_ln: f64,
    turn: u8,
    /// Mean logarithm of latencies with less load. Infinite: not known.
    calm_ln: f64,
    ceiling: Option<RefusalLimit>,
    cut_at: Instant,
    usual_share: f64,
    recent: Recent,
    round: LatencyRound,
    /// Counts of this round.
    responses: u32,
    refused: u32,
}

impl Adaptive {
    /// Returns a limit of at most `max`, and at least one.
    pub(crate) fn new(max: u32, now: Instant) -> Self {
        let max = max.max(1);
        let limit = START.min(max);
        Self {
            max,
            limit,
            phase: Phase::Start,
            baseline: Baseline { limit, ln: f64::INFINITY, refused_share: 0.0 },
            step_ln: STEP.ln(),
            turn: 0,
            calm_ln: f64::INFINITY,
            ceiling: None,
            cut_at: now,
            usual_share: 0.0,
            recent: Recent::default(),
            round: LatencyRound::new(limit, now),
            responses: 0,
            refused: 0,
        }
    }

    pub(crate) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.limit = self.limit.min(self.max);
        self.baseline.limit = self.baseline.limit.min(self.max);
        if let Phase::More(target) = &mut self.phase {
            *target = self.max.min(*target);
        }
    }

    /// Returns the limit, at least 1.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Records the end of an attempt; `in_flight`: how many were just before, including this one.
    pub(crate) fn ended(&mut self, sample: EndedAttempt, in_flight: u32, now: Instant) {
        match sample.load {
            LoadEvidence::Responded => {
                let seconds = now.saturating_duration_since(sample.started).as_secs_f64().max(1e-6);
                self.record_response(seconds, in_flight, now);
            }
            LoadEvidence::MaybeOverload if sample.started >= self.cut_at => self.refused(in_flight, now),
            LoadEvidence::MaybeOverload | LoadEvidence::Neutral => {}
        }
    }

    fn record_response(&mut self, seconds: f64, in_flight: u32, now: Instant) {
        self.responses = self.responses.saturating_add(1);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.responses = ceiling.responses.saturating_add(1);
        }
        self.recent.add(seconds);
        if let Phase::More(target) = self.phase
            && self.limit < target
        {
            self.limit += 1;
            if self.limit == target {
                self.begin(self.phase, self.limit, now);
            }
            return;
        }
        if self.phase == Phase::Start {
            // The limit is reached, or nearly.
            if u64::from(in_flight) * 5 >= u64::from(self.limit) * 4 {
                self.limit = self.limit.saturating_add(START_GAIN).min(self.max);
            }
        } else if in_flight > self.limit {
            self.begin(self.phase, self.limit, now);
        }
        self.round.add(seconds, in_flight, now);
        let step_ln = match self.phase {
            Phase::Start => f64::from(1 + START_GAIN).ln(),
            Phase::Hold => STEP.ln(),
            Phase::More(_) | Phase::Less => self.step_ln,
        };
        if self.phase == Phase::Start && self.round.exceeds(self.calm_ln + MUCH_LONGER.ln()) {
            self.end_start();
            self.hold(self.baseline.limit, now);
        } else if self.round.is_over(step_ln, self.recent.round_trip_s(), now) {
            self.end_round(now);
        }
    }

    /// Ends the start, as latencies have risen. Part of the attempts in flight began a round trip ago, and have not shown
    /// their effect yet.
    fn end_start(&mut self) {
        let before = (self.limit / (1 + START_GAIN)).max(self.baseline.limit);
        self.baseline.limit = (HEADROOM * f64::from(before) * (self.calm_ln - self.round.ln()).exp()) as u32;
        // The calm latency of the start may be that of quick responses among the first.
        self.calm_ln = f64::INFINITY;
        self.turn = TURNS - 1;
    }

    fn begin(&mut self, phase: Phase, limit: u32, now: Instant) {
        self.phase = phase;
        self.limit = limit.clamp(1, self.max);
        self.responses = 0;
        self.refused = 0;
        // When starting, there is no time to wait until a change takes effect.
        let settled = if phase == Phase::Start { now } else { now + self.recent.settling() };
        self.round = LatencyRound::new(self.limit, settled);
    }

    fn hold(&mut self, limit: u32, now: Instant) {
        self.step_ln = STEP.ln();
        self.begin(Phase::Hold, limit, now);
        self.baseline.limit = self.limit;
    }

    fn end_round(&mut self, now: Instant) {
        let attempts = f64::from(self.responses + self.refused);
        let refused_share = f64::from(self.refused) / attempts;
        let learned = attempts / (attempts + USUAL_OVER);
        self.usual_share = (self.usual_share + (refused_share - self.usual_share) * learned).min(MAX_USUAL);

        let ln = self.round.ln();
        // The share of the step that did not become throughput, or with less, was not lost: 0 for none of it, 1 for all.
        let in_vain =
            (ln - self.baseline.ln + REFUSAL_COST * (refused_share - self.baseline.refused_share)) / self.step_ln;
        let found = Baseline { limit: self.limit, ln, refused_share };
        match self.phase {
            Phase::Start => {
                self.calm_ln = if self.calm_ln.is_finite() { self.calm_ln } else { ln };
                if self.round.is_limit_reached() && self.limit < self.max {
                    self.begin(Phase::Start, self.limit, now);
                } else {
                    self.hold(self.limit, now);
                }
            }
            Phase::Hold => {
                self.baseline = found;
                self.calm_ln = self.calm_ln.min(ln);
                self.experiment(now);
            }
            Phase::More(_) if self.round.is_limit_reached() && in_vain < 1.0 - WORTH => {
                self.baseline = found;
                self.go_on(now);
            }
            Phase::Less if -in_vain > 1.0 - WORTH => {
                self.calm_ln = self.calm_ln.min(ln);
                self.turn = TURNS - 1;
                self.hold(self.limit, now);
            }
            Phase::Less => {
                self.calm_ln = if ln < self.calm_ln { ln } else { f64::midpoint(self.calm_ln, ln) };
                self.hold(self.baseline.limit, now);
            }
            Phase::More(_) => self.hold(self.baseline.limit, now),
        }
    }

    fn experiment(&mut self, now: Instant) {
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.rounds += 1;
        }
        if self.round.is_limit_reached() {
            self.turn = (self.turn + 1) % TURNS;
            let longer = self.baseline.ln - self.calm_ln;
            let is_less_due = longer > MUCH_LONGER.ln()
                || self.turn == 0 && self.ceiling.is_none()
                || self.turn.is_multiple_of(TURN_OF_LESS)
                    && (longer > LONGER.ln() || self.baseline.refused_share > MANY_REFUSALS);
            if is_less_due && self.baseline.limit > 1 {
                return self.try_less(longer, now);
            }
            if let Some(target) = self.more() {
                return self.try_more(target, now);
            }
        }
        self.hold(self.baseline.limit, now);
    }

    fn try_less(&mut self, longer_ln: f64, now: Instant) {
        let baseline = f64::from(self.baseline.limit);
        let limit = (baseline / STEP).min(HEADROOM * baseline / longer_ln.exp());
        self.begin(Phase::Less, (limit as u32).min(self.baseline.limit - 1), now);
        self.step_ln = (baseline / f64::from(self.limit)).ln();
    }

    fn try_more(&mut self, target: u32, now: Instant) {
        self.step_ln = (f64::from(target) / f64::from(self.baseline.limit)).ln();
        self.begin(Phase::More(target), self.baseline.limit, now);
    }

    /// Returns a higher limit to try, if any.
    fn more(&self) -> Option<u32> {
        let baseline = self.baseline.limit;
        let step = ((f64::from(baseline) * self.step_ln.exp()) as u32).max(baseline.saturating_add(1));
        let most = self.ceiling.as_ref().map_or(u32::MAX, |ceiling| ceiling.above(baseline));
        Some(step.min(most).min(self.max)).filter(|target| *target > baseline)
    }

    /// Continues after a step that was worth it.
    fn go_on(&mut self, now: Instant) {
        let is_beyond = self.ceiling.as_ref().is_some_and(|ceiling| self.limit >= ceiling.limit);
        self.ceiling.take_if(|_| is_beyond);
        self.step_ln = if is_beyond { STEP.ln() } else { (2.0 * self.step_ln).max(STEP.ln()) };
        if self.ceiling.is_none() && self.step_ln > MAX_STEP.ln() {
            self.begin(Phase::Start, self.limit, now);
        } else if let Some(target) = self.more() {
            self.try_more(target, now);
        } else {
            self.hold(self.baseline.limit, now);
        }
    }

    fn refused(&mut self, in_flight: u32, now: Instant) {
        self.refused = self.refused.saturating_add(1);
        let expected = self.usual_share * (f64::from(self.responses) + f64::from(self.refused));
        let is_unusual = f64::from(self.refused) > expected + FEW + UNUSUAL * expected.sqrt();
        let is_round_trip_over = now.saturating_duration_since(self.cut_at).as_secs_f64() >= self.recent.round_trip_s();
        let are_most = self.refused > self.responses.saturating_add(3);
        if is_unusual && (is_round_trip_over || are_most) {
            let share = if is_round_trip_over { CUT } else { DEEP_CUT };
            self.cut(share, self.limit.min(in_flight.max(1)), now);
        }
    }

    /// Cuts the limit after too many refusals with `level` in flight.
    fn cut(&mut self, share: f64, level: u32, now: Instant) {
        let is_step = matches!(self.phase, Phase::More(_)) && self.baseline.limit < level;
        let limit = if is_step { self.baseline.limit } else { (f64::from(level) * share) as u32 };
        // A host that refuses even single requests is not overloaded by us.
        self.ceiling = (level > 1).then_some(RefusalLimit { limit: level, rounds: 0, responses: 0 });
        self.turn = 0;
        self.cut_at = now;
        self.hold(limit, now);
    }
}

impl RefusalLimit {
    /// Returns the limit up to which it may rise from there.
    fn above(&self, baseline: u32) -> u32 {
        let near = self.limit / NEAR_CEILING;
        let responses = RESPONSES_BELOW_CEILING.min(self.limit.saturating_mul(RESPONSES_EACH_BELOW_CEILING));
        if self.rounds >= ROUNDS_BELOW_CEILING && self.responses >= responses {
            return self.limit.max(baseline.saturating_add(1)).saturating_add(near);
        }
        let half = self.limit.saturating_sub(baseline) / 2;
        if half > near { baseline + half } else { baseline }
    }
}
