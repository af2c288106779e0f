//! Columns from the directories of a file, as Hive and Spark write them: `day=2026-01-02/country=CH/0.parquet`.
//!
//! They are the directories below the named one, and those right above it, so that the columns are the same whichever of
//! these directories is named. Names and values are decoded (`%2F`). Where a file has a column of the same name, the
//! directory's value replaces it.

use std::iter::repeat_n;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringViewArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use headgate_core::options::{SourceOptions, Templates};
use percent_encoding::percent_decode_str;

/// Hive's representation of a null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Replaces the name of a column that does not count.
pub(super) const UNNAMED: &str = "\0";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Partition(Vec<(String, Option<String>)>);

impl Partition {
    /// Returns the columns of a directory and of those right above it.
    pub(super) fn above(directory: &Path) -> Self {
        let here = directory.as_os_str().is_empty();
        let absolute = std::path::absolute(if here { Path::new(".") } else { directory }).unwrap_or_default();
        let names = absolute.ancestors().map_while(|above| pair(above.file_name()?.to_str()?));
        let mut pairs: Vec<_> = names.collect();
        pairs.reverse();
        Self::default().with(pairs)
    }

    /// Adds the columns of the directories of a file below it.
    pub(super) fn below(&self, file: &Path) -> Self {
        let directories = file.parent().into_iter().flat_map(Path::components);
        self.clone().with(directories.filter_map(|directory| pair(directory.as_os_str().to_str()?)))
    }

    /// Adds columns. Of two with one name, the inner one counts.
    fn with(mut self, pairs: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        for (name, value) in pairs {
            self.0.retain(|(other, _)| *other != name);
            self.0.push((name, value));
        }
        self
    }

    /// Returns the columns that determine requests and kept values. A template may use any of them.
    pub(super) fn used(&self, options: &SourceOptions) -> Vec<(&str, Option<&str>)> {
        let any = options.url.is_some() || options.save_to.is_some() || options.templates != Templates::default();
        let columns = [
            &options.method_column,
            &options.headers_column,
            &options.body_column,
            &options.body_file_column,
            &options.if_none_match_column,
            &options.if_modified_since_column,
            &options.checksum_column,
        ];
        let is_named = |name: &String| {
            let is_kept = options.keep.iter().any(|kept| kept == name || kept == "*");
            is_kept || *name == options.url_column || columns.iter().any(|column| column.as_ref() == Some(name))
        };
        let used = self.0.iter().filter(|(name, _)| any || is_named(name));
        used.map(|(name, value)| (name.as_str(), value.as_deref())).collect()
    }

    /// Returns the names of all columns of a file: its own, replaced by [`UNNAMED`] where a directory has the same name,
    /// followed by these.
    pub(super) fn columns<'a>(&'a self, own: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        own.map(|name| if self.find(name).is_some() { UNNAMED } else { name }).chain(self.names())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the index of the column of this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(other, _)| other == name)
    }

    /// Returns the value of the column at this index, or `None` if it is null or there is none.
    pub(super) fn value(&self, at: usize) -> Option<&str> {
        self.0.get(at)?.1.as_deref()
    }

    /// Returns each as a column of text.
    pub(super) fn fields(&self, data_type: &DataType) -> impl Iterator<Item = Arc<Field>> {
        self.0.iter().map(|(name, _)| Arc::new(Field::new(name, data_type.clone(), true)))
    }

    /// Returns the columns of a file as they are read, followed by these.
    pub(super) fn after(&self, own: &SchemaRef) -> SchemaRef {
        let columns = own.fields().iter().cloned().chain(self.fields(&DataType::Utf8View));
        Arc::new(Schema::new(columns.collect::<Fields>()))
    }

    /// Returns `rows` rows of the column at this index.
    pub(super) fn array(&self, at: usize, rows: usize) -> ArrayRef {
        Arc::new(repeat_n(self.value(at), rows).collect::<StringViewArray>())
    }
}

/// Parses `name=value`.
fn pair(directory: &str) -> Option<(String, Option<String>)> {
    let (name, value) = directory.split_once('=').filter(|(name, _)| !name.is_empty())?;
    Some((decoded(name), (value != NULL).then(|| decoded(value))))
}

fn decoded(text: &str) -> String {
    // Bytes that are not UTF-8 stay percent-encoded.
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory, a file below it, and their columns.
    type Case = (&'static str, &'static str, &'static [(&'static str, Option<&'static str>)]);

    #[test]
    fn directories_below_and_directly_above_the_named_one_are_columns() {
        let cases: [Case; 7] = [
            ("/data", "0.csv", &[]),
            ("/data", "a=1/b=2/0.csv", &[("a", Some("1")), ("b", Some("2"))]),
            ("/data/a=1", "b=2/0.csv", &[("a", Some("1")), ("b", Some("2"))]),
            ("/a=1/data", "x/b=/=3/c=1=2/d=4.csv", &[("b", Some("")), ("c", Some("1=2"))]),
            ("/data", "a=__HIVE_DEFAULT_PARTITION__/0.csv", &[("a", None)]),
            (
                "/data/a%20b=1",
                "x=%2F%C3%A9%/y=%FF/0.csv",
                &[("a b", Some("1")), ("x", Some("/é%")), ("y", Some("%FF"))],
            ),
            ("/data/a=1", "b=2/a=3/0.csv", &[("b", Some("2")), ("a", Some("3"))]),
        ];
        for (directory, file, expected) in cases {
            let found = Partition::above(Path::new(directory)).below(Path::new(file));
            let found: Vec<_> = found.0.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            assert_eq!(expected, found, "{directory} {file}");
        }
    }

    #[test]
    fn the_identity_of_a_job_includes_the_partition_columns_that_it_uses() {
        let partition = Partition::above(Path::new("/a=1/url=2/c=3"));
        let used =
            |options: SourceOptions| partition.used(&options).into_iter().map(|(name, _)| name).collect::<String>();
        let keep = |name: &str| vec![name.to_owned()];
        assert_eq!("url", used(SourceOptions::default()));
        assert_eq!("urlc", used(SourceOptions { keep: keep("c"), ..SourceOptions::default() }));
        assert_eq!("aurlc", used(SourceOptions { keep: keep("*"), ..SourceOptions::default() }));
        assert_eq!("aurlc", used(SourceOptions { url: Some("{a}".into()), ..SourceOptions::default() }));
        assert_eq!("url", used(SourceOptions { cost_column: Some("c".into()), ..SourceOptions::default() }));
    }
}
