//! A worker's part in a [virtual clock](headgate_core::virtual_clock): it shows that it has nothing to do.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use headgate_core::virtual_clock::{LoopOf, Participant};
use tokio::sync::Notify;

thread_local! {
    static PARTICIPANT: RefCell<Option<Participant>> = const { RefCell::new(None) };
    /// The question that the thread has seen.
    static QUESTION: Cell<u64> = const { Cell::new(0) };
}

/// The part of the thread of a worker, until it is dropped.
pub(super) struct WorkerPart {
    /// Wakes the worker when there is a question.
    asked: Arc<Notify>,
}

impl WorkerPart {
    /// Begins the part of this thread, if there is a virtual clock.
    pub(super) fn begin() -> Self {
        let asked = Arc::<Notify>::default();
        let wakes = asked.clone();
        PARTICIPANT.set(Participant::new(LoopOf::Engine, move || wakes.notify_one()));
        Self { asked }
    }

    /// Waits for the next question. The thread [responds](respond) when it has handled everything that came before.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
        let question = PARTICIPANT.with_borrow(|participant| participant.as_ref().map_or(0, Participant::question));
        QUESTION.set(question);
    }
}

impl Drop for WorkerPart {
    fn drop(&mut self) {
        PARTICIPANT.take();
    }
}

/// Responds to the question that the thread has seen. To be called by a worker's thread when it has nothing to do.
pub(super) fn respond() {
    let question = QUESTION.take();
    if question > 0 {
        PARTICIPANT.with_borrow(|participant| participant.iter().for_each(|participant| participant.respond(question)));
    }
}
