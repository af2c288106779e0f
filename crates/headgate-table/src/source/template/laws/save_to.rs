//! The file of a body lies inside the output directory, is not one of the job's own, and has a name that no other values
//! have.

use std::path::{Component, Path};

use headgate_core::file_name::folded;
use headgate_core::options::SourceOptions;

use super::fuzz_input::{FuzzInput, only_column};
use super::made::{defect, try_row, with_save_to};
use crate::source::template::cell::Cell;

const MAX_COMPONENT_BYTES: usize = 255;
const EXTENSIONS: [&str; 3] = ["jpg", "json", "bin"];
const CHECKSUM: &str = "d4d870046c5e15e5844b9d4612045dff8b43a46374ca462c3f2bef2f998b995e";
/// Placeholders that are not columns.
const OWN: [&str; 3] = ["row", "ext", "sha256"];

/// Checks the laws with a template and values; the last one is also the checksum.
pub fn hold(bytes: &[u8]) {
    let Some(input) = FuzzInput::new(bytes) else { return };
    let with_checksum = SourceOptions { checksum_column: Some("c".into()), ..with_save_to("{row}") };
    try_row(&with_checksum, &input.cells).expect("columns").expect("a name");
    let Some(first) = names(input.text, &input.cells) else { return };
    for Name { path, member } in &first {
        is_inside(path);
        is_inside(member);
        is_of_one_sample(member);
    }
    // Values of several columns are distinguished only where the template separates them.
    let Some(column) = only_column(input.text, &OWN) else { return };
    let before = input.text.split(&format!("{{{}", column.written)).next().unwrap_or_default();
    let mut others = input.cells.clone();
    others.rotate_left(1);
    if let (Some(second), Ok(one), Ok(other)) =
        (names(input.text, &others), column.bytes(&input.cells), column.bytes(&others))
    {
        for (first, second) in first.iter().zip(&second) {
            assert_eq!(one == other, first.path == second.path, "{} {}", first.path, second.path);
            // After a dot, the value may be an extension, which does not distinguish members.
            if !before.contains('.') {
                assert_eq!(one == other, first.member == second.member, "{} {}", first.member, second.member);
            }
        }
    }
}

struct Name {
    path: String,
    member: String,
}

/// Returns the name with each extension, or `None` if it is invalid.
fn names(template: &str, cells: &[Cell<'_>]) -> Option<Vec<Name>> {
    let row = try_row(&with_save_to(template), cells).ok()??;
    if defect(&row).is_some() {
        return None;
    }
    let save_as = row.extra?.save_as?;
    let name = |extension| {
        let path = save_as.name.path(extension, CHECKSUM).ok()?;
        Some(Name { path, member: save_as.name.member(extension, CHECKSUM) })
    };
    EXTENSIONS.into_iter().map(name).collect()
}

fn is_inside(path: &str) {
    assert!(Path::new(path).components().all(|component| matches!(component, Component::Normal(_))), "{path}");
    assert!(!path.contains(|character: char| character.is_control() || character == '\\'), "{path:?}");
    for (at, component) in path.split('/').enumerate() {
        assert!((1..=MAX_COMPONENT_BYTES).contains(&component.len()), "{path}");
        assert!(!component.ends_with(['.', ' ']), "{path}");
        let is_of_jobs = ["_headgate", "part-", "failed-"].iter().any(|start| folded(component).starts_with(start));
        assert!(at > 0 || !is_of_jobs || folded(component).starts_with("_headgate") && component.len() > 9, "{path}");
    }
}

/// The name up to its first dot is the key of a sample (WebDataset), and what describes the body has an extension of its
/// own.
fn is_of_one_sample(member: &str) {
    let name = member.rsplit('/').next().unwrap_or(member);
    let (key, extension) = name.split_once('.').expect("an extension");
    assert!(!key.is_empty() && !extension.is_empty() && !extension.eq_ignore_ascii_case("json"), "{member}");
}
