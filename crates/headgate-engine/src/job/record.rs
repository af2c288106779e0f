//! The encoding of a job's stored state: JSON in an envelope with a format version, which is checked first, and a checksum
//! over all other bytes.

use std::io::{self, Read as _};
use std::path::Path;

use crc32fast::Hasher;
use headgate_core::error::JobError;
use headgate_core::files::storage::Storage;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_table::parts::read::recovery_advice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Increases with each change of the format: jobs of other versions can't be resumed.
const FORMAT_VERSION: u32 = 6;
/// More than any record of ours: the largest is a checkpoint, which lists at most a million parts of 120 bytes each.
pub(super) const MAX_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Envelope {
    format_version: u32,
    /// The checksum of the version and the bytes of `record`.
    crc32: u32,
    record: Box<RawValue>,
}

/// The field that all versions have.
#[derive(Deserialize)]
struct Versioned {
    format_version: u32,
}

pub(super) fn encode(record: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let record = RawValue::from_string(serde_json::to_string(record)?)?;
    let crc32 = checksum(FORMAT_VERSION, &record);
    let mut bytes = serde_json::to_vec(&Envelope { format_version: FORMAT_VERSION, crc32, record })?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn checksum(version: u32, record: &RawValue) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(record.get().as_bytes());
    hasher.finalize()
}

/// # Errors
/// `Storage` or `Output`, with the problem and what the user can do; [`JobError::in_file`] completes the sentence.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JobError> {
    if version(bytes)? < FORMAT_VERSION {
        return Err(JobError::output(message!(
            "was written by an older headgate, whose jobs can't be resumed: start over with ",
            OptionName::IfExists.set("overwrite")
        )));
    }
    let damaged = |error: serde_json::Error| JobError::storage(message!("is damaged ({error}); ", recovery_advice()));
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(damaged)?;
    if checksum(envelope.format_version, &envelope.record) != envelope.crc32 {
        return Err(JobError::storage(message!("is damaged (its checksum is wrong); ", recovery_advice())));
    }
    serde_json::from_str(envelope.record.get()).map_err(damaged)
}

/// Returns the advice for files that may belong to another program: they are not removed, even with `fresh`.
fn foreign_file_advice() -> Message {
    message!("restore it from a copy, choose another ", OptionName::Output, ", or empty the directory yourself")
}

/// Returns the format version, unless it is newer than this headgate's.
///
/// # Errors
/// As [`decode`].
pub(super) fn version(bytes: &[u8]) -> Result<u32, JobError> {
    let Versioned { format_version } = serde_json::from_slice(bytes).map_err(|error| {
        JobError::storage(message!("is damaged, or was not written by headgate ({error}): ", foreign_file_advice()))
    })?;
    if format_version != FORMAT_VERSION
        && let Ok(envelope) = serde_json::from_slice::<Envelope>(bytes)
        && checksum(FORMAT_VERSION, &envelope.record) == envelope.crc32
    {
        return Err(JobError::storage(message!("is damaged (its version is wrong); ", recovery_advice())));
    }
    if format_version > FORMAT_VERSION {
        return Err(JobError::output(message!(
            "was written by a newer headgate: use that version, or choose another ",
            OptionName::Output
        )));
    }
    Ok(format_version)
}

/// Reads the bytes of a record file.
pub(super) fn read(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    storage.read(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_of_a_record_can_be_lost_or_changed_unnoticed() {
        let record = vec!["part-00000001.parquet".to_owned(), "7".to_owned()];
        let bytes = encode(&record).expect("JSON");
        assert_eq!(Ok(record), decode(&bytes));
        for at in 0..bytes.len() - 1 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decode::<Vec<String>>(&changed).is_err(), "byte {at} was changed");
            assert!(decode::<Vec<String>>(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn another_version_is_distinguished_from_damage() {
        let newer = br#"{"format_version":99,"something":"else"}"#.as_slice();
        let refusal = |bytes| decode::<Vec<String>>(bytes).map_err(|problem| problem.to_string());
        let message = "was written by a newer headgate: use that version, or choose another output";
        assert_eq!(Err(message.into()), refusal(newer));
        let older = br#"{"format_version":1,"headgate_version":"0.1.0"}"#;
        let message =
            "was written by an older headgate, whose jobs can't be resumed: start over with if_exists=overwrite";
        assert_eq!(Err(message.into()), refusal(older));
    }
}
