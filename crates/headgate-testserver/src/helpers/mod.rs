//! Paths with useful, correct responses.

mod call;
pub(crate) mod chat;
mod cookies;
mod parts;
mod prices;
mod redirect;

use std::fmt::{self, Write as _};
use std::io;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

pub(crate) use self::call::Call;
use self::redirect::Reference;
use crate::config::{CAPACITIES, MAX_DELAY_S, STATUSES};
use crate::content::ContentEncoding;
use crate::faults::table;
use crate::plan::{PlannedContent, ResponseFraming, ResponsePlan};
use crate::received::Received;
use crate::response::{self, FullResponse, is_name, is_value};
use crate::statistics::Limited;
use crate::worker::ServerWorker;

const ROBOTS: &str = "User-agent: *\nDisallow: /deny\n";
const MANY_LANGUAGES: &str = "Grüße, Welt! ∮ E⋅da = Q; Γειά σου; Здравствуй; שלום; नमस्ते; 世界; 👋🏽\n";
const NOT_FOUND: &str = "there is no such helper or fault: / lists all of them\n";

/// A path with a response of its own.
pub(crate) struct Helper {
    /// The path; if it ends with a slash, an argument follows.
    pub name: &'static str,
    /// The text after the name, shown at `/`.
    arguments: &'static str,
    /// One line, shown at `/`.
    description: &'static str,
    /// The function that creates the response; it returns `None` if the argument is not valid.
    pub plan: fn(&Call<'_>) -> Option<ResponsePlan>,
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Sorted by name.
const HELPERS: &[Helper] = &[
    row("/", "", "this list", |_| Some(FullResponse::new(200, index()).into())),
    row("/absolute-redirect/", "N", "as /redirect/N, with scheme and host in each Location", |call| {
        redirect::next(call, Reference::Absolute)
    }),
    row("/base64/", "VALUE", "the bytes that this is the base64 of, as text", |call| {
        Some(from_base64(call.argument).into())
    }),
    row("/basic-auth/", "USER/PASSWORD", "401 to a request without these", basic_auth),
    row("/brotli", "", "the JSON of /echo in this content encoding", |call| {
        Some(encoded_echo(call, ContentEncoding::Brotli))
    }),
    row("/bytes/", "N", "N bytes of text, drawn from the seed", |call| text(call, ResponseFraming::Length)),
    row("/capacity/", "N", "from now on N requests at once, of a server with a capacity; not counted", resize),
    row("/chunked/", "N", "the text of /bytes/N in chunks", |call| text(call, ResponseFraming::Chunked)),
    row("/close-delimited/", "N", "the text of /bytes/N, ended by closing the connection", |call| {
        text(call, ResponseFraming::Close)
    }),
    row("/cookies", "", "the cookies of the request as JSON", |call| {
        Some(FullResponse::json(&cookies::sent(call.received)).into())
    }),
    row("/cookies/delete", "?NAME&...", "has these cookies expired, and 302 to /cookies", |call| {
        Some(cookies::delete(call.received).into())
    }),
    row("/cookies/set", "?NAME=VALUE&...", "sets these cookies, and 302 to /cookies", |call| {
        Some(cookies::set(call.received).into())
    }),
    row("/deflate", "", "the JSON of /echo in this content encoding", |call| {
        Some(encoded_echo(call, ContentEncoding::Deflate))
    }),
    row("/delay/", "SECONDS", "the default response after so many seconds; fractions are fine", delay),
    row(
        "/drip",
        "?numbytes=N&duration=S&delay=S&code=CODE",
        "N bytes (10) evenly over S seconds (2), after a delay",
        |call| Some(parts::drip(call)),
    ),
    row(
        "/echo",
        "",
        "the request as JSON: method, path, headers as [name, value] in their order, body or body_base64",
        |call| Some(FullResponse::json(&echo(call.received)).into()),
    ),
    row("/echo/", "...", "the same", |call| Some(FullResponse::json(&echo(call.received)).into())),
    row(
        "/encoded/",
        "ENCODING/N",
        "the text of /bytes/N as gzip, gzip-members (several in a row), deflate, br or zstd",
        encoded,
    ),
    row("/encoding/utf8", "", "text in UTF-8 with letters of many languages", |_| {
        Some(FullResponse::new(200, MANY_LANGUAGES).into())
    }),
    row("/gzip", "", "the JSON of /echo in this content encoding", |call| {
        Some(encoded_echo(call, ContentEncoding::Gzip))
    }),
    row("/hash", "", "length and SHA-256 of the request's body, as JSON", |call| {
        Some(FullResponse::json(&hash(&call.received.body)).into())
    }),
    row("/headers", "", "the headers as JSON: the values of each name", |call| {
        Some(FullResponse::json(&headers(call.received)).into())
    }),
    row("/image/", "N", "the text of /bytes/N, called an image/jpeg", |call| {
        Some(FullResponse::image(call.text(call.argument)?).into())
    }),
    row("/pages/", "NAME?page=N", "a page of the items of NAME as JSON: items, page, pages, next", |call| {
        Some(prices::page(call).into())
    }),
    row("/price/", "ID", "the price of ID as JSON, with an ETag", |call| Some(prices::price(call).into())),
    row("/range/", "N", "the text of /bytes/N, or the part of it that Range requests", |call| {
        Some(parts::range(call, call.number()?))
    }),
    row(
        "/redirect-to",
        "?url=URL&status_code=CODE",
        "that status, 300 to 399 (302), with that URL as Location",
        |call| Some(redirect::to(call.received).into()),
    ),
    row("/redirect/", "N", "302 to /redirect/N-1 and so on; /redirect/0 is the default response", |call| {
        redirect::next(call, Reference::Path)
    }),
    row("/relative-redirect/", "N", "the same, with `N-1` as the whole of each Location", |call| {
        redirect::next(call, Reference::Relative)
    }),
    row(
        "/response-headers",
        "?NAME=VALUE&...",
        "the default response with these headers, which may be repeated",
        |call| Some(response_headers(call).into()),
    ),
    row("/robots.txt", "", "forbids /deny, or responds as another path if the server is configured so", |_| {
        Some(FullResponse::new(200, ROBOTS).into())
    }),
    row("/stats", "", "what the server saw, as JSON; not counted itself", |call| Some(statistics(call.worker).into())),
    row("/status/", "CODE", "that status, 200 to 599", |call| {
        let code = call.number().filter(|code| STATUSES.contains(code))?;
        Some(FullResponse::new(code, format!("{code} {}\n", response::reason(code))).into())
    }),
    row("/token", "", "a bearer token, of a server that needs one; not counted", |call| {
        Some(token(call.worker).into())
    }),
    row(
        "/v1/chat/completions",
        "",
        "POST: the last of the `messages`, repeated by an assistant, with `usage` in words",
        |call| Some(chat::completion(&call.received.body).into()),
    ),
    row("/zstd", "", "the JSON of /echo in this content encoding", |call| {
        Some(encoded_echo(call, ContentEncoding::Zstd))
    }),
];

/// Further lines shown at `/`.
const OTHERS: [(&str, &str); 3] = [
    ("/deny", "what /robots.txt forbids"),
    ("/fault/NAME", "misbehaves, see below"),
    ("anything else", "the default response: as configured, after the configured delay"),
];

const fn row(
    name: &'static str,
    arguments: &'static str,
    description: &'static str,
    plan: fn(&Call<'_>) -> Option<ResponsePlan>,
) -> Helper {
    Helper { name, arguments, description, plan }
}

/// Returns the helper for this path.
pub(crate) fn find(path: &str) -> Option<&'static Helper> {
    let named = |name: &str| HELPERS.binary_search_by_key(&name, |helper| helper.name).ok();
    let prefix = || path.get(1..)?.find('/').map(|slash| &path[..slash + 2]);
    let index = named(path).or_else(|| named(prefix()?))?;
    Some(&HELPERS[index])
}

/// Returns the response to a mistyped name or argument.
pub(crate) fn not_found() -> ResponsePlan {
    FullResponse::new(404, NOT_FOUND).into()
}

fn text(call: &Call<'_>, framing: ResponseFraming) -> Option<ResponsePlan> {
    Some(ResponsePlan::immediate(PlannedContent::Text { bytes: call.number()?, framing }))
}

fn delay(call: &Call<'_>) -> Option<ResponsePlan> {
    let seconds = call.number().filter(|seconds| (0.0..=MAX_DELAY_S).contains(seconds))?;
    Some(ResponsePlan { delay: Duration::from_secs_f64(seconds), content: PlannedContent::Default })
}

fn encoded(call: &Call<'_>) -> Option<ResponsePlan> {
    let (encoding, bytes) = call.argument.split_once('/')?;
    let encoding = ContentEncoding::named(encoding)?;
    Some(encode_response(encoding, &call.text(bytes)?))
}

fn encoded_echo(call: &Call<'_>, encoding: ContentEncoding) -> ResponsePlan {
    encode_response(encoding, echo(call.received).to_string().as_bytes())
}

fn encode_response(encoding: ContentEncoding, plain: &[u8]) -> ResponsePlan {
    let encoded = encoding.encode(plain);
    or_error(encoded.map(|encoded| FullResponse::new(200, encoded).with_field("Content-Encoding", encoding.token())))
        .into()
}

fn statistics(worker: &ServerWorker) -> FullResponse {
    let statistics = worker.server_counters().snapshot();
    let flushed = worker.rules().and_then(|rules| rules.log.as_ref()).map_or(Ok(()), |log| log.flush());
    or_error(flushed.map(|()| FullResponse::json(&json!(statistics))))
}

fn or_error(response: io::Result<FullResponse>) -> FullResponse {
    response.unwrap_or_else(|error| FullResponse::new(500, format!("{error}\n")))
}

fn resize(call: &Call<'_>) -> Option<ResponsePlan> {
    let size = call.number().filter(|size| CAPACITIES.contains(size))?;
    let capacity = call.worker.rules().and_then(|rules| rules.capacity.as_ref());
    let Some(capacity) = capacity else {
        return Some(FullResponse::new(404, "the server was started without a capacity\n").into());
    };
    capacity.resize(size);
    Some(FullResponse::new(200, format!("from now on {size} at once\n")).into())
}

fn token(worker: &ServerWorker) -> FullResponse {
    let api = worker.rules().and_then(|rules| rules.api.as_ref());
    let Some(token) = api.and_then(|api| api.issue_bearer(Instant::now())) else {
        return FullResponse::new(404, "the server was started without bearer tokens\n");
    };
    worker.counters().limited(Limited::BearerIssued);
    FullResponse::new(200, format!("{token}\n"))
}

fn index() -> String {
    let mut text = String::new();
    let faults = table::all().map(|fault| (format!("/fault/{}", fault.name), fault.description));
    let helpers = HELPERS.iter().map(|helper| (format!("{}{}", helper.name, helper.arguments), helper.description));
    let others = OTHERS.into_iter().map(|(path, description)| (path.to_owned(), description));
    for (path, description) in helpers.chain(others).chain(faults) {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{path:<38} {description}");
    }
    text
}

/// Returns the request as it was received. Bytes of header values that are not UTF-8 become replacement characters.
fn echo(received: &Received) -> Value {
    let headers: Vec<Value> =
        received.fields.iter().map(|(name, value)| json!([name, String::from_utf8_lossy(value)])).collect();
    let mut echo = json!({ "method": received.method, "path": received.target, "headers": headers });
    match str::from_utf8(&received.body) {
        Ok(text) => echo["body"] = text.into(),
        Err(_) => echo["body_base64"] = BASE64.encode(&received.body).into(),
    }
    echo
}

fn hash(body: &[u8]) -> Value {
    let hash = digest(&SHA256, body);
    let hex = hash.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    json!({ "bytes": body.len(), "sha256": hex })
}

fn headers(received: &Received) -> Value {
    let mut headers = Map::new();
    for (name, value) in &received.fields {
        let values = headers.entry(name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(String::from_utf8_lossy(value).into());
        }
    }
    json!({ "headers": headers })
}

fn response_headers(call: &Call<'_>) -> FullResponse {
    let response = call.worker.default_response();
    let body = FullResponse::new(response.status, response.body.clone());
    call.received.query().fold(body, |response, (name, value)| match (is_name(&name), is_value(&value)) {
        (true, true) => response.with_field(&name, &value),
        _ => response,
    })
}

fn basic_auth(call: &Call<'_>) -> Option<ResponsePlan> {
    let (user, password) = call.argument.split_once('/')?;
    let credentials = call.received.field("authorization").and_then(|value| {
        let encoded = value.strip_prefix("Basic ")?.trim().to_owned();
        String::from_utf8(BASE64.decode(encoded).ok()?).ok()
    });
    if credentials.is_some_and(|credentials| credentials == format!("{user}:{password}")) {
        return Some(FullResponse::json(&json!({ "authenticated": true, "user": user })).into());
    }
    let refused = FullResponse::new(401, "another user or another password\n");
    Some(refused.with_field("WWW-Authenticate", r#"Basic realm="test""#).into())
}

fn from_base64(value: &str) -> FullResponse {
    match BASE64.decode(value) {
        Ok(bytes) => FullResponse::new(200, bytes),
        Err(_) => FullResponse::new(400, "this is no base64\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_in_the_order_of_their_names() {
        assert!(HELPERS.is_sorted_by_key(|helper| helper.name));
        for Helper { name, .. } in HELPERS.iter().filter(|helper| helper.name != "/") {
            assert_eq!(Some(*name), find(name).map(|found| found.name));
        }
    }
}
