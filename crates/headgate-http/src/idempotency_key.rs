//! A key for each row, by which a server can recognise a retry (draft-ietf-httpapi-idempotency-key-header).
//!
//! The key of a row is a hash of its number and a salt of its job. So no key is stored, and it is the same for all attempts,
//! also those of a later run. It has the form of a random UUID (version 4, RFC 9562 section 5.4), which services that check
//! keys accept. The draft puts the key in quotes, as a structured string. It is sent without: common services (Stripe, Adyen,
//! Square, Shopify) document it without quotes, and treat them as part of the key or refuse them.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::rand;
use headgate_core::error::JobError;
use http::HeaderName;

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

const SALT_BYTES: usize = 16;

/// The salt of a job's keys. All keys can be computed from it, but they are no secret: each server gets them with its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySalt([u8; SALT_BYTES]);

impl KeySalt {
    /// Returns a random salt.
    ///
    /// # Errors
    /// `Internal`: the system has no random numbers.
    pub fn random() -> Result<Self, JobError> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).map_err(|_| JobError::internal("the system gives no random numbers"))?;
        Ok(Self(salt))
    }

    /// Returns the salt for a text that is unique to a job.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self(digest(&[text.as_bytes()]))
    }

    /// Returns the salt, from which other values are derived.
    pub fn bytes(&self) -> [u8; SALT_BYTES] {
        self.0
    }

    /// Appends the header line with the key of a row.
    pub(super) fn write_line(&self, row: u64, wire: &mut Vec<u8>) {
        wire.extend_from_slice(b"idempotency-key: ");
        let mut uuid = digest(&[&self.0, &row.to_le_bytes()]);
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        for (index, byte) in uuid.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                wire.push(b'-');
            }
            wire.extend([byte >> 4, byte & 0x0f].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
        }
        wire.extend_from_slice(b"\r\n");
    }
}

impl fmt::Display for KeySalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for KeySalt {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_whole = text.len() == 2 * SALT_BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_whole).ok_or(())?;
        Ok(Self(number.to_be_bytes()))
    }
}

fn digest(pieces: &[&[u8]]) -> [u8; SALT_BYTES] {
    let mut context = Context::new(&SHA256);
    for piece in pieces {
        context.update(piece);
    }
    let mut start = [0; SALT_BYTES];
    start.copy_from_slice(&context.finish().as_ref()[..SALT_BYTES]);
    start
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn line(salt: KeySalt, row: u64) -> String {
        let mut wire = Vec::new();
        salt.write_line(row, &mut wire);
        String::from_utf8(wire).expect("ASCII")
    }

    #[test]
    fn the_key_of_a_row_is_a_random_uuid_and_always_the_same() {
        let salt: KeySalt = "000102030405060708090a0b0c0d0e0f".parse().expect("a salt");
        // SHA-256 of the 16 bytes and eight zeros. If keys changed, servers would process retries twice.
        assert_eq!("idempotency-key: 818638ad-150c-4042-a99f-4e43bfd0f1b4\r\n", line(salt, 0));
        let lines: HashSet<_> = (0..10_000).map(|row| line(salt, row)).collect();
        assert_eq!(10_000, lines.len());
        for key in lines.iter().map(|line| &line["idempotency-key: ".len()..line.len() - 2]) {
            let form: String = key.chars().map(|c| if c.is_ascii_hexdigit() { 'x' } else { c }).collect();
            assert_eq!("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", form);
            assert!(key.as_bytes()[14] == b'4' && b"89ab".contains(&key.as_bytes()[19]), "{key}");
        }
    }

    #[test]
    fn a_salt_survives_its_text_form_and_random_salts_differ() {
        let salt = KeySalt::random().expect("random numbers");
        assert_eq!(Ok(salt), salt.to_string().parse());
        assert_ne!(Ok(salt), KeySalt::random());
        for text in ["", "00", "000102030405060708090a0b0c0d0e0g", "+00102030405060708090a0b0c0d0e0f"] {
            assert_eq!(Err(()), text.parse::<KeySalt>());
        }
    }
}
