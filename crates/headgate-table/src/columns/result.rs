//! The columns of a result: its own, those selected from responses, and those of the input.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::{SelectionOptions, SourceOptions};

use super::kept::hydrated;
use super::schema::{own_fields, saved_fields};
use super::select::Selection;

/// All results have these columns: without them, no job could be resumed, and no failed rows retried, whose attempts add
/// up.
pub(crate) const NEEDED: [&str; 4] = ["row", "status", "error", "attempts"];

/// The columns of a result.
#[derive(Debug, Clone, Default)]
pub struct ResultColumns {
    /// Own columns that are omitted.
    pub omitted: Vec<String>,
    /// Whether bodies are saved, with columns of their paths.
    pub saved: bool,
    /// Columns that are selected from responses, if there are any.
    pub selection: Option<Arc<Selection>>,
    /// Columns of the input, which are the last.
    pub kept: Fields,
}

impl ResultColumns {
    /// Returns the columns of a job with these options, whose input has the columns `kept` to keep.
    ///
    /// # Errors
    /// `Usage`: a selection is invalid, a column can't be omitted, or two have the same name.
    pub fn new(source: &SourceOptions, options: &SelectionOptions, kept: Fields) -> Result<Self, JobError> {
        let selection = Selection::new(options)?.map(Arc::new);
        let columns = Self { omitted: options.drop.clone(), saved: source.save_to.is_some(), selection, kept };
        columns.check_omitted()?;
        columns.check_names(&source.name())?;
        Ok(columns)
    }

    /// Returns the columns of a job that only keeps columns of the input.
    pub fn of_kept(kept: Fields) -> Self {
        Self { kept, ..Self::default() }
    }

    pub fn schema(&self) -> SchemaRef {
        let kept = hydrated(&self.kept);
        let selected = self.selected();
        let fields = self.own().chain(selected.iter().cloned()).chain(kept.iter().cloned());
        SchemaRef::new(Schema::new(fields.collect::<Fields>()))
    }

    /// Returns the result's own columns that are not omitted.
    fn own(&self) -> impl Iterator<Item = FieldRef> {
        let saved = saved_fields().into_iter().filter(|_| self.saved);
        own_fields().into_iter().filter(|field| self.has(field.name())).chain(saved)
    }

    /// Returns the columns that are selected from responses.
    pub(super) fn selected(&self) -> Fields {
        self.selection.as_ref().map_or_else(Fields::empty, |selection| selection.fields())
    }

    /// Returns whether the result has this column of headgate's own.
    pub fn has(&self, own: &str) -> bool {
        self.omitted.iter().all(|name| name != own)
    }

    fn check_omitted(&self) -> Result<(), JobError> {
        let omittable = omittable();
        let Some(name) = self.omitted.iter().find(|name| !omittable.contains(name)) else { return Ok(()) };
        let reason = if NEEDED.contains(&&name[..]) {
            "without it, a job can't be resumed or retried".to_owned()
        } else if saved_fields().iter().any(|field| self.saved && field.name() == name) {
            "it says where bodies are saved".to_owned()
        } else {
            format!("the results have no such column of their own; those are {}", omittable.join(", "))
        };
        Err(JobError::usage(message!(OptionName::Drop, ": {name:?}: {reason}")))
    }

    /// Refuses two columns of the same name: no reader accepts such files.
    fn check_names(&self, input: &str) -> Result<(), JobError> {
        let own: Vec<FieldRef> = self.own().collect();
        let own: Vec<&str> = own.iter().map(|field| &field.name()[..]).collect();
        let existing = own.join(", ");
        let mut names: HashSet<&str> = own.iter().copied().collect();
        let may_go = |name: &String| own.contains(&&name[..]) && omittable().contains(name);
        let selected = self.selected();
        if let Some(name) = selected.iter().map(|field| field.name()).find(|name| !names.insert(name)) {
            let mut reason = if own.contains(&&name[..]) {
                message!(
                    "is a column that the results have of their own (reserved names: {existing}): choose another name"
                )
            } else {
                message!("is the name of two columns")
            };
            if may_go(name) {
                reason = message!(reason, ", or leave that column out with ", OptionName::Drop);
            }
            return Err(JobError::usage(message!(OptionName::Extract, ": {name:?} ", reason)));
        }
        let Some(name) = self.kept.iter().map(|field| field.name()).find(|name| !names.insert(name)) else {
            return Ok(());
        };
        let what = if may_go(name) {
            message!(
                "the result has one of its own by that name (reserved names: {existing}); leave that out with ",
                OptionName::Drop,
                ", or "
            )
        } else if own.contains(&&name[..]) {
            message!("the result has one of its own by that name (reserved names: {existing}); ")
        } else {
            message!("it is the name of an extracted column; give that another name in ", OptionName::Extract, ", or ")
        };
        Err(JobError::input(message!(
            "{input}: the column {name:?} can't be kept: ",
            what,
            "list the columns of the input to keep in ",
            OptionName::Keep
        )))
    }
}

/// Returns the own columns that can be omitted.
fn omittable() -> Vec<String> {
    let names = own_fields().into_iter().map(|field| field.name().clone());
    names.filter(|name| !NEEDED.contains(&&name[..])).collect()
}
