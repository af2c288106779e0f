//! Bodies in archives.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headgate_core::options::{IfExists, SaveFormat};

use super::{files, saving, sha256, tmp};
use crate::harness::{server, url};

/// Returns the members of an archive, with their names and contents.
fn members(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (entry.path().unwrap().display().to_string(), bytes)
    });
    entries.collect()
}

#[test]
fn archives_have_a_body_and_a_description_for_each_row() {
    let server = server();
    let sizes = [0, 10, 70_000, 300_000];
    let urls = (0..40).map(|row| url(server.address(), &format!("/bytes/{}", sizes[row % 4])));
    let mut rig = saving("d.e/{row}.{ext}", urls);
    rig.options.source.save_format = SaveFormat::Tar;
    rig.options.sink.part_size = 1_000_000;
    rig.options.sink.commit_interval = Some(std::time::Duration::ZERO);
    let rows = rig.rows();
    assert_eq!(Vec::<PathBuf>::new(), tmp(&rig));
    let archives = files(&rig.path("out"));
    assert!((2..=6).contains(&archives.len()), "{:?}", archives.keys());
    let mut bodies = BTreeMap::new();
    for (number, (name, bytes)) in archives.iter().enumerate() {
        assert_eq!(&format!("{number:05}.tar"), name);
        for pair in members(bytes).chunks(2) {
            let [(body, bytes), (json, description)] = pair else { panic!("half a row") };
            let key = body.strip_suffix(".txt").unwrap();
            assert_eq!(&format!("{key}.json"), json);
            let description: serde_json::Value = serde_json::from_slice(description).unwrap();
            assert_eq!(
                (Some(200), sha256(bytes)),
                (description["status"].as_u64(), description["sha256"].as_str().unwrap().into())
            );
            assert_eq!(format!("d.e/{}", description["row"]), key);
            bodies.insert(format!("{name}/{body}"), sha256(bytes));
        }
    }
    let of_rows = rows.iter().map(|row| (row.path.clone().unwrap(), row.sha256.clone().unwrap()));
    assert_eq!(of_rows.collect::<BTreeMap<_, _>>(), bodies);
    // A job that starts over begins with the first archive again.
    rig.options.sink.if_exists = IfExists::Overwrite;
    rig.options.sink.part_size = 1 << 30;
    rig.rows();
    assert_eq!(vec!["00000.tar"], files(&rig.path("out")).keys().collect::<Vec<_>>());
}

#[test]
fn one_of_several_rows_with_the_same_key_is_in_the_archives() {
    let server = server();
    let mut rig = saving("{sha256}.{ext}", (0..20).map(|_| url(server.address(), "/bytes/100")));
    rig.options.source.save_format = SaveFormat::Tar;
    rig.options.sink.part_size = 1;
    let rows = rig.rows();
    let saved: Vec<_> = rows.iter().filter(|row| row.path.is_some()).collect();
    assert_eq!(1, saved.len());
    assert!(rows.iter().filter(|row| row.path.is_none()).all(|row| row.kind() == Some("duplicate_name")));
    assert_eq!(vec!["00000.tar"], files(&rig.path("out")).keys().collect::<Vec<_>>());
}
