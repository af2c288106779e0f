//! Which source goes with which input.

use std::fs;
use std::sync::Arc;

use super::batches::{Batches, Rows};
use super::file_rows;
use super::fingerprint::Fingerprint;
use super::form::Form;
use super::kept_columns;
use super::listed::is_several;
use super::opened::Opened;
use super::partition::Partition;
use super::pattern::Pattern;
use super::several::Several;
use super::surveyed::Surveyed;
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
/// `Input`: no such file, an unknown extension, no URL column (naming the columns there are), an option that does not fit
/// the form; of several files that they have not one form, or not the same columns; what [`kept_columns::decided`] refuses. `Usage`: what is no file among several.
pub fn open(options: &SourceOptions) -> Result<Box<dyn Source>, JobError> {
    // A mistake in them has nothing to do with the input.
    RequestTemplates::new(options, &mut AnyNames)?;
    let options = &*kept_columns::decided(options)?;
    if is_several(options) {
        let files = Arc::new(Surveyed::new(options)?);
        refuse_columns(options, files.has_columns())?;
        return Ok(begin_several(options, files));
    }
    let form = Form::of(&options.input)?;
    if form == Form::Pattern && options.url.is_some() {
        let name = &options.input;
        return Err(JobError::input(message!(
            "{name}: the input is a URL already, and ",
            OptionName::Url,
            " makes URLs of the rows of a file: leave one of them out"
        )));
    }
    refuse_columns(options, form.has_columns())?;
    let opened = match form {
        Form::Pattern | Form::Stdin => None,
        Form::Text(_) | Form::Delimited(..) | Form::Ndjson(_) | Form::Parquet => {
            Some(Arc::new(Opened::open(&options.input, form)?))
        }
    };
    begin(options, opened)
}

/// Returns what the input is known by. `None`: it can't be read a second time, as standard input or a FIFO.
///
/// # Errors
/// As [`open`].
pub fn fingerprint(options: &SourceOptions) -> Result<Option<Fingerprint>, JobError> {
    if is_several(options) {
        return Surveyed::new(options).map(|files| Some(files.fingerprint()));
    }
    let path = options.input.as_str();
    match Form::of(path)? {
        Form::Stdin => Ok(None),
        Form::Pattern => Ok(Some(Fingerprint::Pattern { text: path.to_owned() })),
        // To open a FIFO would be to wait for its writer.
        _ if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) => Ok(None),
        form => Ok(Opened::open(path, form)?.fingerprint()),
    }
}

/// What is asked of columns, where there are none.
fn refuse_columns(options: &SourceOptions, there_are: bool) -> Result<(), JobError> {
    let name = options.name();
    if !options.keep.is_empty() && !there_are {
        return Err(JobError::input(message!(
            "{name}: there are no columns to keep in a list of URLs: ",
            OptionName::Keep,
            " is for .csv, .tsv, .ndjson and .parquet"
        )));
    }
    if options.cost_column.is_some() && !there_are {
        return Err(JobError::input(message!(
            "{name}: there are no costs in a list of URLs: ",
            OptionName::CostColumn,
            " is for .csv, .tsv, .ndjson and .parquet"
        )));
    }
    Ok(())
}

/// The source of files that were looked at, from the first row of the first one.
fn begin_several(options: &SourceOptions, files: Arc<Surveyed>) -> Box<dyn Source> {
    let (name, again) = (options.name().into_owned(), files.clone());
    let again_options = options.clone();
    let open = Arc::new(move || Ok(begin_several(&again_options, again.clone())));
    Batches::boxed(Box::new(Several::new(files)), options.head, Some(Again { name, open }))
}

/// The source of an input that is open, from its beginning. `None`: it is no file.
fn begin(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Result<Box<dyn Source>, JobError> {
    let again = |opened| Some(again(options, opened));
    let (rows, again): (Box<dyn Rows>, _) = match opened {
        Some(opened) => {
            let again = opened.fingerprint().and_then(|_| again(Some(opened.clone())));
            (file_rows::open(opened, options, Partition::default())?, again)
        }
        None if Form::of(&options.input)? == Form::Stdin => {
            (Box::new(Text::live("standard input", std::io::stdin(), options)?), None)
        }
        None => (Box::new(Pattern::open(options)?), again(None)),
    };
    Ok(Batches::boxed(rows, options.head, again))
}

fn again(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Again {
    let (name, options) = (options.input.clone(), options.clone());
    Again { name, open: Arc::new(move || begin(&options, opened.clone())) }
}
