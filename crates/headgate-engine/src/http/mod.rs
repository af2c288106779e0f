//! One exchange over HTTP/1.1: resolve, connect, TLS, send, receive, decode.

pub mod chunked;
pub mod client;
pub mod connect;
pub mod deadline;
pub mod decode;
pub mod exchange;
pub mod head;
pub mod pool;
pub mod request;
pub mod resolve;
pub mod response;
pub mod target;
pub mod tls;
