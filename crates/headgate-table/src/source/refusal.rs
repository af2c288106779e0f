//! Errors of a job that can't be resumed with its input: what has changed, and what to do.

use std::ops::Range;

use headgate_core::error::JobError;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};

/// Returns the error of an input whose first difference is one of these rows.
pub(super) fn differs(name: &str, rows: &Range<u64>) -> JobError {
    let first = grouped(rows.start);
    let row = match rows.end - rows.start {
        1 => format!("row {first}"),
        count => format!("row {first} or one of the {} after it", grouped(count - 1)),
    };
    JobError::input(message!("{name}: {row} has changed since it was read: ", next_steps()))
}

pub(super) fn different_columns(name: &str) -> JobError {
    JobError::input(message!("{name}: its columns have changed since it was read: ", next_steps()))
}

pub(super) fn cut(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: truncated: it has {now} rows now, and had at least {then}: ", next_steps()))
}

pub(super) fn cut_bytes(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: truncated: it has {now} bytes now, and had {then}: ", next_steps()))
}

/// Returns the error of an input that has grown and is otherwise the same.
pub(super) fn grown(name: &str, rows: u64) -> JobError {
    let rows = grouped(rows);
    JobError::input(message!(
        "{name}: it has only grown: its first {rows} rows are unchanged, and more follow; to do those, too, resume with ",
        OptionName::AllowAppend.set(true),
        ", or restore the file"
    ))
}

/// Returns the error of an input whose rows so far are the same, and whose size has changed.
pub(super) fn different_bytes(name: &str, rows: u64, now: u64, then: u64) -> JobError {
    let (rows, now, then) = (grouped(rows), grouped(now), grouped(then));
    JobError::input(message!(
        "{name}: its first {rows} rows are unchanged, but it has {now} bytes now, and had {then}; to do the rows that follow now, resume with ",
        OptionName::AllowAppend.set(true),
        ", or restore the file"
    ))
}

fn next_steps() -> Message {
    message!("restore the file to resume, or start over with ", OptionName::IfExists.set("overwrite"))
}
