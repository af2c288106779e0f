//! What the workers of a run have in common.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use crate::columns::builder::OutcomeBatch;
use crate::columns::result::ResultColumns;
use crate::columns::select::Selection;
use crate::engine::failure::FirstFailure;
use crate::engine::shared_gate::SharedGate;
use crate::engine::shared_give_up::SharedGiveUp;
use crate::http::client::AttemptLimits;
use crate::http::method::Methods;
use crate::http::robots::RobotsTable;
use crate::model::clock::Clock;
use crate::model::error::Failure;
use crate::queue::responders::Responders;
use crate::queue::rows::RowReceiver;
use crate::queue::window::Window;
use crate::schedule::gate::Gate;

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// Nothing new is started; what is in flight has until then.
    Draining {
        until: Instant,
    },
}

/// What the workers of a run have in common.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    pub limits: AttemptLimits,
    pub methods: Methods,
    pub rows: RowReceiver,
    /// What the source waits for besides room in `rows`.
    pub window: Arc<Window>,
    pub outcomes: async_channel::Sender<OutcomeBatch>,
    pub phase: watch::Receiver<Phase>,
    pub failure: Arc<FirstFailure>,
    /// What results are made of; `None`: nobody wants any.
    pub columns: Option<ResultColumns>,
    /// What is taken from answers, whoever wants results.
    pub selection: Option<Arc<Selection>>,
    /// Bodies are no part of results.
    pub omits_bodies: bool,
    pub gate: Arc<SharedGate>,
    pub responders: Arc<Responders>,
    /// What hosts ask robots to leave alone, where that is obeyed.
    pub robots: Option<RobotsTable>,
    /// Whether the run gives up.
    pub give_up: SharedGiveUp,
    /// Why a host could not be reached, the last time that one could not.
    pub last_unreached: Mutex<Option<Failure>>,
}

impl Shared {
    /// Nobody wants rows any more.
    pub fn end_rows(&self) {
        self.rows.stop();
        self.window.close();
        self.gate.change_at(Instant::now(), Gate::stop);
    }
}
