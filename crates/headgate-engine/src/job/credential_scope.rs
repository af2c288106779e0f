//! Which origins get the credentials of a run: those that were named, or the one origin that all its requests go to.

use crate::http::target;
use crate::model::credentials::{credential_options, unbound};
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::{JobOptions, RequestOptions};
use crate::source::only_origin::only_origin;

/// Completes the options of a job; `stored`: the origins that were named when it began.
///
/// # Errors
/// `Usage`: there are credentials, rows name their hosts themselves, and nothing says which of these get them.
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

/// Checks the templates of a call on the run of a client, which has its own origins.
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

/// Where nothing else is named, the credentials of a client are for the origin of its base URL.
pub fn of_base_url(request: &mut RequestOptions, base_url: &str) {
    if request.credentials_for.is_empty()
        && let Ok(base) = target::parse(base_url)
    {
        request.credentials_for.push(base.origin.to_string());
    }
}

/// Which templates are credentials is known where rows are made.
fn name_secrets(options: &mut JobOptions) {
    options.source.templates.secret_headers.clone_from(&options.request.secret_headers);
}
