//! Where a connection leads, and how.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::http::dial::way::Way;
use crate::model::origin::Origin;

/// What a connection must have in common with a request to serve it.
#[derive(Debug, Clone)]
pub struct RouteKey {
    pub origin: Origin,
    /// The same where it is one and the same object.
    pub way: Arc<Way>,
}

impl PartialEq for RouteKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.way, &other.way) && self.origin == other.origin
    }
}

impl Eq for RouteKey {}

impl Hash for RouteKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
        Arc::as_ptr(&self.way).hash(state);
    }
}
