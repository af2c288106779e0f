//! The vocabulary of the engine as plain data: rows, outcomes, options. It does not use Arrow, and of HTTP only the names.
//! Three modules do more, because they go wherever the data goes: [`memory`], the budget that bodies reserve from and wait
//! for, [`host_connections`], the connections that lanes wait for, and [`clock`], which is read once for a run.

pub mod authorization;
pub mod body_stream;
pub mod boundary_salt;
pub mod choices;
pub mod clock;
pub mod credentials;
pub mod defaults;
pub mod engine_options;
pub mod error;
pub(crate) mod failed_by;
pub mod file_name;
pub(crate) mod grouped;
pub mod headers;
pub mod host_connections;
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
pub mod outcome;
pub mod random;
pub mod reason;
pub mod redirect_chain;
pub mod reply_to;
pub mod row;
pub mod saved;
pub mod secret;
pub mod selected;
pub mod source_size;
pub mod stall;
pub mod status_set;
pub mod target;
pub mod url_user;
