//! Keeps the cookies that responses set, where a client has a cookie jar.

use headgate_core::cookie_jar::CookieUrl;
use headgate_core::headers::HeadersRef;
use headgate_core::target;

use super::Attempt;

impl Attempt<'_> {
    /// Stores the cookies that a response to the row's request sets, whatever becomes of it: one that fails, is redirected or is
    /// retried sets cookies, too.
    pub(super) fn store_cookies(&self, headers: HeadersRef<'_>) {
        let Some(jar) = &self.share.shared.limits.response.cookies else { return };
        let set_cookies = headers.get_all("set-cookie");
        if set_cookies.is_empty() {
            return;
        }
        self.row(|row| {
            if let Ok(from) = target::parse(row.target()) {
                jar.store(set_cookies.into_iter(), &CookieUrl::new(&from.origin, from.path.path()));
            }
        });
    }
}
