//! The files of saved bodies, on their way to their places.
//!
//! When a row is recorded, its file is whole in `tmp`, under the hash of its name. The commit that adds the row's part makes the
//! file durable before it counts, and moves it to its place afterwards: before the part, so that no reader finds a row whose
//! file is not there. Which files these are stand in the parts themselves. Whatever was not done when the machine stopped is
//! done again when the job is opened; what no commit has named goes with the rest of `tmp`.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::commit::Commit;
use super::results::{OWN_DIRECTORY, unplaced};
use super::shards::is_archive;
use super::storage::{Storage, remove_if_there};
use crate::http::save::places::SavePlaces;
use crate::model::error::{JobError, cause};
use crate::model::options::SaveFormat;
use crate::parts::name::{PartKind, PartName, UNPLACED};
use crate::parts::paths::saved_paths;

/// Where bodies of the job in this directory are saved.
pub(crate) fn save_places(root: &Path, format: SaveFormat) -> SavePlaces {
    let own = root.join(OWN_DIRECTORY);
    SavePlaces::new(root, own.join("tmp"), own.join("names")).in_archives(format == SaveFormat::Tar)
}

/// Moves the files of the rows that a commit adds to their places, as far as they are not there yet.
///
/// # Errors
/// `Output`: one can't be moved, naming it.
pub(super) fn place_saved(
    root: &Path,
    commit: &Commit,
    format: SaveFormat,
    storage: &dyn Storage,
) -> Result<(), JobError> {
    // Parts that were merged: their files had their places before that commit.
    if commit.removes.iter().any(|name| is_answered(name)) {
        return Ok(());
    }
    let places = save_places(root, format);
    let mut archive = String::new();
    for part in commit.adds.iter().filter(|part| is_answered(&part.name)) {
        let written = unplaced(root, &part.name);
        let was_placed = !written.exists();
        let part = if was_placed { root.join(&part.name) } else { written };
        let mut failed = None;
        let read = saved_paths(&part, |path| {
            let moved = match format {
                SaveFormat::Files => place(&places, path, storage),
                SaveFormat::Tar => place_archived(&places, path, &mut archive, storage),
            };
            // The files of a part are moved before it is: somebody has taken this one away since.
            let is_taken = |error: &io::Error| was_placed && error.kind() == io::ErrorKind::NotFound;
            let moved = moved.or_else(|error| if is_taken(&error) { Ok(()) } else { Err(error) });
            moved.map_err(|error| {
                let kind = error.kind();
                failed = Some(JobError::output(format!(
                    "can't move a saved file to {}: {}",
                    root.join(path).display(),
                    cause(&error)
                )));
                kind.into()
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        read.map_err(|error| JobError::output(format!("can't read {}: {}", part.display(), cause(&error))))?;
    }
    Ok(())
}

fn place(places: &SavePlaces, path: &str, storage: &dyn Storage) -> io::Result<()> {
    mark(places, path, storage)?;
    move_to(&places.claimed(path), &places.placed(path), storage)
}

/// As [`place`], of a body in an archive, which is moved when the first of its members is met.
fn place_archived(places: &SavePlaces, path: &str, archive: &mut String, storage: &dyn Storage) -> io::Result<()> {
    let Some((name, member)) = path.split_once('/') else { return Err(io::ErrorKind::InvalidData.into()) };
    if archive != name {
        move_to(&places.written(name), &places.placed(name), storage)?;
        name.clone_into(archive);
    }
    mark(places, member, storage)?;
    remove_if_there(storage, &places.claimed(member))
}

/// Before the claim of the name goes, so that one of them always stands.
fn mark(places: &SavePlaces, path: &str, storage: &dyn Storage) -> io::Result<()> {
    let Some(mark) = places.mark(path).filter(|mark| !mark.exists()) else { return Ok(()) };
    within_directories(&mark, || storage.create(&mark).map(drop))
}

fn move_to(from: &Path, to: &Path, storage: &dyn Storage) -> io::Result<()> {
    match within_directories(to, || storage.rename(from, to)) {
        // It was moved before.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(to).is_ok() => Ok(()),
        moved => moved,
    }
}

/// Makes the directories of a file if they are missing.
fn within_directories(file: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match step() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !directory_of(file).is_dir() => {
            fs::create_dir_all(directory_of(file))?;
            step()
        }
        done => done,
    }
}

fn directory_of(file: &Path) -> &Path {
    file.parent().unwrap_or(file)
}

/// Removes the files that the rows of a part have, and directories that are empty then. Of a part that can't be read they
/// stay: nobody knows which they are.
///
/// # Errors
/// One can't be removed.
pub(super) fn remove_saved(root: &Path, part: &str, storage: &dyn Storage) -> io::Result<()> {
    if is_answered(part) { remove_named(root, &root.join(part), storage) } else { Ok(()) }
}

/// As [`remove_saved`], of the parts that are not in their places: their files may be, after a commit that was cut short.
///
/// # Errors
/// One can't be removed, or nobody can tell which parts there are.
pub(super) fn remove_saved_unplaced(root: &Path, tmp: &Path, storage: &dyn Storage) -> io::Result<()> {
    for entry in fs::read_dir(tmp)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| is_answered(name.strip_suffix(UNPLACED).unwrap_or(name))) {
            remove_named(root, &entry.path(), storage)?;
        }
    }
    Ok(())
}

fn remove_named(root: &Path, part: &Path, storage: &dyn Storage) -> io::Result<()> {
    let mut failed = None;
    // What is damaged is no reason not to start over.
    let _ = saved_paths(part, |path| {
        let Some(file) = below(root, path) else { return Ok(()) };
        match storage.remove(&file) {
            Err(error) if !is_none_of_ours(&error) => {
                let kind = error.kind();
                failed = Some(error);
                return Err(kind.into());
            }
            _ => {}
        }
        let directories = file.ancestors().skip(1).take_while(|directory| *directory != root);
        for directory in directories {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
        Ok(())
    });
    failed.map_or(Ok(()), Err)
}

/// There is nothing, or somebody has put a directory there.
fn is_none_of_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

/// The file or archive that the path of a row leads to, if it is where bodies are saved: below this directory, and through no
/// link, which may lead out of it.
fn below(root: &Path, path: &str) -> Option<PathBuf> {
    let mut components = Path::new(path).components();
    let is_inside = components.all(|component| matches!(component, Component::Normal(name) if name != OWN_DIRECTORY));
    if !is_inside || path.is_empty() {
        return None;
    }
    let archive =
        path.split_once('/').map(|(name, _)| name).filter(|name| is_archive(name)).map(|name| root.join(name));
    if let Some(archive) = archive.filter(|archive| archive.is_file()) {
        return Some(archive);
    }
    let file = root.join(path);
    let mut directories = file.ancestors().skip(1).take_while(|directory| *directory != root);
    let is_real = |directory: &Path| fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir());
    directories.all(is_real).then_some(file)
}

fn is_answered(part: &str) -> bool {
    PartName::parse(part).is_some_and(|name| name.kind == PartKind::Answered)
}
