//! What tells whether something that may be secret is the same, and nothing else of it.

use aws_lc_rs::digest::{Context, SHA256};
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The salt keeps apart the same secret in two jobs.
pub(super) fn salted_hash<'a>(salt: &'a str, values: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for value in [salt.as_bytes()].into_iter().chain(values) {
        context.update(&(value.len() as u64).to_le_bytes());
        context.update(value);
    }
    BASE64_STANDARD.encode(context.finish().as_ref())
}
