use std::sync::LazyLock;
use std::thread;

use super::*;
use crate::target;

static NOW: LazyLock<SystemTime> = LazyLock::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000));

/// Stores a cookie that a response from this URL sets.
fn set_at(jar: &mut CookieJar, url: &str, set_cookie: &str, now: SystemTime) {
    let from = target::parse(url).expect("a URL");
    jar.store(set_cookie.as_bytes(), &CookieUrl::new(&from.origin, from.path.path()), now);
}

fn set(jar: &mut CookieJar, url: &str, set_cookie: &str) {
    set_at(jar, url, set_cookie, *NOW);
}

/// Returns the `cookie` header of a request to this URL.
fn sent_at(jar: &CookieJar, url: &str, now: SystemTime) -> Option<String> {
    let to = target::parse(url).expect("a URL");
    let value = jar.header(&CookieUrl::new(&to.origin, to.path.path()), now);
    value.map(|value| value.to_str().expect("text").to_owned())
}

/// Returns the cookies that are sent to `to` after `from` has set those of `cookies`.
fn sent(from: &str, cookies: &[&str], to: &str) -> Option<String> {
    let mut jar = CookieJar::default();
    for cookie in cookies {
        set(&mut jar, from, cookie);
    }
    sent_at(&jar, to, *NOW)
}

#[test]
fn a_cookie_is_sent_to_the_hosts_and_paths_that_it_was_set_for() {
    for (expected, from, set, to) in [
        (Some("a=1"), "http://h.example/x", &["a=1"][..], "http://h.example/y"),
        (None, "http://h.example/x", &["a=1"], "http://other.example/y"),
        (None, "http://h.example/x", &["a=1"], "http://sub.h.example/"),
        (Some("a=1"), "http://h.example/", &["a=1; Domain=h.example"], "http://sub.h.example/"),
        (Some("a=1"), "http://w.h.example/", &["a=1; Domain=.H.example"], "http://h.example/"),
        (None, "http://h.example/", &["a=1; Domain=other.example"], "http://other.example/"),
        (None, "http://sub.h.example/", &["a=1; Domain=b.h.example"], "http://b.h.example/"),
        (None, "http://nothample.example/", &["a=1; Domain=ample.example"], "http://ample.example/"),
        (Some("a=1"), "http://h.example/d/x", &["a=1"], "http://h.example/d/e"),
        (None, "http://h.example/d/x", &["a=1"], "http://h.example/"),
        (None, "http://h.example/d/x", &["a=1"], "http://h.example/dd"),
        (Some("b=2; a=1"), "http://h.example/", &["a=1; Path=/", "b=2; Path=/d"], "http://h.example/d/e"),
        (None, "http://h.example/", &["a=1; Secure"], "https://h.example/"),
        (Some("a=1"), "https://h.example/", &["a=1; Secure"], "https://h.example/"),
        (None, "https://h.example/", &["a=1; Secure"], "http://h.example/"),
        (Some("a=2"), "http://h.example/", &["a=1", "a=2"], "http://h.example/"),
        // A cookie that is replaced keeps its place (section 5.7 step 23).
        (Some("a=3; b=2"), "http://h.example/", &["a=1", "b=2", "a=3"], "http://h.example/"),
        (None, "http://h.example/", &["a=1", "a=; Max-Age=0"], "http://h.example/"),
        (None, "http://h.example/", &["a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "http://h.example/"),
        (Some("a=1"), "http://127.0.0.1/", &["a=1; Domain=127.0.0.1"], "http://127.0.0.1:81/"),
        (None, "http://127.0.0.1/", &["a=1; Domain=0.0.1"], "http://127.0.0.1/"),
        (None, "http://127.0.0.1/", &["a=1"], "http://127.0.0.2/"),
        (Some("a=1"), "http://[::1]/", &["a=1"], "http://[::1]:81/"),
        (Some("a=1"), "http://h.example./", &["a=1"], "http://h.example/"),
        // The last attribute of a name counts, and an empty domain is none (section 5.6).
        (Some("a=1"), "http://h.example/", &["a=1; Path=/x; Path=/"], "http://h.example/"),
        (Some("a=1"), "http://h.example/", &["a=1; Domain="], "http://h.example/"),
        (Some("a=1"), "http://h.example/x/y", &["a=1; Path=relative"], "http://h.example/x/z"),
        (Some("a=\"1 2\"=3"), "http://h.example/", &["a = \"1 2\"=3 ;Path=/"], "http://h.example/"),
    ] {
        assert_eq!(expected, sent(from, set, to).as_deref(), "{from} {set:?} {to}");
    }
}

#[test]
fn a_cookie_ends_when_it_expires_and_after_400_days_at_the_latest() {
    let day = Duration::from_hours(24);
    for (last, set_cookie) in [
        (day, "a=1; Max-Age=86400"),
        // Max-Age precedes Expires (section 5.7 step 3).
        (day, "a=1; Max-Age=86400; Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
        (Duration::from_secs(1_790_000_000 - 1_780_000_000), "a=1; Expires=Mon, 21 Sep 2026 14:13:20 GMT"),
        (400 * day, "a=1; Max-Age=99999999999999999999"),
        (400 * day, "a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"),
    ] {
        let mut jar = CookieJar::default();
        set(&mut jar, "http://h.example/", set_cookie);
        assert!(sent_at(&jar, "http://h.example/", *NOW + last - Duration::from_secs(1)).is_some(), "{set_cookie}");
        assert_eq!(None, sent_at(&jar, "http://h.example/", *NOW + last), "{set_cookie}");
        assert!(jar.all(*NOW + last).is_empty());
    }
    let mut jar = CookieJar::default();
    set(&mut jar, "http://h.example/", "a=1");
    assert!(sent_at(&jar, "http://h.example/", *NOW + 10_000 * day).is_some(), "without either, it is kept");
}

#[test]
fn rfc6265bis_plain_http_does_not_replace_secure_cookies() {
    let then = |secure: &str, at: &str, plain: &str| {
        let mut jar = CookieJar::default();
        set(&mut jar, "https://h.example/", secure);
        set(&mut jar, at, plain);
        sent_at(&jar, "https://h.example/login/en", *NOW)
    };
    let secure = "a=secure; Secure; Path=/login; Domain=h.example";
    for (expected, at, plain) in [
        ("a=secure", "http://h.example/", "a=plain; Path=/login; Domain=h.example"),
        ("a=secure", "http://h.example/", "a=plain; Path=/login/en"),
        ("a=secure", "http://w.h.example/", "a=plain; Path=/login; Domain=h.example"),
        ("a=secure", "http://h.example/", "a=; Path=/login; Max-Age=0; Domain=h.example"),
        // A different path or name makes a different cookie.
        ("a=secure; a=plain", "http://h.example/", "a=plain; Path=/"),
        ("a=secure; b=plain", "http://h.example/", "b=plain; Path=/login"),
        ("a=plain", "https://h.example/", "a=plain; Path=/login; Domain=h.example"),
    ] {
        assert_eq!(Some(expected), then(secure, at, plain).as_deref(), "{at} {plain}");
    }
}

#[test]
fn a_cookie_for_a_public_suffix_is_refused() {
    assert_eq!(None, sent("http://a.co.uk/", &["a=1; Domain=co.uk"], "http://b.co.uk/"));
    assert_eq!(None, sent("http://me.github.io/", &["a=1; Domain=github.io"], "http://you.github.io/"));
    // A host that is a public suffix can set a cookie only for itself.
    assert_eq!(Some("a=1"), sent("http://github.io/", &["a=1; Domain=github.io"], "http://github.io/").as_deref());
    assert_eq!(None, sent("http://github.io/", &["a=1; Domain=github.io"], "http://you.github.io/"));
}

#[test]
fn a_cookie_with_a_prefix_must_have_the_attributes_of_the_prefix() {
    let at = "https://h.example/";
    for (expected, set) in [
        (false, "__Host-a=1; Path=/"),
        (false, "__Host-a=1; Secure"),
        (false, "__Host-a=1; Secure; Path=/; Domain=h.example"),
        (true, "__Host-a=1; Secure; Path=/"),
        (false, "__Secure-a=1"),
        (true, "__Secure-a=1; Secure"),
        // Servers compare names without regard to case (RFC 6265bis section 4.1.3).
        (false, "__hOST-a=1; Path=/"),
        (false, "__SECURE-a=1"),
    ] {
        assert_eq!(expected, sent(at, &[set], at).is_some(), "{set}");
    }
}

#[test]
fn a_cookie_that_is_too_long_or_cannot_be_sent_is_refused() {
    let long = |bytes: usize| "x".repeat(bytes);
    for (expected, set) in [
        (true, format!("a={}", long(MAX_PAIR_BYTES - 1))),
        (false, format!("a={}", long(MAX_PAIR_BYTES))),
        (false, format!("a=1; Path=/; Comment={}", long(MAX_SET_COOKIE_BYTES))),
        // A path that is too long is none.
        (true, format!("a=1; Path=/{}", long(MAX_PATH_BYTES))),
        (false, "a=\x01".to_owned()),
        (false, "a=1; Path=/\x7f".to_owned()),
        (false, "=1".to_owned()),
        (false, String::new()),
    ] {
        assert_eq!(expected, sent("http://h.example/", &[&set], "http://h.example/").is_some(), "{}", set.len());
    }
    let deep = format!("http://h.example/{}/x", long(MAX_PATH_BYTES));
    assert_eq!(None, sent(&deep, &["a=1"], &deep), "its path would be that of the URL");
}

#[test]
fn the_cookies_of_a_row_are_bounded() {
    let many: Vec<String> = (0..100).map(|number| format!("c{number}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let kept = sent("http://h.example/", &many, "http://h.example/").expect("some");
    assert_eq!(50, kept.split("; ").count());
    assert!(kept.ends_with("c99=1"), "{kept}");
}

#[test]
fn the_cookies_of_one_request_are_bounded() {
    let value = "x".repeat(3000);
    let many: Vec<String> = (0..20).map(|number| format!("c{number}={value}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let header = sent("http://h.example/", &many, "http://h.example/").expect("some");
    assert_eq!(10, header.split("; ").count());
    assert!(header.starts_with("c0=") && header.len() <= MAX_HEADER_BYTES);
}

#[test]
fn a_domain_with_too_many_cookies_loses_expired_ones_then_insecure_ones_and_then_the_least_recently_used() {
    let mut jar = CookieJar::new(JarBounds { per_domain: 4, total: 100 });
    let at = "https://h.example/";
    set(&mut jar, at, "expiring=1; Max-Age=1; Secure");
    set(&mut jar, at, "old=1; Secure");
    set(&mut jar, at, "plain=1");
    set(&mut jar, at, "used=1; Secure; Path=/used");
    set(&mut jar, "https://other.example/", "other=1");
    let later = *NOW + Duration::from_secs(2);
    let sent = |jar: &CookieJar| sent_at(jar, "https://h.example/used", later).unwrap_or_default();
    set_at(&mut jar, at, "new=1; Secure", later);
    assert_eq!("used=1; old=1; plain=1; new=1", sent(&jar));
    set_at(&mut jar, at, "newer=1; Secure", later);
    assert_eq!("used=1; old=1; new=1; newer=1", sent(&jar));
    let shared = SharedCookieJar::new(jar);
    let to = target::parse("https://h.example/").expect("a URL");
    assert!(shared.header(&CookieUrl::new(&to.origin, "/")).is_some());
    shared.change(|jar| {
        set_at(jar, at, "newest=1; Secure", later);
        assert_eq!("old=1; new=1; newer=1; newest=1", sent(jar), "the one for /used was not used");
        assert_eq!(5, jar.len(), "other domains lose nothing");
    });
}

#[test]
fn a_jar_with_too_many_cookies_evicts_from_domains_with_many_before_it_evicts_from_others() {
    let mut jar = CookieJar::new(JarBounds { per_domain: 180, total: 100 });
    set(&mut jar, "http://first.example/", "first=1");
    for number in 0..300 {
        set(&mut jar, &format!("http://{number}.hostile.example/"), &format!("c{number}=1; Domain=hostile.example"));
    }
    assert_eq!(100, jar.len());
    assert_eq!(Some("first=1"), sent_at(&jar, "http://first.example/", *NOW).as_deref());
    for number in 0..300 {
        set(&mut jar, &format!("http://h{number}.example/"), "a=1");
    }
    assert_eq!(100, jar.len());
    assert_eq!(None, sent_at(&jar, "http://first.example/", *NOW), "it was not used for the longest time");
    assert!(sent_at(&jar, "http://h299.example/", *NOW).is_some());
}

#[test]
fn hostile_servers_fill_a_jar_up_to_its_bounds() {
    let mut jar = CookieJar::new(JarBounds::OF_CLIENT);
    let value = "x".repeat(4000);
    for number in 0..6000 {
        let url = format!("http://h{}.example/{}/", number / 50, "p".repeat(900));
        set(&mut jar, &url, &format!("c{number}={value}"));
    }
    assert_eq!(3000, jar.len());
    assert!(jar.bytes() < 16_000_000, "{}", jar.bytes());
}

#[test]
fn a_cookie_of_a_user_is_for_a_domain_or_for_a_host_that_has_no_names_below() {
    for (expected, domain, is_host_only) in [
        ("h.example", "h.example", false),
        ("h.example", ".H.example", false),
        ("xn--bcher-kva.example", "bücher.example", false),
        ("co.uk", "co.uk", true),
        ("localhost", "localhost", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("::1", "[::1]", true),
    ] {
        let cookie = Cookie::new("a", "1", domain, "/").expect("valid");
        assert_eq!((expected, is_host_only), (&*cookie.domain, cookie.is_host_only), "{domain}");
    }
    for (expected, [name, value, domain, path]) in [
        (InvalidCookie::Name, ["", "1", "h.example", "/"]),
        (InvalidCookie::Name, ["a=", "1", "h.example", "/"]),
        (InvalidCookie::Name, ["a b", "1", "h.example", "/"]),
        (InvalidCookie::Value, ["a", "1; b=2", "h.example", "/"]),
        (InvalidCookie::Value, ["a", "1\r\nX: 2", "h.example", "/"]),
        (InvalidCookie::Value, ["a", &"x".repeat(MAX_PAIR_BYTES), "h.example", "/"]),
        (InvalidCookie::Domain, ["a", "1", "", "/"]),
        (InvalidCookie::Domain, ["a", "1", "h.example:80", "/"]),
        (InvalidCookie::Domain, ["a", "1", "http://h.example", "/"]),
        (InvalidCookie::Domain, ["a", "1", "h.example/x", "/"]),
        (InvalidCookie::Path, ["a", "1", "h.example", ""]),
        (InvalidCookie::Path, ["a", "1", "h.example", "x"]),
    ] {
        assert_eq!(Err(expected), Cookie::new(name, value, domain, path), "{name} {domain} {path}");
    }
}

#[test]
fn threads_share_a_jar() {
    let jar = SharedCookieJar::new(CookieJar::new(JarBounds::OF_CLIENT));
    let at = target::parse("http://h.example/").expect("a URL");
    thread::scope(|scope| {
        for thread in 0..4 {
            let (jar, at) = (&jar, &at);
            scope.spawn(move || {
                for number in 0..25 {
                    let set = format!("c{thread}-{number}=1");
                    jar.store([set.as_bytes()].into_iter(), &CookieUrl::new(&at.origin, "/"));
                    assert!(jar.header(&CookieUrl::new(&at.origin, "/")).is_some());
                }
            });
        }
    });
    assert_eq!(100, jar.change(|jar| jar.len()));
    jar.change(|jar| jar.remove(|_| true));
    assert!(jar.is_empty());
}
