//! Opens the source of an input.

use std::fs;
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::SourceOptions;

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
use super::{Reopener, Source};

/// Opens the source for the input's form.
///
/// # Errors
/// `Input`: the file does not exist, its extension is unknown, it has no URL column (the message names its columns), or an
/// option does not fit the form. Several files: their forms or columns differ. Also the errors of
/// [`kept_columns::decided`]. `Usage`: one of several inputs is not a file.
pub fn open(options: &SourceOptions) -> Result<Box<dyn Source>, JobError> {
    // A mistake in a template does not depend on the input.
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

/// Returns the fingerprint of the input, or `None` if it can't be read a second time, as standard input or a FIFO.
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
        // Opening a FIFO would wait for its writer.
        _ if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) => Ok(None),
        form => Ok(Opened::open(path, form)?.fingerprint()),
    }
}

/// Refuses options that need columns, if the input has none.
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

/// Returns the source of surveyed files, from the first row of the first file.
fn begin_several(options: &SourceOptions, files: Arc<Surveyed>) -> Box<dyn Source> {
    let name = options.name().into_owned();
    let (its_options, its_files) = (options.clone(), files.clone());
    let open = Arc::new(move || Ok(begin_several(&its_options, its_files.clone())));
    Batches::boxed(Box::new(Several::new(files)), Some(Reopener { name, open }))
}

/// Returns the source of an opened input, from its beginning. `None`: the input is not a file.
fn begin(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Result<Box<dyn Source>, JobError> {
    let (rows, reopener): (Box<dyn Rows>, _) = match opened {
        Some(opened) => {
            let reopener = opened.fingerprint().map(|_| reopener(options, Some(opened.clone())));
            (file_rows::open(opened, options, Partition::default())?, reopener)
        }
        None if Form::of(&options.input)? == Form::Stdin => {
            (Box::new(Text::live("standard input", std::io::stdin(), options)?), None)
        }
        None => (Box::new(Pattern::open(options)?), Some(reopener(options, None))),
    };
    Ok(Batches::boxed(rows, reopener))
}

fn reopener(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Reopener {
    let (name, options) = (options.input.clone(), options.clone());
    Reopener { name, open: Arc::new(move || begin(&options, opened.clone())) }
}
