//! `headgate._headgate`: the engine's interface to Python. Each Python class has one file. This crate only converts
//! values: the engine makes all decisions.

#![warn(unreachable_pub)]

#[cfg(target_os = "linux")]
mod allocator;
mod arrow_in;
mod attempt;
mod batches;
mod call;
mod call_timeouts;
mod client;
mod completion_queue;
mod cookie_jar;
mod descriptor;
mod directory;
mod error;
mod fork_safe;
mod gil;
mod interruptible;
mod json;
mod mock;
mod option_reader;
mod options;
mod outcome;
mod plan;
mod preview;
mod pull;
mod request;
mod rows;
mod run;
mod server;
mod stream;
mod token;
mod upload;
mod virtual_clock;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _headgate {
    use headgate_core::error::ErrorKind;
    use headgate_core::message::OptionName;
    use headgate_engine::job_options;
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::attempt::NativeAttempt;
    #[pymodule_export]
    use super::batches::{BatchFlow, BatchRuns, BatchTable};
    #[pymodule_export]
    use super::call::NativeCall;
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::completion_queue::CompletionQueue;
    #[pymodule_export]
    use super::cookie_jar::CookieJar;
    #[pymodule_export]
    use super::directory::{job_clean, job_files, job_report, job_rows, job_set, job_status, job_verify};
    #[pymodule_export]
    use super::mock::{MockConnection, MockNetwork};
    #[pymodule_export]
    use super::options::{
        is_credential, mistakes_in_fetch, mistakes_in_retry, mistakes_in_settings, option_entries, options_as_read,
        parse_seconds,
    };
    #[pymodule_export]
    use super::outcome::NativeOutcome;
    #[pymodule_export]
    use super::plan::plan;
    #[pymodule_export]
    use super::preview::preview;
    #[pymodule_export]
    use super::pull::pull;
    #[pymodule_export]
    use super::rows::{RowBatch, RowBatches, RowSchema, RowStream};
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::server::Server;
    #[pymodule_export]
    use super::stream::ResponseStream;
    #[pymodule_export]
    use super::upload::UploadStream;
    #[pymodule_export]
    use super::virtual_clock::{VirtualClock, Working};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("HEADGATE_VERSION"))?;
        module.add("COMMIT", env!("HEADGATE_COMMIT"))?;
        module.add("TARGET", env!("HEADGATE_TARGET"))?;
        module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
        let kinds: Vec<_> = ErrorKind::ALL.iter().map(|kind| (kind.name(), kind.description())).collect();
        module.add("ERROR_KINDS", kinds)?;
        module.add("JOB_OPTIONS", job_options().map(OptionName::name).collect::<Vec<_>>())
    }
}
