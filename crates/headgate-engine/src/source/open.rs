//! Which source goes with which input.

use super::Source;
use super::batches::Batches;
use super::delimited::Delimited;
use super::form::Form;
use super::input::Input;
use super::keep;
use super::ndjson::Ndjson;
use super::parquet::Parquet;
use super::pattern::Pattern;
use super::text::Text;
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
    let form = Form::of(&options.input)?;
    let keep = keep::names(options)?;
    if !keep.is_empty() && !form.has_columns() {
        let name = &options.input;
        return Err(JobError::input(message!(
            "{name}: there are no columns to keep in a list of URLs: ",
            OptionName::Keep,
            " is for .csv, .tsv, .ndjson and .parquet"
        )));
    }
    Ok(match form {
        Form::Pattern => Batches::boxed(Pattern::parse(&options.input)?, options.head),
        Form::Stdin => Batches::boxed(Text::live("standard input", std::io::stdin()), options.head),
        Form::Text(_) => Batches::boxed(Text::new(Input::open(&options.input, form)?), options.head),
        Form::Delimited(delimiter, _) => {
            let input = Input::open(&options.input, form)?;
            Batches::boxed(Delimited::new(input, options, &keep, delimiter)?, options.head)
        }
        Form::Ndjson(_) => {
            Batches::boxed(Ndjson::new(Input::open(&options.input, form)?, options, &keep)?, options.head)
        }
        Form::Parquet => Batches::boxed(Parquet::open(options, &keep)?, options.head),
    })
}
