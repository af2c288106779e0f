//! A request from its head until just before the end of its answer, and what it holds meanwhile.

use std::sync::Arc;

use crate::limits::api::Slot;
use crate::limits::capacity::Place;
use crate::request_log::Note;
use crate::statistics::Counters;

/// A request is in progress for as long as this lives.
#[derive(Debug)]
pub(crate) struct InProgress {
    counters: Option<Arc<Counters>>,
    /// On the heap, so that a connection is small without limits and a log.
    held: Option<Box<Held>>,
}

/// What a request takes of limits, and its line in the log.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub slot: Option<Slot>,
    pub place: Option<Place>,
    pub note: Option<Note>,
}

impl InProgress {
    pub fn begin(counters: &Arc<Counters>) -> Self {
        counters.begin_request();
        Self { counters: Some(counters.clone()), held: None }
    }

    pub fn not_counted() -> Self {
        Self { counters: None, held: None }
    }

    /// Not that of a request for statistics, nor of one that has ended.
    pub fn is_counted(&self) -> bool {
        self.counters.is_some()
    }

    pub fn held(&mut self) -> &mut Held {
        self.held.get_or_insert_default()
    }

    /// An answer with this status begins.
    pub fn answers(&mut self, status: u16) {
        if let Some(held) = &mut self.held {
            if let Some(note) = &mut held.note {
                note.status = Some(status);
            }
            if let Some(slot) = held.slot.as_ref().filter(|_| status < 500) {
                slot.answered();
            }
        }
    }

    /// Ends it before its time; a second end is none.
    pub fn end(&mut self) {
        if let Some(counters) = self.counters.take() {
            self.held = None;
            counters.end_request();
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.end();
    }
}
