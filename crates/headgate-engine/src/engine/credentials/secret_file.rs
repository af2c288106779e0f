//! Reads secrets from their files again, as they are renewed while a run goes on.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use headgate_core::error::cause;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::RequestOptions;
use headgate_core::secret::Secret;
use headgate_core::token_source::SecretFile;

/// The bound of headers and tokens; servers accept far less.
const MAX_BYTES: u64 = 1024 * 1024;

/// Identifies a version of a file: inode, modification time and size.
pub(super) type FileVersion = (u64, i64, i64, u64);

/// Returns the current version of a file; `None`: there is no such file.
pub(super) fn version(file: &SecretFile) -> Option<FileVersion> {
    let metadata = file.path.metadata().ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size()))
}

/// Reads a file into the options. Of a file with headers, only the values of headers that the run has are used.
///
/// # Errors
/// The file can't be read, or is empty.
pub(crate) fn read_into(file: &SecretFile, options: &mut RequestOptions) -> Result<(), Message> {
    let shown = file.path.display();
    let wrong = |why: &str| message!(file.option, " can't be read from {shown}: {why}");
    let text = read(&file.path).map_err(|error| wrong(&cause(&error)))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        // Another process may be writing it.
        return Err(wrong("it is empty"));
    }
    match file.option {
        OptionName::Bearer => options.bearer = Some(text.into()),
        OptionName::User => options.user = Some(text.into()),
        _ => {
            for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
                let own = options.headers.iter_mut().filter(|(own, _)| own.eq_ignore_ascii_case(name.trim()));
                own.for_each(|(_, own)| *own = Secret::from(value.trim().to_owned()));
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES { Err(io::Error::other("it is longer than 1 MiB")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_replaces_the_value_of_its_option() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |option: OptionName, text: &str| {
            let path = directory.path().join(option.name());
            fs::write(&path, text).expect("a file");
            SecretFile { option, path }
        };
        let mut options =
            RequestOptions { headers: vec![("X-Key".to_owned(), "old".into())], ..RequestOptions::default() };
        for (option, text) in [
            (OptionName::Bearer, "token\n"),
            (OptionName::User, "me:secret\r\n"),
            (OptionName::Headers, "x-key: new\nX-Other: 1\n"),
        ] {
            read_into(&file(option, text), &mut options).expect("readable");
        }
        assert_eq!(Some("token".into()), options.bearer);
        assert_eq!(Some("me:secret".into()), options.user);
        assert_eq!(vec![("X-Key".to_owned(), "new".into())], options.headers);
    }

    #[test]
    fn an_empty_or_missing_file_changes_nothing_and_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = SecretFile { option: OptionName::Bearer, path: directory.path().join("token") };
        let mut options = RequestOptions { bearer: Some("old".into()), ..RequestOptions::default() };
        let missing = read_into(&file, &mut options).expect_err("missing").to_string();
        assert!(missing.ends_with("token: no such file or directory"), "{missing}");
        fs::write(&file.path, "\n").expect("a file");
        let empty = read_into(&file, &mut options).expect_err("empty").to_string();
        assert!(empty.ends_with("token: it is empty"), "{empty}");
        assert_eq!(Some("old".into()), options.bearer);
    }
}
