//! Public suffixes, such as `co.uk`: domains below which anyone can register names.

/// Returns whether anyone can register names below this domain.
pub(crate) fn is_public_suffix(domain: &str) -> bool {
    psl::suffix(domain.as_bytes()).is_some_and(|suffix| suffix.as_bytes() == domain.as_bytes())
}

/// Returns the registrable domain of a hostname: one label more than its public suffix. A hostname without one is its own.
pub(crate) fn registrable(host: &str) -> &str {
    psl::domain_str(host).unwrap_or(host)
}
