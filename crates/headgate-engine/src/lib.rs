//! The engine of headgate: workers and their lanes, runs, durable jobs, plans and statistics. It knows no Python.
//!
//! One job is a [`Source`](headgate_table::source::Source) of rows, a [`Sink`](headgate_table::sink::Sink) for their
//! outcomes and the [options](headgate_core::options) between them; a [`Run`] joins the three. ARCHITECTURE.md has
//! the order of the crates.

#![warn(unreachable_pub)]

mod engine;
mod job;
mod plan;
mod preview;
mod queue;
mod run;
mod stats;

pub use self::engine::completion_queue::{Arrived, CompletionQueue, TakenOutcomes, WAKE_AT, WAKE_AT_OF_MANY};
pub use self::engine::waker::{WakeCaller, Waker};
pub use self::engine::{Engine, machine};
pub use self::job::control::SettingsChange;
pub use self::job::retry::RetryOptions;
pub use self::job::{clean, credential_scope, job_options, report, set, status, verify};
pub use self::plan::{Plan, plan};
pub use self::preview::preview;
pub use self::run::Run;
pub use self::run::batches::{BatchFlow, Step};
pub use self::run::call::{Call, CallState, CallTimeout, CallTimeouts, CallWait};
pub use self::run::checks::{mistakes, mistakes_of_input_and_output, mistakes_of_retry};
pub use self::run::fed_runs::FedRuns;
pub use self::run::named_address::host_address;
pub use self::stats::report::{FailureReport, Summary};
pub use headgate_http::live_defaults::LiveDefaults;
pub use headgate_http::sent_request::{SentHeader, SentRequest};

/// Items that only tests use: a job without an engine, which they drive step by step, and the types of results.
#[doc(hidden)]
pub mod testing {
    pub use super::job::look::credentials_for;
    pub use super::job::retry::{Only, OpenRetry, Retry};
    pub use super::job::{Commit, DoneRows, MonotonicClock, OpenJob, RunningJob};
    pub use super::preview::Preview;
    pub use super::queue::window::Window;
    pub use super::run::Passage;
    pub use super::stats::bottleneck::BottleneckKind;
    pub use super::stats::failures::FailureExample;
    pub use super::stats::report::{JobFigures, Phase};
}
