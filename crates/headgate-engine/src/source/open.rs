//! Which source goes with which input.

use std::sync::Arc;

use super::batches::Batches;
use super::delimited::Delimited;
use super::form::Form;
use super::input::Input;
use super::keep;
use super::ndjson::Ndjson;
use super::opened::Opened;
use super::parquet::Parquet;
use super::pattern::Pattern;
use super::template::bound::{AnyNames, RequestTemplates};
use super::text::Text;
use super::{Again, Source};
use crate::message;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::SourceOptions;

/// Opens the source that the input's form asks for.
///
/// # Errors
/// `Input`: no such file, a directory, an unknown extension, no URL column (naming the columns there are), an
/// option that does not fit the form.
pub fn open(options: &SourceOptions) -> Result<Box<dyn Source>, JobError> {
    // A mistake in them has nothing to do with the input.
    RequestTemplates::new(options, &mut AnyNames)?;
    let form = Form::of(&options.input)?;
    if form == Form::Pattern && options.url.is_some() {
        let name = &options.input;
        return Err(JobError::input(message!(
            "{name}: the input is a URL already, and ",
            OptionName::Url,
            " makes URLs of the rows of a file: leave one of them out"
        )));
    }
    if !keep::names(options)?.is_empty() && !form.has_columns() {
        let name = &options.input;
        return Err(JobError::input(message!(
            "{name}: there are no columns to keep in a list of URLs: ",
            OptionName::Keep,
            " is for .csv, .tsv, .ndjson and .parquet"
        )));
    }
    if options.cost_column.is_some() && !form.has_columns() {
        let name = &options.input;
        return Err(JobError::input(message!(
            "{name}: there are no costs in a list of URLs: ",
            OptionName::CostColumn,
            " is for .csv, .tsv, .ndjson and .parquet"
        )));
    }
    let opened = match form {
        Form::Pattern | Form::Stdin => None,
        Form::Text(_) | Form::Delimited(..) | Form::Ndjson(_) | Form::Parquet => {
            Some(Arc::new(Opened::open(&options.input, form)?))
        }
    };
    begin(options, opened)
}

/// The source of an input that is open, from its beginning. `None`: it is no file.
fn begin(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Result<Box<dyn Source>, JobError> {
    let (keep, head) = (keep::names(options)?, options.head);
    let Some(opened) = opened else {
        return Ok(if Form::of(&options.input)? == Form::Stdin {
            Batches::boxed(Text::live("standard input", std::io::stdin(), options)?, head, None)
        } else {
            Batches::boxed(Pattern::open(options)?, head, Some(again(options, None)))
        });
    };
    let again = opened.ends().is_some().then(|| again(options, Some(opened.clone())));
    Ok(match opened.form {
        Form::Delimited(delimiter, _) => {
            let input = Input::open(opened)?;
            Batches::boxed(Delimited::new(input, options, &keep, delimiter)?, head, again)
        }
        Form::Ndjson(_) => Batches::boxed(Ndjson::new(Input::open(opened)?, options, &keep)?, head, again),
        Form::Parquet => Batches::boxed(Parquet::open(opened, options, &keep)?, head, again),
        Form::Text(_) | Form::Stdin | Form::Pattern => {
            Batches::boxed(Text::new(Input::open(opened)?, options)?, head, again)
        }
    })
}

fn again(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Again {
    let (name, options) = (options.input.clone(), options.clone());
    Again { name, open: Arc::new(move || begin(&options, opened.clone())) }
}
