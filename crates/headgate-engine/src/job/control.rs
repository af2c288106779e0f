//! Changes the settings of a running job through its directory.
//!
//! ```text
//! OUT/_headgate/control.json        the settings, and whether the job is paused
//! OUT/_headgate/control-reply.json  the settings that the running job has applied, or why it refused them
//! ```
//!
//! A process that changes a setting replaces the first file, with the next number, and waits for that number in the
//! second. The running job polls the first file: its times and size, then its bytes. Both are written to a temporary file
//! and renamed, so that no process reads half of one. Settings last until the job ends, which removes both files.
//! They are not part of the durable state, so nothing is synced: after a loss of power, the user sets them again.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::SHARED;
use headgate_core::files::storage::{Storage, if_found};
use headgate_core::live::Settings;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::directory::open_if_exists;
use super::lock;
use super::record;
use crate::stats::report::FailureReport;

const SETTINGS: &str = "control.json";
const REPLY: &str = "control-reply.json";
/// How long a process waits for another one that changes the settings.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a running job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Control {
    /// Increases with each change.
    pub sequence: u64,
    #[serde(default)]
    pub paused: bool,
    #[serde(default)]
    pub set: Settings,
    /// Fields that this version does not know.
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

/// The reply of the running job to a change of its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ControlReply {
    pub(super) sequence: u64,
    /// A [`FailureReport`] as JSON; `None` if the settings were applied.
    pub(super) refused: Option<Value>,
}

/// A change of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsChange {
    pub paused: Option<bool>,
    pub set: Settings,
}

/// Identifies a version of a file: inode, modification time and size. It changes when the file is replaced.
pub(crate) type ControlVersion = (u64, i64, i64, u64);

/// Why the settings can't be read.
#[derive(Debug)]
pub(crate) enum ControlError {
    /// A newer headgate has written a setting that this version does not know.
    Newer(Message),
    Damaged(Message),
}

/// The two control files of a job.
#[derive(Debug, Clone)]
pub(crate) struct ControlFiles(Arc<dyn Storage>);

impl ControlFiles {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Self {
        Self(storage)
    }

    /// Returns the control files of the job in a directory, or `None` if there is no such directory.
    ///
    /// # Errors
    /// `Output`: the directory can't be read.
    pub(crate) fn of(root: &Path) -> Result<Option<Self>, JobError> {
        Ok(open_if_exists(root)?.map(Self))
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.0.path().join(OWN_DIRECTORY).join(name)
    }

    /// Returns the current settings, or the default if there is no control file.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub(crate) fn read(&self) -> Result<Control, ControlError> {
        let path = self.path_of(SETTINGS);
        let shown = path.display();
        let control: Control = read(self.0.as_ref(), &path).map_err(ControlError::Damaged)?.unwrap_or_default();
        let knows = |name: &String| OptionName::settable().any(|option| option.name() == name);
        match control.unknown.keys().chain(control.set.keys().filter(|name| !knows(name))).next() {
            None => Ok(control),
            Some(name) => Err(ControlError::Newer(message!(
                "{shown} was written by a newer headgate, which knows `{name}`: use that version, or remove the file"
            ))),
        }
    }

    /// Returns the version of the settings file: a caller compares it with an earlier one to see whether it was replaced.
    pub(crate) fn stamp(&self) -> Option<ControlVersion> {
        let metadata = self.0.read(&self.path_of(SETTINGS)).ok()?.metadata().ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size()))
    }

    /// Applies `change` to the settings and writes them with the next sequence number.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Control)) -> io::Result<Control> {
        // Other processes that change settings wait for this lock. Where a file system has no locks, the last one wins.
        let locked = self.0.read(&self.path_of("job.json"))?;
        lock::wait_for(&locked, LOCK_TIMEOUT)?;
        // Damaged settings are replaced.
        let mut control = self.read().unwrap_or_default();
        change(&mut control);
        // Damaged settings have lost their number. A reply to them must not be mistaken for a reply to these.
        control.sequence = control.sequence.max(self.last_reply().map_or(0, |reply| reply.sequence)) + 1;
        self.write(SETTINGS, &control)?;
        Ok(control)
    }

    /// Writes that the running job has applied the settings with this number, or why it refused them.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub(crate) fn reply(&self, sequence: u64, refused: Option<&JobError>) -> io::Result<()> {
        let refused = refused.map(|error| serde_json::to_value(FailureReport::from(error))).transpose()?;
        self.write(REPLY, &ControlReply { sequence, refused })
    }

    /// Returns the last reply of the running job, or of the one before it.
    pub(super) fn last_reply(&self) -> Option<ControlReply> {
        read(self.0.as_ref(), &self.path_of(REPLY)).ok().flatten()
    }

    /// Removes both files.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub(crate) fn remove(&self) -> io::Result<()> {
        [SETTINGS, REPLY].iter().try_for_each(|name| {
            let path = self.path_of(name);
            if self.0.exists(&path)? { self.0.remove_if_exists(&path) } else { Ok(()) }
        })
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let written = self.path_of(&format!("{name}.{}", process::id()));
        self.0.create(&written, SHARED)?.write_all(&record::encode(content)?)?;
        self.0.rename(&written, &self.path_of(name))
    }
}

impl ControlError {
    pub(crate) fn into_message(self) -> Message {
        match self {
            Self::Newer(message) | Self::Damaged(message) => message,
        }
    }
}

/// Reads a control file. Returns `None` if there is none.
fn read<T: DeserializeOwned>(storage: &dyn Storage, path: &Path) -> Result<Option<T>, Message> {
    let shown = path.display();
    let bytes = if_found(record::read(storage, path));
    let bytes = bytes.map_err(|error| Message::from(format!("can't read {shown}: {}", cause(&error))))?;
    bytes.map(|bytes| record::decode(&bytes)).transpose().map_err(|_| {
        message!("{shown} is damaged: the options that were set while the job ran are lost; set them again")
    })
}

impl Control {
    /// Returns the settings as options and their values.
    pub(crate) fn options(&self) -> impl Iterator<Item = (OptionName, &str)> {
        OptionName::settable().filter_map(|option| Some((option, self.set.get(option.name())?.as_str())))
    }

    pub(crate) fn apply(&mut self, change: &SettingsChange) {
        self.paused = change.paused.unwrap_or(self.paused);
        self.set.extend(change.set.clone());
    }

    /// Restores the settings `before`, under the current sequence number.
    pub(crate) fn restore(&mut self, before: Self) {
        *self = Self { sequence: self.sequence, ..before };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use headgate_core::files::Directory;

    use super::*;

    fn files() -> (tempfile::TempDir, ControlFiles) {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join(OWN_DIRECTORY)).expect("a directory");
        fs::write(directory.path().join(OWN_DIRECTORY).join("job.json"), "{}").expect("a file");
        let files = ControlFiles::new(Arc::new(Directory::open(directory.path()).expect("a directory")));
        (directory, files)
    }

    fn rate(text: &str) -> SettingsChange {
        SettingsChange { paused: None, set: [("rate".to_owned(), text.to_owned())].into() }
    }

    #[test]
    fn a_change_keeps_earlier_settings_and_each_change_has_a_number() {
        let (_directory, files) = files();
        assert_eq!((Control::default(), None), (files.read().expect("nothing"), files.stamp()));
        let first = files.change(|control| control.apply(&rate("5/s"))).expect("written");
        let stamp = files.stamp();
        let second = files
            .change(|control| control.apply(&SettingsChange { paused: Some(true), ..SettingsChange::default() }))
            .expect("written");
        assert_eq!((1, 2), (first.sequence, second.sequence));
        assert_ne!(stamp, files.stamp());
        assert_eq!(second, files.read().expect("sound"));
        assert_eq!((true, rate("5/s").set), (second.paused, second.set));
        files.remove().expect("removed");
        assert_eq!(Control::default(), files.read().expect("nothing"));
        let left = fs::read_dir(files.path_of("")).expect("a directory").count();
        assert_eq!(1, left, "only the job's own file is left");
    }

    #[test]
    fn settings_of_a_newer_headgate_are_not_reported_as_damage() {
        let (_directory, files) = files();
        for content in ["{\"sequence\": 1, \"quota\": 5}", "{\"sequence\": 1, \"set\": {\"quota\": \"5\"}}"] {
            let value: Value = serde_json::from_str(content).expect("JSON");
            files.write(SETTINGS, &value).expect("written");
            let Err(ControlError::Newer(message)) = files.read() else { panic!("{content}") };
            assert!(message.to_string().contains("a newer headgate, which knows `quota`"), "{message}");
        }
        let sound = record::encode(&Control::default()).expect("JSON");
        for at in 0..sound.len() - 1 {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            fs::write(files.path_of(SETTINGS), flipped).expect("a file");
            assert!(matches!(files.read(), Err(ControlError::Damaged(_))), "byte {at}");
        }
        let replaced = files.change(|control| control.apply(&rate("5/s"))).expect("written");
        assert_eq!(replaced, files.read().expect("sound"));
    }
}
