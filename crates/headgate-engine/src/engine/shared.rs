//! What the workers of a run have in common.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::clock::Clock;
use headgate_core::error::Failure;
use headgate_core::fail_on::FailOn;
use headgate_core::message::Message;
use headgate_core::selected::SelectValues;
use headgate_http::client::AttemptLimits;
use headgate_http::method::Methods;
use headgate_http::robots::RobotsTable;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::columns::result::ResultColumns;

use crate::engine::failure::FirstFailure;
use crate::engine::renewal::Renewal;
use crate::engine::shared_failure_limit::{SharedFailureLimit, StoppedBy};
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
    pub fail_on: FailOn,
    pub responders: Arc<Responders>,
    /// The robots.txt rules of hosts, where they are obeyed.
    pub robots: Option<RobotsTable>,
    pub failure_limit: SharedFailureLimit,
    /// The renewal of credentials, if they can be renewed.
    pub renewal: Option<Arc<Renewal>>,
    /// An origin that refuses the credentials of many rows gets no others.
    pub refuses_origins: bool,
    /// There is such an origin.
    pub has_refused_origins: AtomicBool,
    pub notes: Arc<Mutex<Vec<Message>>>,
    /// Why a host could not be reached, the last time that one could not.
    pub last_unreached: Mutex<Option<Failure>>,
}

impl Shared {
    /// Stops the run for this reason.
    pub(super) fn stop_run(&self, why: Message) {
        self.stop_by(StoppedBy { why, by_failures: false });
    }

    /// Stops the run, as too many of its rows have failed.
    pub(super) fn stop_failing_run(&self, why: Message) {
        self.stop_by(StoppedBy { why, by_failures: true });
    }

    fn stop_by(&self, stopped_by: StoppedBy) {
        if self.failure_limit.note_stop(stopped_by) {
            self.scheduler.stop_in_order();
        }
    }

    /// Adds a note for the user.
    pub(super) fn note(&self, note: Message) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// Returns whether rows may have to wait for credentials, or fail as their origin refuses them.
    pub(super) fn watches_credentials(&self) -> bool {
        self.renewal.is_some() || self.has_refused_origins.load(Ordering::Relaxed)
    }
}
