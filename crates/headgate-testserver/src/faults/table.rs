//! All faults.

use super::fault::Fault;
use super::{connection, content, framing, head, http2, redirect};

const TABLES: [&[Fault]; 7] = [
    connection::FAULTS,
    framing::FAULTS,
    head::FAULTS,
    content::FAULTS,
    redirect::FAULTS,
    http2::STREAM_FAULTS,
    http2::CONNECTION_FAULTS,
];

/// Every fault, in the order of the list at `/`.
pub(crate) fn all() -> impl Iterator<Item = &'static Fault> {
    TABLES.into_iter().flatten()
}

/// The fault of that name, and its place in [`all`].
pub(crate) fn find(name: &str) -> Option<(usize, &'static Fault)> {
    all().enumerate().find(|(_, fault)| fault.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_says_what_it_does() {
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
