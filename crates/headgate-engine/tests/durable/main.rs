//! What a job keeps after a crash between any two steps, a power loss, disk errors, and damage from outside.

#![allow(clippy::unwrap_used)]

mod archives;
mod attacks;
mod check;
mod check_delta;
mod check_saved;
mod damage;
mod delta;
mod faults;
mod harness;
mod held;
mod input;
mod log;
mod model;
mod order;
mod outage;
mod power;
mod repair;
mod resume;
mod retry;
mod saved;
mod saved_fresh;
mod several;
mod steps;
mod storage;
