//! What a worker does where robots.txt is obeyed: a row whose host has not been asked yet waits until somebody has.
//!
//! The lane that comes first asks, with its own place and connection, and at the rate of its host.

use std::cell::RefCell;
use std::time::Instant;

use tokio::time::sleep_until;

use crate::engine::lanes::PlaceIndex;
use crate::engine::share::Share;
use crate::http::client::{Answered, AttemptLimits, LaneState};
use crate::http::redirect::Redirects;
use crate::http::reply::{NoReply, Reply, ResponseLimits};
use crate::http::request::Preparer;
use crate::http::robots::{Asked, MAX_BYTES_AT_ONCE, MAX_ROBOTS_BYTES, RobotsTable};
use crate::http::target;
use crate::model::error::{ErrorKind, Failure};
use crate::model::limits::Retrying;
use crate::model::message::OptionName;
use crate::model::origin::Origin;
use crate::model::row::{Row, RowExtra};

/// How often a request is sent that finds its connection closed.
const MAX_SENT: usize = 3;
/// How often a file is asked for again that could not be read, if rows are: others wait for it meanwhile.
const MAX_RETRIES: u16 = 2;

impl Share {
    /// Why the row at `place` may not be fetched, if so.
    pub(super) async fn objection(&self, place: PlaceIndex, state: &mut LaneState) -> Option<Failure> {
        let (table, preparer) = self.shared.robots.as_ref().zip(self.preparer_of_robots.as_ref())?;
        // What leads nowhere is told by whoever makes a request of it.
        let target = self.lanes.look(place, |row| target::parse(row.target())).ok()?;
        let cell = table.cell(&target.origin, Instant::now());
        let asked = cell.get_or_try_init(|| self.ask_for_robots((table, preparer), place, &target.origin, state));
        let asked = match asked.await {
            Ok(asked) => asked,
            Err(failure) => return Some(failure),
        };
        if !asked.is_much(target.path.as_str()) {
            return asked.objection(target.path.as_str());
        }
        let (cell, path) = (cell.clone(), target.path);
        let decided = move || cell.get().and_then(|asked| asked.objection(path.as_str()));
        self.client.scratch.decoder.run_in_pool(decided).await
    }

    /// As [`Share::objection`], of a row that was redirected: asking is no part of its time.
    pub(super) async fn objection_on_the_way(&self, place: PlaceIndex, state: &mut LaneState) -> Option<Failure> {
        self.shared.robots.as_ref()?;
        let (due, begun) = (state.deadline.due(), Instant::now());
        let objection = self.objection(place, state).await;
        state.deadline.set(due.at + begun.elapsed(), due.option);
        objection
    }

    async fn ask_for_robots(
        &self,
        (table, preparer): (&RobotsTable, &RefCell<Preparer>),
        place: PlaceIndex,
        origin: &Origin,
        state: &mut LaneState,
    ) -> Result<Asked, Failure> {
        let limits = limits_of_robots(&self.shared.limits);
        let scheme = if origin.https { "https" } else { "http" };
        // A GET without a body, whatever the run asks for.
        let extra =
            RowExtra { method: Some("GET".into()), body: Some(bytes::Bytes::new().into()), ..RowExtra::default() };
        let url = format!("{scheme}://{}/robots.txt", origin.authority());
        let mut row = Row { extra: Some(Box::new(extra)), ..Row::new(u64::MAX, url) };
        let by = Instant::now() + limits.timeout;
        let Retrying { retries, delay, .. } = self.shared.scheduler.lock().rules().retrying;
        let mut left = retries.min(MAX_RETRIES);
        let asked = loop {
            state.deadline.set(by, OptionName::TimeoutS);
            let asked = self.ask_on_the_way(&mut row, (table, preparer), place, &limits, state).await?;
            let again = Instant::now() + delay;
            if left == 0 || matches!(asked, Asked::Rules { .. }) || again >= by {
                break asked;
            }
            left -= 1;
            row.take_chain();
            sleep_until(again.into()).await;
        };
        table.filled(origin, &asked, Instant::now());
        Ok(asked)
    }

    /// Asks once, wherever redirects lead.
    ///
    /// # Errors
    /// `blocked_by_network_policy`: this row may not ask the host, though another may.
    async fn ask_on_the_way(
        &self,
        row: &mut Row,
        (table, preparer): (&RobotsTable, &RefCell<Preparer>),
        place: PlaceIndex,
        limits: &AttemptLimits,
        state: &mut LaneState,
    ) -> Result<Asked, Failure> {
        let from_outside = self.is_from_outside(place);
        loop {
            state.from_outside = from_outside || row.chain().is_some_and(|chain| chain.from_outside);
            let asked = self.ask(row, preparer, place, limits, state).await;
            state.from_outside = from_outside;
            let (reply, is_outside) = match asked {
                Ok(answered) => (answered.reply, answered.is_outside),
                Err(failure) if failure.kind == ErrorKind::BlockedByNetworkPolicy && row.chain().is_none() => {
                    return Err(failure);
                }
                Err(failure) => return Ok(Asked::failed(&failure)),
            };
            let (status, redirects) = (reply.head.status, &limits.response.redirects);
            let head = (status, &reply.head.headers);
            match redirects.follow(row, "GET", head, is_outside, std::time::SystemTime::UNIX_EPOCH) {
                Ok(Some(chain)) => row.set_chain(chain),
                Err(failure) => return Ok(Asked::failed(&failure)),
                Ok(None) => match reply {
                    Reply { failure: Some(failure), .. } if status < 300 => return Ok(Asked::failed(&failure)),
                    Reply { body, .. } => {
                        let body = body.unwrap_or_default();
                        if body.bytes.len() <= MAX_BYTES_AT_ONCE {
                            return Ok(Asked::answered(status, &body.bytes, &table.token));
                        }
                        let token = table.token.clone();
                        let parsed = move || Asked::answered(status, &body.bytes, &token);
                        return Ok(self.client.scratch.decoder.run_in_pool(parsed).await);
                    }
                },
            }
        }
    }

    /// Makes one exchange of a row that is none of the run's.
    async fn ask(
        &self,
        row: &Row,
        preparer: &RefCell<Preparer>,
        place: PlaceIndex,
        limits: &AttemptLimits,
        state: &mut LaneState,
    ) -> Result<Answered, Failure> {
        let context = self.client.exchange_context(limits, &self.allowance);
        let mut sent = 0;
        loop {
            if self.shared.scheduler.counts_sends()
                && let Some(when) = self.reserve_send(place, Instant::now())
            {
                self.wait_to_send(when).await;
            }
            let mut wire = Vec::new();
            // There is no body, in files or else.
            let (site, _) = preparer.borrow_mut().write(row, &mut wire)?;
            let finished = self.client.ask(&site, &wire, limits, &context, state).await?;
            sent += 1;
            match finished {
                Ok(answered) => return Ok(answered),
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
        max_body_bytes: MAX_ROBOTS_BYTES,
        truncate_body: true,
        no_body: false,
        raw: false,
        redirects: Redirects::of_robots(),
        saver: None,
        ..limits.response.clone()
    };
    AttemptLimits { response, ..limits.clone() }
}
