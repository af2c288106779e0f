//! Requests that are equal to an earlier one, found by their hashes.

use std::collections::HashSet;

use headgate_core::origin::Origin;
use headgate_core::row::{BodyPiece, Row};
use headgate_http::request::Preparer;
use twox_hash::XxHash3_128;

use super::masked::MeasuredBody;

const BOUNDARY: &str = "boundary=";

/// Counts the requests that are equal to an earlier one. It holds 16 bytes for each sampled row.
#[derive(Debug, Default)]
pub(super) struct EqualRequests {
    hashes: HashSet<u128>,
    count: u64,
}

impl EqualRequests {
    /// Adds the request of a row: `wire` and `rest` are what is sent to `origin`.
    pub(super) fn add(
        &mut self,
        row: &Row,
        origin: &Origin,
        (wire, rest): (&[u8], &MeasuredBody),
        preparer: &Preparer,
    ) {
        let generated = generated(row, preparer);
        let mut hasher = XxHash3_128::new();
        hash_without(&mut hasher, origin.url().as_bytes(), &[]);
        hash_without(&mut hasher, wire, &generated);
        match rest {
            MeasuredBody::Bytes(bytes) => hash_without(&mut hasher, bytes, &generated),
            MeasuredBody::Pieces(pieces) => {
                for (piece, length) in pieces {
                    match piece {
                        BodyPiece::Bytes(bytes) => hash_without(&mut hasher, bytes, &generated),
                        BodyPiece::File(path) | BodyPiece::FileBelow(_, path) => {
                            hasher.write(path.as_os_str().as_encoded_bytes());
                            hasher.write(&length.to_le_bytes());
                        }
                        BodyPiece::OpenFile(file) => hasher.write(file.name.as_bytes()),
                    }
                }
            }
        }
        self.count += u64::from(!self.hashes.insert(hasher.finish_128()));
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

/// Returns what is different in each request because headgate generates it: its key, and the boundary of its form.
fn generated(row: &Row, preparer: &Preparer) -> Vec<Vec<u8>> {
    let media_type = row.extra.as_ref().and_then(|extra| extra.body_type.as_deref());
    let boundary = media_type.and_then(|media_type| media_type.split_once(BOUNDARY));
    let boundary = boundary.map(|(_, boundary)| boundary.as_bytes().to_vec());
    preparer.generated_key(row).into_iter().chain(boundary).collect()
}

/// Hashes `bytes` without these parts of them.
fn hash_without(hasher: &mut XxHash3_128, bytes: &[u8], parts: &[Vec<u8>]) {
    let Some((part, others)) = parts.split_first() else { return hasher.write(bytes) };
    let mut start = 0;
    for at in memchr::memmem::find_iter(bytes, part) {
        hash_without(hasher, &bytes[start..at], others);
        start = at + part.len();
    }
    hash_without(hasher, &bytes[start..], others);
}
