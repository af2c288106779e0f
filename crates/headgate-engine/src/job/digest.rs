//! Reads the results of a job, and adds them up by status, by cause of failure and by host.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{ArrowPrimitiveType, Int16Type, Int64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use headgate_core::error::ErrorKind;
use headgate_core::failed_by::status_key;
use headgate_core::url_user::without_user;
use headgate_table::parts::name::PartKind;
use headgate_table::parts::read::read_unchecked;
use serde::Serialize;

use super::results::ResultFile;

const COLUMNS: [&str; 9] =
    ["row", "url", "status", "failed", "error", "error_message", "error_detail", "attempts", "elapsed_us"];
/// Rows of further hosts are not counted by host.
const MAX_HOSTS: usize = 100_000;
/// How many hosts are named of those with the most failed rows, and of the slowest.
const MAX_NAMED_HOSTS: usize = 5_000;
/// Further causes of failures are counted as one: a server may send any status.
const MAX_CAUSES: usize = 100;
const MAX_EXAMPLES: usize = 5;
/// The bound of characters of a text that comes from the input or from a server.
const MAX_TEXT: usize = 500;
const OTHERS: &str = "others";

/// The results of a job in figures of bounded size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Digest {
    /// Rows of results, and those of them that were read.
    pub rows: u64,
    pub rows_read: u64,
    /// Rows by status; rows without a status are not counted.
    pub statuses: BTreeMap<i16, u64>,
    /// Failed rows by error kind, or by status as `status:503`.
    pub failures: BTreeMap<String, FailedRows>,
    /// The number of hosts, and whether there are more than were counted.
    pub host_count: u64,
    pub has_more_hosts: bool,
    /// The hosts with the most failed rows, and the slowest ones.
    pub hosts: Vec<HostRows>,
}

/// The rows that failed for one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FailedRows {
    pub rows: u64,
    pub examples: Vec<Example>,
}

/// A row that failed. Texts are shortened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    pub row: Option<i64>,
    pub url: Option<String>,
    pub message: Option<String>,
    pub detail: Option<String>,
}

/// The rows of one host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostRows {
    pub host: String,
    pub rows: u64,
    pub failed: u64,
    /// Attempts beyond the first one of each row.
    pub retries: u64,
    /// The mean and the maximum time of the last attempts.
    pub mean_us: u64,
    pub max_us: u64,
}

#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    failed: u64,
    retries: u64,
    /// Rows whose last attempt took a time.
    timed: u64,
    total_us: u64,
    max_us: u64,
}

#[derive(Debug, Default)]
struct Reading {
    digest: Digest,
    hosts: HashMap<Box<str>, Tally>,
}

/// Reads parts of results for at most `time_limit`, those of failed rows first. A part that can't be read is left out: another
/// process may have replaced it.
pub(super) fn digest(files: &[ResultFile], schema: &SchemaRef, time_limit: Duration) -> Digest {
    let began = Instant::now();
    let mut reading = Reading::default();
    reading.digest.rows = files.iter().map(|file| file.record.rows).sum();
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|file| file.record.kind() != PartKind::Failed);
    for file in files {
        let Ok(batches) = read_unchecked(&file.path, schema, &COLUMNS) else { continue };
        for batch in batches.map_while(Result::ok) {
            reading.add(&batch, file.record.kind() == PartKind::Failed);
            if began.elapsed() >= time_limit {
                return reading.finish();
            }
        }
    }
    reading.finish()
}

/// The columns of a batch that it has.
struct Columns<'a> {
    row: Option<&'a PrimitiveArray<Int64Type>>,
    url: Option<&'a StringArray>,
    status: Option<&'a PrimitiveArray<Int16Type>>,
    failed: Option<&'a BooleanArray>,
    error: Option<&'a StringArray>,
    error_message: Option<&'a StringArray>,
    error_detail: Option<&'a StringArray>,
    attempts: Option<&'a PrimitiveArray<Int16Type>>,
    elapsed_us: Option<&'a PrimitiveArray<Int64Type>>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let text = |name: &str| batch.column_by_name(name)?.as_string_opt::<i32>();
        Self {
            row: batch.column_by_name("row").and_then(|column| column.as_primitive_opt()),
            url: text("url"),
            status: batch.column_by_name("status").and_then(|column| column.as_primitive_opt()),
            failed: batch.column_by_name("failed").and_then(|column| column.as_boolean_opt()),
            error: text("error"),
            error_message: text("error_message"),
            error_detail: text("error_detail"),
            attempts: batch.column_by_name("attempts").and_then(|column| column.as_primitive_opt()),
            elapsed_us: batch.column_by_name("elapsed_us").and_then(|column| column.as_primitive_opt()),
        }
    }
}

impl Reading {
    fn add(&mut self, batch: &RecordBatch, are_failed: bool) {
        let columns = Columns::of(batch);
        for at in 0..batch.num_rows() {
            let status = number(columns.status, at);
            if let Some(status) = status {
                *self.digest.statuses.entry(status).or_default() += 1;
            }
            let failed = columns.failed.map_or(are_failed, |failed| failed.value(at));
            let error = text(columns.error, at);
            if failed {
                let of_status = || Some(Cow::Owned(status_key(u16::try_from(status?).ok()?)));
                let cause = error.map(Cow::Borrowed).or_else(of_status);
                self.add_failed(cause.as_deref().unwrap_or(OTHERS), &columns, at);
            }
            // An invalid request may have any text in place of a host.
            let has_host = error != Some(ErrorKind::InvalidRequest.name());
            if let Some(url) = text(columns.url, at).filter(|_| has_host)
                && let Some(tally) = tally_of(&mut self.hosts, host_of(url), &mut self.digest.has_more_hosts)
            {
                tally.rows += 1;
                tally.failed += u64::from(failed);
                tally.retries += number(columns.attempts, at).map_or(0, |attempts| attempts.max(1) as u64 - 1);
                if let Some(elapsed) = number(columns.elapsed_us, at).filter(|elapsed| *elapsed > 0) {
                    tally.timed += 1;
                    tally.total_us = tally.total_us.saturating_add(elapsed as u64);
                    tally.max_us = tally.max_us.max(elapsed as u64);
                }
            }
        }
        self.digest.rows_read += batch.num_rows() as u64;
    }

    fn add_failed(&mut self, cause: &str, columns: &Columns<'_>, at: usize) {
        let failures = &mut self.digest.failures;
        let cause = if failures.contains_key(cause) || failures.len() < MAX_CAUSES { cause } else { OTHERS };
        if !failures.contains_key(cause) {
            failures.insert(cut(cause).to_owned(), FailedRows::default());
        }
        let Some(failed) = failures.get_mut(cause) else { return };
        failed.rows += 1;
        if failed.examples.len() == MAX_EXAMPLES {
            return;
        }
        let owned = |column| text(column, at).map(|text| cut(text).to_owned());
        let url = text(columns.url, at).map(|url| cut(&without_user(url)).to_owned());
        let (message, detail) = (owned(columns.error_message), owned(columns.error_detail));
        let example = Example { row: number(columns.row, at), url, message, detail };
        let is_like = |other: &Example| {
            let host = |example: &Example| example.url.as_deref().map(|url| host_of(url).to_owned());
            other.message == example.message && host(other) == host(&example)
        };
        if !failed.examples.iter().any(is_like) {
            failed.examples.push(example);
        }
    }

    fn finish(self) -> Digest {
        let Self { mut digest, hosts } = self;
        digest.host_count = hosts.len() as u64;
        let mut hosts: Vec<_> = hosts.into_iter().map(|(host, tally)| tally.named(host)).collect();
        hosts.sort_unstable_by(|a, b| (Reverse(a.failed), &a.host).cmp(&(Reverse(b.failed), &b.host)));
        let mut slowest = hosts.split_off(hosts.len().min(MAX_NAMED_HOSTS));
        slowest.sort_unstable_by(|a, b| (Reverse(a.mean_us), &a.host).cmp(&(Reverse(b.mean_us), &b.host)));
        slowest.truncate(MAX_NAMED_HOSTS);
        hosts.append(&mut slowest);
        digest.hosts = hosts;
        digest
    }
}

impl Tally {
    fn named(self, host: Box<str>) -> HostRows {
        let Self { rows, failed, retries, timed, total_us, max_us } = self;
        HostRows { host: host.into(), rows, failed, retries, mean_us: total_us / timed.max(1), max_us }
    }
}

/// Returns the figures of a host; `None`: there are too many hosts.
fn tally_of<'t>(hosts: &'t mut HashMap<Box<str>, Tally>, host: &str, has_more: &mut bool) -> Option<&'t mut Tally> {
    // An entry would need an owned key for each row.
    if !hosts.contains_key(host) {
        if hosts.len() >= MAX_HOSTS {
            *has_more = true;
            return None;
        }
        hosts.insert(host.into(), Tally::default());
    }
    hosts.get_mut(host)
}

/// Returns the host of a URL, with its port.
fn host_of(url: &str) -> &str {
    let rest = url.find("://").map_or(url, |at| &url[at + "://".len()..]);
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    cut(authority.rfind('@').map_or(authority, |at| &authority[at + 1..]))
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_TEXT).map_or(text, |(end, _)| &text[..end])
}

fn text(column: Option<&StringArray>, at: usize) -> Option<&str> {
    column.filter(|column| column.is_valid(at)).map(|column| column.value(at))
}

fn number<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, at: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(at)).map(|column| column.value(at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::ArrayRef;

    use super::*;

    /// Returns the digest of rows with these URLs and errors; those with an error have failed.
    fn digest_of(rows: &[(String, Option<String>)]) -> Digest {
        let urls: StringArray = rows.iter().map(|(url, _)| Some(url)).collect();
        let errors: StringArray = rows.iter().map(|(_, error)| error.as_ref()).collect();
        let failed: BooleanArray = rows.iter().map(|(_, error)| Some(error.is_some())).collect();
        let columns: [(&str, ArrayRef); 3] =
            [("url", Arc::new(urls)), ("error", Arc::new(errors.clone())), ("failed", Arc::new(failed))];
        let columns = columns.into_iter().chain([("error_message", Arc::new(errors) as ArrayRef)]);
        let mut reading = Reading::default();
        reading.add(&RecordBatch::try_from_iter(columns).expect("columns of one length"), false);
        reading.finish()
    }

    #[test]
    fn hosts_have_a_bound_and_the_worst_are_named() {
        let rows: Vec<_> = (0..MAX_HOSTS + 10)
            .map(|host| (format!("http://u:pw@h{host}:80/a@b"), (host == 70_000).then(|| "timeout".into())))
            .collect();
        let digest = digest_of(&rows);
        assert_eq!((MAX_HOSTS as u64, true), (digest.host_count, digest.has_more_hosts));
        assert_eq!(2 * MAX_NAMED_HOSTS, digest.hosts.len());
        assert_eq!(("h70000:80", 1), (&*digest.hosts[0].host, digest.hosts[0].failed));
        assert_eq!(rows.len() as u64, digest.rows_read);
    }

    #[test]
    fn causes_and_examples_and_texts_have_a_bound() {
        let long = "ä".repeat(10_000);
        let rows: Vec<_> =
            (0..1000).map(|row| (format!("http://h{row}/{long}"), Some(format!("cause {row}")))).collect();
        let failures = digest_of(&rows).failures;
        assert_eq!(MAX_CAUSES + 1, failures.len());
        assert_eq!((1000 - MAX_CAUSES as u64, MAX_EXAMPLES), (failures[OTHERS].rows, failures[OTHERS].examples.len()));
        let longest =
            failures.values().flat_map(|failed| &failed.examples).filter_map(|example| example.url.as_deref());
        assert_eq!(Some(MAX_TEXT), longest.map(|url| url.chars().count()).max());
    }

    #[test]
    fn examples_hold_no_password_and_differ_in_host_or_message() {
        let row = |url: &str, error: &str| (url.to_owned(), Some(error.to_owned()));
        let rows = [row("http://u:pw@a/1", "dns"), row("http://a/2", "dns"), row("http://b/3", "dns")];
        let failures = digest_of(&rows).failures;
        let urls: Vec<_> = failures["dns"].examples.iter().filter_map(|example| example.url.as_deref()).collect();
        assert_eq!(vec!["http://a/1", "http://b/3"], urls);
    }
}
