//! The data that all of headgate passes on: rows, requests, outcomes, error kinds, options and their rules, messages, the
//! memory budget, the connections to a host. The [`schedule`] decides which row starts next; [`files`] opens files below a
//! directory. It knows no Arrow and no HTTP client. Only [`files`] does I/O.

#![warn(unreachable_pub)]

pub mod authorization;
pub mod body_stream;
pub mod boundary_salt;
pub mod call;
mod choices;
pub mod clock;
pub mod cookie_jar;
pub mod credentials;
pub mod defaults;
mod engine_options;
pub mod error;
pub mod fail_on;
pub mod failed_by;
pub mod file_name;
pub mod files;
pub mod grouped;
pub mod headers;
pub mod host_connections;
pub mod inherited;
pub mod limits;
pub mod live;
pub mod memory;
pub mod message;
pub mod mock_transport;
pub mod network_options;
pub mod option_entries;
pub mod option_rules;
pub mod options;
pub mod origin;
pub mod origin_set;
mod public_suffix;
pub mod random;
pub mod reason;
pub mod redirect_chain;
pub mod response;
pub mod row;
pub mod saved;
pub mod schedule;
pub mod secret;
pub mod selected;
mod set_cookie;
pub mod source_size;
pub mod stall;
pub mod status_set;
pub mod target;
pub mod timer;
pub mod token_source;
pub mod upload_stream;
pub mod url_user;
pub mod virtual_clock;
