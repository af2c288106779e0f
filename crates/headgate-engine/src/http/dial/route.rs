//! Where a connection leads, and how.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::model::origin::Origin;

/// What a connection must have in common with a request to serve it. (A proxy would be one thing more.)
#[derive(Debug, Clone)]
pub struct RouteKey {
    pub origin: Origin,
    /// How a TLS connection is made; `None`: none is.
    pub tls: Option<Arc<ClientConfig>>,
}

impl RouteKey {
    /// TLS is the same where its configuration is one and the same object: it holds whom a run trusts.
    fn tls_address(&self) -> Option<*const ClientConfig> {
        self.tls.as_ref().map(Arc::as_ptr)
    }
}

impl PartialEq for RouteKey {
    fn eq(&self, other: &Self) -> bool {
        self.tls_address() == other.tls_address() && self.origin == other.origin
    }
}

impl Eq for RouteKey {}

impl Hash for RouteKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
        self.tls_address().hash(state);
    }
}
