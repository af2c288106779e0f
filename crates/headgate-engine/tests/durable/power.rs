//! A power loss: bytes and names that were not made durable may be lost or kept.
//!
//! The files are real. This disk also records which bytes and names a power loss may lose. A power loss undoes an
//! arbitrary part of these. A rename is atomic, which journaling file systems promise, but the old name
//! may reappear beside the new one as long as only the directory of the new one was made durable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub struct PowerLoss {
    /// The directory that keeps removed files, so that they can be restored.
    aside: tempfile::TempDir,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The number of durable bytes of each file, by inode.
    durable_bytes: BTreeMap<u64, u64>,
    /// Changes that are not durable, in their order, by number.
    changes: BTreeMap<u64, Change>,
}

#[derive(Debug)]
enum Change {
    /// A new name. It may have replaced a file, which is kept.
    Added { path: PathBuf, inode: u64, replaced: Option<PathBuf> },
    /// A removed name. A rename has the number of its other change.
    Removed { path: PathBuf, aside: PathBuf, by_rename: Option<u64> },
}

impl PowerLoss {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { aside: tempfile::tempdir().unwrap(), state: Mutex::default() })
    }

    pub fn written(&self, inode: u64) {
        self.state.lock().unwrap().durable_bytes.insert(inode, 0);
    }

    pub fn synced(&self, inode: u64, bytes: u64) {
        self.state.lock().unwrap().durable_bytes.insert(inode, bytes);
    }

    /// Creates a second name for a file, in the directory of kept files.
    pub fn keep_copy(&self, path: &Path) -> io::Result<PathBuf> {
        let mut state = self.state.lock().unwrap();
        state.next += 1;
        let aside = self.aside.path().join(state.next.to_string());
        fs::hard_link(path, &aside)?;
        Ok(aside)
    }

    pub fn added(&self, path: &Path, replaced: Option<PathBuf>) -> io::Result<()> {
        let inode = fs::metadata(path)?.ino();
        self.state.lock().unwrap().push(Change::Added { path: path.into(), inode, replaced });
        Ok(())
    }

    pub fn removed(&self, path: &Path, aside: PathBuf) {
        self.state.lock().unwrap().push(Change::Removed { path: path.into(), aside, by_rename: None });
    }

    pub fn renamed(&self, from: &Path, moved: PathBuf, to: &Path, replaced: Option<PathBuf>) -> io::Result<()> {
        self.added(to, replaced)?;
        let mut state = self.state.lock().unwrap();
        let by_rename = Some(state.next);
        state.push(Change::Removed { path: from.into(), aside: moved, by_rename });
        Ok(())
    }

    pub fn synced_directory(&self, directory: &Path) {
        let mut state = self.state.lock().unwrap();
        let mut renames = BTreeSet::new();
        state.changes.retain(|_, change| {
            let is_durable = change.path().parent() == Some(directory);
            if let (true, Change::Removed { by_rename, .. }) = (is_durable, change) {
                renames.extend(*by_rename);
            }
            !is_durable
        });
        // Both halves of a rename become durable together.
        state.changes.retain(|number, _| !renames.contains(number));
    }

    /// Makes everything that was written durable.
    pub fn synced_all(&self) {
        let mut state = self.state.lock().unwrap();
        *state = State { next: state.next, ..State::default() };
    }

    /// Undoes a part of the changes that are not durable, chosen by `seed`. The rest becomes durable.
    pub fn lose(&self, root: &Path, seed: u64) {
        let mut state = self.state.lock().unwrap();
        let mut dice = Dice(seed);
        let mut lost = BTreeSet::new();
        for (number, change) in &state.changes {
            let with_its_rename =
                matches!(change, Change::Removed { by_rename: Some(rename), .. } if lost.contains(rename));
            if dice.below(2) == 0 || with_its_rename {
                lost.insert(*number);
            }
        }
        for (number, change) in state.changes.iter().rev() {
            if lost.contains(number) {
                change.undo();
            }
        }
        for path in files_below(root) {
            let metadata = fs::metadata(&path).unwrap();
            if let Some(durable) = state.durable_bytes.get(&metadata.ino()) {
                forget_bytes(&path, *durable, metadata.len(), &mut dice);
            }
        }
        *state = State { next: state.next, ..State::default() };
    }
}

impl State {
    fn push(&mut self, change: Change) {
        self.next += 1;
        self.changes.insert(self.next, change);
    }
}

impl Change {
    fn path(&self) -> &Path {
        let (Self::Added { path, .. } | Self::Removed { path, .. }) = self;
        path
    }

    fn undo(&self) {
        match self {
            Self::Added { path, inode, replaced } => {
                if fs::metadata(path).is_ok_and(|metadata| metadata.ino() == *inode) {
                    fs::remove_file(path).unwrap();
                    if let Some(aside) = replaced {
                        fs::hard_link(aside, path).unwrap();
                    }
                }
            }
            Self::Removed { path, aside, .. } => {
                if !path.exists() {
                    fs::hard_link(aside, path).unwrap();
                }
            }
        }
    }
}

/// Cuts some of the bytes that are not durable, or overwrites them all with noise.
fn forget_bytes(path: &Path, durable: u64, length: u64, dice: &mut Dice) {
    let unsure = length.saturating_sub(durable);
    if unsure == 0 {
        return;
    }
    let file = File::options().append(true).open(path).unwrap();
    match dice.below(3) {
        0 => file.set_len(durable + dice.below(unsure)).unwrap(),
        1 => {
            file.set_len(durable).unwrap();
            (&file).write_all(&vec![0; unsure as usize]).unwrap();
        }
        _ => {}
    }
}

pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

/// The generator `SplitMix64`.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % end
    }
}
