//! The first rows of an input, made into requests that are not sent.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use headgate_core::error::{Failure, JobError};
use headgate_core::limits::{CostOf, HostBy};
use headgate_core::options::{JobOptions, RequestOptions};
use headgate_core::row::Row;
use headgate_core::schedule::hosts::{HostTable, MAX_HOSTS};
use headgate_http::defaults::Defaults;
use headgate_http::dial::transport::Transports;
use headgate_http::idle_limits::IdleLimits;
use headgate_http::live_defaults::LiveDefaults;
use headgate_http::pool::Pool;
use headgate_http::request::Preparer;
use headgate_http::sent_body;
use headgate_http::site::{Site, SiteMaker};
use headgate_http::upload::{self, UploadSource};
use headgate_table::source::Source;

use super::equal::EqualRequests;
use super::hosts::HostCounts;
use super::invalid::InvalidRows;
use super::masked::{MeasuredBody, PlannedRequest};
use crate::job::DoneRows;

/// The maximum number of sampled rows, and of their bytes.
const MAX_ROWS: u64 = 100_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of requests that are shown.
const SHOWN: usize = 3;

/// The result of sampling.
#[derive(Debug)]
pub(super) struct InputSample {
    pub(super) read: u64,
    /// Whether these are all rows.
    pub(super) is_all: bool,
    /// The mean size of a row in a file, if it is known.
    pub(super) row_bytes: Option<f64>,
    pub(super) hosts: HostCounts,
    pub(super) invalid: InvalidRows,
    pub(super) equal: EqualRequests,
    /// Rows whose hosts do not get credentials.
    pub(super) without_credentials: u64,
    /// The first rows that are not done; if all are done, the first rows.
    pub(super) requests: Vec<PlannedRequest>,
    /// The total cost of the rows.
    pub(super) cost: u64,
    /// Rows that are not done and can be sent, and their total cost.
    pub(super) undone: (u64, u64),
    bytes: usize,
}

/// Returns a preparer of requests, like that of a worker.
pub(super) fn preparer(defaults: Defaults, transports: Transports, host_by: HostBy) -> Preparer {
    let hosts = Arc::new(Mutex::new(HostTable::new(MAX_HOSTS)));
    Preparer::new(
        LiveDefaults::new(defaults),
        SiteMaker {
            pool: Rc::new(RefCell::new(Pool::new(IdleLimits::default()))),
            hosts,
            transports,
            host_by,
            workers: 1,
        },
    )
}

impl InputSample {
    /// Reads the first rows of a source.
    pub(super) fn of(
        source: &mut dyn Source,
        mut preparer: Preparer,
        options: &JobOptions,
        done: &DoneRows,
    ) -> Result<Self, JobError> {
        let mut sample = Self::none(options);
        let head = options.source.max_rows.unwrap_or(u64::MAX);
        let (mut wire, mut first_done) = (Vec::new(), Vec::new());
        // At the bound, one more batch shows whether those were all rows.
        while sample.bytes < MAX_BYTES && sample.read < head {
            let bytes_before = source.size().bytes_read;
            let Some(mut batch) = source.next_batch()? else {
                sample.is_all = true;
                break;
            };
            let wanted = MAX_ROWS.min(head) - sample.read;
            if wanted == 0 {
                break;
            }
            // Bytes are read in large blocks, and only when those before them are used up: that was within this batch.
            if source.size().bytes_read > bytes_before && bytes_before > 0 {
                sample.row_bytes = Some(bytes_before as f64 / (sample.read as f64 + batch.len() as f64 / 2.0));
            }
            batch.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
            for row in &batch {
                let is_done = done.is_done(row.ordinal);
                let shown = if is_done { first_done.len() } else { sample.requests.len() } < SHOWN;
                if let Some(request) = sample.add(row, is_done, &mut preparer, &mut wire, options).filter(|_| shown) {
                    let shown = if is_done { &mut first_done } else { &mut sample.requests };
                    shown.push(request.planned(row, &wire, &options.request));
                }
            }
        }
        sample.is_all |= sample.read == head;
        if sample.requests.is_empty() {
            sample.requests = first_done;
        }
        Ok(sample)
    }

    /// Counts a row, and leaves its request in `wire`, except for the returned rest. `None`: the row is not a valid
    /// request.
    fn add(
        &mut self,
        row: &Row,
        is_done: bool,
        preparer: &mut Preparer,
        wire: &mut Vec<u8>,
        options: &JobOptions,
    ) -> Option<Prepared> {
        self.read += 1;
        self.bytes += row.bytes();
        match prepared(row, preparer, wire) {
            Ok(Prepared { site, rest }) => {
                let origin = &site.route.key.origin;
                self.hosts.add(origin);
                self.equal.add(row, origin, (wire, &rest), preparer);
                self.without_credentials += u64::from(site.credentials.is_none());
                let cost = cost(row, options);
                self.cost += cost;
                if !is_done {
                    self.undone.0 += 1;
                    self.undone.1 += cost;
                }
                Some(Prepared { site, rest })
            }
            Err(Failure { reason, .. }) => {
                self.invalid.add(row, reason);
                None
            }
        }
    }

    /// Returns the number of rows that can be sent.
    pub(super) fn valid(&self) -> u64 {
        self.read - self.invalid.count()
    }

    fn none(options: &JobOptions) -> Self {
        Self {
            read: 0,
            is_all: false,
            row_bytes: None,
            hosts: HostCounts::new(options.run.limits.host_by),
            invalid: InvalidRows::default(),
            equal: EqualRequests::default(),
            without_credentials: 0,
            requests: Vec::new(),
            cost: 0,
            undone: (0, 0),
            bytes: 0,
        }
    }
}

/// The destination of a request, and the part of its body that is not written with its header section.
struct Prepared {
    site: Rc<Site>,
    rest: MeasuredBody,
}

fn prepared(row: &Row, preparer: &mut Preparer, wire: &mut Vec<u8>) -> Result<Prepared, Failure> {
    let (site, rest, _) = preparer.write(row, wire)?;
    let rest = match rest {
        sent_body::BodyRest::Bytes(bytes) => MeasuredBody::Bytes(bytes),
        sent_body::BodyRest::Upload(UploadSource::Files(pieces)) => {
            let lengths = upload::lengths(pieces.clone())?;
            sent_body::end_head(Some(lengths.iter().sum()), wire);
            MeasuredBody::Pieces(pieces.iter().cloned().zip(lengths).collect())
        }
        sent_body::BodyRest::Upload(UploadSource::Stream(stream)) => {
            sent_body::end_head(stream.length(), wire);
            MeasuredBody::Bytes(Bytes::new())
        }
    };
    Ok(Prepared { site, rest })
}

impl Prepared {
    fn planned(&self, row: &Row, wire: &[u8], options: &RequestOptions) -> PlannedRequest {
        let to = (&self.site.route.key.origin, self.site.credentials.is_some());
        PlannedRequest::of((row.ordinal, &row.url), to, (wire, &self.rest), options)
    }
}

/// Returns the cost of a row, or 0 if costs are not limited.
fn cost(row: &Row, options: &JobOptions) -> u64 {
    let extra = row.extra.as_deref();
    match options.run.limits.cost.as_ref().map(|limit| &limit.of) {
        None => 0,
        Some(CostOf::Row) => 1,
        Some(CostOf::Column(_)) => extra.and_then(|extra| extra.cost).unwrap_or(1),
        Some(CostOf::BodyBytes) => {
            let own = extra.and_then(|extra| extra.body.as_ref()).map(upload::length_now);
            own.or(options.request.body.as_ref().map(|body| body.len() as u64)).unwrap_or_default()
        }
    }
}
