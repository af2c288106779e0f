use super::*;

#[test]
fn the_user_in_the_url_of_an_older_job_is_treated_as_a_credential() {
    let options = JobOptions {
        source: SourceOptions { input: "http://me:secret@host/[1-3]".into(), ..SourceOptions::default() },
        ..JobOptions::default()
    };
    let fingerprint = headgate_table::source::open::fingerprint(&options.source).expect("a URL");
    let salt = KeySalt::of_text("salt");
    let manifest =
        Manifest::new(&options, fingerprint, None, &Schema::empty(), "now".into(), salt, salt).without_user();

    assert!(!format!("{manifest:?}").contains(":secret"), "{manifest:?}");
    let source = SourceOptions { input: "http://host/[1-3]".into(), ..SourceOptions::default() };
    let now = JobOptions { source, ..JobOptions::default() };
    let fingerprint = headgate_table::source::open::fingerprint(&now.source).expect("a URL");
    let refusal = |user: Option<&str>| {
        let request = RequestOptions { user: user.map(Into::into), ..RequestOptions::default() };
        let now = JobOptions { request, ..now.clone() };
        let input = InputNow { fingerprint: fingerprint.as_ref(), is_compared_later: false };
        manifest.check(&now, &input, Path::new("out")).map_err(|error| error.to_string())
    };
    assert!(refusal(None).expect_err("the user is missing").contains("the header authorization is missing"));
    assert_eq!(Ok(()), refusal(Some("me:secret")));
}

#[test]
fn a_method_that_followed_from_nothing_else_is_the_same_for_older_jobs() {
    let spec = |method: Option<&str>, body: Option<&str>| {
        let request =
            RequestOptions { method: method.map(Into::into), body: body.map(Into::into), ..RequestOptions::default() };
        JobSpec::new(&JobOptions { request, ..JobOptions::default() }, &ValueHasher::older(""))
    };
    for (is_same, then, now) in [
        (true, spec(Some("GET"), None), spec(None, None)),
        (true, spec(Some("POST"), Some("")), spec(None, Some(""))),
        (false, spec(Some("POST"), None), spec(None, None)),
        (false, spec(None, None), spec(Some("GET"), None)),
        (true, spec(Some("PUT"), None), spec(Some("PUT"), None)),
    ] {
        assert_eq!(is_same, then.method_difference(&now).is_none(), "{then:?} {now:?}");
    }
}

#[test]
fn options_are_stored_under_the_names_that_older_jobs_have() {
    let stored = concat!(
        r#"{"format":"ndjson","url_column":"link","method_column":"method","headers_column":"headers","#,
        r#""body_column":"body","keep":["id"],"head":3,"method":"GET","fail_on":"408,425,429,5xx","#,
        r#""user_agent":null,"headers":["x-token"],"headers_hash":"abc","data_hash":null}"#,
    );
    let spec: JobSpec = serde_json::from_str(stored).expect("the record of an older job");
    assert_eq!(("link", Some(3)), (&*spec.source.url_column, spec.source.head));
    let then: Map<String, Value> = serde_json::from_str(stored).expect("an object");
    let stored_again = spec.by_name();
    for (name, value) in then {
        assert_eq!(Some(&value), stored_again.get(&name), "{name}");
    }
}
