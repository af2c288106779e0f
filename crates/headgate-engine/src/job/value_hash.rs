//! Hashes that show whether a value that may be secret is the same, and reveal nothing else about it.
//!
//! A reader of a job's record can guess values, so each guess has to take time and memory: Argon2id (RFC 9106) with a random
//! salt. A job hashes a few values when it begins, and none for a row.

use std::cell::RefCell;
use std::collections::HashMap;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::digest::{Context, SHA256};
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// KiB of memory and passes over it: some 10 ms.
const COST: (u32, u32) = (8 * 1024, 2);
const HASH_BYTES: usize = 32;

/// Hashes values as a job does.
#[derive(Debug)]
pub(super) struct ValueHasher {
    salt: Vec<u8>,
    /// The hashes of earlier values, by digest: a command compares the same values several times.
    cache: RefCell<HashMap<[u8; HASH_BYTES], String>>,
}

impl ValueHasher {
    pub(super) fn new(salt: &[u8]) -> Self {
        Self { salt: salt.to_vec(), cache: RefCell::default() }
    }

    pub(super) fn hash<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> String {
        let digest = digest(values);
        self.cache
            .borrow_mut()
            .entry(digest)
            .or_insert_with(|| BASE64_STANDARD.encode(slow_hash(&digest, &self.salt)))
            .clone()
    }
}

/// Returns the digest of several values. Their lengths are included, so that the boundaries between them matter.
fn digest<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> [u8; HASH_BYTES] {
    let mut context = Context::new(&SHA256);
    for value in values {
        context.update(&(value.len() as u64).to_le_bytes());
        context.update(value);
    }
    let mut digest = [0; HASH_BYTES];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

fn slow_hash(value: &[u8], salt: &[u8]) -> [u8; HASH_BYTES] {
    let (memory, passes) = COST;
    let params = Params::new(memory, passes, 1, Some(HASH_BYTES)).expect("parameters within their bounds");
    let mut blocks = vec![Block::new(); params.block_count()];
    let mut hash = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into_with_memory(value, salt, &mut hash, &mut blocks).expect("a salt of 16 bytes");
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_the_salt_and_on_each_value() {
        let hash =
            |salt: &[u8], values: &[&str]| ValueHasher::new(salt).hash(values.iter().map(|value| value.as_bytes()));
        let (one, other) = (b"0123456789abcdef", b"fedcba9876543210");
        assert_eq!(hash(one, &["name", "value"]), hash(one, &["name", "value"]));
        assert_ne!(hash(one, &["name", "value"]), hash(other, &["name", "value"]));
        assert_ne!(hash(one, &["name", "value"]), hash(one, &["namev", "alue"]));
    }

    /// The expected hash was made by another implementation of RFC 9106 with these parameters.
    #[test]
    fn a_stored_hash_is_argon2id() {
        assert_eq!(
            "pbZQ/vdJs+APTxHvP4UDM6ZwAJkz8AJQ1AAmlGZP2k4=",
            BASE64_STANDARD.encode(slow_hash(b"value", b"0123456789abcdef"))
        );
    }
}
