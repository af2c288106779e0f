//! Runs each fuzz target on its seed inputs.

use std::path::Path;

use crate::columns::laws as selection;
use crate::source::template::laws::{form, header, json, multipart, save_to, url};

#[test]
fn each_fuzz_target_passes_on_its_seeds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let targets = [
        ("form", form::hold as fn(&[u8])),
        ("header", header::hold),
        ("json", json::hold),
        ("multipart", multipart::hold),
        ("save_to", save_to::hold),
        ("selection", selection::hold),
        ("url", url::hold),
    ];
    let mut built: Vec<_> = names(&fuzz.join("targets")).iter().map(|name| name.replace(".rs", "")).collect();
    built.sort();
    assert_eq!(targets.map(|(target, _)| target.to_owned()).to_vec(), built);
    for (target, hold) in targets {
        let seeds = fuzz.join("seeds").join(target);
        for name in names(&seeds) {
            let seed = std::fs::read(seeds.join(&name)).expect("a seed");
            assert!(std::panic::catch_unwind(|| hold(&seed)).is_ok(), "{target}: {name}");
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}
