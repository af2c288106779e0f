//! SHA-256 checksums in the spellings of tables.

use headgate_core::reason::{Reason, shown};
use headgate_core::saved::Checksum;

/// An optional prefix of the digits.
const PREFIX: &[u8] = b"sha256:";

/// Parses 64 hexadecimal digits in either case, with or without the prefix.
///
/// # Errors
/// Why the text is not a checksum.
pub(super) fn parse(text: &[u8]) -> Result<Checksum, Reason> {
    let trimmed = text.trim_ascii();
    let has_prefix = trimmed.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    let digits = if has_prefix { &trimmed[PREFIX.len()..] } else { trimmed };
    let (pairs, rest) = digits.as_chunks::<2>();
    let mut checksum = Checksum::default();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let parsed = pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    let bytes: Option<Vec<u8>> = parsed.collect();
    match bytes {
        Some(bytes) if bytes.len() == checksum.len() && rest.is_empty() => {
            checksum.copy_from_slice(&bytes);
            Ok(checksum)
        }
        _ => Err(Reason::new("the checksum is not a SHA-256: that is 64 hexadecimal digits").with(shown(text))),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::file_name::hex;

    use super::*;

    #[test]
    fn a_checksum_is_64_digits_in_either_case() {
        let expected: Checksum = std::array::from_fn(|at| (at * 7) as u8);
        let digits = hex(&expected);
        for text in [digits.clone(), digits.to_uppercase(), format!("sha256:{digits}"), format!(" SHA256:{digits}\n")] {
            assert_eq!(Ok(expected), parse(text.as_bytes()), "{text}");
        }
        for text in
            [&digits[1..], &format!("{digits}0"), &format!("{digits}00"), &format!("g{}", &digits[1..]), "sha256:"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
