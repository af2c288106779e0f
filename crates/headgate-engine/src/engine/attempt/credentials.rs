//! What a response shows about the credentials of its request: whether the row is retried with new ones, and whether its origin
//! gets no further rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use headgate_core::clock;
use headgate_core::fail_on::is_unauthorized;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::Row;
use headgate_core::schedule::retry::NewCredentials;
use headgate_http::origin_credentials::{OriginCredentials, RefusedRows, refuses_credentials};
use headgate_http::site::Site;

use super::{Attempt, refused};
use crate::engine::share::Share;

const UNAUTHORIZED: u16 = 401;

impl Attempt<'_> {
    /// Records a response with this status. Returns when the row is sent with new credentials, if it is retried with them.
    pub(super) fn note_status(&self, site: &Site, status: u16) -> Option<NewCredentials> {
        if !refuses_credentials(status) {
            self.note_acceptance(site, status);
            return None;
        }
        let share = self.share;
        let credentials = self.row(|row| share.preparer.borrow_mut().credentials_of(row))?;
        let in_a_row = credentials.note_refusal();
        let renewal = share.shared.renewal.as_ref().filter(|_| status == UNAUTHORIZED)?;
        if self.was_refused() && site.version == renewal.defaults.version() {
            renewal.note_retry(false);
            return None;
        }
        renewal.refused(site.version, in_a_row)
    }

    /// Records a response that does not refuse the credentials.
    pub(super) fn note_acceptance(&self, site: &Site, status: u16) {
        let Some(credentials) = &site.credentials else { return };
        credentials.note_status(status);
        if let Some(renewal) = &self.share.shared.renewal
            && self.was_refused()
        {
            renewal.note_retry(true);
        }
    }

    fn was_refused(&self) -> bool {
        self.row(|row| row.before().is_some_and(|before| before.was_refused))
    }
}

impl Share {
    /// Records that a row ended with a response that refuses its credentials. If too many did in a row, their origin gets no
    /// others; if there are no rows of others, the run stops.
    pub(in crate::engine) fn note_refused_row(&self, status: u16, row: &Row) {
        if !self.shared.refuses_origins {
            return;
        }
        let credentials = self.preparer.borrow_mut().credentials_of(row);
        if let Some(credentials) = credentials
            && let Some(rows) = credentials.note_refused_row(status, row.ordinal)
            && credentials.refuse()
        {
            self.refuse_origin(&credentials, status, rows);
        }
    }

    fn refuse_origin(&self, credentials: &Arc<OriginCredentials>, status: u16, rows: RefusedRows) {
        let RefusedRows { rows, first } = rows;
        let origin = &credentials.origin;
        let only = if is_unauthorized(status) { status.to_string() } else { "credentials".to_owned() };
        let what = format!(
            "{origin} refuses the credentials: {rows} rows in a row ended with status {status}, the first is row {first}"
        );
        let advice = message!(
            "replace them; then the same command continues, and headgate retry with ",
            OptionName::Only.set(&*only),
            " sends the failed rows"
        );
        let is_refused = |row: &Row| {
            let credentials = self.preparer.borrow_mut().credentials_of(row);
            credentials.is_some_and(|credentials| credentials.is_refused())
        };
        let scheduler = &self.shared.scheduler;
        if scheduler.rows.all_queued(is_refused) && scheduler.lock().all_waiting(is_refused) {
            self.shared.stop_failing_run(message!("{what}: ", advice));
            return;
        }
        self.shared.has_refused_origins.store(true, Ordering::Relaxed);
        self.shared.note(message!("{what}; its other rows were not sent and failed as credentials: ", advice));
        scheduler.change_at(clock::now(), |scheduler, now| scheduler.fail_where(is_refused, &refused(), now));
    }
}
