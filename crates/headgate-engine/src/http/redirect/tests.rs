use proptest::prelude::*;

use super::*;
use crate::http::defaults::Defaults;
use crate::http::request::Preparer;
use crate::http::site::SiteMaker;
use crate::model::row::RowExtra;

const ALL: Redirects = Redirects { max: 10, keep: true, cookies: true };

fn led(row: &Row, method: &str, status: u16, headers: &[(&str, &[u8])]) -> Result<Option<Box<Trail>>, Failure> {
    let headers = headers.iter().copied().collect();
    ALL.follow(row, method, status, &headers, SystemTime::UNIX_EPOCH)
}

fn to(row: &Row, method: &str, status: u16, location: &str) -> Trail {
    *led(row, method, status, &[("Location", location.as_bytes())]).expect("a good redirect").expect("it leads on")
}

fn at(url: &str) -> Row {
    Row::new(0, url)
}

fn along(mut row: Row, trail: Trail) -> Row {
    row.extra.get_or_insert_default().trail = Some(Box::new(trail));
    row
}

#[test]
fn a_location_is_read_as_browsers_do() {
    for (expected, location) in [
        ("http://a.example:81/c", "/c"),
        ("http://a.example:81/d/c", "c"),
        ("http://a.example:81/c", "../c"),
        ("http://a.example:81/d/b?q", "?q"),
        ("http://b.example/", "//b.example"),
        ("https://b.example/x", "HTTPS://B.example:443/x#part"),
        ("http://xn--bcher-kva.example/%C3%BC", "http://bücher.example/ü"),
        ("http://a.example:81/a%20b", "/a b"),
        ("http://a.example:81/c", " \t/c "),
    ] {
        assert_eq!(expected, &*to(&at("http://a.example:81/d/b?c=1#x"), "GET", 302, location).url, "{location}");
    }
    let latin = led(&at("http://a/"), "GET", 302, &[("location", b"/caf\xe9")]).expect("good").expect("it leads on");
    assert_eq!("http://a/caf%E9", &*latin.url);
}

#[test]
fn what_leads_nowhere_is_the_answer() {
    let row = at("http://a/");
    for (status, headers) in [
        (200, &[("location", &b"/x"[..])][..]),
        (304, &[("location", b"/x")]),
        (300, &[("location", b"/x")]),
        (302, &[]),
        (302, &[("location", b" ")]),
    ] {
        assert_eq!(Ok(None), led(&row, "GET", status, headers), "{status}");
    }
    let none = Redirects { max: 0, ..ALL };
    let headers = Headers::from_iter([("location", &b"/x"[..])]);
    assert_eq!(Ok(None), none.follow(&row, "GET", 302, &headers, SystemTime::UNIX_EPOCH));
}

#[test]
fn the_method_and_the_body_go_along_or_not_as_the_status_says() {
    for (expected, status, method) in [
        (Some("GET"), 301, "POST"),
        (Some("GET"), 302, "POST"),
        (None, 301, "PUT"),
        (None, 302, "GET"),
        (Some("GET"), 303, "POST"),
        (Some("GET"), 303, "PUT"),
        (None, 303, "HEAD"),
        (None, 307, "POST"),
        (None, 308, "DELETE"),
    ] {
        assert_eq!(expected, to(&at("http://a/"), method, status, "/x").method.as_deref(), "{status} {method}");
    }
}

#[test]
fn a_location_that_is_none_is_refused_with_its_text() {
    let row = at("http://a/");
    for (expected, location) in [
        ("the redirect leads to a URL that is neither http nor https (`ftp://b/`)", &b"ftp://b/"[..]),
        ("the redirect leads to a URL that is neither http nor https (`javascript:alert(1)`)", b"javascript:alert(1)"),
        ("the redirect leads to a URL that is neither http nor https (`file:///etc/passwd`)", b"file:///etc/passwd"),
        ("the redirect leads to no URL: invalid port number (`http://b:99999/`)", b"http://b:99999/"),
        ("the redirect leads to no URL: empty host (`http://`)", b"http://"),
        ("the redirect leads to a URL that is neither http nor https (`ftp://b/`)", b"ftp://me:secret@b/"),
    ] {
        let failure = led(&row, "GET", 302, &[("location", location)]).expect_err(expected);
        assert_eq!((ErrorKind::Protocol, expected), (failure.kind, &*failure.reason.to_string()));
    }
    let several = led(&row, "GET", 302, &[("location", b"/x"), ("Location", b"/y")]).expect_err("which one?");
    assert_eq!("the redirect leads to several places (`/x` and `/y`)", several.reason.to_string());
    assert!(led(&row, "GET", 302, &[("location", b"/x"), ("Location", b"/x")]).is_ok(), "they say the same");
}

#[test]
fn a_circle_ends() {
    let mut row = at("http://a/1");
    for _ in 0..10 {
        let trail = to(&row, "GET", 302, "/1");
        row = along(row, trail);
    }
    let failure = led(&row, "GET", 302, &[("location", b"/1")]).expect_err("it is the eleventh");
    assert_eq!("too_many_redirects: there were more than 10 redirects (http://a/1)", failure.to_string());
    assert_eq!(Some(OptionName::MaxRedirects), failure.option);
    assert_eq!(10, row.hops().len());
}

#[test]
fn what_is_kept_of_redirects_is_bounded() {
    let long = format!("/{}", "x".repeat(60_000));
    let first = along(at("http://a/1"), to(&at("http://a/1"), "GET", 302, &long));
    let second = along(first.clone(), to(&first, "GET", 302, &long));
    let location = [("location", long.as_bytes())];
    let failure = led(&second, "GET", 302, &location).expect_err("it is too much");
    let expected = "too_many_redirects: there were redirects of more than 131072 bytes together";
    assert_eq!((expected, Some(OptionName::KeepRedirects)), (&*failure.to_string(), failure.option));
    let unkept = Redirects { keep: false, ..ALL };
    let headers = location.into_iter().collect();
    let bare = along(at("http://a/1"), Trail { hops: Vec::new(), ..second.trail().expect("one").clone() });
    assert!(unkept.follow(&bare, "GET", 302, &headers, SystemTime::UNIX_EPOCH).is_ok());
}

#[test]
fn a_user_in_the_url_stays_as_long_as_the_origin_does_and_is_not_shown() {
    let row = at("http://me:secret@a/x");
    assert_eq!("http://me:secret@a/y", &*to(&row, "GET", 302, "/y").url);
    let absolute = to(&row, "GET", 302, "http://a/y");
    assert_eq!("http://me:secret@a/y", &*absolute.url);
    assert_eq!("http://a/y", &*absolute.hops[0].location);
    assert_eq!("http://b/y", &*to(&row, "GET", 302, "http://b/y").url);
}

#[test]
fn cookies_of_one_hop_go_to_the_next_where_that_is_asked_for() {
    let headers: &[(&str, &[u8])] = &[("Location", b"/y"), ("Set-Cookie", b"a=1"), ("set-cookie", b"b=2")];
    let row = along(at("http://a/x"), *led(&at("http://a/x"), "GET", 302, headers).expect("good").expect("on"));
    let mut wire = Vec::new();
    let mut preparer = Preparer::new(Defaults::new(&RequestOptions::default()).expect("good"), SiteMaker::for_tests());
    preparer.write(&row, &mut wire).expect("good");
    assert!(String::from_utf8_lossy(&wire).contains("\r\ncookie: a=1; b=2\r\n"));
}

const SECRETS: [&str; 5] = ["s-authorization", "s-cookie", "s-proxy", "s-key", "s-row"];

/// A row, and a run, with every credential there is.
fn secretive(url: &str) -> (RequestOptions, Row) {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = RequestOptions {
        headers: vec![
            header("Authorization", SECRETS[0]),
            header("Cookie", SECRETS[1]),
            header("cookie", SECRETS[1]),
            header("PROXY-authorization", SECRETS[2]),
            header("X-Api-Key", SECRETS[3]),
            header("X-Plain", "plain"),
        ],
        secret_headers: vec!["x-api-key".into(), "X-Row".into()],
        cookies: true,
        ..RequestOptions::default()
    };
    let own: Vec<(Box<str>, Box<[u8]>)> =
        vec![("x-row".into(), (*b"s-row").into()), ("X-ROW".into(), (*b"s-row").into())];
    (options, Row { extra: Some(Box::new(RowExtra { headers: own, ..RowExtra::default() })), ..at(url) })
}

proptest! {
    #[test]
    fn no_secret_leaves_the_origin_that_it_was_given_for(
        hops in proptest::collection::vec(
            ("(http|https)", "(a|b|sub\\.a)\\.example", "(|:81|:443|:80)", prop_oneof![Just(301_u16), Just(303), Just(307)]),
            1..9,
        ),
        is_post: bool,
    ) {
        let (options, mut row) = secretive("http://a.example/");
        let home = target::parse("http://a.example/").expect("a URL").origin;
        let mut preparer = Preparer::new(Defaults::new(&options).expect("good"), SiteMaker::for_tests());
        let mut has_left = false;
        for (scheme, host, port, status) in hops {
            let method = if is_post { "POST" } else { "GET" };
            let trail = to(&row, method, status, &format!("{scheme}://{host}{port}/"));
            row = along(row, trail);
            has_left |= target::parse(row.target()).expect("a URL").origin != home;
            let mut wire = Vec::new();
            preparer.write(&row, &mut wire).expect("it can be sent");
            let sent = String::from_utf8(wire).expect("ASCII");
            prop_assert!(sent.contains("X-Plain: plain\r\n"));
            for secret in SECRETS {
                prop_assert_eq!(!has_left, sent.contains(secret), "{} in {}", secret, sent);
            }
        }
    }
}
