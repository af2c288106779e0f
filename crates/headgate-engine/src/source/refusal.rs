//! Why a job can't be resumed with its input: what has changed, and what to do.

use std::ops::Range;

use crate::message;
use crate::model::error::JobError;
use crate::model::grouped::grouped;
use crate::model::message::{Message, OptionName};

/// One of these rows is the first that is another.
pub(super) fn differs(name: &str, rows: &Range<u64>) -> JobError {
    let first = grouped(rows.start);
    let row = match rows.end - rows.start {
        1 => format!("row {first}"),
        count => format!("row {first} or one of the {} after it", grouped(count - 1)),
    };
    JobError::input(message!("{name}: {row} has changed since it was read: ", ways_on()))
}

pub(super) fn other_columns(name: &str) -> JobError {
    JobError::input(message!("{name}: its columns have changed since it was read: ", ways_on()))
}

pub(super) fn cut(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: truncated: it has {now} rows now, and had at least {then}: ", ways_on()))
}

pub(super) fn cut_bytes(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: truncated: it has {now} bytes now, and had {then}: ", ways_on()))
}

/// Where all that was read is the same, and there is more.
pub(super) fn grown(name: &str, rows: u64) -> JobError {
    let rows = grouped(rows);
    JobError::input(message!(
        "{name}: it has only grown: its first {rows} rows are unchanged, and more follow; to do those, too, resume with ",
        OptionName::AllowGrown.set(true),
        ", or restore the file"
    ))
}

/// Where all that was read is the same, and what followed is not known.
pub(super) fn other_bytes(name: &str, rows: u64, now: u64, then: u64) -> JobError {
    let (rows, now, then) = (grouped(rows), grouped(now), grouped(then));
    JobError::input(message!(
        "{name}: its first {rows} rows are unchanged, but it has {now} bytes now, and had {then}; to do the rows that follow now, resume with ",
        OptionName::AllowGrown.set(true),
        ", or restore the file"
    ))
}

fn ways_on() -> Message {
    message!("restore the file to resume, or start over with ", OptionName::Fresh.set(true))
}
