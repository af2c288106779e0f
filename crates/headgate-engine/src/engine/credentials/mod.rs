//! Fetches the credentials of a run that are renewed while it goes on: tokens of a command or a provider, and secrets in files.
//!
//! A thread of its own fetches them: when the run begins, when a token is too old, when a file has changed, and when a response
//! has refused them. Meanwhile nothing starts at hosts that get them, and rows that were refused wait there. So there is one
//! fetch at a time, however many rows are refused.

mod command;
pub(crate) mod renewer;
pub(crate) mod secret_file;
