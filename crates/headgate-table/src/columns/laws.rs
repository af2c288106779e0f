//! Laws of selected values that hold for any body. The fuzz targets in `fuzz/` check them.

use headgate_core::headers::HeadersRef;
use headgate_core::options::SelectionOptions;
use headgate_core::selected::{SelectValues as _, SelectedValue, SelectedValues};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::select::{NO_BODY, Selection};

const TYPES: [&str; 7] = ["string", "int64", "float64", "bool", "decimal(38,9)", "timestamp", "json"];

/// Checks the laws with the paths in the lines before a NUL, and the body after it.
pub fn hold(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let Ok(paths) = str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let body = parts.next().unwrap_or_default();
    // Any text may be a selection or an error.
    let _ = selection(&[paths.to_owned()]);
    let paths: Vec<&str> = paths.lines().filter(|path| selection(&[format!("x={path}")]).is_some()).take(4).collect();
    for path in paths.iter().filter(|path| path.starts_with('$')) {
        a_path_finds_what_the_library_finds(path, body);
        a_quick_path_finds_what_the_tree_has(path, body);
    }
    paths_do_not_disturb_each_other(&paths, body);
}

/// Returns the selection, or `None` if it is invalid.
fn selection(select: &[String]) -> Option<Selection> {
    let options = SelectionOptions { extract: select.into(), require: vec!["x".into()], ..SelectionOptions::default() };
    Selection::new(&options).ok().flatten()
}

fn selected(select: &[String], body: &[u8]) -> SelectedValues {
    let body = if body.is_empty() { Err(NO_BODY) } else { Ok(body) };
    let selection = selection(select).unwrap_or_else(|| panic!("{select:?}"));
    selection.select_from(HeadersRef::Parsed(&[]), body, 0, &mut |_| true).expect("there is memory")
}

/// Returns a value, and the reason if it is missing.
fn one(select: String, body: &[u8]) -> (SelectedValue, Option<String>) {
    let SelectedValues { mut values, failure } = selected(&[select], body);
    (values.remove(0), failure.and_then(|failure| failure.reason.detail).map(Into::into))
}

fn tree(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body)).ok()
}

fn a_path_finds_what_the_library_finds(path: &str, body: &[u8]) {
    let (found, why) = one(format!("x:json={path}"), body);
    let Some(tree) = tree(body) else { return };
    let expected = JsonPath::parse(path).expect("a path").query(&tree).all();
    match (found, why.as_deref()) {
        (SelectedValue::Text(text), None) => {
            let found: Value = serde_json::from_str(&text).expect("JSON");
            let is_list = found.as_array().is_some_and(|found| found.iter().eq(expected.iter().copied()));
            assert!(is_list || expected == [&found], "{path} {found}");
        }
        (SelectedValue::Null, Some("there is no such value")) => assert!(expected.is_empty(), "{path}"),
        // The value exceeds a bound.
        (SelectedValue::Null, Some(_)) => {}
        other => panic!("{path} {other:?}"),
    }
}

/// Compares a quick path with the tree. A blank in a path makes the tree evaluate it, whatever its steps are.
fn a_quick_path_finds_what_the_tree_has(path: &str, body: &[u8]) {
    let slow = path.replacen('$', "$ ", 1);
    // A path with `..` is evaluated in the tree anyway, and the library allows no blank before that.
    if slow.trim_end() == "$" || slow.contains("..") || tree(body).is_none() {
        return;
    }
    for each in TYPES {
        let found = one(format!("x:{each}={path}"), body);
        assert_eq!(one(format!("x:{each}={slow}"), body), found, "{path} as {each}");
        is_the_number_that_is_written(&found.0, &one(format!("x:json={path}"), body).0);
    }
}

fn is_the_number_that_is_written(found: &SelectedValue, written: &SelectedValue) {
    let SelectedValue::Text(written) = written else { return };
    // A string, or the first of several values, is not written as a number.
    let Ok(written) = written.parse::<f64>() else { return };
    let is_same = match found {
        SelectedValue::Int64(found) => (written - *found as f64).abs() == 0.0,
        SelectedValue::Float64(found) => written.total_cmp(found).is_eq(),
        _ => true,
    };
    assert!(is_same, "{written} is {found:?}");
}

/// Checks that selecting all paths in one pass finds the same values as selecting each alone.
fn paths_do_not_disturb_each_other(paths: &[&str], body: &[u8]) {
    let select: Vec<String> = paths.iter().map(|path| format!("x:json={path}")).collect();
    if select.is_empty() {
        return;
    }
    let together = selected(&select, body).values;
    let alone: Vec<_> = select.into_iter().map(|select| one(select, body).0).collect();
    // A quick path may find a value in a text that is not valid JSON.
    if tree(body).is_some() {
        assert_eq!(alone, together);
    }
}
