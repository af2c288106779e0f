//! Why an input that was read before cannot be gone on with: what differs, and what to do.

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
    JobError::input(message!("{name}: {row} is not what it was when it was read: ", ways_on()))
}

pub(super) fn other_columns(name: &str) -> JobError {
    JobError::input(message!("{name}: its columns are not those that it had when it was read: ", ways_on()))
}

pub(super) fn cut(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: cut: it has {now} rows now, and had at least {then}: ", ways_on()))
}

pub(super) fn cut_bytes(name: &str, now: u64, then: u64) -> JobError {
    let (now, then) = (grouped(now), grouped(then));
    JobError::input(message!("{name}: cut: it has {now} bytes now, and had {then}: ", ways_on()))
}

/// Where all that was read is the same, and there is more.
pub(super) fn grown(name: &str, rows: u64) -> JobError {
    let rows = grouped(rows);
    JobError::input(message!(
        "{name}: it has only grown: its first {rows} rows are what they were, and others follow; to do those, too, go on with ",
        OptionName::AllowGrown.set(true),
        ", or put back the file as it was"
    ))
}

/// Where all that was read is the same, and nobody knows what followed.
pub(super) fn other_bytes(name: &str, rows: u64, now: u64, then: u64) -> JobError {
    let (rows, now, then) = (grouped(rows), grouped(now), grouped(then));
    JobError::input(message!(
        "{name}: its first {rows} rows are what they were when they were read, but it has {now} bytes now, and had {then}; to go on with the rows that follow now, ",
        OptionName::AllowGrown.set(true),
        ", or put back the file as it was"
    ))
}

fn ways_on() -> Message {
    message!("put back the file as it was to go on, or start over with ", OptionName::Fresh.set(true))
}
