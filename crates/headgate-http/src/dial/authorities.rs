//! The certificate authorities of the system and of Mozilla.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;

/// The authorities that are trusted by default. They are read when the first certificate is verified, because reading takes
/// milliseconds and many programs make no TLS connection. All clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownAuthorities(Arc<OnceLock<RootCertStore>>);

impl KnownAuthorities {
    /// Returns the authorities. The first call reads them, and blocks meanwhile.
    pub(super) fn get(&self) -> &RootCertStore {
        self.0.get_or_init(read)
    }
}

/// Returns the system's certificates together with the bundled ones of Mozilla. So a container without certificates works,
/// and so does a company's own authority that is installed in the system.
fn read() -> RootCertStore {
    let mut authorities = RootCertStore::empty();
    authorities.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    authorities
}
