//! The space that a job leaves free on the file system of its output.
//!
//! The commit of the rows that were received needs space, too. So a run stops while there is some: it starts no more
//! attempts at `min_free`, and at half of that it no longer waits for those in flight. What is in flight needs no more than
//! `max_memory`, unless bodies are saved as files.

use headgate_core::error::JobError;
use headgate_core::files::Space;
use headgate_core::files::storage::Storage;
use headgate_core::grouped::size;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::sink::Shortage;

/// The default: this part of the file system, so that jobs run on small ones, and at most this many bytes.
const DEFAULT_PART: u64 = 100;
const MAX_DEFAULT: u64 = 1024 * 1024 * 1024;

/// Returns the bytes that a job leaves free on this file system; `chosen` is the user's choice.
pub(crate) fn min_free(chosen: Option<u64>, space: Space) -> u64 {
    chosen.unwrap_or_else(|| MAX_DEFAULT.min(space.total / DEFAULT_PART))
}

/// Returns the shortage if `bytes` can't be written without falling below the free space that the job leaves.
pub(super) fn shortage(storage: &dyn Storage, chosen: Option<u64>, bytes: u64) -> Option<Shortage> {
    shortage_after(storage, chosen, bytes, 0)
}

/// Returns the shortage as [`shortage`] does, once files of `removed` bytes are removed.
pub(super) fn shortage_after(storage: &dyn Storage, chosen: Option<u64>, bytes: u64, removed: u64) -> Option<Shortage> {
    if chosen == Some(0) {
        return None;
    }
    let mut space = storage.space()?;
    space.free = space.free.saturating_add(removed);
    let min_free = min_free(chosen, space);
    if space.free >= min_free.saturating_add(bytes) {
        return None;
    }
    let (shown, free, least) = (storage.path().display(), size(space.free), size(min_free));
    let needs = if space.free < min_free { String::new() } else { format!("{} are to be written, and ", size(bytes)) };
    let error = JobError::storage(message!(
        "the file system of {shown} has only {free} free; {needs}{least} must stay free (",
        OptionName::MinFree,
        "): free some space, and the same command continues"
    ));
    Some(Shortage { error, is_urgent: space.free < (min_free / 2).saturating_add(bytes) })
}
