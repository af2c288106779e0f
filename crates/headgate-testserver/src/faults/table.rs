//! All faults.

use super::fault::Fault;
use super::{connection, content, framing, headers, http2, redirect};

const TABLES: [&[Fault]; 7] = [
    connection::FAULTS,
    framing::FAULTS,
    headers::FAULTS,
    content::FAULTS,
    redirect::FAULTS,
    http2::STREAM_FAULTS,
    http2::CONNECTION_FAULTS,
];

/// Returns all faults, in the order of the list at `/`.
pub(crate) fn all() -> impl Iterator<Item = &'static Fault> {
    TABLES.into_iter().flatten()
}

/// Returns the fault of that name, and its index in [`all`].
pub(crate) fn find(name: &str) -> Option<(usize, &'static Fault)> {
    all().enumerate().find(|(_, fault)| fault.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_unique_name_and_a_description() {
        let names: BTreeSet<&str> = all().map(|fault| fault.name).collect();
        assert_eq!(all().count(), names.len());
        for fault in all() {
            assert!(fault.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
            assert!(!fault.description.is_empty(), "{}", fault.name);
            let ends = fault.steps.iter().position(|step| step.ends_connection());
            assert!(ends.is_none_or(|index| index + 1 == fault.steps.len()), "{}: steps after the end", fault.name);
        }
    }
}
