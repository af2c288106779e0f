//! The files of saved bodies, on their way to their places.
//!
//! When a row is recorded, its file is whole in `tmp`, under the hash of its name. The commit that adds the row's part makes the
//! file durable before it counts, and moves it to its place afterwards: before the part, so that no reader finds a row whose
//! file is not there. Which files these are stand in the parts themselves. Whatever was not done when the machine stopped is
//! done again when the job is opened; what no commit has named goes with the rest of `tmp`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::{OWN_DIRECTORY, is_of_jobs, is_of_results};
use headgate_core::files::{Directory, Refused, SHARED};
use headgate_core::options::SaveFormat;
use headgate_http::save::paths::SavePaths;
use headgate_table::parts::name::{PartKind, PartName, UNPLACED};
use headgate_table::parts::paths::saved_paths;

use super::commit::Commit;
use super::results::{opened, unplaced};
use super::shards::is_archive;
use super::storage::{Storage, remove_if_there};

/// Where bodies of the job in this directory are saved.
///
/// # Errors
/// `Output`: it can't be read.
pub(crate) fn save_places_of(
    root: &Path,
    format: SaveFormat,
    storage: Arc<dyn Storage>,
) -> Result<SavePaths, JobError> {
    Ok(save_places(&opened(root)?, format).with_storage(storage))
}

pub(super) fn save_places(directory: &Directory, format: SaveFormat) -> SavePaths {
    let own = directory.path().join(OWN_DIRECTORY);
    SavePaths::new(directory.clone(), own.join("tmp"), own.join("names")).in_archives(format == SaveFormat::Tar)
}

/// Checks a path that was read from a part: it leads to a saved body, and to none of the job's own files.
///
/// # Errors
/// `InvalidData`.
fn check_path(path: &str) -> io::Result<()> {
    let mut components = path.split('/');
    let is_name = |component: &str| !matches!(component, "" | "." | "..") && !component.contains('\0');
    let is_ours = components.clone().next().is_some_and(is_of_jobs) || is_of_results(path);
    if components.all(is_name) && !is_ours {
        return Ok(());
    }
    let trouble = format!("it names {path:?}, which is not where a body is saved");
    Err(io::Error::new(io::ErrorKind::InvalidData, trouble))
}

/// Moves the files of the rows that a commit adds to their places, as far as they are not there yet.
///
/// # Errors
/// `Output`: one can't be moved, naming it.
pub(super) fn place_saved(
    directory: &Directory,
    commit: &Commit,
    format: SaveFormat,
    storage: &dyn Storage,
) -> Result<(), JobError> {
    // Parts that were merged: their files had their places before that commit.
    if commit.removes.iter().any(|name| is_answered(name)) {
        return Ok(());
    }
    let (root, places) = (directory.path(), save_places(directory, format));
    let mut archive = String::new();
    for part in commit.adds.iter().filter(|part| is_answered(&part.name)) {
        let written = unplaced(directory, &part.name);
        let was_placed = !directory.exists(&written).unwrap_or(false);
        let part = if was_placed { root.join(&part.name) } else { written };
        let mut failed = None;
        let read = saved_paths(directory, &part, |path| {
            check_path(path)?;
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

fn place(places: &SavePaths, path: &str, storage: &dyn Storage) -> io::Result<()> {
    mark(places, path, storage)?;
    move_to(places, &places.claimed(path), &places.destination(path), storage)
}

/// As [`place`], of a body in an archive, which is moved when the first of its members is met.
fn place_archived(places: &SavePaths, path: &str, archive: &mut String, storage: &dyn Storage) -> io::Result<()> {
    let Some((name, member)) = path.split_once('/').filter(|(name, _)| is_archive(name)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it names no archive"));
    };
    if archive != name {
        move_to(places, &places.written(name), &places.destination(name), storage)?;
        name.clone_into(archive);
    }
    mark(places, member, storage)?;
    remove_if_there(storage, places.directory(), &places.claimed(member))
}

/// Before the claim of the name goes, so that one of them always stands.
fn mark(places: &SavePaths, path: &str, storage: &dyn Storage) -> io::Result<()> {
    let directory = places.directory();
    match places.mark(path) {
        Some(mark) if !directory.exists(&mark)? => {
            within_directories(directory, &mark, || storage.create(directory, &mark, SHARED).map(drop))
        }
        _ => Ok(()),
    }
}

fn move_to(places: &SavePaths, from: &Path, to: &Path, storage: &dyn Storage) -> io::Result<()> {
    let directory = places.directory();
    match within_directories(directory, to, || storage.rename(directory, from, to)) {
        // It was moved before.
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists(to)? => Ok(()),
        moved => moved,
    }
}

/// Makes the directories of a file if they are missing.
fn within_directories(directory: &Directory, file: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let above = file.parent().unwrap_or(file);
    match step() {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                && above != directory.path()
                && !directory.is_directory(above) =>
        {
            directory.create_directories(above)?;
            step()
        }
        done => done,
    }
}

/// Removes the files that the rows of a part have, and directories that are empty then. Of a part that can't be read they
/// stay: nobody knows which they are.
///
/// # Errors
/// One can't be removed.
pub(super) fn remove_saved(directory: &Directory, part: &str, storage: &dyn Storage) -> io::Result<()> {
    if is_answered(part) { remove_named(directory, &directory.path().join(part), storage) } else { Ok(()) }
}

/// As [`remove_saved`], of the parts that are not in their places: their files may be, after a commit that was cut short.
///
/// # Errors
/// One can't be removed, or nobody can tell which parts there are.
pub(super) fn remove_saved_unplaced(directory: &Directory, tmp: &Path, storage: &dyn Storage) -> io::Result<()> {
    for entry in directory.entries(tmp)? {
        let (name, _) = entry?;
        if name.to_str().is_some_and(|name| is_answered(name.strip_suffix(UNPLACED).unwrap_or(name))) {
            remove_named(directory, &tmp.join(name), storage)?;
        }
    }
    Ok(())
}

fn remove_named(directory: &Directory, part: &Path, storage: &dyn Storage) -> io::Result<()> {
    let mut failed = None;
    // What is damaged is no reason not to start over.
    let _ = saved_paths(directory, part, |path| {
        if check_path(path).is_err() {
            return Ok(());
        }
        let file = file_of(directory, path);
        match storage.remove(directory, &file) {
            Err(error) if !is_none_of_ours(&error) => {
                let kind = error.kind();
                failed = Some(error);
                return Err(kind.into());
            }
            _ => {}
        }
        let mut above = file.ancestors().skip(1).take_while(|path| *path != directory.path());
        // Up to the first that is not empty.
        let _ = above.try_for_each(|path| directory.remove_empty_directory(path));
        Ok(())
    });
    failed.map_or(Ok(()), Err)
}

/// Returns whether the error says that nothing is there, or a directory, or a symbolic link on the way.
fn is_none_of_ours(error: &io::Error) -> bool {
    let refused = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Refused>);
    refused
        || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

/// The file or archive that the path of a row leads to.
fn file_of(directory: &Directory, path: &str) -> PathBuf {
    let archive = path.split_once('/').map(|(name, _)| name).filter(|name| is_archive(name));
    let archive = archive.map(|name| directory.path().join(name)).filter(|archive| !directory.is_directory(archive));
    archive.unwrap_or_else(|| directory.path().join(path))
}

fn is_answered(part: &str) -> bool {
    PartName::parse(part).is_some_and(|name| name.kind == PartKind::Answered)
}
