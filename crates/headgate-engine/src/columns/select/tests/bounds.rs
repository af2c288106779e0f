//! What taking values may take: memory that was set aside, and little of a worker's time.

use super::*;

#[test]
fn values_for_which_there_is_no_memory_are_taken_when_there_is_as_much_as_they_need() {
    let selection = selection(&["all=$.a", "first=$.a[0]", "n:int64=$..n", "etag=header:etag"], &["first"]);
    let headers = [httparse::Header { name: "ETag", value: b"v1" }];
    let body = br#"{"a":["x","y"],"n":7}"#;
    let needed = "v1".len() + r#"["x","y"]"#.len() + r#""x""#.len() + "7".len();
    let expected = take_of(&selection, HeadersRef::Parsed(&headers), Ok(body));
    assert_eq!(vec![text(r#"["x","y"]"#), text("x"), SelectedValue::Int64(7), text("v1")], expected.values);
    for limit in 0..=needed + 1 {
        let mut memory = 0;
        let mut set_aside = |more| {
            let fits = memory + more <= limit;
            memory += if fits { more } else { 0 };
            fits
        };
        let taken = selection.take_from(HeadersRef::Parsed(&headers), Ok(body), Room::new(0, &mut set_aside));
        assert!(memory <= limit);
        if limit >= needed {
            assert_eq!((Ok(&expected), needed), (taken.as_ref(), memory));
            continue;
        }
        assert_eq!(Err(Short(needed)), taken);
        let none_more = &mut |_| false;
        let again = selection.take_from(HeadersRef::Parsed(&headers), Ok(body), Room::new(needed, none_more));
        assert_eq!(Ok(&expected), again.as_ref());
    }
}
