//! The text of a template: literal text, and placeholders for values of columns.
//!
//! `{column}` is replaced by the value of a row, `{column|default}` by the default if the value is null. `{column:string}`
//! makes the value text where it would keep its type, and `{column:optional}` is `{column|}`. `{{` and `}}` are braces, as
//! is a `}` without an opening brace.

use std::fmt;

/// Suffix of a placeholder whose value becomes text.
const AS_STRING: &str = ":string";
/// Suffix that replaces a null with nothing, also where an empty value would be refused.
const OPTIONAL: &str = ":optional";

/// A template: its pieces, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<TemplatePiece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplatePiece {
    /// Never empty, and never beside another literal.
    Literal(String),
    Column(Placeholder),
}

/// A placeholder for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// All text between the braces: a column of this name takes precedence.
    pub written: Box<str>,
    pub column: Box<str>,
    /// The index of its value among the values of a row, set by [`Template::bind`].
    pub slot: usize,
    /// The replacement for a null. `None`: a null is an error.
    pub default: Option<Box<str>>,
    /// Whether the value becomes text.
    pub as_string: bool,
}

/// Why a text is not a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// The position of the character, counted from 1.
    Unclosed(usize),
    Empty(usize),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed(at) => {
                write!(f, "the brace at character {at} isn't closed: write {{column}}, or {{{{ for a brace")
            }
            Self::Empty(at) => {
                write!(f, "the braces at character {at} name no column: write {{column}}, or {{{{}} for braces")
            }
        }
    }
}

impl Template {
    /// # Errors
    /// A brace is not closed, or names no column.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            template.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix(brace) {
                template.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                template.push_str(brace);
                rest = after;
                continue;
            }
            let character = || text[..text.len() - after.len()].chars().count();
            let (inner, after) = after.split_once('}').ok_or_else(|| TemplateError::Unclosed(character()))?;
            let placeholder = Placeholder::parse(inner).ok_or_else(|| TemplateError::Empty(character()))?;
            template.push(placeholder);
            rest = after;
        }
        template.push_str(rest);
        Ok(template)
    }

    /// Returns a template of some pieces of another one.
    pub(super) fn of(pieces: &[TemplatePiece]) -> Self {
        Self { pieces: pieces.to_vec() }
    }

    pub(super) fn of_column(column: Placeholder) -> Self {
        Self { pieces: vec![TemplatePiece::Column(column)] }
    }

    pub(super) fn push(&mut self, placeholder: Placeholder) {
        self.pieces.push(TemplatePiece::Column(placeholder));
    }

    pub(super) fn push_str(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(TemplatePiece::Literal(literal)) => literal.push_str(text),
            _ => self.pieces.push(TemplatePiece::Literal(text.into())),
        }
    }

    pub(crate) fn pieces(&self) -> &[TemplatePiece] {
        &self.pieces
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(_) => None,
            TemplatePiece::Column(placeholder) => Some(placeholder),
        })
    }

    /// Returns the literal texts.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Literal(text) => Some(&**text),
            TemplatePiece::Column(_) => None,
        })
    }

    /// Returns the text, if it has no placeholders.
    pub(crate) fn literal(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [TemplatePiece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the placeholder, if the template has nothing else.
    pub(crate) fn whole(&self) -> Option<&Placeholder> {
        match &*self.pieces {
            [TemplatePiece::Column(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// Returns the parts before and after the first occurrence of a text outside placeholders.
    pub(crate) fn split_once(&self, text: &str) -> Option<(Self, Self)> {
        self.split_at_first(|literal| literal.find(text).map(|at| (at, text.len())))
    }

    /// Splits as [`Template::split_once`] does, at the first literal in which `find` returns an index and a length.
    pub(crate) fn split_at_first(&self, find: impl Fn(&str) -> Option<(usize, usize)>) -> Option<(Self, Self)> {
        let (index, literal, at, length) = self.pieces.iter().enumerate().find_map(|(index, piece)| match piece {
            TemplatePiece::Literal(literal) => find(literal).map(|(at, length)| (index, literal, at, length)),
            TemplatePiece::Column(_) => None,
        })?;
        let (mut before, mut after) = (Self::of(&self.pieces[..index]), Self::default());
        before.push_str(&literal[..at]);
        after.push_str(&literal[at + length..]);
        after.pieces.extend_from_slice(&self.pieces[index + 1..]);
        Some((before, after))
    }

    /// Returns the template without this literal prefix.
    #[must_use]
    pub(crate) fn strip_prefix(&self, prefix: &str) -> Option<Self> {
        let mut stripped = self.clone();
        let Some(TemplatePiece::Literal(first)) = stripped.pieces.first_mut() else { return None };
        *first = first.strip_prefix(prefix)?.into();
        stripped.pieces.retain(|piece| !matches!(piece, TemplatePiece::Literal(text) if text.is_empty()));
        Some(stripped)
    }

    /// Sets the slot of each placeholder to what `slot` returns.
    ///
    /// # Errors
    /// Those of `slot`.
    pub(crate) fn bind<E>(&mut self, mut slot: impl FnMut(&mut Placeholder) -> Result<usize, E>) -> Result<(), E> {
        for piece in &mut self.pieces {
            if let TemplatePiece::Column(placeholder) = piece {
                placeholder.slot = slot(placeholder)?;
            }
        }
        Ok(())
    }
}

impl Placeholder {
    /// Returns a placeholder for this column, whatever its name looks like.
    pub(crate) fn of(column: &str) -> Self {
        Self { written: column.into(), column: column.into(), slot: 0, default: None, as_string: false }
    }

    /// Returns `None` if the text names no column.
    fn parse(inner: &str) -> Option<Self> {
        let (column, default) = match inner.split_once('|') {
            Some((column, default)) => (column, Some(default.into())),
            None => match inner.strip_suffix(OPTIONAL) {
                Some(column) => (column, Some("".into())),
                None => (inner, None),
            },
        };
        let (column, as_string) = match column.strip_suffix(AS_STRING) {
            Some(column) => (column, true),
            None => (column, false),
        };
        let placeholder = Self { written: inner.into(), column: column.into(), slot: 0, default, as_string };
        (!column.is_empty()).then_some(placeholder)
    }

    /// Returns whether the template allows an empty value.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.default.as_deref() == Some("")
    }

    /// Makes the whole text between the braces the name of the column.
    pub(crate) fn use_written_name(&mut self) {
        self.column.clone_from(&self.written);
        self.default = None;
        self.as_string = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn literal(text: &str) -> TemplatePiece {
        TemplatePiece::Literal(text.into())
    }

    fn column(written: &str, column: &str, default: Option<&str>, as_string: bool) -> TemplatePiece {
        let default = default.map(Into::into);
        TemplatePiece::Column(Placeholder {
            written: written.into(),
            column: column.into(),
            slot: 0,
            default,
            as_string,
        })
    }

    fn parsed(text: &str) -> Template {
        Template::parse(text).expect(text)
    }

    #[test]
    fn braces_are_placeholders_and_two_of_them_a_brace() {
        for (expected, text) in [
            (vec![], ""),
            (vec![literal("a b")], "a b"),
            (vec![column("id", "id", None, false)], "{id}"),
            (vec![literal("a"), column("ä b", "ä b", None, false), literal("c")], "a{ä b}c"),
            (vec![column("a|", "a", Some(""), false)], "{a|}"),
            (vec![column("a|b|c", "a", Some("b|c"), false)], "{a|b|c}"),
            (vec![column("a:string", "a", None, true)], "{a:string}"),
            (vec![column("a:string|b", "a", Some("b"), true)], "{a:string|b}"),
            (vec![column("a:optional", "a", Some(""), false)], "{a:optional}"),
            (vec![column("a:string:optional", "a", Some(""), true)], "{a:string:optional}"),
            (vec![column("a:int", "a:int", None, false)], "{a:int}"),
            (vec![literal("{id}")], "{{id}}"),
            (vec![literal("{"), column("id", "id", None, false), literal("}")], "{{{id}}}"),
            (vec![column("id", "id", None, false), literal("}")], "{id}}"),
            (vec![literal("a } b")], "a } b"),
            (vec![column("a{b", "a{b", None, false)], "{a{b}"),
        ] {
            assert_eq!(expected, parsed(text).pieces, "{text}");
        }
    }

    #[test]
    fn a_brace_that_names_no_column_is_refused_with_its_position() {
        for (expected, text) in [
            ("the brace at character 1 isn't closed: write {column}, or {{ for a brace", "{"),
            ("the brace at character 3 isn't closed: write {column}, or {{ for a brace", "äö{id"),
            ("the braces at character 2 name no column: write {column}, or {{} for braces", "a{}"),
            ("the braces at character 1 name no column: write {column}, or {{} for braces", "{|a}"),
            ("the braces at character 1 name no column: write {column}, or {{} for braces", "{:string}"),
        ] {
            assert_eq!(expected, Template::parse(text).expect_err(text).to_string(), "{text}");
        }
    }

    #[test]
    fn a_template_is_split_in_its_text_and_not_in_a_placeholder() {
        let (name, value) = parsed("{a=b}c=d=e{f}").split_once("=").expect("a name");
        assert_eq!((parsed("{a=b}c"), parsed("d=e{f}")), (name, value));
        let (name, value) = parsed("a=").split_once("=").expect("a name");
        assert_eq!((parsed("a"), parsed("")), (name, value));
        assert_eq!(None, parsed("{a=b}").split_once("="));
        assert_eq!(Some(parsed("{a}")), parsed("@{a}").strip_prefix("@"));
        assert_eq!(None, parsed("{a}@").strip_prefix("@"));
    }

    proptest! {
        #[test]
        fn text_is_itself_once_its_braces_are_doubled(text in ".*") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            let template = parsed(&doubled);
            prop_assert_eq!(Some(&*text), template.literal());
        }

        #[test]
        fn any_text_is_a_template_or_refused(text in "[a{}|:string ]*") {
            if let Ok(template) = Template::parse(&text) {
                let columns = template.placeholders().map(|one| one.column.to_string()).collect::<Vec<_>>();
                prop_assert!(columns.iter().all(|column| !column.is_empty() && text.contains(column)));
            }
        }
    }
}
