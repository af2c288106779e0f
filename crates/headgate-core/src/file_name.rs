//! Names of files that bodies are saved under, made of cells of the input. Whatever the values are, a name leads to one
//! path below the output directory and is valid in every usual file system. Different values give different names.
//!
//! Invalid characters are percent-encoded, and so is `%`. What depends on the response is not known when the row is read:
//! control characters, which names do not have otherwise, take its place.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

use crate::reason::Reason;

/// The limit of most file systems for one component of a path.
const MAX_COMPONENT_BYTES: usize = 255;
/// The limit of all components together; with the output directory before them, a path has 4,096.
const MAX_NAME_BYTES: usize = 2048;
/// The longest extension that a shortened component keeps.
const MAX_KEPT_EXTENSION_BYTES: usize = 16;
/// The longest extension in an archive, which leaves space for the key before it.
const MAX_EXTENSION_BYTES: usize = 100;
/// Devices of Windows, whatever their extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];
/// The directory of a job for everything but results.
pub const OWN_DIRECTORY: &str = "_headgate";
/// The directory of the Delta log of results.
pub const DELTA_DIRECTORY: &str = "_delta_log";
/// The beginnings of the names of parts.
const OF_PARTS: [&str; 2] = ["part-", "failed-"];
/// The extensions by which readers of `OUT/*.parquet` recognise results.
const OF_RESULTS: [&str; 2] = [".parquet", ".ndjson"];

const EXTENSION: char = '\u{1}';
const CHECKSUM: char = '\u{2}';
/// A dot of the template: the extension follows the last of these, whatever dots values have.
const DOT: char = '\u{3}';
/// The extension of the description of a body in an archive.
const DESCRIBING: &str = "json";

/// A piece of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamePiece<'a> {
    /// Literal text of the template.
    Literal(&'a str),
    /// A value of the row.
    Value(&'a [u8]),
    /// The extension for the type of the body.
    Extension,
    /// The SHA-256 of the body.
    Checksum,
}

/// The name of a file, as far as its row determines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName(Box<str>);

impl FileName {
    /// # Errors
    /// Why the name is invalid: a component is empty, or all are too long.
    pub fn new<'a>(pieces: impl IntoIterator<Item = NamePiece<'a>>) -> Result<Self, Reason> {
        let mut name = String::new();
        for piece in pieces {
            match piece {
                NamePiece::Literal(text) => name.extend(text.chars().map(|each| if each == '.' { DOT } else { each })),
                NamePiece::Value(value) => encode(value, &mut name),
                NamePiece::Extension => name.push(EXTENSION),
                NamePiece::Checksum => name.push(CHECKSUM),
            }
            if name.len() > MAX_NAME_BYTES {
                let reason = Reason::new("the name of its file is too long");
                return Err(reason.with(format!("more than {MAX_NAME_BYTES} bytes")));
            }
        }
        if name.split('/').any(str::is_empty) {
            return Err(Reason::new("the name of its file has an empty part").with(name.replace(DOT, ".")));
        }
        Ok(Self(name.into()))
    }

    /// Returns the path below the output directory, with `/` between its components.
    ///
    /// # Errors
    /// The file would be mistaken for results.
    pub fn path(&self, extension: &str, checksum: &str) -> Result<String, Reason> {
        let name = self.filled(extension, checksum).replace(DOT, ".");
        let components = name.split('/').enumerate();
        let components = components.map(|(at, component)| usable(component, at == 0, MAX_COMPONENT_BYTES));
        let path = components.collect::<Vec<_>>().join("/");
        if is_of_results(&path) {
            let reason = Reason::new("at the top of the output directory, its file would be taken for results");
            return Err(reason.with(path));
        }
        Ok(path)
    }

    /// Returns the name in an archive. Its readers take the text before the first dot of the last component for the row's
    /// key, and need an extension.
    pub fn member(&self, extension: &str, checksum: &str) -> String {
        let name = self.filled(extension, checksum);
        let (directory, last) = name.rsplit_once('/').map_or((None, &*name), |(before, last)| (Some(before), last));
        let (stem, own) = last.rsplit_once(DOT).unwrap_or((last, ""));
        let extension = ended(if own.is_empty() { extension } else { own });
        let mut extension =
            if extension.len() > MAX_EXTENSION_BYTES { cut(&extension, MAX_EXTENSION_BYTES) } else { extension };
        // Readers do not distinguish case there.
        if extension.eq_ignore_ascii_case(DESCRIBING) {
            extension.insert_str(0, "body.");
        }
        // Readers skip a member without a key; no value becomes this one.
        let key = if stem.is_empty() { "%".to_owned() } else { stem.replace(['.', DOT], "%2E") };
        let max_bytes = MAX_COMPONENT_BYTES.saturating_sub(extension.len().max(DESCRIBING.len()) + 1);
        let key = usable(&key, directory.is_none(), max_bytes);
        let components = directory.into_iter().flat_map(|directory| directory.split('/')).enumerate();
        let above = components.map(|(at, each)| usable(&each.replace(DOT, "."), at == 0, MAX_COMPONENT_BYTES) + "/");
        format!("{}{key}.{extension}", above.collect::<String>())
    }

    fn filled(&self, extension: &str, checksum: &str) -> String {
        self.0.replace(EXTENSION, extension).replace(CHECKSUM, checksum)
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Encodes the characters of a value that a name can't have, or that have a meaning in a path.
fn encode(value: &[u8], name: &mut String) {
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '%' | '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => push_encoded(character, name),
                character if character.is_control() => push_encoded(character, name),
                character => name.push(character),
            }
        }
        for byte in chunk.invalid() {
            push_byte(*byte, name);
        }
    }
}

fn push_encoded(character: char, name: &mut String) {
    character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_byte(byte, name));
}

fn push_byte(byte: u8, name: &mut String) {
    // Writing into a string can't fail.
    let _ = write!(name, "%{byte:02X}");
}

/// Returns a component that has no special meaning and is not too long.
fn usable(component: &str, is_first: bool, max_bytes: usize) -> String {
    let mut usable = String::with_capacity(component.len());
    let mut rest = component;
    if is_reserved(component) || is_first && is_of_jobs(component) {
        let mut characters = component.chars();
        if let Some(first) = characters.next() {
            push_encoded(first, &mut usable);
        }
        rest = characters.as_str();
    }
    usable.push_str(&ended(rest));
    if usable.len() > max_bytes { cut(&usable, max_bytes) } else { usable }
}

/// Encodes a dot or space at the end.
fn ended(text: &str) -> String {
    let mut ended = text.to_owned();
    if let Some(last @ ('.' | ' ')) = ended.chars().next_back() {
        ended.pop();
        push_encoded(last, &mut ended);
    }
    ended
}

/// Returns whether the system reserves the name: a component of dots, or a device.
fn is_reserved(component: &str) -> bool {
    let stem = component.split('.').next().unwrap_or_default().trim_end_matches(' ').to_lowercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device).map(|number| number.chars().collect::<Vec<_>>());
        number.is_some_and(|number| matches!(number[..], ['0'..='9' | '¹' | '²' | '³']))
    };
    matches!(component, "." | "..")
        || DEVICES.contains(&&*stem)
        || NUMBERED_DEVICES.iter().any(|name| is_numbered(name))
}

/// Returns whether readers of results would mistake a file of this name for one.
pub fn is_of_results(path: &str) -> bool {
    let folded = folded(path);
    !path.contains('/') && OF_RESULTS.iter().any(|extension| folded.ends_with(extension))
}

/// Returns whether the directory of a job has such names at its top.
pub fn is_of_jobs(component: &str) -> bool {
    let folded = folded(component);
    [OWN_DIRECTORY, DELTA_DIRECTORY].contains(&&*folded)
        || OF_PARTS.iter().any(|beginning| folded.starts_with(beginning))
}

/// Replaces the middle of a component that is too long by a hash of all of it, before its extension.
fn cut(component: &str, max_bytes: usize) -> String {
    let extension = component.rsplit_once('.').map_or("", |(_, extension)| extension);
    let extension = Some(extension).filter(|extension| (1..=MAX_KEPT_EXTENSION_BYTES).contains(&extension.len()));
    let extension = extension.map(|extension| format!(".{extension}")).unwrap_or_default();
    let hash = &hex(&sha256(component.as_bytes()))[..16];
    let max_begin = max_bytes.saturating_sub(1 + hash.len() + extension.len());
    let begin = component.floor_char_boundary(max_begin);
    format!("{}~{hash}{extension}", &component[..begin])
}

/// Returns a path as file systems compare it that ignore case.
pub fn folded(path: &str) -> String {
    path.chars().flat_map(|character| one(character.to_uppercase(), character).to_lowercase()).collect()
}

fn one(mut mapped: impl ExactSizeIterator<Item = char>, character: char) -> char {
    if mapped.len() == 1 { mapped.next().unwrap_or(character) } else { character }
}

/// Returns a key in hexadecimal digits that is the same for all paths that clash.
pub fn clash_key(path: &str) -> String {
    hex(&sha256(folded(path).as_bytes()))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

pub fn hex(hash: &[u8]) -> String {
    hash.iter().fold(String::with_capacity(2 * hash.len()), |mut text, byte| {
        // Writing into a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    fn of_value(value: &[u8]) -> String {
        FileName::new([NamePiece::Value(value)]).and_then(|name| name.path("bin", "")).expect("a name")
    }

    #[test]
    fn invalid_characters_of_names_are_encoded() {
        for (expected, value) in [
            ("a b-c_d.é", "a b-c_d.é".as_bytes()),
            ("%2E.", b"."),
            ("%2E%2E", b".."),
            ("...a", b"...a"),
            ("..%2Fa", b"../a"),
            ("%2Fetc%2Fpasswd", b"/etc/passwd"),
            ("a%5Cb", b"a\\b"),
            ("a%00b%0A%7F%C2%85", "a\0b\n\u{7f}\u{85}".as_bytes()),
            ("100%25", b"100%"),
            ("a%3A%2A%3F%22%3C%3E%7Cb", b"a:*?\"<>|b"),
            ("a%2E", b"a."),
            ("a .%20", b"a . "),
            ("a%FFb", b"a\xFFb"),
            ("%43ON", b"CON"),
            ("%6Eul.tar.gz", b"nul.tar.gz"),
            ("%63om1 .x", b"com1 .x"),
            ("%4CPT²", "LPT²".as_bytes()),
            ("com", b"com"),
            ("com10", b"com10"),
            ("%5FHEADGATE", b"_HEADGATE"),
            ("%70art-00000001.jpg", b"part-00000001.jpg"),
            ("%46ailed-x", b"Failed-x"),
        ] {
            // A component of a single dot has it encoded, as the last character.
            let expected = if value == b"." { "%2E" } else { expected };
            assert_eq!(expected, of_value(value), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn names_of_a_job_are_reserved_only_at_the_top() {
        let name = FileName::new([NamePiece::Literal("a/"), NamePiece::Value(b"_headgate")]);
        assert_eq!(Ok("a/_headgate".into()), name.and_then(|name| name.path("", "")));
    }

    #[test]
    fn parts_that_depend_on_the_response_are_filled_in_later() {
        let pieces = [
            NamePiece::Literal("i/"),
            NamePiece::Checksum,
            NamePiece::Literal("/"),
            NamePiece::Value(b"\x01\x02"),
            NamePiece::Literal("."),
            NamePiece::Extension,
        ];
        let path = FileName::new(pieces).and_then(|name| name.path("jpg", "abc"));
        assert_eq!(Ok("i/abc/%01%02.jpg".into()), path);
    }

    #[test]
    fn a_name_without_a_part_or_too_long_in_all_is_refused() {
        for pieces in [vec![NamePiece::Literal("a/"), NamePiece::Value(b"")], vec![NamePiece::Value(b"")], vec![]] {
            let error = FileName::new(pieces).expect_err("it was taken").to_string();
            assert!(error.starts_with("the name of its file has an empty part"), "{error}");
        }
        let long = FileName::new([NamePiece::Value(&[b'x'; MAX_NAME_BYTES + 1])]).expect_err("it was taken");
        assert_eq!("the name of its file is too long (more than 2048 bytes)", long.to_string());
    }

    #[test]
    fn no_name_at_the_top_is_the_name_of_a_result() {
        use NamePiece::{Checksum, Extension, Literal, Value};
        for (expected, pieces) in [
            (None, vec![Value(b"a.parquet")]),
            (None, vec![Value(b"a"), Literal(".NDJson")]),
            (None, vec![Checksum, Literal("."), Extension]),
            (None, vec![Value(&[b'x'; 300]), Literal(".parquet")]),
            (Some("d/a.parquet"), vec![Literal("d/"), Value(b"a.parquet")]),
            (Some("a.parquet%2E"), vec![Value(b"a.parquet.")]),
            (Some("aparquet"), vec![Value(b"aparquet")]),
            (Some("a.parquet.gz"), vec![Value(b"a"), Literal("."), Extension, Literal(".gz")]),
        ] {
            let path = FileName::new(pieces).and_then(|name| name.path("parquet", "abc"));
            assert_eq!(expected.map(str::to_owned), path.ok());
        }
    }

    #[test]
    fn a_long_component_is_shortened_and_differs_from_those_with_the_same_beginning() {
        let (first, second) = (format!("{}a.jpg", "é".repeat(150)), format!("{}b.jpg", "é".repeat(150)));
        let (first, second) = (of_value(first.as_bytes()), of_value(second.as_bytes()));
        assert!(first.len() <= MAX_COMPONENT_BYTES && first.len() >= MAX_COMPONENT_BYTES - 1, "{}", first.len());
        assert!(first.strip_suffix(".jpg").is_some() && first != second, "{first}");
        assert_eq!(MAX_COMPONENT_BYTES, of_value(&[b'x'; 255]).len());
        assert_eq!(MAX_COMPONENT_BYTES, of_value(&[b'x'; 256]).len());
    }

    #[test]
    fn names_that_differ_in_case_alone_clash() {
        assert_eq!(clash_key("A/É.Jpg"), clash_key("a/é.jPG"));
        assert_eq!(folded("ΟΔΟΣ"), folded("οδος"));
        assert_ne!(clash_key("strasse"), clash_key("straße"));
    }

    #[test]
    fn a_member_of_an_archive_has_a_key_without_dots_and_an_extension() {
        use NamePiece::{Extension, Literal, Value};
        for (expected, pieces, extension) in [
            ("d/a.jpg", vec![Literal("d/"), Value(b"a"), Literal("."), Extension], "jpg"),
            ("a.jpg", vec![Value(b"a")], "jpg"),
            ("v1%2E2.jpg", vec![Value(b"v1.2")], "jpg"),
            ("%2E%2E%2Fa.jpg", vec![Value(b"../a")], "jpg"),
            ("a%2Eb.bin", vec![Value(b"a.b"), Literal(".bin")], "jpg"),
            ("d.e/a%2Eb.gz", vec![Literal("d.e/"), Value(b"a"), Literal(".b.gz")], "jpg"),
            ("a.body.json", vec![Value(b"a"), Literal("."), Extension], "json"),
            ("a.body.json", vec![Value(b"a")], "json"),
            ("a.body.JSON", vec![Value(b"a"), Literal(".JSON")], "jpg"),
            ("a.b%20", vec![Value(b"a"), Literal(".b ")], "jpg"),
            ("%.jpg", vec![Value(b""), Literal(".jpg")], "jpg"),
            ("%5Fheadgate.jpg", vec![Value(b"_headgate")], "jpg"),
        ] {
            assert_eq!(expected, FileName::new(pieces).expect("a name").member(extension, ""));
        }
        let long = FileName::new([NamePiece::Value(&[b'x'; 300])]).expect("a name");
        assert_eq!(MAX_COMPONENT_BYTES, long.member("jpg", "").len() + 1);
        let long = FileName::new([Value(b"a"), Literal("."), Value(&[b'x'; 300])]).expect("a name");
        assert_eq!("a.".len() + MAX_EXTENSION_BYTES, long.member("jpg", "").len());
    }

    proptest! {
        #[test]
        fn any_values_make_a_path_inside_the_directory_that_no_other_values_make(
            first in proptest::collection::vec(any::<u8>(), 0..40),
            second in proptest::collection::vec(any::<u8>(), 0..40),
            text in "\\PC{0,20}|[./ A-Z%~]{0,9}|(con|aux|com1|nul|_headgate|part-1)[. ]?\\PC{0,3}",
        ) {
            let pieces = |value: &[u8]| FileName::new([NamePiece::Literal("d/"), NamePiece::Value(value)])
                .and_then(|name| name.path("", ""));
            for value in [&first[..], &second, text.as_bytes()] {
                let Ok(path) = pieces(value) else { prop_assert!(value.is_empty()); continue };
                let components: Vec<_> = Path::new(&path).components().collect();
                prop_assert!(matches!(components[..], [Component::Normal(_), Component::Normal(_)]), "{}", path);
                prop_assert!(!path.chars().any(|character| character.is_control() || "\\:*?\"<>|".contains(character)));
                prop_assert!(!path.ends_with(['.', ' ']) && !is_reserved(&path[2..]), "{}", path);
                prop_assert!(path.len() <= MAX_COMPONENT_BYTES + 2);
            }
            prop_assert_eq!(first == second, pieces(&first).ok() == pieces(&second).ok());
            prop_assert_eq!(first == text.as_bytes(), pieces(&first).ok() == pieces(text.as_bytes()).ok());
        }

        #[test]
        fn no_name_at_the_top_is_a_reserved_one(value in "(?i)(_headgate|_delta_log|part-|failed-)\\PC{0,5}") {
            let path = of_value(value.as_bytes());
            prop_assert!(!is_of_jobs(&path), "{}", path);
        }
    }
}
