//! Routes requests by their path.

use crate::faults::{Fault, table};
use crate::helpers::{self, Helper};

#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestRoute {
    Default,
    Helper(&'static Helper),
    /// A fault, with its index in [`table::all`].
    Fault(usize, &'static Fault),
    /// A mistyped name of a fault, which must not get a successful response.
    Unknown,
}

impl RequestRoute {
    /// Returns whether the response depends on more of the request than the route.
    pub(crate) fn reads_request(self) -> bool {
        matches!(self, RequestRoute::Helper(_))
    }

    /// Returns whether requests for this route are counted and limited: all except those that inspect or change the server, and
    /// those for bearer tokens.
    pub(crate) fn is_counted(self) -> bool {
        !matches!(self, RequestRoute::Helper(Helper { name: "/stats" | "/capacity/" | "/token", .. }))
    }

    pub(crate) fn is_robots(self) -> bool {
        matches!(self, RequestRoute::Helper(Helper { name: "/robots.txt", .. }))
    }

    /// Returns the route for the target of a request line. The query, scheme and authority are ignored.
    pub(crate) fn of(target: &str) -> Self {
        let path = path(target);
        if let Some(name) = path.strip_prefix("/fault/") {
            return table::find(name).map_or(RequestRoute::Unknown, |(index, fault)| RequestRoute::Fault(index, fault));
        }
        if path == "/fault" {
            return RequestRoute::Unknown;
        }
        helpers::find(path).map_or(RequestRoute::Default, RequestRoute::Helper)
    }
}

fn path(target: &str) -> &str {
    let target = if target.starts_with('/') {
        target
    } else {
        let authority = target.find("://").map_or(0, |scheme| scheme + 3);
        target[authority..].find('/').map_or("/", |slash| &target[authority + slash..])
    };
    target.split_once('?').map_or(target, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(target: &str) -> Option<&'static str> {
        match RequestRoute::of(target) {
            RequestRoute::Helper(helper) => Some(helper.name),
            _ => None,
        }
    }

    #[test]
    fn ordinary_paths_get_the_default_response() {
        for target in ["/1", "/hello", "/hello/world", "/statistics", "/bytes", "/1?/fault/refuse", "/stats/x"] {
            assert!(matches!(RequestRoute::of(target), RequestRoute::Default), "{target}");
        }
    }

    #[test]
    fn query_scheme_and_authority_do_not_matter() {
        for target in ["/bytes/5", "/bytes/5?a=b", "http://localhost:80/bytes/5", "http://localhost/bytes/5?/x"] {
            assert_eq!(Some("/bytes/"), helper(target), "{target}");
        }
        for target in ["/", "/?a", "http://localhost", "http://localhost?a", "*"] {
            assert_eq!(Some("/"), helper(target), "{target}");
        }
        assert_eq!(Some("/cookies/set"), helper("/cookies/set?a=b"));
        assert_eq!(Some("/echo/"), helper("/echo/x/y"));
    }

    #[test]
    fn mistyped_faults_are_unknown() {
        for target in ["/fault", "/fault/", "/fault/no-such"] {
            assert!(matches!(RequestRoute::of(target), RequestRoute::Unknown), "{target}");
        }
    }
}
