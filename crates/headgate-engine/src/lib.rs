//! The engine of headgate: everything that is fast, bounded or durable. It knows no Python.
//!
//! One job is a [`source`] of rows, a [`sink`] for their outcomes and the [`options`] between them;
//! [`run`] joins the three. Arrows between the modules go down only, in this order:
//!
//! ```text
//! run -> worker -> http -> outcome
//! run -> worker -> in_flight -> row
//! run -> stats -> source, outcome
//! run -> job -> source, sink; preview -> sink, job; sink -> outcome
//! outcome, source -> limit, kept, row, headers, failure, clock, options, status_set, error
//! ```

pub mod clock;
pub mod error;
pub mod failure;
pub mod headers;
pub mod http;
pub mod in_flight;
pub mod job;
pub mod kept;
pub mod limit;
pub mod options;
pub mod outcome;
pub mod preview;
pub mod row;
pub mod run;
pub mod sink;
pub mod source;
pub mod stats;
pub mod status_set;
pub mod worker;
