//! temporary
use std::time::Instant;
#[derive(Debug)]
pub struct Adaptive { max: u32 }
pub struct Sample { pub started: Instant, pub result: SampleResult }
pub enum SampleResult { Answered, Overloaded, Neutral }
impl Adaptive {
    pub fn new(max: u32, _now: Instant) -> Self { Self { max } }
    pub fn set_max(&mut self, max: u32) { self.max = max; }
    pub fn limit(&self) -> u32 { self.max.max(1) }
    pub fn ended(&mut self, _sample: Sample, _in_flight: u32, _now: Instant) {}
}
