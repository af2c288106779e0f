//! How many attempts at one host are in flight at once where that is left to us: as many as give the most answers a
//! second, and no more.
//!
//! **The rule** is a hill climb on goodput, by experiments. The limit holds for a round, then a fifth more or less is
//! tried for a round, and the two are compared. By Little's law throughput is what is in flight divided by latency, so
//! that a step comes as throughput as far as latency does not follow it. More is kept if at least a quarter of the step
//! came as throughput; less is kept if no more than a quarter was lost. Refusals (429, 503, timeouts, resets) count as
//! lost, several times, so that a limit at which some are refused isn't worth it. A share of refusals that is the same
//! with more and with less changes nothing: it isn't there because of load.
//!
//! - *Start*: as long as the limit is reached and latency stays, each answer makes room for two more.
//! - *Hold*, and then *more*: steps get longer as long as they are worth it, and finally it is started again from
//!   there.
//! - *Less* is tried if latency rose since it was calm. If it rose much, as much less as Little's law says (throughput
//!   times calm latency, and some headroom). What calm is, is measured anew by each of these trials: it comes from less
//!   load than the limit allows, so that a lasting load doesn't pass for calm, and if latency didn't fall with load,
//!   then the server has changed, and the limit stays.
//! - *A cut*: refusals that are more than usual take back the step that brought them or, without one, a tenth (three
//!   tenths if most are refused). This happens at most once in a round trip, unless most are refused, and attempts from
//!   before the last cut don't count. The limit then stays below, goes half of the way up to where it was cut by and by
//!   (binary search), and goes beyond only once in a while.
//!
//! **Prior art.** Slow start and one cut in a round trip: TCP (RFC 5681). Binary search below the last loss: BIC (Xu,
//! Harfoush, Rhee, INFOCOM 2004). Experiments with more and less that are compared by a utility: PCC (Dong et al., NSDI
//! 2015) and PCC Vivace (NSDI 2018). Latency against calm latency: TCP Vegas, and Gradient of Netflix's
//! concurrency-limits, whose baseline is measured under load and drifts with it (its issue 165, pull request 134);
//! hence the trials. Each attempt counts, below retries, and only answers have a latency: Vector's adaptive request
//! concurrency.
//!
//! **Differs from TCP** in starting with three for one instead of two: with answers of 1 s, it would take 9 s instead
//! of 6 to get 5,000 in flight from 10.
//!
//! **Cost.** A logarithm and some additions for each answer; no allocation; less than 256 bytes for each host.
//!
//! **Doesn't** see which kind of request an attempt was. It needs dozens of answers to compare two limits, hundreds if
//! latencies differ by a factor of ten: it does not follow changes within fewer.

mod round;
#[cfg(test)]
mod tests;

use std::time::Instant;

use round::{Recent, Round};

/// In flight at first.
const START: u32 = 10;
/// For each answer so much more is in flight when starting.
const START_GAIN: u32 = 2;
/// How much more, or less, is tried at first.
const STEP: f64 = 1.2;
/// Where the next step would be longer, it is started again.
const MAX_STEP: f64 = 1.5;
/// The least share of a step that is to come as throughput.
const WORTH: f64 = 0.25;
/// How many answers a refusal outweighs.
const REFUSAL_COST: f64 = 4.0;
/// Latencies longer than calm ones by this: it is not worth waiting for the turn of less.
const MUCH_LONGER: f64 = 1.5;
/// By this: less is tried in its turn.
const LONGER: f64 = 1.12;
/// As is a share of refusals above this.
const MANY_REFUSALS: f64 = 0.02;
/// In how many rounds it is the turn of less.
const TURN_OF_LESS: u8 = 3;
/// In how many rounds less is tried although nothing speaks for it.
const TURNS: u8 = 12;
/// More than throughput times calm latency by this.
const HEADROOM: f64 = 1.1;
const CUT: f64 = 0.9;
/// Where most are refused.
const DEEP_CUT: f64 = 0.7;
/// A greater share of refusals is never usual.
const MAX_USUAL: f64 = 0.1;
/// Attempts over which is learned what share is usual.
const USUAL_OVER: f64 = 500.0;
/// Standard deviations by which refusals are more than usual, and refusals that are none too many in any case.
const UNUSUAL: f64 = 3.5;
const FEW: f64 = 1.5;
/// Before it is tried to go beyond the limit that was cut: rounds, and answers in all or for each in flight.
const ROUNDS_BELOW_CEILING: u32 = 3;
const ANSWERS_BELOW_CEILING: u32 = 200;
const ANSWERS_EACH_BELOW_CEILING: u32 = 16;
/// What is nearer to the ceiling than this share of it is near enough.
const NEAR_CEILING: u32 = 50;

/// How an attempt ended, as far as it tells of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleResult {
    Answered,
    /// Refused with 429 or 503, timed out, or reset.
    Overloaded,
    /// Failed for another reason.
    Neutral,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub started: Instant,
    pub result: SampleResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Hold,
    /// More than what is held is tried: the limit rises by one for each answer up to this.
    More(u32),
    Less,
}

/// The limit of attempts below which refusals are not expected.
#[derive(Debug)]
struct Ceiling {
    limit: u32,
    rounds: u32,
    answers: u32,
}

/// What was found with the limit that is held.
#[derive(Debug)]
struct Held {
    limit: u32,
    /// Mean logarithm of latencies.
    ln: f64,
    refused_share: f64,
}

/// See the top of this file.
#[derive(Debug)]
pub struct Adaptive {
    max: u32,
    limit: u32,
    phase: Phase,
    held: Held,
    /// The logarithm by which what is tried differs, or will differ next, from what is held.
    step_ln: f64,
    turn: u8,
    /// Mean logarithm of latencies with less load. Infinite: not known.
    calm_ln: f64,
    ceiling: Option<Ceiling>,
    cut_at: Instant,
    usual_share: f64,
    recent: Recent,
    round: Round,
    /// In this round.
    answered: u32,
    refused: u32,
}

impl Adaptive {
    /// Never more than `max`, and at least one.
    pub fn new(max: u32, now: Instant) -> Self {
        let max = max.max(1);
        let limit = START.min(max);
        Self {
            max,
            limit,
            phase: Phase::Start,
            held: Held { limit, ln: f64::INFINITY, refused_share: 0.0 },
            step_ln: STEP.ln(),
            turn: 0,
            calm_ln: f64::INFINITY,
            ceiling: None,
            cut_at: now,
            usual_share: 0.0,
            recent: Recent::default(),
            round: Round::new(limit, now),
            answered: 0,
            refused: 0,
        }
    }

    pub fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.limit = self.limit.min(self.max);
        self.held.limit = self.held.limit.min(self.max);
        if let Phase::More(target) = &mut self.phase {
            *target = self.max.min(*target);
        }
    }

    /// At least 1.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// An attempt has ended; `in_flight`: how many were just before, this one among them.
    pub fn ended(&mut self, sample: Sample, in_flight: u32, now: Instant) {
        match sample.result {
            SampleResult::Answered => {
                let seconds = now.saturating_duration_since(sample.started).as_secs_f64().max(1e-6);
                self.answered(seconds, in_flight, now);
            }
            SampleResult::Overloaded if sample.started >= self.cut_at => self.refused(in_flight, now),
            SampleResult::Overloaded | SampleResult::Neutral => {}
        }
    }

    fn answered(&mut self, seconds: f64, in_flight: u32, now: Instant) {
        self.answered = self.answered.saturating_add(1);
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.answers = ceiling.answers.saturating_add(1);
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
            self.hold(self.held.limit, now);
        } else if self.round.is_over(step_ln, self.recent.round_trip_s(), now) {
            self.end_round(now);
        }
    }

    /// Latencies have risen. What is in flight now was let in a round trip ago for a part, and has not shown yet.
    fn end_start(&mut self) {
        let before = (self.limit / (1 + START_GAIN)).max(self.held.limit);
        self.held.limit = (HEADROOM * f64::from(before) * (self.calm_ln - self.round.ln()).exp()) as u32;
        // What was calm while starting may have been the quick ones among the first answers.
        self.calm_ln = f64::INFINITY;
        self.turn = TURNS - 1;
    }

    fn begin(&mut self, phase: Phase, limit: u32, now: Instant) {
        self.phase = phase;
        self.limit = limit.clamp(1, self.max);
        self.answered = 0;
        self.refused = 0;
        // When starting, there is no time to wait until a change shows.
        let settled = if phase == Phase::Start { now } else { now + self.recent.settling() };
        self.round = Round::new(self.limit, settled);
    }

    fn hold(&mut self, limit: u32, now: Instant) {
        self.step_ln = STEP.ln();
        self.begin(Phase::Hold, limit, now);
        self.held.limit = self.limit;
    }

    fn end_round(&mut self, now: Instant) {
        let attempts = f64::from(self.answered + self.refused);
        let refused_share = f64::from(self.refused) / attempts;
        let learned = attempts / (attempts + USUAL_OVER);
        self.usual_share = (self.usual_share + (refused_share - self.usual_share) * learned).min(MAX_USUAL);

        let ln = self.round.ln();
        // What of the step did not come as throughput, or with less, was not lost: 0 for none of it, 1 for all.
        let in_vain = (ln - self.held.ln + REFUSAL_COST * (refused_share - self.held.refused_share)) / self.step_ln;
        let found = Held { limit: self.limit, ln, refused_share };
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
                self.held = found;
                self.calm_ln = self.calm_ln.min(ln);
                self.experiment(now);
            }
            Phase::More(_) if self.round.is_limit_reached() && in_vain < 1.0 - WORTH => {
                self.held = found;
                self.go_on(now);
            }
            Phase::Less if -in_vain > 1.0 - WORTH => {
                self.calm_ln = self.calm_ln.min(ln);
                self.turn = TURNS - 1;
                self.hold(self.limit, now);
            }
            Phase::Less => {
                self.calm_ln = if ln < self.calm_ln { ln } else { f64::midpoint(self.calm_ln, ln) };
                self.hold(self.held.limit, now);
            }
            Phase::More(_) => self.hold(self.held.limit, now),
        }
    }

    fn experiment(&mut self, now: Instant) {
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.rounds += 1;
        }
        if self.round.is_limit_reached() {
            self.turn = (self.turn + 1) % TURNS;
            let longer = self.held.ln - self.calm_ln;
            let is_less_due = longer > MUCH_LONGER.ln()
                || self.turn == 0 && self.ceiling.is_none()
                || self.turn.is_multiple_of(TURN_OF_LESS)
                    && (longer > LONGER.ln() || self.held.refused_share > MANY_REFUSALS);
            if is_less_due && self.held.limit > 1 {
                return self.try_less(longer, now);
            }
            if let Some(target) = self.more() {
                return self.try_more(target, now);
            }
        }
        self.hold(self.held.limit, now);
    }

    fn try_less(&mut self, longer_ln: f64, now: Instant) {
        let held = f64::from(self.held.limit);
        let limit = (held / STEP).min(HEADROOM * held / longer_ln.exp());
        self.begin(Phase::Less, (limit as u32).min(self.held.limit - 1), now);
        self.step_ln = (held / f64::from(self.limit)).ln();
    }

    fn try_more(&mut self, target: u32, now: Instant) {
        self.step_ln = (f64::from(target) / f64::from(self.held.limit)).ln();
        self.begin(Phase::More(target), self.held.limit, now);
    }

    /// How much more may be tried now, if more may.
    fn more(&self) -> Option<u32> {
        let held = self.held.limit;
        let step = ((f64::from(held) * self.step_ln.exp()) as u32).max(held.saturating_add(1));
        let most = self.ceiling.as_ref().map_or(u32::MAX, |ceiling| ceiling.above(held));
        Some(step.min(most).min(self.max)).filter(|target| *target > held)
    }

    /// A step was worth it.
    fn go_on(&mut self, now: Instant) {
        let is_beyond = self.ceiling.as_ref().is_some_and(|ceiling| self.limit >= ceiling.limit);
        self.ceiling.take_if(|_| is_beyond);
        self.step_ln = if is_beyond { STEP.ln() } else { (2.0 * self.step_ln).max(STEP.ln()) };
        if self.ceiling.is_none() && self.step_ln > MAX_STEP.ln() {
            self.begin(Phase::Start, self.limit, now);
        } else if let Some(target) = self.more() {
            self.try_more(target, now);
        } else {
            self.hold(self.held.limit, now);
        }
    }

    fn refused(&mut self, in_flight: u32, now: Instant) {
        self.refused = self.refused.saturating_add(1);
        let expected = self.usual_share * (f64::from(self.answered) + f64::from(self.refused));
        let is_unusual = f64::from(self.refused) > expected + FEW + UNUSUAL * expected.sqrt();
        let is_round_trip_over = now.saturating_duration_since(self.cut_at).as_secs_f64() >= self.recent.round_trip_s();
        let are_most = self.refused > self.answered.saturating_add(3);
        if is_unusual && (is_round_trip_over || are_most) {
            let share = if is_round_trip_over { CUT } else { DEEP_CUT };
            self.cut(share, self.limit.min(in_flight.max(1)), now);
        }
    }

    /// With `level` in flight, too many were refused.
    fn cut(&mut self, share: f64, level: u32, now: Instant) {
        let is_step = matches!(self.phase, Phase::More(_)) && self.held.limit < level;
        let limit = if is_step { self.held.limit } else { (f64::from(level) * share) as u32 };
        // What refuses even one at a time is not too full.
        self.ceiling = (level > 1).then_some(Ceiling { limit: level, rounds: 0, answers: 0 });
        self.turn = 0;
        self.cut_at = now;
        self.hold(limit, now);
    }
}

impl Ceiling {
    /// How far up one may go from there.
    fn above(&self, held: u32) -> u32 {
        let near = self.limit / NEAR_CEILING;
        let answers = ANSWERS_BELOW_CEILING.min(self.limit.saturating_mul(ANSWERS_EACH_BELOW_CEILING));
        if self.rounds >= ROUNDS_BELOW_CEILING && self.answers >= answers {
            return self.limit.max(held.saturating_add(1)).saturating_add(near);
        }
        let half = self.limit.saturating_sub(held) / 2;
        if half > near { held + half } else { held }
    }
}
