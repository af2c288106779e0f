//! Cookies: shown, set and deleted.

use serde_json::{Map, Value, json};

use super::redirect::found;
use crate::received::Received;
use crate::response::{FullResponse, is_value};

/// Returns the cookies of the request, by name.
pub(super) fn sent(received: &Received) -> Value {
    let mut cookies = Map::new();
    let fields = received.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    for (_, value) in fields {
        for pair in String::from_utf8_lossy(value).split(';') {
            let (name, value) = pair.trim().split_once('=').unwrap_or((pair.trim(), ""));
            cookies.insert(name.to_owned(), value.into());
        }
    }
    json!({ "cookies": cookies })
}

pub(super) fn set(received: &Received) -> FullResponse {
    with_cookies(received, |name, value| format!("{name}={value}; Path=/; HttpOnly"))
}

pub(super) fn delete(received: &Received) -> FullResponse {
    with_cookies(received, |name, _| {
        format!("{name}=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0; HttpOnly")
    })
}

fn with_cookies(received: &Received, cookie: impl Fn(&str, &str) -> String) -> FullResponse {
    let valid = received.query().filter(|(name, value)| is_value(name) && is_value(value));
    valid.fold(found("/cookies"), |response, (name, value)| response.with_field("Set-Cookie", &cookie(&name, &value)))
}
