//! The paths that answer as a server should, each in its own way.

pub(crate) mod chat;
mod cookies;
mod parts;
mod redirect;

use std::fmt::Write as _;
use std::io;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::answer::{self, Answer, is_name, is_value};
use crate::asking::Asking;
use crate::faults::table;
use crate::reply::{Content, Framing, Reply};
use crate::route::{HELPERS, Route};
use crate::worker::Worker;

const ROBOTS: &str = "User-agent: *\nDisallow: /deny\n";
const MANY_LANGUAGES: &str = "Grüße, Welt! ∮ E⋅da = Q; Γειά σου; Здравствуй; שלום; नमस्ते; 世界; 👋🏽\n";
const NOT_FOUND: &str = "there is no such helper or fault: / lists all of them\n";

/// Turns `/robots.txt` into the path that the server was told to answer instead.
pub(crate) fn look_up(worker: &Worker, route: &mut Route, asking: &mut Asking) {
    if let (Route::Robots, Some((instead, target))) = (&*route, worker.robots()) {
        *route = *instead;
        asking.target.clone_from(target);
    }
}

/// What any route that is no fault is answered.
pub(crate) fn reply(worker: &Worker, route: Route, asking: &Asking) -> io::Result<Reply> {
    let text = |bytes, framing| Reply::at_once(Content::Text { bytes, framing });
    Ok(match route {
        Route::Default => Reply { delay: worker.draw_delay(), content: Content::Default },
        Route::Index => Answer::new(200, index()).into(),
        Route::Stats => {
            let statistics = worker.server_counters().snapshot();
            if let Some(log) = worker.rules().and_then(|rules| rules.log.as_ref()) {
                log.flush()?;
            }
            Answer::json(&json!(statistics)).into()
        }
        Route::Capacity(size) => resize(worker, size).into(),
        Route::Echo => Answer::json(&echo(asking)).into(),
        Route::Hash => Answer::json(&hash(&asking.body)).into(),
        Route::Status(code) => Answer::new(code, format!("{code} {}\n", answer::reason(code))).into(),
        Route::Encoded(coding, bytes) => {
            let encoded = coding.encode(&worker.content().bytes(bytes))?;
            Answer::new(200, encoded).with_field("Content-Encoding", coding.token()).into()
        }
        Route::Coded(coding) => {
            let encoded = coding.encode(echo(asking).to_string().as_bytes())?;
            Answer::new(200, encoded).with_field("Content-Encoding", coding.token()).into()
        }
        Route::Delay(delay) => Reply { delay, content: Content::Default },
        Route::Bytes(bytes) => text(bytes, Framing::Length),
        Route::Chunked(bytes) => text(bytes, Framing::Chunked),
        Route::CloseDelimited(bytes) => text(bytes, Framing::Close),
        Route::Redirect(reference, count) => redirect::next(asking, reference, count).into(),
        Route::RedirectTo => redirect::to(asking).into(),
        Route::Headers => Answer::json(&headers(asking)).into(),
        Route::ResponseHeaders => response_headers(worker, asking).into(),
        Route::Cookies => Answer::json(&cookies::sent(asking)).into(),
        Route::SetCookies => cookies::set(asking).into(),
        Route::DeleteCookies => cookies::delete(asking).into(),
        Route::BasicAuth => basic_auth(asking).into(),
        Route::Chat => chat::completion(asking).into(),
        Route::Image(bytes) => Answer::image(worker.content().bytes(bytes)).into(),
        Route::Range(bytes) => parts::range(worker, asking, bytes),
        Route::Drip => parts::drip(worker, asking),
        Route::Utf8 => Answer::new(200, MANY_LANGUAGES).into(),
        Route::Base64 => from_base64(&asking.path_after("/base64/")).into(),
        Route::Robots => Answer::new(200, ROBOTS).into(),
        Route::Fault(..) | Route::Unknown => Answer::new(404, NOT_FOUND).into(),
    })
}

fn resize(worker: &Worker, size: usize) -> Answer {
    match worker.rules().and_then(|rules| rules.capacity.as_ref()) {
        Some(capacity) => {
            capacity.resize(size);
            Answer::new(200, format!("from now on {size} at once\n"))
        }
        None => Answer::new(404, "the server was started without a capacity\n"),
    }
}

fn index() -> String {
    let mut text = String::new();
    let faults = table::all().map(|fault| (format!("/fault/{}", fault.name), fault.description));
    let helpers = HELPERS.iter().map(|(path, description)| ((*path).to_owned(), *description));
    for (path, description) in helpers.chain(faults) {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{path:<38} {description}");
    }
    text
}

/// The request as it was received. Header values that are not UTF-8 are shown with replacement characters.
fn echo(asking: &Asking) -> Value {
    let headers: Vec<Value> =
        asking.fields.iter().map(|(name, value)| json!([name, String::from_utf8_lossy(value)])).collect();
    let mut echo = json!({ "method": asking.method, "path": asking.target, "headers": headers });
    match str::from_utf8(&asking.body) {
        Ok(text) => echo["body"] = text.into(),
        Err(_) => echo["body_base64"] = BASE64.encode(&asking.body).into(),
    }
    echo
}

fn hash(body: &[u8]) -> Value {
    let hash = digest(&SHA256, body);
    let hex = hash.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    json!({ "bytes": body.len(), "sha256": hex })
}

fn headers(asking: &Asking) -> Value {
    let mut headers = Map::new();
    for (name, value) in &asking.fields {
        let values = headers.entry(name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(String::from_utf8_lossy(value).into());
        }
    }
    json!({ "headers": headers })
}

fn response_headers(worker: &Worker, asking: &Asking) -> Answer {
    let answer = worker.default_answer();
    let body = Answer::new(answer.status, answer.body.clone());
    asking.query().fold(body, |answer, (name, value)| match (is_name(&name), is_value(&value)) {
        (true, true) => answer.with_field(&name, &value),
        _ => answer,
    })
}

fn basic_auth(asking: &Asking) -> Answer {
    let expected = asking.path_after("/basic-auth/").replacen('/', ":", 1);
    let given = asking.field("authorization").and_then(|value| {
        let encoded = value.strip_prefix("Basic ")?.trim().to_owned();
        String::from_utf8(BASE64.decode(encoded).ok()?).ok()
    });
    if given.as_deref() == Some(&expected) {
        return Answer::json(&json!({ "authenticated": true, "user": expected.split(':').next() }));
    }
    Answer::new(401, "another user or another password\n").with_field("WWW-Authenticate", r#"Basic realm="test""#)
}

fn from_base64(value: &str) -> Answer {
    match BASE64.decode(value) {
        Ok(bytes) => Answer::new(200, bytes),
        Err(_) => Answer::new(400, "this is no base64\n"),
    }
}
