//! What the workers of a run have in common.

use std::sync::{Arc, Mutex};

use headgate_core::clock::Clock;
use headgate_core::error::Failure;
use headgate_core::selected::SelectValues;
use headgate_core::status_set::StatusSet;
use headgate_http::client::AttemptLimits;
use headgate_http::method::Methods;
use headgate_http::robots::RobotsTable;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::columns::result::ResultColumns;

use crate::engine::failure::FirstFailure;
use crate::engine::shared_failure_limit::SharedFailureLimit;
use crate::engine::shared_scheduler::SharedScheduler;
use crate::queue::responders::Responders;

/// What the workers of a run have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub clock: Clock,
    pub limits: AttemptLimits,
    pub methods: Methods,
    pub outcomes: async_channel::Sender<OutcomeBatch>,
    pub failure: Arc<FirstFailure>,
    /// What results are made of; `None`: the sink wants none.
    pub columns: Option<ResultColumns>,
    /// What is taken from responses, whether or not the sink wants results.
    pub selection: Option<Arc<dyn SelectValues>>,
    /// Bodies are no part of results.
    pub omits_bodies: bool,
    pub scheduler: Arc<SharedScheduler>,
    /// Responses with these statuses are failures.
    pub fail_on: StatusSet,
    pub responders: Arc<Responders>,
    /// The robots.txt rules of hosts, where they are obeyed.
    pub robots: Option<RobotsTable>,
    pub failure_limit: SharedFailureLimit,
    /// Why a host could not be reached, the last time that one could not.
    pub last_unreached: Mutex<Option<Failure>>,
}
