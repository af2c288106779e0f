//! Servers decode the values of the cells, whatever they are.

use std::convert::Infallible;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::source::template::laws;
use crate::source::template::parse::Template;

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
    fn a_server_decodes_a_cell_from_a_url(value in nasty()) {
        laws::url::a_server_decodes_what_the_cell_holds(&value);
    }

    #[test]
    fn a_path_never_changes_its_shape(a in nasty(), b in nasty(), c in nasty()) {
        laws::url::a_path_keeps_its_shape(&[&a, &b, &c]);
    }

    #[test]
    fn the_host_is_that_of_the_template_whatever_the_values_are(value in nasty(), base in "[a-z./:@\\\\?#]*") {
        laws::url::a_host_is_that_of_the_template(&value);
        laws::url::a_base_keeps_its_host(&base, &value);
    }

    #[test]
    fn a_server_decodes_cells_from_a_form(a in nasty(), b in nasty()) {
        laws::form::a_server_decodes_what_the_cells_hold(&a, &b);
    }

    #[test]
    fn a_server_decodes_cells_from_json(value in nasty(), any in any_json()) {
        let written = any.to_string();
        let (cell, string) = match &any {
            Value::Null => (Cell::Null, ""),
            Value::String(string) => (text(string), &**string),
            _ => (json(&written), ""),
        };
        laws::json::a_server_decodes_what_the_cells_hold(&value, cell, string);
    }

    #[test]
    fn a_server_decodes_cells_from_a_multipart_form(a in prop::collection::vec(any::<u8>(), 0..200), b in nasty()) {
        laws::multipart::a_server_decodes_what_the_cells_hold(&a, &b);
    }

    #[test]
    fn a_header_arrives_unchanged_or_the_row_is_refused(value in nasty()) {
        laws::header::hold(&[b"{a|}\0t", value.as_bytes()].concat());
    }

    #[test]
    fn a_template_renders_or_is_refused_and_never_panics(template in "[abc{}|:/@=.;<>?#\\[\\]\" ]*", value in nasty()) {
        let mut parsed = Template::parse(&template);
        if let Ok(template) = &mut parsed {
            let Ok(()) = template.bind(|_| Ok::<usize, Infallible>(0));
        }
        let quoted = Value::from(&*template).to_string();
        let url = format!("http://{template}");
        for options in [with_url(&template), with_url(&url), with_json(&template), with_json(&quoted), with_form(&[&template]), with_multipart(&[&template]), with_header(&template)] {
            if let Ok(Some(templates)) = RequestTemplates::new(&options, &mut Letters) {
                let cells = vec![text(&value); templates.columns.len()];
                let mut row = templates.row(0, RowPosition::Row(0), &cells);
                templates.fill(&mut row, RowPosition::Row(0), &cells);
            }
        }
    }
}
