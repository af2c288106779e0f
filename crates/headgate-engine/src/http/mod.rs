//! One exchange over HTTP/1.1: resolve, connect, TLS, send, receive, decode.

pub mod authorization;
mod body_coding;
pub mod client;
mod cookies;
pub mod deadline;
pub mod decode;
pub mod defaults;
pub mod dial;
pub mod h1;
pub mod h2;
pub mod header_lines;
pub mod idempotency_key;
pub mod keeping;
pub mod method;
pub mod open;
pub mod patience;
pub mod pool;
pub mod received;
pub mod redirect;
pub mod reply;
pub mod request;
pub mod robots;
pub mod save;
pub mod sent_body;
pub mod site;
pub mod target;
pub mod upload;
