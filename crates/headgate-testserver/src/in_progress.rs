//! A request that is in progress: from its headers until just before the end of its response.

use std::sync::Arc;

use crate::limits::api::Slot;
use crate::limits::capacity::CapacityPermit;
use crate::request_log::LogEntry;
use crate::statistics::Counters;

/// A request is in progress for as long as this lives.
#[derive(Debug)]
pub(crate) struct InProgress {
    counters: Option<Arc<Counters>>,
    /// On the heap, so that a connection is small without limits and a log.
    guards: Option<Box<RequestGuards>>,
}

/// The permits of a request, and its log entry.
#[derive(Debug, Default)]
pub(crate) struct RequestGuards {
    pub slot: Option<Slot>,
    pub capacity: Option<CapacityPermit>,
    pub log: Option<LogEntry>,
}

impl InProgress {
    pub(crate) fn begin(counters: &Arc<Counters>) -> Self {
        counters.start_request();
        Self { counters: Some(counters.clone()), guards: None }
    }

    pub(crate) fn not_counted() -> Self {
        Self { counters: None, guards: None }
    }

    /// Returns whether the request is counted: not a request for statistics, nor one that has ended.
    pub(crate) fn is_counted(&self) -> bool {
        self.counters.is_some()
    }

    pub(crate) fn guards(&mut self) -> &mut RequestGuards {
        self.guards.get_or_insert_default()
    }

    /// Records that a response with this status starts.
    pub(crate) fn record_response(&mut self, status: u16) {
        if let Some(guards) = &mut self.guards {
            if let Some(entry) = &mut guards.log {
                entry.status = Some(status);
            }
            if let Some(slot) = guards.slot.as_ref().filter(|_| status < 500) {
                slot.record_response();
            }
        }
    }

    /// Ends the request before it is dropped. A second call does nothing.
    pub(crate) fn end(&mut self) {
        if let Some(counters) = self.counters.take() {
            self.guards = None;
            counters.end_request();
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.end();
    }
}
