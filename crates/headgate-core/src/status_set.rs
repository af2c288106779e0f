//! A set of HTTP statuses, as `fail_on` names them: codes and whole classes.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Three digits, the first of which is the class (RFC 9110 section 15). Codes beyond 599 are not standard, but are sent.
const CODES: RangeInclusive<u16> = 100..=999;
const CODES_OF_A_CLASS: u16 = 100;
/// The text of the empty set.
const NONE: &str = "none";

/// A set of statuses. Two texts of the same set are equal once parsed, and are written alike.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct StatusSet {
    /// A bit for each code, the lowest first.
    bits: [u64; 16],
}

impl StatusSet {
    pub fn contains(&self, status: u16) -> bool {
        let word = self.bits.get(usize::from(status / 64)).copied().unwrap_or_default();
        word >> (status % 64) & 1 == 1
    }

    pub fn is_empty(&self) -> bool {
        self.bits == [0; 16]
    }

    /// Adds the codes of a code or class, `503` or `5xx`, or removes them. Returns `None` if the text is neither.
    pub fn set(&mut self, text: &str, is_included: bool) -> Option<()> {
        for code in codes(text)? {
            let (word, bit) = (&mut self.bits[usize::from(code / 64)], 1 << (code % 64));
            *word = if is_included { *word | bit } else { *word & !bit };
        }
        Some(())
    }

    /// Returns whether the set has a code that the other set lacks.
    pub fn exceeds(&self, other: &Self) -> bool {
        self.bits.iter().zip(other.bits).any(|(ours, others)| ours & !others != 0)
    }

    fn contains_all(&self, mut codes: RangeInclusive<u16>) -> bool {
        codes.all(|code| self.contains(code))
    }
}

fn class_of(code: u16) -> RangeInclusive<u16> {
    let first = code - code % CODES_OF_A_CLASS;
    first..=first + CODES_OF_A_CLASS - 1
}

/// Returns the codes of one part of the text: `503`, `5xx`.
fn codes(part: &str) -> Option<RangeInclusive<u16>> {
    let (digits, is_class) = match part.strip_suffix("xx").or_else(|| part.strip_suffix("XX")) {
        Some(digit) => (digit, true),
        None => (part, false),
    };
    if digits.len() != if is_class { 1 } else { 3 } || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u16 = digits.parse().ok()?;
    let named = if is_class { class_of(number * CODES_OF_A_CLASS) } else { number..=number };
    CODES.contains(named.start()).then_some(named)
}

impl FromStr for StatusSet {
    type Err = String;

    /// Parses codes and classes between commas, `408,5xx`; `none` or an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        if matches!(text.trim(), "" | NONE) {
            return Ok(set);
        }
        for part in text.split(',').map(str::trim) {
            set.set(part, true).ok_or_else(|| {
                format!("'{part}' is not a status: write codes and classes, such as 429,5xx, or none")
            })?;
        }
        Ok(set)
    }
}

/// Writes codes in ascending order, and classes if all of their codes are in the set.
impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(NONE);
        }
        let mut comma = "";
        let mut code = *CODES.start();
        while CODES.contains(&code) {
            let class = class_of(code);
            if code == *class.start() && self.contains_all(class) {
                write!(f, "{comma}{}xx", code / CODES_OF_A_CLASS)?;
                comma = ",";
                code += CODES_OF_A_CLASS;
                continue;
            }
            if self.contains(code) {
                write!(f, "{comma}{code}")?;
                comma = ",";
            }
            code += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(text: &str) -> StatusSet {
        text.parse().expect("a set of statuses")
    }

    #[test]
    fn every_spelling_of_a_set_is_written_alike() {
        for (canonical, text) in [
            ("408,425,429,5xx", " 5XX, 429,408 ,425,503"),
            ("none", ""),
            ("none", " none "),
            ("404", "404,404"),
            ("100,999", "999,100"),
            ("1xx,200,9xx", "9xx,1xx,200"),
        ] {
            assert_eq!(canonical, set(text).to_string(), "{text}");
            assert_eq!(set(canonical), set(text), "{text}");
        }
        let each: Vec<String> = (500..600).map(|code| code.to_string()).collect();
        assert_eq!(set("5xx"), set(&each.join(",")));
    }

    #[test]
    fn a_class_has_its_hundred_codes_and_no_more() {
        let set = set("408,5xx");
        let contained: Vec<u16> = (0..=u16::MAX).filter(|status| set.contains(*status)).collect();
        assert_eq!(std::iter::once(408).chain(500..600).collect::<Vec<u16>>(), contained);
    }

    #[test]
    fn an_invalid_status_is_reported_with_the_flag() {
        for part in ["50", "5x", "xx", "0xx", "099", "1000", "-50", "+50", "five", "5xxx", "none", "4 8", "²xx"] {
            let error = format!("408,{part}").parse::<StatusSet>().expect_err(part);
            let message = "is not a status: write codes and classes, such as 429,5xx, or none";
            assert_eq!(format!("'{part}' {message}"), error);
        }
        assert!("408,,429".parse::<StatusSet>().is_err());
    }

    proptest! {
        #[test]
        fn a_set_has_the_named_statuses_and_survives_a_round_trip(
            codes in proptest::collection::btree_set(CODES, 0..20),
            classes in proptest::collection::btree_set(1_u16..=9, 0..4),
        ) {
            let parts = codes.iter().map(ToString::to_string).chain(classes.iter().map(|class| format!("{class}xx")));
            let set = set(&parts.collect::<Vec<_>>().join(","));
            let contained: BTreeSet<u16> = (0..=u16::MAX).filter(|status| set.contains(*status)).collect();
            let expected: BTreeSet<u16> =
                CODES.filter(|code| codes.contains(code) || classes.contains(&(code / 100))).collect();
            prop_assert_eq!(expected, contained);
            prop_assert_eq!(set.clone(), set.to_string().parse().expect("what was written"));
        }
    }
}
