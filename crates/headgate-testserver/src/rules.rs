//! The server's rules for refusing, delaying and logging requests, shared by all its workers.

use std::io;
use std::sync::Arc;

use crate::config::Config;
use crate::limits::api::ApiLimits;
use crate::limits::capacity::Capacity;
use crate::request_log::RequestLog;

#[derive(Debug)]
pub(crate) struct ServerRules {
    pub capacity: Option<Arc<Capacity>>,
    /// Refuses requests beyond the capacity, rather than delaying them.
    pub refuses: bool,
    pub api: Option<Arc<ApiLimits>>,
    pub log: Option<Arc<RequestLog>>,
}

impl ServerRules {
    /// Returns the rules of a configuration, or `None` if it has none.
    pub(crate) fn of(config: &Config) -> io::Result<Option<Self>> {
        let rules = Self {
            capacity: config.capacity.map(|size| Arc::new(Capacity::new(size))),
            refuses: config.refuse,
            api: config.api.clone().map(|api| Arc::new(ApiLimits::new(api))),
            log: config.log.as_deref().map(RequestLog::create).transpose()?.map(Arc::new),
        };
        let is_any = rules.capacity.is_some() || rules.api.is_some() || rules.log.is_some();
        Ok(is_any.then_some(rules))
    }

    /// Returns whether the cost of a request is read from its body.
    pub(crate) fn reads_bodies(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.counts_tokens())
    }
}
