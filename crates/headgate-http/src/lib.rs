//! The HTTP client: it resolves, connects, sends, receives and decodes. It knows no Arrow and no jobs.

#![warn(unreachable_pub)]

mod body_encoding;
pub mod client;
mod cookies;
pub mod deadline;
pub mod decode;
pub mod defaults;
pub mod dial;
pub mod exchange_context;
pub mod h1;
mod h2;
mod header_lines;
pub mod idempotency_key;
pub mod idle_limits;
mod incoming;
mod keep_alive;
pub mod live_defaults;
pub mod method;
mod open;
pub mod origin_credentials;
pub mod pool;
pub mod recall;
pub mod redirect;
pub mod reply;
pub mod request;
mod response_timeouts;
pub mod robots;
mod robots_rules;
pub mod save;
pub mod sent_body;
pub mod sent_request;
pub mod site;
pub mod upload;
