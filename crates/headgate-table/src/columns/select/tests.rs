use headgate_core::error::JobError;
use proptest::prelude::*;
use serde_json::{Value, json};
use serde_json_path::JsonPath;

use super::*;

mod bounds;

fn selection(select: &[&str], require: &[&str]) -> Selection {
    let options = SelectionOptions {
        extract: select.iter().map(ToString::to_string).collect(),
        require: require.iter().map(ToString::to_string).collect(),
        ..SelectionOptions::default()
    };
    Selection::new(&options).expect("good selections").expect("some")
}

fn refusal(select: &[&str], change: fn(&mut SelectionOptions)) -> String {
    let mut options =
        SelectionOptions { extract: select.iter().map(ToString::to_string).collect(), ..SelectionOptions::default() };
    change(&mut options);
    JobError::from(Selection::new(&options).expect_err("a mistake")).to_string()
}

fn select_values(selection: &Selection, body: &[u8]) -> SelectedValues {
    select_all(selection, HeadersRef::Parsed(&[]), Ok(body))
}

/// Selects with unlimited memory.
fn select_all(selection: &Selection, headers: HeadersRef<'_>, body: Result<&[u8], &'static str>) -> SelectedValues {
    selection.select_from(headers, body, 0, &mut |_| true).expect("there is memory")
}

/// Returns what one selection finds in a body.
fn one(select: &str, body: &str) -> SelectedValue {
    select_values(&selection(&[select], &[]), body.as_bytes()).values.remove(0)
}

fn text(text: &str) -> SelectedValue {
    SelectedValue::Text(text.into())
}

const STORE: &str = r#"{ "store": { "book": [
    { "category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95 },
    { "category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99 },
    { "category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99 },
    { "category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8",
      "price": 22.99 } ], "bicycle": { "color": "red", "price": 399 } } }"#;

#[test]
fn the_examples_of_rfc_9535_find_the_values_of_the_rfc() {
    let authors = r#"["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]"#;
    for (expected, path) in [
        (authors, "$.store.book[*].author"),
        (authors, "$..author"),
        (r#"["Herman Melville"]"#, "$..book[2].author"),
        ("[8.95,12.99]", "$..book[:2].price"),
        (r#"["The Lord of the Rings"]"#, "$..book[-1].title"),
        (r#"["0-553-21311-3","0-395-19395-8"]"#, "$..book[?@.isbn].isbn"),
        (r#"["Sayings of the Century","Moby Dick"]"#, "$..book[?@.price<10].title"),
        (r#"["Evelyn Waugh"]"#, "$.store.book[?match(@.title, 'Sword.*')].author"),
        (r#""red""#, "$.store.bicycle['color']"),
        ("399", "$.store.bicycle.price"),
        (r#""Moby Dick""#, "$['store']['book'][2][\"title\"]"),
        (r#""Moby Dick""#, "$.store.book[-2].title"),
        (r#""red""#, "$.store.bicycle['c\\u006flor']"),
        (r#"{ "color": "red", "price": 399 }"#, "$.store.bicycle"),
    ] {
        assert_eq!(text(expected), one(&format!("x:json={path}"), STORE), "{path}");
    }
    for path in ["$.store.book[4].title", "$.store.book.title", "$.store.bicycle[0]", "$.nothing", "$..nothing"] {
        assert_eq!(SelectedValue::Null, one(&format!("x:json={path}"), STORE), "{path}");
    }
}

#[test]
fn a_column_other_than_json_has_the_first_of_several_nodes() {
    assert_eq!(text("Nigel Rees"), one("x=$..author", STORE));
    assert_eq!(SelectedValue::Float64(8.95), one("x:float64=$..price", r#"{"a":[{"price":8.95},{"price":1}]}"#));
}

#[test]
fn values_are_as_they_were_written_and_the_last_of_a_name_counts() {
    let body = r#"{"n":1.10,"o":{"z":1, "a":123456789012345678901234567890},"n":[{"b":2,"b":3.0}]}"#;
    for (expected, path) in [
        (r#"{"z":1, "a":123456789012345678901234567890}"#, "$.o"),
        ("123456789012345678901234567890", "$.o.a"),
        (r#"[{"b":2,"b":3.0}]"#, "$.n"),
        ("3.0", "$.n[0].b"),
    ] {
        assert_eq!(text(expected), one(&format!("x={path}"), body), "{path}");
        // The same values, found in a tree.
        let plural =
            path.rsplit_once(['.']).map_or_else(|| path.to_owned(), |(way, name)| format!("{way}['{name}','?']"));
        assert_eq!(text(&format!("[{expected}]")), one(&format!("x:json={plural}"), body), "{plural}");
    }
    assert_eq!(SelectedValue::Null, one("x=$.a.b", r#"{"a":{"b":1},"a":{"c":2}}"#));
    assert_eq!(SelectedValue::Null, one("x=$.a.b", r#"{"a":{"b":1},"a":7}"#));
}

#[test]
fn a_value_within_a_selected_one_is_found_beside_it() {
    let selection = selection(&["all=$", "a=$.a", "b:int64=$.a.b", "c:bool=$.a['c'][1]", "again=$.a"], &[]);
    let body = r#"{"a":{"b":1,"c":[0,true]}}"#;
    let a = text(r#"{"b":1,"c":[0,true]}"#);
    let expected = vec![text(body), a.clone(), SelectedValue::Int64(1), SelectedValue::Bool(true), a];
    assert_eq!(expected, select_values(&selection, body.as_bytes()).values);
}

#[test]
fn text_that_is_not_json_has_no_values_and_the_position_is_reported() {
    for (detail, body) in [
        ("there is no body", &b""[..]),
        ("the body is not JSON: byte 0", b"<html>"),
        ("the body is not JSON: byte 9", b"{\"a\": 1,\n}"),
        ("the body is not JSON: byte 12", b"\xEF\xBB\xBF{\"a\": 1,\n}"),
        ("the body is not JSON: byte 7", b"{\"a\":1}}"),
        ("the body is not JSON: byte 6", b"{\"a\":\"\xFF\"}"),
        ("the body is not JSON: byte 5", b"{\"a\":NaN}"),
        ("it is null", b"{\"a\":null}"),
        ("there is no such value", b"[]"),
        ("not int64: `x`", b"{\"a\":\"x\"}"),
    ] {
        for path in ["$.a", "$['a','b']"] {
            let selected = select_values(&selection(&[&format!("x:int64={path}")], &["x"]), body);
            let failure = selected.failure.expect("nothing to select");
            assert_eq!(
                (ErrorKind::UnexpectedResponse, "\"x\" is missing"),
                (failure.kind, &failure.reason.message[..])
            );
            assert_eq!(Some(detail), failure.reason.detail.as_deref(), "{path} {}", body.escape_ascii());
            assert_eq!(vec![SelectedValue::Null], selected.values);
        }
    }
    let none = select_all(&selection(&["x=$.a"], &["x"]), HeadersRef::Parsed(&[]), Err("there is no body"));
    assert_eq!("\"x\" is missing (there is no body)", none.failure.expect("no body").reason.to_string());
    assert_eq!(text("1"), select_values(&selection(&["x=$.a"], &[]), b"\xEF\xBB\xBF{\"a\":1}").values[0]);
}

#[test]
fn headers_are_found_by_name_and_those_that_repeat_are_joined() {
    let header = |name, value| httparse::Header { name, value };
    let headers = [
        header("ETag", &b"\"a\""[..]),
        header("X-A", b"1"),
        header("x-a", b"2"),
        header("X-Left", b"17"),
        header("X-Latin", b"caf\xE9"),
        header("Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        header("X-Json", b"{\"a\":1}"),
    ];
    let select = [
        "etag=header:etag",
        "a=header:x-a",
        "left:int64=header:x-left",
        "latin=header:x-latin",
        "at:timestamp=header:last-modified",
        "none=header:x-none",
        "json:json=header:x-json",
        "no_json:json=header:etag2",
    ];
    let selected = select_all(&selection(&select, &[]), HeadersRef::Parsed(&headers), Err("there is no body"));
    let expected = vec![
        text("\"a\""),
        text("1, 2"),
        SelectedValue::Int64(17),
        text("café"),
        SelectedValue::Timestamp(784_111_777_000_000),
        SelectedValue::Null,
        text("{\"a\":1}"),
        SelectedValue::Null,
    ];
    assert_eq!(expected, selected.values);
}

#[test]
fn headers_that_are_selected_repeatedly_need_no_more_memory_than_bodies() {
    let select: Vec<String> = (0..20).map(|number| format!("x{number}=header:x")).collect();
    let selection = selection(&select.iter().map(|select| &select[..]).collect::<Vec<_>>(), &["x19"]);
    let long = "x".repeat(1 << 20);
    let headers = [httparse::Header { name: "X", value: long.as_bytes() }];
    let selected = select_all(&selection, HeadersRef::Parsed(&headers), Err(NO_BODY));
    assert_eq!((text(&long), SelectedValue::Null), (selected.values[15].clone(), selected.values[16].clone()));
    let failure = selected.failure.expect("the last is missing");
    assert_eq!(Some("the extracted values are too long"), failure.reason.detail.as_deref());
}

#[test]
fn an_invalid_selection_is_refused_by_name() {
    let shape = "write name=$.path or name=header:name; name:type=... gives a type";
    for (expected, select) in [
        (shape.to_owned(), "answer"),
        (shape.to_owned(), "=$.a"),
        (shape.to_owned(), ":int64=$.a"),
        ("there is no type \"int\"; the types are string, int64, float64, bool, decimal(PRECISION,SCALE), timestamp, json".into(), "a:int=$.a"),
        (
            "\"decimal(39,2)\" is not a type: write decimal(PRECISION,SCALE), as in decimal(20,2): 1 to 38 digits, SCALE of them after the point".into(),
            "a:decimal(39,2)=$.a",
        ),
        ("\"a.b\" is neither a JSONPath, which begins with $, nor header:name".into(), "a=a.b"),
        ("\"a b\" is not the name of a header".into(), "a=header:a b"),
        ("not a JSONPath (RFC 9535): wrong from character 4 on, where \"[\"".into(), "a=$.a["),
        ("not a JSONPath (RFC 9535): wrong from character 13 on, where \"message\"".into(), "a=$.choices[0]message"),
        ("not a JSONPath (RFC 9535): wrong from character 4 on, where it ends".into(), "a=$.."),
        ("not a JSONPath (RFC 9535): a text in quotes isn't closed".into(), "a=$[\"\\u"),
        ("not a JSONPath (RFC 9535): a text in quotes isn't closed".into(), "a=$['\\uD83D\\uD"),
    ] {
        let message = refusal(&[select], |_| {});
        assert!(message.starts_with(&format!("extract {select:?}: ")), "{message}");
        assert!(message.ends_with(&expected), "{message}");
    }
    let deep = format!("a=$[?{}@.a{}]", "(".repeat(40), ")".repeat(40));
    assert!(refusal(&[&deep], |_| {}).ends_with("the JSONPath is nested too deeply"));
    let filters = format!("a=$[?{}@.a{}]", "@[?".repeat(20), "]".repeat(20));
    assert!(refusal(&[&filters], |_| {}).ends_with("the JSONPath is nested too deeply"));
    let long = format!("a=$.{}", "a".repeat(4096));
    assert!(refusal(&[&long], |_| {}).ends_with("the JSONPath is longer than 4096 bytes"));
    for (expected, select, change) in [
        (
            "require names \"b\", which is not an extracted column: the extracted columns are a",
            &["a=$.a"][..],
            (|options| options.require = vec!["b".into()]) as fn(&mut SelectionOptions),
        ),
        (
            "require names \"b\", which is not an extracted column: no columns are extracted, see extract",
            &[],
            |options| {
                options.require = vec!["b".into()];
            },
        ),
        (
            "cost_from_response names \"b\", which is not an extracted column: the extracted columns are a",
            &["a=$.a"],
            |options| {
                options.cost_from_response = Some("b".into());
            },
        ),
        (
            "cost_from_response names \"a\", which is a string, and a cost is a number: select it as a:int64 or a:float64",
            &["a=$.a"],
            |options| options.cost_from_response = Some("a".into()),
        ),
    ] {
        assert_eq!(expected, refusal(select, change));
    }
}

#[test]
fn a_cost_is_a_number_that_is_not_negative() {
    let options = SelectionOptions {
        extract: vec!["n:float64=$.n".into()],
        cost_from_response: Some("n".into()),
        ..SelectionOptions::default()
    };
    let selection = Selection::new(&options).expect("good").expect("one");
    for (expected, body) in [
        (Some(18), r#"{"n":17.5}"#),
        (Some(0), r#"{"n":0}"#),
        (None, r#"{"n":-1}"#),
        (None, r#"{"n":null}"#),
        (None, ""),
    ] {
        assert_eq!(expected, selection.cost(&select_values(&selection, body.as_bytes())), "{body}");
    }
}

#[test]
fn a_cost_can_be_a_decimal() {
    let options = SelectionOptions {
        extract: vec!["n:decimal(10,2)=$.n".into()],
        cost_from_response: Some("n".into()),
        ..SelectionOptions::default()
    };
    let selection = Selection::new(&options).expect("good").expect("one");
    for (expected, body) in [(Some(18), r#"{"n":17.01}"#), (Some(17), r#"{"n":"17.00"}"#), (None, r#"{"n":-1}"#)] {
        assert_eq!(expected, selection.cost(&select_values(&selection, body.as_bytes())), "{body}");
    }
}

#[test]
fn hostile_bodies_exhaust_neither_stack_nor_memory_nor_time() {
    let why = |select: &str, body: &str| {
        let failure = select_values(&selection(&[select], &["x"]), body.as_bytes()).failure;
        failure.map(|failure| failure.reason.detail.unwrap_or_default().into_string())
    };
    let deep = "[".repeat(1 << 20);
    assert_eq!(
        Some("the body is not JSON: byte 1048576".into()),
        why("x=$[0][0]", &deep).map(|why| why.replace("1048575", "1048576"))
    );
    assert_eq!(Some("the body is nested too deeply".into()), why("x=$..a", &deep));
    let deep = format!("{}{}", deep, "]".repeat(1 << 20));
    assert_eq!(None, why("x=$[0]", &deep));
    assert_eq!(Some("the body is nested too deeply".into()), why("x=$[*][0]", &deep));

    let many_objects = format!("[{}1]", "{\"\":0},".repeat(1 << 20));
    assert_eq!(Some("the body has too many values to be searched".into()), why("x=$[*].a", &many_objects));
    assert_eq!(None, why("x=$[1048576]", &many_objects));
    let many = format!("[{}1]", "1,".repeat(20_000));
    let message = "the body has too many values for a path that visits them repeatedly";
    for path in ["$[?count($[*])>1]", "$..*..*", "$[?match(@,'a')]", "$[*,*][*,*]"] {
        assert_eq!(Some(message.into()), why(&format!("x={path}"), &many), "{path}");
    }
    assert_eq!(None, why("x=$..*", &many));
    // Each value is repeated for each level around it, which is far longer than the body.
    let nested = format!("{}{}{}", "[".repeat(120), "1,".repeat(200_000) + "1", "]".repeat(120));
    assert_eq!(Some("the extracted values are too long".into()), why("x:json=$..*", &nested));
}

#[test]
fn a_body_without_a_valid_tree_still_has_the_values_of_quick_paths() {
    let selection = selection(&["a=$.a", "b=$..b"], &["b"]);
    let large = format!("{{\"a\":1,\"b\":[{}1]}}", "{\"\":0},".repeat(1 << 20));
    for (expected, body) in [
        ("the body has too many values to be searched", &large[..]),
        ("the body is not JSON: byte 18", r#"{"a":1,"b":"\ud800"}"#),
    ] {
        let SelectedValues { values, failure } = select_values(&selection, body.as_bytes());
        assert_eq!(vec![text("1"), SelectedValue::Null], values);
        assert_eq!(Some(expected), failure.as_ref().and_then(|failure| failure.reason.detail.as_deref()));
    }
}

#[test]
fn malformed_texts_within_json_have_no_values_and_do_no_harm() {
    assert_eq!(SelectedValue::Null, one("x=$.a", r#"{"a":"\ud800"}"#));
    assert_eq!(text("7"), one("x=$.b", r#"{"a":"\ud800","b":7}"#));
    assert_eq!(text("1e999"), one("x=$.a", r#"{"a":1e999}"#));
    assert_eq!(SelectedValue::Null, one("x:float64=$.a", r#"{"a":1e999}"#));
    assert_eq!(text("1"), one("x=$['é']", "{\"\\u00e9\":1}"));
    assert_eq!(text("1"), one("x=$.é", "{\"é\":1}"));
}

/// Returns short names, so that paths select something.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[abc]", 1 => "[a-z_é]{1,3}", 1 => "[ '.\\[\\]*$]{0,3}"]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn singular_path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        3 => "\\.[abc]",
        1 => (0..4_usize).prop_map(|index| format!("[{index}]")),
        1 => (-2..0_i32).prop_map(|index| format!("[{index}]")),
        1 => name().prop_map(|name| format!("['{}']", name.replace('\'', "\\'"))),
        1 => name().prop_map(|name| format!("[{}]", json!(name))),
    ];
    proptest::collection::vec(step, 0..5).prop_map(|steps| format!("${}", steps.concat()))
}

proptest! {
    #[test]
    fn a_quick_path_finds_what_the_library_finds(document in document(), path in singular_path(), is_pretty in any::<bool>()) {
        let body = if is_pretty { format!("{document:#}") } else { document.to_string() };
        let expected = JsonPath::parse(&path).expect("a path").query(&document).all();
        let found = match one(&format!("x:json={path}"), &body) {
            SelectedValue::Null => vec![],
            SelectedValue::Text(text) => vec![serde_json::from_str::<Value>(&text).expect("JSON")],
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(expected, found.iter().collect::<Vec<_>>(), "{} {}", path, body);
    }

    #[test]
    fn a_tree_finds_what_the_library_finds(
        document in document(),
        path in "\\$(\\.\\.[abc]|\\.\\*|\\[[0-2],'a'\\]|\\[\\?@\\.a\\]|\\[::-1\\]|\\.[ab]){1,4}",
    ) {
        let expected = JsonPath::parse(&path).expect("a path").query(&document).all();
        let found = match one(&format!("x:json={path}"), &document.to_string()) {
            SelectedValue::Null => vec![],
            SelectedValue::Text(text) => match serde_json::from_str::<Value>(&text).expect("JSON") {
                Value::Array(nodes) if !matches!(Path::parse(&path), Ok(Path::Quick(_))) => nodes,
                one => vec![one],
            },
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(expected, found.iter().collect::<Vec<_>>(), "{} {}", path, document);
    }

    #[test]
    fn any_body_has_values_or_none(
        body in proptest::collection::vec(any::<u8>(), 0..60),
        json in "[\\[\\]{}\",:0-9a-ce\\\\u. -]{0,60}",
    ) {
        let select = ["a=$.a", "b:int64=$[0].a", "c:json=$..*", "d:timestamp=$[*]", "e=$"];
        let selection = selection(&select, &["a"]);
        for body in [&body, json.as_bytes()] {
            let selected = select_values(&selection, body);
            prop_assert_eq!(5, selected.values.len());
            prop_assert_eq!(selected.values[0] == SelectedValue::Null, selected.failure.is_some());
        }
    }

    #[test]
    fn any_selection_is_parsed_or_refused(
        any in "\\PC{0,40}",
        path in "[a-c$@.*\\[\\]()?!&|=<>:, '\"0-9\\\\é-]{0,40}",
    ) {
        for path in [any, path] {
            let options = SelectionOptions { extract: vec![format!("x=${path}"), path], ..SelectionOptions::default() };
            let _ = Selection::new(&options);
        }
    }
}
