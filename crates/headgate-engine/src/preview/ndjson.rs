//! Reads the first lines of an NDJSON file.

use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use headgate_core::error::cause;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::table::Preview;
use super::text;

/// The maximum length of a line of results: twice that of the longest body by default, with six bytes for each of its bytes.
const MAX_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// Adds at most `rows` rows to `preview`.
pub(super) fn read(file: File, rows: usize, preview: &mut Preview) -> Result<(), String> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut number = 0_u64;
    let mut missing = rows;
    while missing > 0 {
        line.clear();
        number += 1;
        let length =
            reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|error| cause(&error))?;
        if length == 0 {
            break;
        }
        if length as u64 == MAX_LINE_BYTES {
            return Err(format!("line {number} is longer than {MAX_LINE_BYTES} bytes"));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let not_json = |error| format!("line {number} is not a JSON object: {error}");
        let object: Object<'_> = serde_json::from_slice(&line).map_err(not_json)?;
        preview.rows.push(Vec::new());
        for (key, raw) in object.0 {
            let (name, value) = if raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
                // A number has the digits that it was written with.
                (&key[..], Some(text::text(raw.get())))
            } else {
                named(&key, &serde_json::from_str(raw.get()).map_err(not_json)?)
            };
            let column = preview.column(name);
            preview.set(column, value);
        }
        missing -= 1;
    }
    Ok(())
}

/// The members of an object in their order.
struct Object<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Returns the column and the text of a member. Bodies in base64 have the same column as bodies that are text.
fn named<'a>(key: &'a str, value: &Value) -> (&'a str, Option<String>) {
    match (key, value) {
        ("body_base64", Value::String(base64)) => ("body", Some(text::length(decoded_length(base64)))),
        ("body", Value::String(body)) => ("body", Some(text::bytes(body.as_bytes()))),
        _ => (key, shown(value)),
    }
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(string) => Some(text::text(string)),
        Value::Array(items) if !items.is_empty() && items.iter().all(is_header) => {
            Some(text::headers(items.iter().map(header)))
        }
        other => Some(text::text(&other.to_string())),
    }
}

fn is_header(item: &Value) -> bool {
    item.get("name").is_some_and(Value::is_string)
}

fn header(item: &Value) -> (&str, String) {
    let name = item["name"].as_str().unwrap_or_default();
    match (item["value"].as_str(), item["value_base64"].as_str()) {
        (Some(value), _) => (name, text::bytes(value.as_bytes())),
        (None, Some(base64)) => (name, text::length(decoded_length(base64))),
        (None, None) => (name, String::new()),
    }
}

fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
