//! What an attempt does where robots.txt is obeyed: a row waits until the rules of its host are known.
//!
//! The first lane that needs the rules requests them, with its own connection, and at the rate of the host.

use std::cell::RefCell;
use std::time::SystemTime;

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::limits::Retrying;
use headgate_core::message::OptionName;
use headgate_core::origin::Origin;
use headgate_core::row::{Row, RowExtra};
use headgate_core::target;
use headgate_core::timer::sleep_until;
use headgate_http::client::{AttemptLimits, LaneState, ReceivedResponse};
use headgate_http::redirect::Redirects;
use headgate_http::reply::{NoReply, Reply, ResponseLimits};
use headgate_http::request::Preparer;
use headgate_http::robots::{MAX_BYTES_AT_ONCE, MAX_ROBOTS_BYTES, RobotsFile, RobotsTable};

use super::Attempt;

/// How often a request is sent whose connection turns out to be closed.
const MAX_SENT: usize = 3;
/// How often a request for robots.txt is retried, if rows are: other rows wait meanwhile.
const MAX_RETRIES: u16 = 2;

impl Attempt<'_> {
    /// Returns why the row may not be requested, if so.
    pub(super) async fn objection(self, state: &mut LaneState) -> Option<Failure> {
        let (table, preparer) = self.share.shared.robots.as_ref().zip(self.share.preparer_of_robots.as_ref())?;
        // An invalid URL fails when the request is made.
        let target = self.row(|row| target::parse(row.target())).ok()?;
        let cell = table.cell(&target.origin, clock::now());
        let rules = cell.get_or_try_init(|| self.fetch_robots((table, preparer), &target.origin, state));
        let rules = match rules.await {
            Ok(rules) => rules,
            Err(failure) => return Some(failure),
        };
        if !rules.is_expensive(target.path.as_str()) {
            return rules.check(target.path.as_str());
        }
        let (cell, path) = (cell.clone(), target.path);
        let decided = move || cell.get().and_then(|rules| rules.check(path.as_str()));
        self.share.client.scratch.decoder.run_in_pool(decided).await
    }

    /// Returns the objection as [`Attempt::objection`] does, for a redirected row. The request for the rules is no part of its
    /// time.
    pub(super) async fn objection_after_redirect(self, state: &mut LaneState) -> Option<Failure> {
        self.share.shared.robots.as_ref()?;
        let (due, begun) = (state.deadline.due(), clock::now());
        let objection = self.objection(state).await;
        state.deadline.set(due.at + clock::elapsed(begun), due.option);
        objection
    }

    /// Requests the rules of a host, with retries.
    ///
    /// # Errors
    /// See [`Attempt::request_robots`].
    async fn fetch_robots(
        self,
        (table, preparer): (&RobotsTable, &RefCell<Preparer>),
        origin: &Origin,
        state: &mut LaneState,
    ) -> Result<RobotsFile, Failure> {
        let limits = limits_of_robots(&self.share.shared.limits);
        let scheme = if origin.https { "https" } else { "http" };
        // A GET without a body, whatever the run requests.
        let extra =
            RowExtra { method: Some("GET".into()), body: Some(bytes::Bytes::new().into()), ..RowExtra::default() };
        let url = format!("{scheme}://{}/robots.txt", origin.authority());
        let mut row = Row { extra: Some(Box::new(extra)), ..Row::new(u64::MAX, url) };
        let by = clock::now() + limits.timeout;
        let Retrying { retries, delay, .. } = self.share.shared.scheduler.lock().rules().retrying;
        let mut left = retries.min(MAX_RETRIES);
        let rules = loop {
            state.deadline.set(by, OptionName::Timeout);
            let rules = self.request_robots(&mut row, (table, preparer), &limits, state).await?;
            let retry_at = clock::now() + delay;
            if left == 0 || matches!(rules, RobotsFile::Rules { .. }) || retry_at >= by {
                break rules;
            }
            left -= 1;
            row.remove_chain();
            sleep_until(retry_at).await;
        };
        table.record(origin, &rules, clock::now());
        Ok(rules)
    }

    /// Requests the rules of a host once, and follows redirects.
    ///
    /// # Errors
    /// `blocked_by_network_policy`: this row may not reach the host, though another may.
    async fn request_robots(
        self,
        row: &mut Row,
        (table, preparer): (&RobotsTable, &RefCell<Preparer>),
        limits: &AttemptLimits,
        state: &mut LaneState,
    ) -> Result<RobotsFile, Failure> {
        let from_outside = self.is_from_outside();
        loop {
            state.from_outside = from_outside || row.chain().is_some_and(|chain| chain.from_outside);
            let received = self.exchange_robots(row, preparer, limits, state).await;
            state.from_outside = from_outside;
            let (reply, is_outside) = match received {
                Ok(received) => (received.reply, received.is_outside),
                Err(failure) if failure.kind == ErrorKind::BlockedByNetworkPolicy && row.chain().is_none() => {
                    return Err(failure);
                }
                Err(failure) => return Ok(RobotsFile::of_failure(&failure)),
            };
            let (status, redirects) = (reply.head.status, &limits.response.redirects);
            let head = (status, &reply.head.headers);
            match redirects.follow(row, "GET", head, is_outside, SystemTime::UNIX_EPOCH) {
                Ok(Some(chain)) => row.set_chain(chain),
                Err(failure) => return Ok(RobotsFile::of_failure(&failure)),
                Ok(None) => match reply {
                    Reply { failure: Some(failure), .. } if status < 300 => {
                        return Ok(RobotsFile::of_failure(&failure));
                    }
                    Reply { body, .. } => {
                        let body = body.unwrap_or_default();
                        if body.bytes.len() <= MAX_BYTES_AT_ONCE {
                            return Ok(RobotsFile::of_response(status, &body.bytes, &table.token));
                        }
                        let token = table.token.clone();
                        let parsed = move || RobotsFile::of_response(status, &body.bytes, &token);
                        return Ok(self.share.client.scratch.decoder.run_in_pool(parsed).await);
                    }
                },
            }
        }
    }

    /// Makes one exchange for a row that is not the run's.
    async fn exchange_robots(
        self,
        row: &Row,
        preparer: &RefCell<Preparer>,
        limits: &AttemptLimits,
        state: &mut LaneState,
    ) -> Result<ReceivedResponse, Failure> {
        let client = &self.share.client;
        let context = client.exchange_context(limits, &self.share.read_reservation);
        let mut sent = 0;
        loop {
            if self.share.shared.scheduler.counts_sends()
                && let Some(when) = self.reserve_send(clock::now())
            {
                self.wait_to_send(when).await;
            }
            let mut wire = Vec::new();
            // There is no body.
            let (site, ..) = preparer.borrow_mut().write(row, &mut wire)?;
            let finished = client.request(&site, &wire, limits, &context, state).await?;
            sent += 1;
            match finished {
                Ok(received) => return Ok(received),
                Err(NoReply { failure, unsent, silent }) if sent == MAX_SENT || !(unsent || silent) => {
                    return Err(failure);
                }
                Err(_) => {}
            }
        }
    }
}

fn limits_of_robots(limits: &AttemptLimits) -> AttemptLimits {
    let response = ResponseLimits {
        max_body_size: MAX_ROBOTS_BYTES,
        truncate_body: true,
        no_body: false,
        raw: false,
        redirects: Redirects::of_robots(),
        saver: None,
        ..limits.response.clone()
    };
    AttemptLimits { response, ..limits.clone() }
}
