use headgate_core::row::RowExtra;
use proptest::prelude::*;

use super::*;
use crate::defaults::Defaults;
use crate::live_defaults::LiveDefaults;
use crate::request::Preparer;
use crate::site::SiteMaker;

const ALL: Redirects = Redirects {
    policy: RedirectPolicy::Follow,
    max: 10,
    keep: true,
    cookies: true,
    jar: None,
    has_body: false,
    restriction: None,
};

fn follow(
    row: &Row,
    method: &str,
    status: u16,
    headers: &[(&str, &[u8])],
) -> Result<Option<Box<RedirectChain>>, Failure> {
    let headers = headers.iter().copied().collect();
    ALL.of(row, method).follow(row, method, (status, &headers), false, SystemTime::UNIX_EPOCH)
}

fn to(row: &Row, method: &str, status: u16, location: &str) -> RedirectChain {
    *follow(row, method, status, &[("Location", location.as_bytes())])
        .expect("a good redirect")
        .expect("it is followed")
}

fn at(url: &str) -> Row {
    Row::new(0, url)
}

fn with_chain(mut row: Row, chain: RedirectChain) -> Row {
    row.set_chain(Box::new(chain));
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
    let latin =
        follow(&at("http://a/"), "GET", 302, &[("location", b"/caf\xe9")]).expect("good").expect("it is followed");
    assert_eq!("http://a/caf%E9", &*latin.url);
}

#[test]
fn a_response_that_is_no_redirect_is_the_response_of_the_row() {
    let row = at("http://a/");
    for (status, headers) in [
        (200, &[("location", &b"/x"[..])][..]),
        (304, &[("location", b"/x")]),
        (300, &[("location", b"/x")]),
        (302, &[]),
        (302, &[("location", b" ")]),
    ] {
        assert_eq!(Ok(None), follow(&row, "GET", status, headers), "{status}");
    }
    let none = Redirects { policy: RedirectPolicy::None, ..ALL };
    let headers = Headers::from_iter([("location", &b"/x"[..])]);
    assert_eq!(Ok(None), none.follow(&row, "GET", (302, &headers), false, SystemTime::UNIX_EPOCH));
}

#[test]
fn the_status_determines_whether_method_and_body_are_kept() {
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
fn an_invalid_location_is_refused_with_its_text() {
    let row = at("http://a/");
    for (expected, location) in [
        ("the redirect leads to a URL that is neither http nor https (`ftp://b/`)", &b"ftp://b/"[..]),
        ("the redirect leads to a URL that is neither http nor https (`javascript:alert(1)`)", b"javascript:alert(1)"),
        ("the redirect leads to a URL that is neither http nor https (`file:///etc/passwd`)", b"file:///etc/passwd"),
        ("the redirect leads to an invalid URL: invalid port number (`http://b:99999/`)", b"http://b:99999/"),
        ("the redirect leads to an invalid URL: empty host (`http://`)", b"http://"),
        ("the redirect leads to a URL that is neither http nor https (`ftp://b/`)", b"ftp://me:secret@b/"),
    ] {
        let failure = follow(&row, "GET", 302, &[("location", location)]).expect_err(expected);
        assert_eq!((ErrorKind::Protocol, expected), (failure.kind, &*failure.reason.to_string()));
    }
    let several = follow(&row, "GET", 302, &[("location", b"/x"), ("Location", b"/y")]).expect_err("which one?");
    assert_eq!("the redirect has several locations (`/x` and `/y`)", several.reason.to_string());
    assert!(
        follow(&row, "GET", 302, &[("location", b"/x"), ("Location", b"/x")]).is_ok(),
        "both are the same location"
    );
}

#[test]
fn a_loop_ends_at_the_second_visit() {
    let row = at("http://a/1#part");
    let failure = follow(&row, "GET", 302, &[("location", b"/1")]).expect_err("it is the same request");
    assert_eq!(
        "redirect_loop: the redirect leads back to a request that was made before (http://a/1)",
        failure.to_string()
    );
    assert!(failure.is_lasting);
    let second = with_chain(row.clone(), to(&row, "GET", 302, "/2"));
    assert_eq!(ErrorKind::RedirectLoop, follow(&second, "GET", 302, &[("location", b"/1")]).expect_err("back").kind);
    // A different method or cookie makes a different request: login pages rely on that.
    let posted = at("http://a/1");
    assert_eq!(Some("GET"), to(&posted, "POST", 303, "/1").method.as_deref());
    let headers: &[(&str, &[u8])] = &[("Location", b"/1"), ("Set-Cookie", b"seen=1")];
    let with_cookie =
        with_chain(row.clone(), *follow(&row, "GET", 302, headers).expect("good").expect("it is followed"));
    assert_eq!(ErrorKind::RedirectLoop, follow(&with_cookie, "GET", 302, headers).expect_err("the same cookie").kind);
}

#[test]
fn a_long_chain_ends() {
    let mut row = at("http://a/0");
    for step in 1..=10 {
        let chain = to(&row, "GET", 302, &format!("/{step}"));
        row = with_chain(row, chain);
    }
    let failure = follow(&row, "GET", 302, &[("location", b"/11")]).expect_err("it is the eleventh");
    assert_eq!("too_many_redirects: there were more than 10 redirects (http://a/11)", failure.to_string());
    assert_eq!(Some(OptionName::MaxRedirects), failure.option);
    assert_eq!(10, row.hops().len());
}

#[test]
fn the_bytes_of_kept_redirects_are_bounded() {
    let long = format!("/{}", "x".repeat(60_000));
    let first = with_chain(at("http://a/1"), to(&at("http://a/1"), "GET", 302, &long));
    let second = with_chain(first.clone(), to(&first, "GET", 302, &format!("{long}2")));
    let longest = format!("{long}3");
    let location = [("location", longest.as_bytes())];
    let failure = follow(&second, "GET", 302, &location).expect_err("it is too much");
    let expected = "too_many_redirects: there were redirects of more than 131072 bytes together";
    assert_eq!((expected, Some(OptionName::KeepRedirects)), (&*failure.to_string(), failure.option));
    let unkept = Redirects { keep: false, ..ALL };
    let headers = location.into_iter().collect();
    let bare = with_chain(at("http://a/1"), RedirectChain { hops: Vec::new(), ..second.chain().expect("one").clone() });
    assert!(unkept.follow(&bare, "GET", (302, &headers), false, SystemTime::UNIX_EPOCH).is_ok());
}

#[test]
fn credentials_in_the_url_stay_within_their_origin_and_are_not_shown() {
    let row = at("http://me:secret@a/x");
    assert_eq!("http://me:secret@a/y", &*to(&row, "GET", 302, "/y").url);
    let absolute = to(&row, "GET", 302, "http://a/y");
    assert_eq!("http://me:secret@a/y", &*absolute.url);
    assert_eq!("http://a/y", &*absolute.hops[0].location);
    assert_eq!("http://b/y", &*to(&row, "GET", 302, "http://b/y").url);
}

#[test]
fn cookies_of_one_hop_are_sent_to_the_next_if_cookies_are_enabled() {
    let headers: &[(&str, &[u8])] = &[("Location", b"/y"), ("Set-Cookie", b"a=1"), ("set-cookie", b"b=2")];
    let row = with_chain(
        at("http://a/x"),
        *follow(&at("http://a/x"), "GET", 302, headers).expect("good").expect("it is followed"),
    );
    let mut wire = Vec::new();
    let mut preparer = Preparer::new(
        LiveDefaults::new(Defaults::new(&RequestOptions::default()).expect("good")),
        SiteMaker::for_tests(),
    );
    preparer.write(&row, &mut wire).expect("good");
    assert!(String::from_utf8_lossy(&wire).contains("\r\ncookie: a=1; b=2\r\n"));
}

/// All values of the user that no other origin may get: credentials, and unknown headers that may be credentials.
const SECRETS: [&str; 7] = ["s-authorization", "s-cookie", "s-proxy", "s-key", "s-row", "s-plain", "s-unnamed"];
/// The value of a header that belongs to a body.
const OF_BODY: &str = "s-tenant";

/// Returns the options of a run and a row that have all kinds of credentials.
fn secretive(url: &str) -> (RequestOptions, Row) {
    let header = |name: &str, value: &str| (name.to_owned(), value.into());
    let options = RequestOptions {
        headers: vec![
            header("Authorization", SECRETS[0]),
            header("Cookie", SECRETS[1]),
            header("cookie", SECRETS[1]),
            header("PROXY-authorization", SECRETS[2]),
            header("X-Api-Key", SECRETS[3]),
            header("X-Plain", SECRETS[5]),
            header("Content-Tenant", OF_BODY),
            header("Accept-Language", "de"),
            header("If-None-Match", "etag"),
        ],
        secret_headers: vec!["X-Row".into()],
        credentials_for: vec!["http://a.example".into()],
        response: ResponseOptions { redirect_cookies: true, ..ResponseOptions::default() },
        ..RequestOptions::default()
    };
    let own: Vec<(Box<str>, Box<[u8]>)> = vec![
        ("x-row".into(), (*b"s-row").into()),
        ("X-ROW".into(), (*b"s-row").into()),
        ("x-own".into(), (*b"s-unnamed").into()),
    ];
    (options, Row { extra: Some(Box::new(RowExtra { headers: own, ..RowExtra::default() })), ..at(url) })
}

proptest! {
    #[test]
    fn urllib3_cve_2018_20060_no_header_of_the_user_leaves_the_origin_but_harmless_ones(
        hops in proptest::collection::vec(
            ("(http|https)", "(a|b|sub\\.a)\\.example", "(|:81|:443|:80)", prop_oneof![Just(301_u16), Just(303), Just(307)]),
            1..9,
        ),
        is_post: bool,
    ) {
        let (options, mut row) = secretive("http://a.example/");
        let home = target::parse("http://a.example/").expect("a URL").origin;
        let mut preparer = Preparer::new(LiveDefaults::new(Defaults::new(&options).expect("good")), SiteMaker::for_tests());
        let mut has_left = false;
        for (step, (scheme, host, port, status)) in hops.into_iter().enumerate() {
            let method = if is_post { "POST" } else { "GET" };
            let chain = to(&row, method, status, &format!("{scheme}://{host}{port}/{step}"));
            row = with_chain(row, chain);
            has_left |= target::parse(row.target()).expect("a URL").origin != home;
            let mut wire = Vec::new();
            preparer.write(&row, &mut wire).expect("it can be sent");
            let sent = String::from_utf8(wire).expect("ASCII");
            prop_assert!(sent.contains("Accept-Language: de\r\n") && sent.contains("If-None-Match: etag\r\n"));
            for secret in SECRETS {
                prop_assert_eq!(!has_left, sent.contains(secret), "{} in {}", secret, sent);
            }
            prop_assert!(!(has_left && sent.contains(OF_BODY)), "{} in {}", OF_BODY, sent);
        }
    }
}

/// Returns the target of a redirect, or `None` if the redirect itself is the response.
fn followed_to(
    policy: RedirectPolicy,
    from: &str,
    (method, status): (&str, u16),
    body: Option<&str>,
    to: &str,
) -> Option<String> {
    let extra = RowExtra { body: body.map(|body| body.to_owned().into()), ..RowExtra::default() };
    let row = Row { extra: Some(Box::new(extra)), ..at(from) };
    let headers = [("location", to.as_bytes())].into_iter().collect();
    let redirects = Redirects { policy, ..ALL }.of(&row, method);
    let followed =
        redirects.follow(&row, method, (status, &headers), false, SystemTime::UNIX_EPOCH).expect("a good redirect");
    assert_eq!(followed.is_some(), redirects.follows(status, &headers), "both functions agree");
    followed.map(|chain| chain.url.into())
}

#[test]
fn urllib3_cve_2023_45803_a_body_goes_to_the_same_origin_or_from_http_to_https_of_the_host() {
    for (is_followed, from, what, to) in [
        (true, "http://a/", ("POST", 307), "/x"),
        (true, "http://a/", ("POST", 308), "http://a:80/x"),
        (true, "http://a/", ("POST", 307), "https://a/x"),
        (false, "http://a/", ("POST", 307), "https://b/x"),
        (false, "http://a/", ("POST", 307), "//b/x"),
        (false, "http://a/", ("POST", 308), "http://a:81/x"),
        (false, "https://a/", ("POST", 307), "http://a/x"),
        (false, "http://a/", ("PUT", 301), "http://b/x"),
        // These methods are redirected without the body.
        (true, "http://a/", ("POST", 301), "http://b/x"),
        (true, "http://a/", ("PUT", 303), "http://b/x"),
    ] {
        let url = followed_to(RedirectPolicy::Follow, from, what, Some("body"), to);
        assert_eq!(is_followed, url.is_some(), "{from} {what:?} {to}");
        assert!(followed_to(RedirectPolicy::Follow, from, what, None, to).is_some(), "there is no body");
    }
}

#[test]
fn with_same_origin_a_redirect_to_another_origin_is_the_response() {
    for (is_followed, to) in [
        (true, "/x"),
        (true, "http://a:80/x"),
        (false, "https://a/x"),
        (false, "http://b/x"),
        (false, "//b/x"),
        (false, r"http:\\b\x"),
    ] {
        assert_eq!(
            is_followed,
            followed_to(RedirectPolicy::SameOrigin, "http://a/", ("GET", 302), None, to).is_some(),
            "{to}"
        );
        assert_eq!(None, followed_to(RedirectPolicy::None, "http://a/", ("GET", 302), None, to), "{to}");
    }
}

#[test]
fn a_redirected_body_keeps_its_content_headers() {
    let (mut options, row) = secretive("http://a.example/");
    options.headers.push(("Content-Type".into(), "text/x".into()));
    options.headers.push(("Content-Digest".into(), "sha-256=:x:".into()));
    options.body = Some(b"body".to_vec());
    let mut preparer = Preparer::new(LiveDefaults::new(Defaults::new(&options).expect("good")), SiteMaker::for_tests());
    for (has_body, status) in [(true, 307), (false, 303)] {
        let row = with_chain(row.clone(), to(&row, "POST", status, "https://a.example/"));
        let mut wire = Vec::new();
        preparer.write(&row, &mut wire).expect("it can be sent");
        let sent = String::from_utf8(wire).expect("ASCII");
        assert_eq!(has_body, sent.contains("Content-Type: text/x\r\n") && sent.ends_with("body"), "{sent}");
        assert_eq!(has_body, sent.contains("Content-Digest: "), "{sent}");
        assert!(!SECRETS.iter().any(|secret| sent.contains(secret)), "{sent}");
    }
}
