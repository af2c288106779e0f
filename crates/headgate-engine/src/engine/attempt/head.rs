//! HEAD with a fallback to GET: what a row does if a server refuses HEAD.
//!
//! The GET is a part of the same attempt, as the request after a redirect is: it has what is left of the timeout, and waits
//! for the limits of its host.

use headgate_core::redirect_chain::RedirectChain;
use headgate_http::method::refuses_head;
use headgate_http::pool::Route;
use headgate_http::reply::Reply;
use http::Method;

use super::{Attempt, Sending};

impl Attempt<'_> {
    /// Makes the row's request a GET if its host is known to refuse HEAD.
    pub(super) fn skip_refused_head(&self) {
        if self.may_fall_back() && self.row(|row| self.share.preparer.borrow_mut().host_refuses_head(row)) {
            self.share.lanes.change(self.lane, |row| row.set_method(Method::GET.as_str()));
        }
    }

    /// Returns whether the request is a HEAD that is replaced by a GET where a server refuses it.
    pub(super) fn may_fall_back(&self) -> bool {
        self.row(|row| self.share.shared.methods.falls_back(row))
    }

    /// Records what a response to HEAD shows about the host of this route.
    pub(super) fn note_head(&self, status: u16, route: &Route) {
        if self.may_fall_back() {
            route.host.note_head(status);
        }
    }

    /// Makes the row's request a GET if this response refuses HEAD, and returns the redirect chain so far, which the GET
    /// continues.
    pub(super) fn fall_back(&self, reply: &Reply, sending: &Sending) -> Option<Box<RedirectChain>> {
        let status = reply.head.status;
        if let Some(site) = &sending.site {
            self.note_head(status, &site.route);
        }
        if !refuses_head(status) || reply.failure.is_some() || !self.may_fall_back() {
            return None;
        }
        self.share.lanes.change(self.lane, |row| {
            row.set_method(Method::GET.as_str());
            row.count_refused_head();
        });
        Some(self.row(|row| {
            let begun = || RedirectChain { url: row.url.clone(), ..RedirectChain::default() };
            Box::new(row.chain().cloned().unwrap_or_else(begun))
        }))
    }
}
