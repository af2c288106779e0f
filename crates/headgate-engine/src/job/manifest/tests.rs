use super::*;

#[test]
fn options_are_stored_under_these_names() {
    let stored = concat!(
        r#"{"format":"ndjson","url_column":"link","method_column":"method","headers_column":"headers","#,
        r#""body_column":"body","keep":["id"],"method":"GET","fail_on":"408,425,429,5xx","#,
        r#""user_agent":null,"headers":["x-token"],"headers_hash":["abc"],"data_hash":null}"#,
    );
    let spec: JobSpec = serde_json::from_str(stored).expect("a record");
    assert_eq!("link", spec.source.url_column);
    let then: Map<String, Value> = serde_json::from_str(stored).expect("an object");
    let stored_again = spec.by_name();
    for (name, value) in then {
        assert_eq!(Some(&value), stored_again.get(&name), "{name}");
    }
}
