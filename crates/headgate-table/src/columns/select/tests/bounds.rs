//! A selection uses only memory that it reserved, and little of a worker's time.

use super::*;

#[test]
fn values_are_selected_once_there_is_enough_memory() {
    let selection = selection(&["all=$.a", "first=$.a[0]", "n:int64=$..n", "etag=header:etag"], &["first"]);
    let headers = [httparse::Header { name: "ETag", value: b"v1" }];
    let body = br#"{"a":["x","y"],"n":7}"#;
    let needed = "v1".len() + r#"["x","y"]"#.len() + r#""x""#.len() + "7".len();
    let expected = select_all(&selection, HeadersRef::Parsed(&headers), Ok(body));
    assert_eq!(vec![text(r#"["x","y"]"#), text("x"), SelectedValue::Int64(7), text("v1")], expected.values);
    for limit in 0..=needed + 1 {
        let mut memory = 0;
        let mut set_aside = |more| {
            let fits = memory + more <= limit;
            memory += if fits { more } else { 0 };
            fits
        };
        let selected = selection.select_from(HeadersRef::Parsed(&headers), Ok(body), 0, &mut set_aside);
        assert!(memory <= limit);
        if limit >= needed {
            assert_eq!((Ok(&expected), needed), (selected.as_ref(), memory));
            continue;
        }
        assert_eq!(Err(Short(needed)), selected);
        let none_more = &mut |_| false;
        let second = selection.select_from(HeadersRef::Parsed(&headers), Ok(body), needed, none_more);
        assert_eq!(Ok(&expected), second.as_ref());
    }
}

#[test]
fn a_worker_searches_a_body_itself_only_if_that_needs_few_visits() {
    assert!(!selection(&["x=$[?match(@, 'a')]"], &[]).is_quick(1));
    for (path, most) in [("$.a", AT_ONCE_BYTES), ("$..a", AT_ONCE_TREE_BYTES), ("$..a..b", 447), ("$..a..b..c", 58)] {
        let selection = selection(&[&format!("x={path}")], &[]);
        assert_eq!((true, false), (selection.is_quick(most), selection.is_quick(most + 1)), "{path}");
    }
}

#[test]
fn an_expression_of_a_server_is_refused_as_its_time_is_unbounded() {
    for path in
        ["$[?match(@.a, @.b)]", "$..[?!search(@.a,$.b)]", "$[?match('a', value($..b))]", "$[?@.x || match(@, @)]"]
    {
        let message = refusal(&[&format!("x={path}")], |_| {});
        let expected = "the expression of match or search must be a text in quotes: one that a server writes could take arbitrarily long";
        assert!(message.ends_with(expected), "{message}");
    }
    for path in ["$[?match(@.a, 'b,(')]", "$[?search(@['match(a'], \"@\\\"\" )]", "$[?@.match == $.search]"] {
        selection(&[&format!("x={path}")], &[]);
    }
}
