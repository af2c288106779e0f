//! Decides which origins get the credentials of a run: those the user named, or the one origin of all its requests.

use headgate_core::credentials::{credential_options, unbound};
use headgate_core::error::JobError;
use headgate_core::message::OptionName;
use headgate_core::options::{JobOptions, RequestOptions};
use headgate_core::target;
use headgate_table::source::only_origin::only_origin;

/// Completes the options of a job. `stored` holds the origins that were named when the job began.
///
/// # Errors
/// `Usage`: there are credentials, each row names its host, and no option says which hosts get the credentials.
pub(crate) fn complete(options: &mut JobOptions, stored: &[String]) -> Result<(), JobError> {
    name_secrets(options);
    if options.request.credentials_for.is_empty() {
        options.request.credentials_for = stored.to_vec();
    }
    let Some(credential) = credential_options(options).next() else { return Ok(()) };
    if options.request.credentials_for.is_empty() {
        let origin = only_origin(&options.source).ok_or_else(|| unbound(credential))?;
        options.request.credentials_for.push(origin.to_string());
    }
    Ok(())
}

/// Checks the templates of a call on a client's run, which has its own origins.
///
/// # Errors
/// `Usage`: there are credentials among them, and the run names no origins.
pub(crate) fn check_call(options: &mut JobOptions) -> Result<(), JobError> {
    name_secrets(options);
    let has_credentials = credential_options(options).any(|option| option == OptionName::HeaderTemplates);
    if has_credentials && options.request.credentials_for.is_empty() {
        return Err(unbound(OptionName::HeaderTemplates));
    }
    Ok(())
}

/// Sends the credentials of a client to the origin of its base URL, unless the user named other origins.
pub fn of_base_url(request: &mut RequestOptions, base_url: &str) {
    if request.credentials_for.is_empty()
        && let Ok(base) = target::parse(base_url)
    {
        request.credentials_for.push(base.origin.to_string());
    }
}

/// Copies the names of secret headers to the templates: the source decides which templates are credentials.
fn name_secrets(options: &mut JobOptions) {
    options.source.templates.secret_headers.clone_from(&options.request.secret_headers);
}
