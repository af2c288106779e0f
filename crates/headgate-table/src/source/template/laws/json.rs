//! A JSON body is its document, with the values in place of the placeholders.

use headgate_core::row::RowBody;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::fuzz_input::{FuzzInput, bound, joined};
use super::made::{body, defect, try_row, with_json};
use crate::source::template::cell::Cell;
use crate::source::template::parse::{Placeholder, Template};

/// Checks the laws with a document and values.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    let text = |at: usize| input.cells[at].bytes().ok().flatten().map(str::from_utf8);
    if let (Some(Ok(a)), None | Some(Ok(_))) = (text(0), text(1)) {
        let other = text(1).and_then(Result::ok).unwrap_or_default();
        a_server_decodes_what_the_cells_hold(a, input.cells[1].clone(), other);
    }
    let Ok(Some(row)) = try_row(&with_json(input.text), &input.cells) else { return };
    if defect(&row).is_some() {
        assert!(!input.are_texts(), "{:?}", defect(&row));
        return;
    }
    let Some(RowBody::Bytes(body)) = row.extra.and_then(|extra| extra.body) else { panic!("not in memory") };
    serde_json::from_slice::<IgnoredAny>(&body).expect("JSON");
    // `serde_json` can't hold all JSON: it bounds numbers and depth.
    let Ok(document) = serde_json::from_str(input.text) else { return };
    if let Some(expected) = filled(&document, &input.cells) {
        assert_eq!(Some(expected), serde_json::from_slice(&body).ok());
    }
}

/// Returns the document with these values, or `None` if one can't be held, or two keys have become the same.
fn filled(document: &Value, cells: &[Cell<'_>]) -> Option<Value> {
    match document {
        Value::String(text) => {
            let template = bound(text).expect("it was taken");
            match template.whole().filter(|whole| !whole.as_string) {
                Some(whole) => value(whole, cells),
                None => within(&template, cells).map(Value::from),
            }
        }
        Value::Array(values) => {
            values.iter().map(|value| filled(value, cells)).collect::<Option<Vec<_>>>().map(Value::from)
        }
        Value::Object(values) => {
            let pair = |(key, value): (&String, &Value)| {
                Some((within(&bound(key).expect("it was taken"), cells)?, filled(value, cells)?))
            };
            let object: Map<_, _> = values.iter().map(pair).collect::<Option<_>>()?;
            (object.len() == values.len()).then_some(Value::Object(object))
        }
        other => Some(other.clone()),
    }
}

fn value(whole: &Placeholder, cells: &[Cell<'_>]) -> Option<Value> {
    match (whole.cell(cells), &whole.default) {
        (Cell::Json(json), _) => serde_json::from_str(json).ok(),
        (Cell::Null, None) => Some(Value::Null),
        _ => str::from_utf8(whole.bytes(cells).ok()?).ok().map(Value::from),
    }
}

fn within(template: &Template, cells: &[Cell<'_>]) -> Option<String> {
    String::from_utf8(joined(template, cells, <[u8]>::to_vec)?).ok()
}

/// `other` is a cell of any kind, and `text` the same value as text.
pub(in super::super) fn a_server_decodes_what_the_cells_hold(value: &str, other: Cell<'_>, text: &str) {
    let expected_other: Value = match &other {
        Cell::Null => Value::Null,
        Cell::Json(json) => match serde_json::from_str(json) {
            Ok(json) => json,
            Err(_) => return,
        },
        _ => text.into(),
    };
    let document = r#"{"a": ["{a}", "{a:string}", "x{a}y"], "b": "{b}", "{a}": 0}"#;
    let body = body(&with_json(document), &[Cell::Text(value.as_bytes().into()), other]).expect("a body");
    let mut expected = serde_json::json!({"a": [value, value, format!("x{value}y")], "b": expected_other});
    expected[value] = 0.into();
    assert_eq!(expected, serde_json::from_slice::<Value>(&body).expect("JSON"));
}
