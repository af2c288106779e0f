//! One exchange over HTTP/1.1: resolve, connect, TLS, send, receive, decode.

pub mod authorization;
pub mod client;
pub mod deadline;
pub mod decode;
pub mod dial;
pub mod h1;
pub mod idempotency_key;
pub mod method;
pub mod pool;
pub mod request;
pub mod site;
pub mod target;
