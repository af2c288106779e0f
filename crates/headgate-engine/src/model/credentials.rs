//! Which headers are credentials. Their values come and go (a token is renewed) and are no part of what a job is.

use std::iter;

use crate::model::options::RequestOptions;

pub const AUTHORIZATION: &str = "authorization";
const KNOWN: [&str; 3] = [AUTHORIZATION, "proxy-authorization", "cookie"];

/// Whether a header of this name is a credential, as everybody knows or as `options` say.
pub fn is_credential(name: &str, options: &RequestOptions) -> bool {
    credential_names(options).any(|known| known.eq_ignore_ascii_case(name))
}

/// The names of all such headers.
pub fn credential_names(options: &RequestOptions) -> impl Iterator<Item = &str> {
    KNOWN.into_iter().chain(options.secret_headers.iter().map(String::as_str))
}

/// The names of all headers that are asked for, in lower case: they are the same in any case (RFC 9110 section 5.1).
pub fn names_given(options: &RequestOptions) -> Vec<String> {
    let from_others = (options.bearer.is_some() || options.user.is_some()).then(|| AUTHORIZATION.to_owned());
    let from_headers = options.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    iter::chain(from_headers, from_others).collect()
}
