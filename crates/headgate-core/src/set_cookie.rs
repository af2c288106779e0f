//! Reads the `Set-Cookie` header as browsers do (RFC 6265bis section 5.6), except that a cookie needs a name.
//!
//! Servers write dates in many forms, also when they delete a cookie, so the algorithm of section 5.1.1 finds the parts of a
//! date wherever they are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most bytes of the value of an attribute. A longer one is ignored.
pub(crate) const MAX_ATTRIBUTE_BYTES: usize = 1024;
/// The bytes between the parts of a date.
const DELIMITERS: [std::ops::RangeInclusive<u8>; 5] = [9..=9, 0x20..=0x2f, 0x3b..=0x40, 0x5b..=0x60, 0x7b..=0x7e];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A cookie as a server sets it. The last attribute of a name counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SetCookie<'a> {
    pub name: &'a str,
    pub value: &'a str,
    /// Without a leading dot.
    pub domain: Option<&'a str>,
    pub path: Option<&'a str>,
    pub max_age: Option<MaxAge>,
    pub expires: Option<SystemTime>,
    pub is_secure: bool,
    pub is_http_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxAge {
    Expired,
    Lasts(Duration),
}

impl<'a> SetCookie<'a> {
    /// Parses the value of a header. Returns `None` if it sets no cookie: it has control characters or no name.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.contains(|c: char| c.is_ascii_control() && c != '\t') {
            return None;
        }
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let mut cookie = Self { name: trimmed(name), value: trimmed(value), ..Self::default() };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            cookie.read_attribute(trimmed(name), trimmed(value));
        }
        Some(cookie).filter(|cookie| !cookie.name.is_empty())
    }

    fn read_attribute(&mut self, name: &str, value: &'a str) {
        if value.len() > MAX_ATTRIBUTE_BYTES {
            return;
        }
        match &*name.to_ascii_lowercase() {
            "domain" => self.domain = Some(value.strip_prefix('.').unwrap_or(value)).filter(|value| !value.is_empty()),
            "path" => self.path = Some(value).filter(|value| value.starts_with('/')),
            "max-age" => self.max_age = max_age(value).or(self.max_age),
            "expires" => self.expires = date(value).or(self.expires),
            "secure" => self.is_secure = true,
            "httponly" => self.is_http_only = true,
            _ => {}
        }
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn max_age(value: &str) -> Option<MaxAge> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if digits.len() < value.len() || digits.bytes().all(|byte| byte == b'0') {
        return Some(MaxAge::Expired);
    }
    Some(MaxAge::Lasts(Duration::from_secs(digits.parse().unwrap_or(u64::MAX))))
}

/// Returns a date in any form (section 5.1.1). One before 1970 is the beginning of that year.
fn date(text: &str) -> Option<SystemTime> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.as_bytes().split(|byte| DELIMITERS.iter().any(|range| range.contains(byte))) {
        let number = leading_number(token);
        if time.is_none() && time_of(token).is_some() {
            time = time_of(token);
        } else if day.is_none() && (1..=2).contains(&number.1) {
            day = Some(number.0);
        } else if month.is_none() && month_of(token).is_some() {
            month = month_of(token);
        } else if year.is_none() && (2..=4).contains(&number.1) {
            year = Some(number.0);
        }
    }
    let (time, day, month, year) = (time?, day?, month?, year?);
    let year = match year {
        70..=99 => year + 1900,
        0..=69 => year + 2000,
        _ => year,
    };
    let [hour, minute, second] = time;
    if year < 1601 || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if year < 1970 {
        return Some(UNIX_EPOCH);
    }
    let seconds = 3600 * hour + 60 * minute + second;
    Some(UNIX_EPOCH + Duration::from_secs(86_400 * unix_day(year, month, day) + u64::from(seconds)))
}

/// Returns the days from 1970 to a date. A day after the last one of its month is in the next month.
fn unix_day(year: u32, month: u32, day: u32) -> u64 {
    // In years that begin in March, the leap day is the last one (Hinnant, "chrono-compatible low-level date algorithms",
    // days_from_civil).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    u64::from(365 * year + year / 4 - year / 100 + year / 400 + day_of_year) - 719_468
}

/// Returns the number with which a token begins, and its length; a longer one than that of a year has no length.
fn leading_number(token: &[u8]) -> (u32, usize) {
    let length = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = token.get(..length.min(4)).unwrap_or_default();
    let number = digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    (number, if length > 4 { 0 } else { length })
}

/// Returns the hour, minute and second, if a token is a time.
fn time_of(token: &[u8]) -> Option<[u32; 3]> {
    let mut parts = token.splitn(3, |byte| *byte == b':').map(leading_number);
    let mut next = || parts.next().filter(|(_, length)| (1..=2).contains(length)).map(|(number, _)| number);
    Some([next()?, next()?, next()?])
}

/// Returns the number of a month, from 1.
fn month_of(token: &[u8]) -> Option<u32> {
    let name = token.get(..3)?;
    (1..).zip(MONTHS).find(|(_, month)| month.as_bytes().eq_ignore_ascii_case(name)).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_browsers_do() {
        let named = |name, value| SetCookie { name, value, ..SetCookie::default() };
        for (expected, text) in [
            (Some(named("a", "1")), "a=1"),
            (Some(named("a", "1=2")), "a=1=2;"),
            (Some(named("a", "\"x y\"")), " a\t=  \"x y\" ; Unknown=7; ; ="),
            (Some(named("a", "")), "a="),
            (None, ""),
            (None, "a"),
            (None, "=1"),
            (None, "a=1\0"),
            (Some(SetCookie { is_secure: true, is_http_only: true, ..named("a", "1") }), "a=1; secure=x;HTTPONLY"),
            (Some(SetCookie { domain: Some("b.example"), ..named("a", "1") }), "a=1; Domain=c; domain=.b.example"),
            (Some(SetCookie { path: Some("/b"), ..named("a", "1") }), "a=1; Path=/a; Path=/b"),
            (Some(named("a", "1")), "a=1; Path=/a; Path=b; Domain=c; Domain="),
        ] {
            assert_eq!(expected, SetCookie::parse(text), "{text}");
        }
        let long = format!("a=1; Path=/{}; Path=/b", "x".repeat(MAX_ATTRIBUTE_BYTES));
        assert_eq!(Some("/b"), SetCookie::parse(&long).expect("a cookie").path);
    }

    #[test]
    fn a_max_age_is_a_number_of_seconds() {
        for (expected, value) in [
            (Some(MaxAge::Lasts(Duration::from_secs(60))), "60"),
            (Some(MaxAge::Lasts(Duration::from_secs(u64::MAX))), "99999999999999999999"),
            (Some(MaxAge::Expired), "0"),
            (Some(MaxAge::Expired), "-99999999999999999999"),
            (None, ""),
            (None, "-"),
            (None, "+1"),
            (None, "1.5"),
            (None, "1h"),
        ] {
            assert_eq!(expected, max_age(value), "{value}");
        }
        assert_eq!(Some(MaxAge::Expired), SetCookie::parse("a=1; Max-Age=0; Max-Age=x").expect("a cookie").max_age);
    }

    #[test]
    fn a_date_is_found_in_all_forms_that_servers_write() {
        let seconds = |text| date(text).map(|at| at.duration_since(UNIX_EPOCH).expect("after 1970").as_secs());
        for text in [
            "Wed, 09 Jan 2030 16:27:03 GMT",
            "Wednesday, 09-Jan-30 16:27:03 GMT",
            "Wednesday, 9-Jan-2030 16:27:3 GMT",
            "Wed Jan  9 16:27:03 2030",
            "Wed Jan 09 2030 16:27:03 GMT-0500 (EST)",
            "16:27:03 9 january 2030",
            "2030 9 jan 16:27:03x",
        ] {
            assert_eq!(Some(1_894_206_423), seconds(text), "{text}");
        }
        assert_eq!(Some(951_868_799), seconds("Tue, 29 Feb 2000 23:59:59 GMT"));
        assert_eq!(Some(4_107_542_400), seconds("Mon, 01 Mar 2100 00:00:00 GMT"));
        for text in ["Thu, 01-Jan-1970 00:00:00 UTC", "Thursday, 01-Jan-70 0:0:0", "Mon, 01 Jan 1601 00:00:00 GMT"] {
            assert_eq!(Some(0), seconds(text), "{text}");
        }
        assert_eq!(Some(253_402_300_799), seconds("Fri, 31 Dec 9999 23:59:59 GMT"));
        for text in [
            "",
            "0",
            "session",
            "Wed, 09 Jan 2030",
            "16:27:03 GMT",
            "Wed, 32 Jan 2030 16:27:03 GMT",
            "Wed, 09 Jan 1600 16:27:03 GMT",
            "Wed, 09 Jan 2030 24:00:00 GMT",
            "Wed, 09 Jan 2030 16:60:00 GMT",
            "Wed, 09 Foo 2030 16:27:03 GMT",
            "Wed, 09 Jan 20300 16:27:03 GMT",
            "16:27 9 Jan 2030",
        ] {
            assert_eq!(None, seconds(text), "{text}");
        }
    }
}
