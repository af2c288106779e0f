//! The directory of the files that rows name.

use std::path::{Path, absolute};
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::SourceOptions;

use super::form::Form;

/// Returns the directory of the options, or that of the input; if the input is not a file, the working directory.
///
/// # Errors
/// `Usage`: it is not a path.
pub(super) fn of(options: &SourceOptions) -> Result<Arc<Path>, JobError> {
    let root = options.upload_root.as_deref().map_or_else(|| of_input(&options.input), Path::new);
    let root = absolute(root).map_err(|error| JobError::usage(message!(OptionName::UploadRoot, ": {error}")))?;
    Ok(root.into())
}

fn of_input(input: &str) -> &Path {
    let is_file = matches!(Form::of(input), Ok(Form::Text(_) | Form::Delimited(..) | Form::Ndjson(_) | Form::Parquet));
    let directory = Path::new(input).parent().filter(|directory| is_file && !directory.as_os_str().is_empty());
    directory.unwrap_or(Path::new("."))
}
