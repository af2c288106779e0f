//! Moves the files of saved bodies to their places.
//!
//! When a row is written, its file is complete in `tmp`, under the hash of its name. The commit that adds the row's part makes the
//! file durable first, and moves it to its place afterwards: before the part, so that no reader finds a row without its file.
//! The parts themselves list these files. If the machine stops in between, the steps are completed when the job is opened. Files
//! that no commit names are removed with the rest of `tmp`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::file_name::{OWN_DIRECTORY, is_of_jobs, is_of_results};
use headgate_core::files::storage::Storage;
use headgate_core::files::{RefusedPath, SHARED};
use headgate_core::options::SaveFormat;
use headgate_http::save::paths::SavePaths;
use headgate_table::parts::name::{PartKind, PartName, UNPLACED};
use headgate_table::parts::paths::saved_paths;

use super::commit::Commit;
use super::results::unplaced_path;
use super::shards::is_archive;

/// Returns the paths of saved bodies in this directory.
pub(crate) fn save_places(storage: &Arc<dyn Storage>, format: SaveFormat) -> SavePaths {
    let own = storage.path().join(OWN_DIRECTORY);
    SavePaths::new(storage.clone(), own.join("tmp"), own.join("names")).in_archives(format == SaveFormat::Tar)
}

/// Checks that a path in a part can be that of a saved body, and is not that of one of the job's own files.
///
/// # Errors
/// `InvalidData`: it can't be.
fn check_path(path: &str) -> io::Result<()> {
    let mut components = path.split('/');
    let is_name = |component: &str| !matches!(component, "" | "." | "..") && !component.contains('\0');
    let is_ours = components.clone().next().is_some_and(is_of_jobs) || is_of_results(path);
    if components.all(is_name) && !is_ours {
        return Ok(());
    }
    let problem = format!("it names {path:?}, which is not where a body is saved");
    Err(io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Moves the files of the rows that a commit adds to their places, as far as they are not there yet.
///
/// # Errors
/// `Output`, naming the file: it can't be moved.
pub(super) fn place_saved(storage: &Arc<dyn Storage>, commit: &Commit, format: SaveFormat) -> Result<(), JobError> {
    // The files of merged parts were moved before.
    if commit.removes.iter().any(|name| is_part_of_succeeded(name)) {
        return Ok(());
    }
    let (root, places) = (storage.path(), save_places(storage, format));
    let mut archive = String::new();
    for part in commit.adds.iter().filter(|part| is_part_of_succeeded(&part.name)) {
        let written = unplaced_path(root, &part.name);
        let was_placed = !storage.exists(&written).unwrap_or(false);
        let part = if was_placed { root.join(&part.name) } else { written };
        let mut failed = None;
        let read = saved_paths(storage.as_ref(), &part, |path| {
            check_path(path)?;
            let moved = match format {
                SaveFormat::Files => place(&places, path),
                SaveFormat::Tar => place_archived(&places, path, &mut archive),
            };
            // The files of a part are moved before the part: a user has removed this one since.
            let is_removed = |error: &io::Error| was_placed && error.kind() == io::ErrorKind::NotFound;
            let moved = moved.or_else(|error| if is_removed(&error) { Ok(()) } else { Err(error) });
            moved.map_err(|error| {
                let kind = error.kind();
                failed = Some(JobError::of_file("can't move a saved file to", root.join(path).display(), &error));
                kind.into()
            })
        });
        if let Some(error) = failed {
            return Err(error);
        }
        read.map_err(|error| JobError::of_file("can't read", part.display(), &error))?;
    }
    Ok(())
}

fn place(places: &SavePaths, path: &str) -> io::Result<()> {
    mark(places, path)?;
    move_to(places, &places.claimed(path), &places.destination(path))
}

/// Moves a body in an archive as [`place`] does. The archive is moved with the first of its members.
fn place_archived(places: &SavePaths, path: &str, archive: &mut String) -> io::Result<()> {
    let Some((name, member)) = path.split_once('/').filter(|(name, _)| is_archive(name)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it names no archive"));
    };
    if archive != name {
        move_to(places, &places.written(name), &places.destination(name))?;
        name.clone_into(archive);
    }
    mark(places, member)?;
    places.storage().remove_if_exists(&places.claimed(member))
}

/// Marks a name as used. This happens before its claim is removed, so that the name is never free.
fn mark(places: &SavePaths, path: &str) -> io::Result<()> {
    let storage = places.storage().as_ref();
    match places.mark(path) {
        Some(mark) if !storage.exists(&mark)? => {
            within_directories(storage, &mark, || storage.create(&mark, SHARED).map(drop))
        }
        _ => Ok(()),
    }
}

fn move_to(places: &SavePaths, from: &Path, to: &Path) -> io::Result<()> {
    let storage = places.storage().as_ref();
    match within_directories(storage, to, || storage.rename(from, to)) {
        // The file was moved before.
        Err(error) if error.kind() == io::ErrorKind::NotFound && storage.exists(to)? => Ok(()),
        moved => moved,
    }
}

/// Runs `step` on a file, and creates the directories of the file if they are missing.
fn within_directories(storage: &dyn Storage, file: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let above = file.parent().unwrap_or(file);
    match step() {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && above != storage.path() && !storage.is_directory(above) =>
        {
            storage.create_directories(above)?;
            step()
        }
        done => done,
    }
}

/// Removes the files of the rows of a part, and directories that are empty afterwards. The files of an unreadable part are
/// unknown and stay.
///
/// # Errors
/// A file can't be removed.
pub(super) fn remove_saved(storage: &dyn Storage, part: &str) -> io::Result<()> {
    if is_part_of_succeeded(part) { remove_named(storage, &storage.path().join(part)) } else { Ok(()) }
}

/// Removes saved bodies as [`remove_saved`] does, of parts that were not moved: after an interrupted commit, their files may be.
///
/// # Errors
/// A file can't be removed, or the parts can't be listed.
pub(super) fn remove_saved_unplaced(storage: &dyn Storage, tmp: &Path) -> io::Result<()> {
    for entry in storage.list(tmp)? {
        let (name, _) = entry?;
        if name.to_str().is_some_and(|name| is_part_of_succeeded(name.strip_suffix(UNPLACED).unwrap_or(name))) {
            remove_named(storage, &tmp.join(name))?;
        }
    }
    Ok(())
}

fn remove_named(storage: &dyn Storage, part: &Path) -> io::Result<()> {
    let mut failed = None;
    // A damaged part must not prevent the user from starting over.
    let _ = saved_paths(storage, part, |path| {
        if check_path(path).is_err() {
            return Ok(());
        }
        let file = file_of(storage, path);
        match storage.remove(&file) {
            Err(error) if !is_foreign(&error) => {
                let kind = error.kind();
                failed = Some(error);
                return Err(kind.into());
            }
            _ => {}
        }
        let mut above = file.ancestors().skip(1).take_while(|path| *path != storage.path());
        // Up to the first directory that is not empty.
        let _ = above.try_for_each(|path| storage.remove_empty_directory(path));
        Ok(())
    });
    failed.map_or(Ok(()), Err)
}

/// Returns whether the error means that the path has no file, or passes through a symbolic link.
fn is_foreign(error: &io::Error) -> bool {
    let refused = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<RefusedPath>);
    refused
        || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}

/// Returns the file or archive that has the body of a row.
fn file_of(storage: &dyn Storage, path: &str) -> PathBuf {
    let archive = path.split_once('/').map(|(name, _)| name).filter(|name| is_archive(name));
    let archive = archive.map(|name| storage.path().join(name)).filter(|archive| !storage.is_directory(archive));
    archive.unwrap_or_else(|| storage.path().join(path))
}

fn is_part_of_succeeded(part: &str) -> bool {
    PartName::parse(part).is_some_and(|name| name.kind == PartKind::Succeeded)
}
