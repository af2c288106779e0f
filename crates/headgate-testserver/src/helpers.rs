//! The paths that answer as a server should, each in its own way.

use std::fmt::Write as _;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Buf;
use serde_json::{Value, json};

use crate::answer::{self, Answer, Persistence};
use crate::exchange::{After, Exchange};
use crate::faults::table;
use crate::request::MAX_FIELDS;
use crate::route::{HELPERS, Route};
use crate::worker::Worker;

/// Answers any route that is no fault and not `/echo`.
pub(crate) async fn answer(mut exchange: Exchange<'_, '_>) -> io::Result<After> {
    match exchange.request.route {
        Route::Default => exchange.send_default().await?,
        Route::Index => exchange.send(&Answer::new(200, index())).await?,
        Route::Stats => {
            let statistics = exchange.worker.server_counters().snapshot();
            if let Some(log) = exchange.worker.rules().and_then(|rules| rules.log.as_ref()) {
                log.flush()?;
            }
            exchange.send(&Answer::json(&json!(statistics))).await?;
        }
        Route::Capacity(size) => exchange.send(&resize(exchange.worker, size)).await?,
        Route::Status(code) => {
            exchange.send(&Answer::new(code, format!("{code} {}\n", answer::reason(code)))).await?;
        }
        Route::Encoded(coding, bytes) => {
            let encoded = coding.encode(&exchange.worker.content().bytes(bytes))?;
            exchange.send(&Answer::new(200, encoded).with_field("Content-Encoding", coding.token())).await?;
        }
        Route::Redirect(count) => {
            let location = format!("/redirect/{}", count.saturating_sub(1));
            exchange.send(&Answer::new(302, "").with_field("Location", &location)).await?;
        }
        Route::Delay(delay) => {
            exchange.connection.pause(delay).await?;
            exchange.send_default_now().await?;
        }
        Route::Bytes(bytes) => send_bytes(exchange, bytes).await?,
        Route::Chunked(bytes) => send_chunked(exchange, bytes).await?,
        Route::CloseDelimited(bytes) => {
            send_close_delimited(exchange, bytes).await?;
            return Ok(After::Ended);
        }
        Route::Echo | Route::Fault(..) | Route::Unknown => {
            exchange.send(&Answer::new(404, "there is no such helper or fault: / lists all of them\n")).await?;
        }
    }
    Ok(After::Answered)
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
pub(crate) fn echo(head: &[u8], body: &[u8]) -> Answer {
    let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    // It was parsed before, with the same result.
    let _ = parsed.parse(head);
    let headers: Vec<Value> =
        parsed.headers.iter().map(|field| json!([field.name, String::from_utf8_lossy(field.value)])).collect();
    let mut echo = json!({ "method": parsed.method, "path": parsed.path, "headers": headers });
    match str::from_utf8(body) {
        Ok(text) => echo["body"] = text.into(),
        Err(_) => echo["body_base64"] = BASE64.encode(body).into(),
    }
    Answer::json(&echo)
}

async fn send_bytes(mut exchange: Exchange<'_, '_>, bytes: u64) -> io::Result<()> {
    exchange.begins(200);
    let Exchange { connection, worker, request, in_progress } = &mut exchange;
    let head = answer::head(200, &answer::length_fields(bytes), request.persistence);
    let mut pieces = worker.content().pieces(if request.is_head { 0 } else { bytes });
    let last = pieces.next_back();
    if last.is_none() {
        in_progress.end();
    }
    connection.send(&head[..]).await?;
    for piece in pieces {
        connection.send(piece).await?;
    }
    in_progress.end();
    connection.send(last.unwrap_or_default()).await
}

async fn send_chunked(mut exchange: Exchange<'_, '_>, bytes: u64) -> io::Result<()> {
    exchange.begins(200);
    let Exchange { connection, worker, request, in_progress } = &mut exchange;
    let fields = "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n";
    let head = answer::head(200, fields, request.persistence);
    if request.is_head {
        in_progress.end();
        return connection.send(&head[..]).await;
    }
    connection.send(&head[..]).await?;
    for piece in worker.content().pieces(bytes) {
        let size = format!("{:x}\r\n", piece.len());
        connection.send(size.as_bytes().chain(piece).chain(&b"\r\n"[..])).await?;
    }
    in_progress.end();
    connection.send(&b"0\r\n\r\n"[..]).await
}

async fn send_close_delimited(mut exchange: Exchange<'_, '_>, bytes: u64) -> io::Result<()> {
    exchange.begins(200);
    let Exchange { connection, worker, request, in_progress } = &mut exchange;
    let head = answer::head(200, "Content-Type: text/plain\r\n", Persistence::Close);
    connection.send(&head[..]).await?;
    for piece in worker.content().pieces(if request.is_head { 0 } else { bytes }) {
        connection.send(piece).await?;
    }
    in_progress.end();
    connection.close().await
}
