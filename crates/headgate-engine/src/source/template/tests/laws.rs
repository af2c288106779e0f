//! What servers decode is what the cells hold, whatever that is.

use std::convert::Infallible;

use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::Value;
use url::Url;

use super::*;
use crate::source::template::parse::Template;

/// The fields of a multipart form: names and contents, by the rules of RFC 2046 section 5.1.
fn fields(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let delimiter = format!("\r\n--{boundary}");
    let body = [b"\r\n", body].concat();
    let starts: Vec<usize> = memchr::memmem::find_iter(&body, &delimiter).collect();
    let parts = starts.windows(2).map(|pair| &body[pair[0] + delimiter.len() + 2..pair[1]]);
    let field = parts.map(|part| {
        let head = memchr::memmem::find(part, b"\r\n\r\n").expect("a head");
        let name = String::from_utf8_lossy(&part[..head]);
        let name = name.split_once("name=\"").expect("a name").1.split('"').next().expect("its end");
        (name.to_owned(), part[head + 4..].to_vec())
    });
    assert_eq!(b"--\r\n", &body[starts.last().expect("an end") + delimiter.len()..]);
    field.collect()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-1_000_000..1_000_000).prop_map(|number| Value::from(f64::from(number) / 64.0)),
        ".*".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(".*", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![".*", "[./%2eE\\\\?#&=+ \"'<>\r\n\t:@;]*", "(?s).*"]
}

proptest! {
    #[test]
    fn a_server_decodes_of_a_url_what_the_cell_holds(value in nasty()) {
        match url("http://h/x/{a|}/y?a=1&q={a|}&b=2#{a|}", &[text(&value)]) {
            Err(trouble) => {
                prop_assert!(matches!(&*value, "." | ".."), "{trouble}");
            }
            Ok(url) => {
                let url = Url::parse(&url).expect("a URL");
                prop_assert_eq!(Some("h"), url.host_str());
                let segments: Vec<_> = url.path_segments().expect("a path").collect();
                prop_assert_eq!(3, segments.len());
                prop_assert_eq!(&*value, percent_decode_str(segments[1]).decode_utf8().expect("UTF-8"));
                let pairs: Vec<(String, String)> =
                    url.query_pairs().map(|(name, value)| (name.into(), value.into())).collect();
                let expected = [("a", "1"), ("q", &*value), ("b", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
                prop_assert_eq!(&expected[..], pairs);
                let fragment = percent_decode_str(url.fragment().unwrap_or_default()).decode_utf8().expect("UTF-8");
                prop_assert_eq!(&*value, fragment);
            }
        }
    }

    #[test]
    fn a_path_never_changes_its_shape(values in prop::collection::vec(nasty(), 3)) {
        let cells: Vec<Cell> = values.iter().map(|value| text(value)).collect();
        if let Ok(url) = url("http://h/x/.{a|}{b|}/%2{c|}/z", &cells) {
            let url = Url::parse(&url).expect("a URL");
            prop_assert_eq!(4, url.path_segments().expect("a path").count());
        }
    }

    #[test]
    fn a_host_is_that_of_the_template_whatever_the_values_are(value in nasty(), base in "[a-z./:@\\\\?#]*") {
        if let Ok(url) = url("http://{a}.example.com:81/", &[text(&value)])
            && let Ok(url) = Url::parse(&url)
        {
            prop_assert!(url.host_str().expect("a host").ends_with(".example.com"));
            prop_assert_eq!((Some(81), "", "/"), (url.port(), url.username(), url.path()));
        }
        let base = format!("http://{base}");
        let rendered = url("{a}/{b|}", &[text(&base), text(&value)]);
        if let (Ok(url), Ok(base)) = (rendered.and_then(|url| Url::parse(&url).map_err(|error| error.to_string())), Url::parse(&base)) {
            prop_assert_eq!(base.host_str(), url.host_str());
        }
    }

    #[test]
    fn a_server_decodes_of_a_form_what_the_cells_hold(a in nasty(), b in nasty()) {
        let body = body(&with_form(&["n={a|}", "{b|}=x"]), &[text(&a), text(&b)]).expect("a body");
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(&body).map(|(name, value)| (name.into(), value.into())).collect();
        prop_assert_eq!(vec![("n".to_owned(), a), (b, "x".to_owned())], pairs);
    }

    #[test]
    fn a_server_decodes_of_json_what_the_cells_hold(value in nasty(), any in any_json()) {
        let written = any.to_string();
        let cell = match &any {
            Value::Null => Cell::Null,
            Value::String(string) => text(string),
            _ => json(&written),
        };
        let document = r#"{"a": ["{a}", "{a:string}", "x{a}y"], "b": "{b}", "{a}": 0}"#;
        let body = body(&with_json(document), &[text(&value), cell]).expect("a body");
        let mut expected = serde_json::json!({"a": [value, value, format!("x{value}y")], "b": any});
        expected[value] = 0.into();
        let decoded = serde_json::from_slice::<Value>(&body).expect("JSON");
        prop_assert_eq!(expected, decoded);
    }

    #[test]
    fn a_server_decodes_of_a_multipart_form_what_the_cells_hold(a in prop::collection::vec(any::<u8>(), 0..200), b in nasty()) {
        let cells = [Cell::Text((&*a).into()), text(&b)];
        let extra = extra(&with_multipart(&["n={a|}", "m{b|}={b|};filename={b|}"]), &cells).expect("a body");
        let boundary = extra.body_type.as_deref().and_then(|text| text.split_once("boundary=")).expect("a boundary").1;
        let Some(RowBody::Bytes(body)) = &extra.body else { panic!("a body in memory") };
        let name = format!("m{b}").replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        prop_assert_eq!(vec![("n".to_owned(), a.clone()), (name, b.into_bytes())], fields(body, boundary));
    }

    #[test]
    fn a_header_arrives_as_it_is_or_the_row_is_refused(value in nasty()) {
        if let Ok(sent) = header("{a|}", &value) {
            prop_assert_eq!(&value, &sent);
            prop_assert_eq!(value.trim_matches([' ', '\t']), &value);
            prop_assert!(http::HeaderValue::from_bytes(value.as_bytes()).is_ok());
        } else {
            let has_control = value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7F));
            prop_assert!(has_control || value.trim_matches([' ', '\t']) != value);
        }
    }

    #[test]
    fn what_is_a_template_renders_or_is_refused_and_never_panics(template in "[abc{}|:/@=.;<>?#\\[\\]\" ]*", value in nasty()) {
        let mut parsed = Template::parse(&template);
        if let Ok(template) = &mut parsed {
            let Ok(()) = template.bind(|_| Ok::<usize, Infallible>(0));
        }
        let quoted = Value::from(&*template).to_string();
        let url = format!("http://{template}");
        for options in [with_url(&template), with_url(&url), with_json(&template), with_json(&quoted), with_form(&[&template]), with_multipart(&[&template]), with_header(&template)] {
            if let Ok(Some(templates)) = RequestTemplates::new(&options, &mut Letters) {
                let cells = vec![text(&value); templates.columns.len()];
                let mut row = templates.row(0, Place::Row(0), &cells);
                templates.fill(&mut row, Place::Row(0), &cells);
            }
        }
    }
}
