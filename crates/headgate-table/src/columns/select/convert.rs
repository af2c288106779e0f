//! Converts a value to the type of its column: a value that does not fit exactly is absent.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use headgate_core::reason::shown;
use headgate_core::selected::SelectedValue;
use memchr::memchr;
use serde_json::value::RawValue;

use super::absent::Absent;
use crate::columns::schema::utc;

/// The types of selected columns, as messages list them.
const TYPES: &str = "string, int64, float64, bool, decimal(PRECISION,SCALE), timestamp, json";
const UTC_OFFSET: &str = "+00:00";
/// Microseconds from the beginning of the year 1 to the end of 9999.
const YEARS: Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// The type of a selected column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectedType {
    String,
    Int64,
    Float64,
    Bool,
    /// A number with `precision` digits, of which `scale` are after the point.
    Decimal {
        precision: u8,
        scale: i8,
    },
    Timestamp,
    Json,
}

impl SelectedType {
    /// Parses the name of a type.
    ///
    /// # Errors
    /// The mistake, for the user.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "string" => Self::String,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "bool" => Self::Bool,
            "timestamp" => Self::Timestamp,
            "json" => Self::Json,
            other if other.starts_with("decimal") => decimal_type(other).ok_or_else(|| {
                format!("{other:?} is not a type: write decimal(PRECISION,SCALE), as in decimal(20,2): 1 to {DECIMAL128_MAX_PRECISION} digits, SCALE of them after the point")
            })?,
            other => return Err(format!("there is no type {other:?}; the types are {TYPES}")),
        })
    }

    pub(super) const fn is_number(self) -> bool {
        matches!(self, Self::Int64 | Self::Float64 | Self::Decimal { .. })
    }

    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::String | Self::Json => DataType::Utf8,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Timestamp => utc(),
        }
    }

    /// Converts a JSON value, as it was written.
    pub(super) fn of_json(self, raw: &str) -> Result<SelectedValue, Absent> {
        match (self, raw.as_bytes().first()) {
            (Self::Json, _) => Ok(SelectedValue::Text(raw.into())),
            (_, Some(b'n')) => Err(Absent::Null),
            (_, Some(b'"')) => {
                let text = unquoted(raw).ok_or_else(|| self.unfit(raw))?;
                if self == Self::String { Ok(SelectedValue::Text(text.into())) } else { self.of_text(&text) }
            }
            (Self::String, _) => Ok(SelectedValue::Text(raw.into())),
            (_, Some(b'{' | b'[')) => Err(self.unfit(raw)),
            _ => self.of_text(raw),
        }
    }

    /// Converts a text: a header's, a JSON string's, or a JSON value that is written like text.
    pub(super) fn of_text(self, text: &str) -> Result<SelectedValue, Absent> {
        let value = match self {
            Self::String => Some(SelectedValue::Text(text.into())),
            Self::Int64 => integer(text).map(SelectedValue::Int64),
            Self::Float64 => number(text).map(SelectedValue::Float64),
            Self::Bool => text.parse().ok().map(SelectedValue::Bool),
            Self::Decimal { precision, scale } => decimal(text, precision, scale).map(SelectedValue::Decimal),
            Self::Timestamp => time(text).map(SelectedValue::Timestamp),
            Self::Json => serde_json::from_str::<&RawValue>(text).ok().map(|raw| SelectedValue::Text(raw.get().into())),
        };
        value.ok_or_else(|| self.unfit(text))
    }

    fn unfit(self, value: &str) -> Absent {
        Absent::Unfit(format!("not {self}: {}", shown(value.as_bytes())).into())
    }
}

impl fmt::Display for SelectedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::String => "string",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Self::Timestamp => "timestamp",
            Self::Json => "json",
        })
    }
}

/// Parses a type such as `decimal(20,2)`.
fn decimal_type(name: &str) -> Option<SelectedType> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse::<u8>().ok()?);
    let is_good = (1..=DECIMAL128_MAX_PRECISION).contains(&precision) && scale <= precision;
    is_good.then_some(SelectedType::Decimal { precision, scale: scale as i8 })
}

/// Returns the text of a string that is valid but for its escapes, such as half of a surrogate pair.
fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) if memchr(b'\\', text.as_bytes()).is_none() => Some(Cow::Borrowed(text)),
        _ => serde_json::from_str(raw).ok().map(Cow::Owned),
    }
}

/// The parts of a JSON number: sign, digits before and after the point, exponent.
struct Decimal<'a> {
    is_negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
        let unsigned = mantissa.strip_prefix('-');
        let (whole, fraction) = unsigned
            .unwrap_or(mantissa)
            .split_once('.')
            .map_or_else(|| (unsigned.unwrap_or(mantissa), None), |(whole, fraction)| (whole, Some(fraction)));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let exponent_is_good =
            exponent.is_none_or(|exponent| are_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
        let is_good = are_digits(whole) && fraction.is_none_or(are_digits) && exponent_is_good;
        is_good.then(|| Self {
            is_negative: unsigned.is_some(),
            whole,
            fraction: fraction.unwrap_or_default(),
            // An exponent beyond 64 bits belongs to a number that is 0, or to one that does not fit.
            exponent: exponent.map_or(0, |exponent| {
                let far = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
                exponent.parse().unwrap_or(far).clamp(i64::MIN / 2, i64::MAX / 2)
            }),
        })
    }

    /// Returns the exact value times ten to `powers`, or `None` if it is not integral, or out of range.
    fn integer(&self, powers: i64) -> Option<i128> {
        let digits = || self.whole.bytes().chain(self.fraction.bytes()).map(|digit| digit - b'0');
        let length = (self.whole.len() + self.fraction.len()) as i64;
        // The number of digits before the point, once it has moved.
        let before = self.whole.len() as i64 + self.exponent + powers;
        let mut value: i128 = 0;
        for (index, digit) in (0..).zip(digits()) {
            if index >= before {
                if digit != 0 {
                    return None;
                }
                continue;
            }
            let digit = i128::from(digit);
            value = value.checked_mul(10)?.checked_add(if self.is_negative { -digit } else { digit })?;
        }
        if value != 0 {
            value = value.checked_mul(10_i128.checked_pow(u32::try_from((before - length).max(0)).ok()?)?)?;
        }
        Some(value)
    }
}

/// Parses an integer, also one that is written as 3.0 or 1e3.
fn integer(text: &str) -> Option<i64> {
    Decimal::parse(text)?.integer(0)?.try_into().ok()
}

/// Parses a number that fits a decimal type, as the integer that it is without its point.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let value = Decimal::parse(text)?.integer(scale.into())?;
    (value.unsigned_abs() < 10_u128.pow(precision.into())).then_some(value)
}

fn number(text: &str) -> Option<f64> {
    Decimal::parse(text)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns microseconds since 1970 of an RFC 3339 time (UTC if it has no offset), of an HTTP date, or of a number of
/// seconds since then. A year has four digits: not all readers of results support others, and a number of milliseconds
/// would have one.
fn time(text: &str) -> Option<i64> {
    micros_of(text).filter(|micros| YEARS.contains(micros))
}

fn micros_of(text: &str) -> Option<i64> {
    if let Some(seconds) = Decimal::parse(text) {
        let exact = seconds.integer(6).and_then(|micros| micros.try_into().ok());
        return exact.or_else(|| rounded(number(text)? * 1e6));
    }
    if let Ok(date) = httpdate::parse_http_date(text) {
        return micros(date);
    }
    let utc: Tz = UTC_OFFSET.parse().ok()?;
    let time = text.is_ascii().then(|| string_to_datetime(&utc, text))?;
    time.ok().map(|time| time.timestamp_micros())
}

/// Returns the rounded value, or `None` if there are more digits than microseconds.
fn rounded(micros: f64) -> Option<i64> {
    const LIMIT: f64 = i64::MAX as f64;
    (micros.abs() < LIMIT).then(|| micros.round() as i64)
}

fn micros(time: SystemTime) -> Option<i64> {
    let whole = |time: Duration| i64::try_from(time.as_micros()).ok();
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => whole(before.duration()).map(|micros| -micros),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(as_type: SelectedType, raw: &str) -> Option<SelectedValue> {
        as_type.of_json(raw).ok()
    }

    #[test]
    fn a_string_is_its_text_and_other_values_are_as_they_were_written() {
        for (expected, raw) in [
            (Some("é\n"), r#""\u00e9\n""#),
            (Some(""), r#""""#),
            (Some("12345678901234567890.10"), "12345678901234567890.10"),
            (Some("true"), "true"),
            (Some(r#"{"b": 1,"a":[ ]}"#), r#"{"b": 1,"a":[ ]}"#),
            (None, "null"),
            (None, r#""\ud800""#),
        ] {
            assert_eq!(expected.map(|text| SelectedValue::Text(text.into())), json(SelectedType::String, raw), "{raw}");
        }
        for raw in ["null", r#""a""#, "1.0", "[1, 2]"] {
            assert_eq!(Some(SelectedValue::Text(raw.into())), json(SelectedType::Json, raw));
        }
        assert_eq!(Some(SelectedValue::Text("[1]".into())), SelectedType::Json.of_text(" [1] ").ok());
        assert!(SelectedType::Json.of_text("[1").is_err());
    }

    #[test]
    fn an_int64_is_a_number_without_a_fraction_that_fits() {
        for (expected, raw) in [
            (Some(7), "7"),
            (Some(0), "-0"),
            (Some(3), "3.0"),
            (Some(1000), "1e3"),
            (Some(12), "1.2E+1"),
            (Some(12), "1200e-2"),
            (Some(0), "0e99999999999999999999"),
            (Some(9_007_199_254_740_993), "9007199254740993"),
            (Some(i64::MAX), "9223372036854775807.000"),
            (Some(i64::MIN), "-9223372036854775808"),
            (Some(42), r#""42""#),
            (None, "9223372036854775808"),
            (None, "0.5"),
            (None, "1e-1"),
            (None, "1e19"),
            (None, "1e99999999999999999999"),
            (None, r#""""#),
            (None, r#"" 1""#),
            (None, r#""+1""#),
            (None, r#""1e""#),
            (None, r#""1.""#),
            (None, "true"),
            (None, "null"),
            (None, "[1]"),
        ] {
            assert_eq!(expected.map(SelectedValue::Int64), json(SelectedType::Int64, raw), "{raw}");
        }
    }

    #[test]
    fn a_float64_is_a_finite_number_and_a_bool_is_one_of_two_words() {
        for (expected, raw) in [
            (Some(0.1), "0.1"),
            (Some(-1e300), "-1e300"),
            (Some(0.5), r#""0.5""#),
            (None, "1e999"),
            (None, r#""NaN""#),
            (None, r#""inf""#),
            (None, "{}"),
        ] {
            assert_eq!(expected.map(SelectedValue::Float64), json(SelectedType::Float64, raw), "{raw}");
        }
        for (expected, raw) in
            [(Some(true), "true"), (Some(false), r#""false""#), (None, "1"), (None, r#""yes""#), (None, "null")]
        {
            assert_eq!(expected.map(SelectedValue::Bool), json(SelectedType::Bool, raw), "{raw}");
        }
    }

    #[test]
    fn a_decimal_is_a_number_without_rounding_that_fits() {
        for (expected, as_type, raw) in [
            (Some(10), "decimal(20,2)", "0.1"),
            (Some(1999), "decimal(20,2)", "19.99"),
            (Some(150), "decimal(20,2)", "1.500"),
            (Some(100_000), "decimal(20,2)", "1e3"),
            (Some(5), "decimal(20,2)", "5e-2"),
            (Some(-1), "decimal(20,2)", "-0.01"),
            (Some(0), "decimal(20,2)", "-0"),
            (Some(1_234_567_890_123_456_789_012), "decimal(22,2)", "12345678901234567890.12"),
            (Some(1999), "decimal(20,2)", r#""19.99""#),
            (Some(99), "decimal(2,2)", "0.99"),
            (Some(10_i128.pow(38) - 1), "decimal(38,0)", &"9".repeat(38)),
            (Some(1 - 10_i128.pow(38)), "decimal(38,38)", &format!("-0.{}", "9".repeat(38))),
            (None, "decimal(20,2)", "0.001"),
            (None, "decimal(20,2)", "5e-3"),
            (None, "decimal(2,2)", "1"),
            (None, "decimal(38,0)", "1e38"),
            (None, "decimal(38,0)", "1e39"),
            (None, "decimal(20,2)", "1e99999999999999999999"),
            (None, "decimal(20,2)", r#""1,50""#),
            (None, "decimal(20,2)", r#"" 1""#),
            (None, "decimal(20,2)", "true"),
            (None, "decimal(20,2)", "null"),
            (None, "decimal(20,2)", "[1]"),
        ] {
            let found = json(SelectedType::parse(as_type).expect("a type"), raw);
            assert_eq!(expected.map(SelectedValue::Decimal), found, "{raw} as {as_type}");
        }
    }

    #[test]
    fn a_decimal_type_has_one_to_38_digits_and_at_most_all_after_the_point() {
        for (expected, name) in [
            (Some((20, 2)), "decimal(20,2)"),
            (Some((20, 2)), "decimal(20, 2)"),
            (Some((1, 0)), "decimal(1,0)"),
            (Some((38, 38)), "decimal(38,38)"),
            (None, "decimal"),
            (None, "decimal(20)"),
            (None, "decimal(0,0)"),
            (None, "decimal(39,0)"),
            (None, "decimal(2,3)"),
            (None, "decimal(20,-2)"),
            (None, "decimal(20,2"),
        ] {
            let expected = expected.map(|(precision, scale)| SelectedType::Decimal { precision, scale });
            assert_eq!(expected, SelectedType::parse(name).ok(), "{name}");
        }
        assert_eq!("decimal(20,2)", SelectedType::Decimal { precision: 20, scale: 2 }.to_string());
    }

    #[test]
    fn a_timestamp_is_rfc_3339_a_date_of_http_or_seconds_since_1970() {
        for (expected, text) in [
            (Some(1_778_751_000_000_000), "2026-05-14T09:30:00Z"),
            (Some(1_778_751_000_000_042), "2026-05-14t11:30:00.000042+02:00"),
            (Some(1_778_751_000_000_000), "2026-05-14 09:30:00"),
            (Some(1_778_716_800_000_000), "2026-05-14"),
            (Some(-1_000_000), "1969-12-31T23:59:59Z"),
            (Some(784_111_777_000_000), "Sun, 06 Nov 1994 08:49:37 GMT"),
            (Some(1_778_751_000_000_000), "1778751000"),
            (Some(1_778_751_000_250_000), "1778751000.25"),
            (Some(1_778_751_000_123_457), "1778751000.1234567"),
            (Some(-500_000), "-0.5"),
            (Some(-62_135_596_800_000_000), "0001-01-01"),
            (Some(253_402_300_799_999_999), "9999-12-31T23:59:59.999999Z"),
            (None, "9999-12-31T23:59:59-01:00"),
            (None, "0000-12-31"),
            (None, "1778751000000"),
            (None, "9200000000000"),
            (None, "-9200000000000"),
            (None, "1e30"),
            (None, "2026-13-14T09:30:00Z"),
            (None, "2026-05-14T09:30:00 Europe/Paris"),
            (None, "2026-05-14T09:30:00é"),
            (None, "soon"),
            (None, ""),
        ] {
            assert_eq!(expected.map(SelectedValue::Timestamp), SelectedType::Timestamp.of_text(text).ok(), "{text}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_reported_with_its_kind() {
        let absent = SelectedType::Int64.of_json(r#""many""#).expect_err("no number");
        assert_eq!("not int64: `many`", absent.to_string());
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(number in any::<i64>(), zeros in 0_usize..30) {
            let as_written = format!("{number}.{}", "0".repeat(zeros + 1));
            prop_assert_eq!(Some(number), integer(&as_written));
            prop_assert_eq!(Some(number), integer(&number.to_string()));
        }

        #[test]
        fn decimals_are_exact(number in -(10_i128.pow(38) - 1)..10_i128.pow(38), scale in 0_u8..=38) {
            let as_type = SelectedType::Decimal { precision: 38, scale: scale as i8 };
            let digits = format!("{:0>39}", number.unsigned_abs());
            let (whole, fraction) = digits.split_at(39 - usize::from(scale));
            let point = if fraction.is_empty() { "" } else { "." };
            let as_written = format!("{}{whole}{point}{fraction}", if number < 0 { "-" } else { "" });
            prop_assert_eq!(Some(SelectedValue::Decimal(number)), as_type.of_text(&as_written).ok());
        }

        #[test]
        fn any_text_is_a_value_or_none(text in "\\PC*|[0-9eE.+:TZ -]{0,40}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{0,30}.{0,4}") {
            for name in ["string", "int64", "float64", "bool", "decimal(38,9)", "timestamp", "json"] {
                let _ = SelectedType::parse(name).expect("a type").of_text(&text);
            }
        }
    }
}
