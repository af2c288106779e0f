//! What was set of a job while it goes on, through its directory.
//!
//! ```text
//! OUT/_headgate/control.json        what was set, and whether the job is paused
//! OUT/_headgate/control-taken.json  which of it the running job has taken, or why it did not
//! ```
//!
//! Whoever sets something writes the first file anew, with the next number, and waits for that number in the second. The
//! running job looks at the first every now and then, by its times and size before its bytes. Both are written beside
//! their places and renamed, so that nobody reads half of one. What was set holds until the job ends, and both are
//! removed then; they carry no promise of the job's, so nothing is synced: after a loss of power it is set again.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lock;
use super::record;
use super::storage::{Storage, remove_if_there};
use crate::files::{Directory, SHARED};
use crate::message;
use crate::model::error::{JobError, cause};
use crate::model::file_name::OWN_DIRECTORY;
use crate::model::live::{SETTABLE, Settings};
use crate::model::message::{Message, OptionName};
use crate::stats::report::FailureReport;

const SET: &str = "control.json";
const TAKEN: &str = "control-taken.json";
/// How long others who set something are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was set of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Rises with each change.
    pub sequence: u64,
    #[serde(default)]
    pub paused: bool,
    #[serde(default)]
    pub set: Settings,
    /// What this version does not know.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// What a running job has made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) sequence: u64,
    /// As [`FailureReport`]; `None`: it holds.
    pub(super) refused: Option<Value>,
}

/// What is to be different from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub paused: Option<bool>,
    pub set: Settings,
}

/// What tells that a file was replaced.
pub type Stamp = (u64, i64, i64, u64);

/// Why what was set is not known.
#[derive(Debug)]
pub enum Trouble {
    /// A newer headgate has set what this one does not know.
    Newer(Message),
    Damaged(Message),
}

/// The two files of a job.
#[derive(Debug, Clone)]
pub struct ControlFiles {
    root: PathBuf,
    storage: Arc<dyn Storage>,
}

impl ControlFiles {
    pub fn new(root: &Path, storage: Arc<dyn Storage>) -> Self {
        Self { root: root.to_owned(), storage }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.root.join(OWN_DIRECTORY).join(name)
    }

    fn directory(&self) -> io::Result<Directory> {
        Directory::open(&self.root)
    }

    /// What was set; nothing where nobody has set anything.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub fn read(&self) -> Result<Control, Trouble> {
        let path = self.path_of(SET);
        let shown = path.display();
        let control: Control = read(&self.root, &path).map_err(Trouble::Damaged)?.unwrap_or_default();
        let knows = |name: &String| SETTABLE.iter().any(|option| option.name() == name);
        match control.others.keys().chain(control.set.keys().filter(|name| !knows(name))).next() {
            None => Ok(control),
            Some(name) => Err(Trouble::Newer(message!(
                "{shown} was written by a newer headgate, which knows `{name}`: use that version, or remove the file"
            ))),
        }
    }

    /// Tells whether it was replaced since the last look.
    pub fn stamp(&self) -> Option<Stamp> {
        let metadata = self.directory().ok()?.file(&self.path_of(SET)).ok()?.metadata().ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size()))
    }

    /// Changes what was set, and gives that a number of its own.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub fn change(&self, change: impl FnOnce(&mut Control)) -> io::Result<Control> {
        // Others who set something meanwhile wait. Where a file system has no locks, the last one wins.
        let others = self.directory()?.file(&self.path_of("job.json"))?;
        lock::wait_for(&others, PATIENCE)?;
        // What is damaged is replaced.
        let mut control = self.read().unwrap_or_default();
        change(&mut control);
        // What is damaged has lost its number, and an answer to it must not be taken for one to this.
        control.sequence = control.sequence.max(self.answered().map_or(0, |taken| taken.sequence)) + 1;
        self.write(SET, &control)?;
        Ok(control)
    }

    /// Says that the running job keeps to it, or why not.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub fn answer(&self, sequence: u64, refused: Option<&JobError>) -> io::Result<()> {
        let refused = refused.map(|error| serde_json::to_value(FailureReport::from(error))).transpose()?;
        self.write(TAKEN, &Taken { sequence, refused })
    }

    /// What the running job, or the one before it, has said last.
    pub(super) fn answered(&self) -> Option<Taken> {
        read(&self.root, &self.path_of(TAKEN)).ok().flatten()
    }

    /// Forgets all of it.
    ///
    /// # Errors
    /// The directory can't be written to.
    pub fn remove(&self) -> io::Result<()> {
        let directory = self.directory()?;
        let mut paths = [SET, TAKEN].map(|name| self.path_of(name)).into_iter();
        paths.try_for_each(|path| {
            let is_there = directory.exists(&path)?;
            if is_there { remove_if_there(self.storage.as_ref(), &directory, &path) } else { Ok(()) }
        })
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let (directory, written) = (self.directory()?, self.path_of(&format!("{name}.{}", process::id())));
        self.storage.create(&directory, &written, SHARED)?.write_all(&record::encode(content)?)?;
        self.storage.rename(&directory, &written, &self.path_of(name))
    }
}

impl Trouble {
    pub fn into_message(self) -> Message {
        match self {
            Self::Newer(message) | Self::Damaged(message) => message,
        }
    }
}

/// What is in a file; `None`: there is none.
fn read<T: DeserializeOwned>(root: &Path, path: &Path) -> Result<Option<T>, Message> {
    let shown = path.display();
    match Directory::open(root).and_then(|directory| record::read(&directory, path)) {
        Ok(bytes) => record::decode(&bytes).map(Some).map_err(|_| {
            message!("{shown} is damaged: what was set of the job while it ran is not known any more; set it again")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Message::from(format!("can't read {shown}: {}", cause(&error)))),
    }
}

impl Control {
    /// What is set, as options.
    pub fn named(&self) -> impl Iterator<Item = (OptionName, &str)> {
        SETTABLE.iter().filter_map(|option| Some((*option, self.set.get(option.name())?.as_str())))
    }

    pub fn apply(&mut self, change: &Change) {
        self.paused = change.paused.unwrap_or(self.paused);
        self.set.extend(change.set.clone());
    }

    /// Sets again what was set before, and nothing else.
    pub(super) fn restore(&mut self, before: Self) {
        *self = Self { sequence: self.sequence, ..before };
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::storage::Disk;
    use super::*;

    fn files() -> (tempfile::TempDir, ControlFiles) {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join(OWN_DIRECTORY)).expect("a directory");
        fs::write(directory.path().join(OWN_DIRECTORY).join("job.json"), "{}").expect("a file");
        let files = ControlFiles::new(directory.path(), Arc::new(Disk));
        (directory, files)
    }

    fn rate(text: &str) -> Change {
        Change { paused: None, set: [("rate".to_owned(), text.to_owned())].into() }
    }

    #[test]
    fn what_was_set_stays_set_and_each_change_has_a_number() {
        let (_directory, files) = files();
        assert_eq!((Control::default(), None), (files.read().expect("nothing"), files.stamp()));
        let first = files.change(|control| control.apply(&rate("5/s"))).expect("written");
        let stamp = files.stamp();
        let second = files
            .change(|control| control.apply(&Change { paused: Some(true), ..Change::default() }))
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
    fn what_a_newer_headgate_has_set_is_told_from_damage() {
        let (_directory, files) = files();
        for content in ["{\"sequence\": 1, \"quota\": 5}", "{\"sequence\": 1, \"set\": {\"quota\": \"5\"}}"] {
            let value: Value = serde_json::from_str(content).expect("JSON");
            files.write(SET, &value).expect("written");
            let Err(Trouble::Newer(message)) = files.read() else { panic!("{content}") };
            assert!(message.to_string().contains("a newer headgate, which knows `quota`"), "{message}");
        }
        let sound = record::encode(&Control::default()).expect("JSON");
        for at in 0..sound.len() - 1 {
            let mut flipped = sound.clone();
            flipped[at] ^= 1;
            fs::write(files.path_of(SET), flipped).expect("a file");
            assert!(matches!(files.read(), Err(Trouble::Damaged(_))), "byte {at}");
        }
        let replaced = files.change(|control| control.apply(&rate("5/s"))).expect("written");
        assert_eq!(replaced, files.read().expect("sound"));
    }
}
