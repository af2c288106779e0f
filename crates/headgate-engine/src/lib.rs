//! The engine of headgate: everything that is fast, bounded or durable. It knows no Python.
//!
//! One job is a [`source`] of rows, a [`sink`] for their outcomes and the [`options`](model::options) between them;
//! [`run`] joins the three. Modules depend on each other in one direction only; ARCHITECTURE.md has the order.

pub mod columns;
pub mod engine;
pub mod files;
pub mod http;
pub mod job;
pub mod model;
pub mod parts;
pub mod plan;
pub mod preview;
pub mod queue;
pub mod run;
pub mod schedule;
#[cfg(test)]
mod seeds;
pub mod sink;
pub mod source;
pub mod stats;
