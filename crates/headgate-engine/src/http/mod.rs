//! One exchange over HTTP/1.1: resolve, connect, TLS, send, receive, decode.

pub mod chunked;
pub mod client;
pub mod deadline;
pub mod decode;
pub mod dial;
pub mod exchange;
pub mod head;
pub mod pool;
pub mod request;
pub mod response;
pub mod target;
