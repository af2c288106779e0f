//! The salt of the boundaries of multipart forms: the same for all of a job's runs, so that a retried row has the same
//! body.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::rand;

const SALT_BYTES: usize = 16;

/// It is known once the job is, which is before its first row, and after its input was opened: all clones have the same
/// one.
#[derive(Debug, Clone, Default)]
pub struct BoundarySalt(Arc<OnceLock<[u8; SALT_BYTES]>>);

/// All are equal, as the salt is not an option of the user.
impl PartialEq for BoundarySalt {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for BoundarySalt {}

impl BoundarySalt {
    /// Sets the salt, without effect where boundaries were made before.
    pub fn set(&self, salt: [u8; SALT_BYTES]) {
        let _ = self.0.set(salt);
    }

    /// Returns the salt, a random one if none was set, or `None` if the system has no random numbers.
    pub fn get(&self) -> Option<[u8; SALT_BYTES]> {
        let mut salt = [0; SALT_BYTES];
        if self.0.get().is_none() {
            rand::fill(&mut salt).ok()?;
        }
        Some(*self.0.get_or_init(|| salt))
    }
}
