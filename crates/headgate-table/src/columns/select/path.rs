//! A `JSONPath` (RFC 9535), parsed once.

use serde_json_path::JsonPath;

use super::walk::PathStep;

/// A longer path, or one with more deeply nested brackets or filters, is refused: parsing it would need a deep stack, or a
/// time that doubles with each filter.
const MAX_PATH_BYTES: usize = 4096;
const MAX_DEPTH: usize = 32;
const MAX_FILTER_DEPTH: usize = 6;

#[derive(Debug)]
pub(super) enum Path {
    /// It selects at most one value, and all its steps are known.
    Quick(Vec<PathStep>),
    Tree(Query),
}

/// A path that is evaluated in a tree.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) path: JsonPath,
    /// Whether it can select several values.
    pub(super) is_plural: bool,
    /// Whether it compiles an expression for each value that it visits, which takes longer than the visit.
    pub(super) has_expressions: bool,
    /// The bound of its visits: the number of values of a document, to one less than this power.
    pub(super) power: i32,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// The position and the mistake, for the user.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let outline = Outline::of(text);
        if text.len() > MAX_PATH_BYTES {
            return Err(format!("the JSONPath is longer than {MAX_PATH_BYTES} bytes"));
        }
        if outline.depth > MAX_DEPTH || outline.filter_depth > MAX_FILTER_DEPTH {
            return Err("the JSONPath is nested too deeply".into());
        }
        if outline.has_open_expression {
            return Err("the expression of match or search must be a text in quotes: one that a server writes could take arbitrarily long".into());
        }
        // The library panics if such a text ends within an escape.
        if outline.is_open {
            return Err("not a JSONPath (RFC 9535): a text in quotes isn't closed".into());
        }
        let path = JsonPath::parse(text).map_err(|error| {
            let (before, rest) = text.split_at_checked(error.position()).unwrap_or((text, ""));
            let character = before.chars().count() + 1;
            let what = if rest.is_empty() { "it ends".to_owned() } else { format!("{rest:?}") };
            format!("not a JSONPath (RFC 9535): wrong from character {character} on, where {what}")
        })?;
        if let Some(steps) = quick_steps(text) {
            return Ok(Self::Quick(steps));
        }
        // The grammar allows comparisons of singular paths only.
        let is_plural = JsonPath::parse(&format!("$[?{text}==1]")).is_err();
        Ok(Self::Tree(Query { path, is_plural, has_expressions: outline.expressions > 0, power: outline.power() }))
    }
}

/// Returns the steps of a valid path, if all of them are names or indices.
fn quick_steps(text: &str) -> Option<Vec<PathStep>> {
    let mut rest = text.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        if let Some(after) = rest.strip_prefix('.') {
            let length = after.find(['.', '[']).unwrap_or(after.len());
            let name;
            (name, rest) = after.split_at(length);
            if name.is_empty() || name.contains(|character: char| character == '*' || character.is_whitespace()) {
                return None;
            }
            step = PathStep::Name(name.into());
        } else {
            let after = rest.strip_prefix('[')?;
            let inner;
            if let Some(quote) = after.chars().next().filter(|first| matches!(first, '\'' | '"')) {
                let length = after[1..].find(quote)?;
                let name = &after[1..=length];
                if name.contains('\\') {
                    return None;
                }
                (inner, rest) = (PathStep::Name(name.into()), after[length + 2..].strip_prefix(']')?);
            } else {
                let (index, after) = after.split_once(']')?;
                let is_index = index.bytes().all(|byte| byte.is_ascii_digit());
                (inner, rest) = (PathStep::Index(index.parse().ok().filter(|_| is_index)?), after);
            }
            step = inner;
        }
        steps.push(step);
    }
    Some(steps)
}

fn is_quoted(text: &str) -> bool {
    text.starts_with(['\'', '"'])
}

/// Properties of a path that depend on the text outside quotes.
#[derive(Default)]
struct Outline {
    depth: usize,
    filter_depth: usize,
    descents: i32,
    /// The number of searches of the whole document within filters, and of steps that visit values more than once.
    revisits: i32,
    /// The number of functions that compile an expression for each value.
    expressions: i32,
    /// One of these has an expression that is not a quoted text.
    has_open_expression: bool,
    /// The path ends within quotes.
    is_open: bool,
}

/// A bracket or parenthesis that is not closed yet.
#[derive(Default)]
struct Bracket {
    is_filter: bool,
    /// The number of its selectors of several values.
    plural: u32,
    /// Whether it belongs to a function whose last argument is an expression.
    takes_expression: bool,
    /// The start of its last argument.
    argument: usize,
}

impl Outline {
    fn of(text: &str) -> Self {
        let mut outline = Self::default();
        let (mut open, mut open_filters) = (Vec::<Bracket>::new(), 0);
        let (mut quote, mut is_escaped, mut before) = (None, false, ' ');
        for (at, character) in text.char_indices() {
            if let Some(end) = quote {
                if is_escaped || character == '\\' {
                    is_escaped = !is_escaped;
                } else if character == end {
                    quote = None;
                }
                continue;
            }
            match character {
                '\'' | '"' => quote = Some(character),
                '[' | '(' => {
                    let is_function = ["match", "search"].iter().any(|name| text[..at].ends_with(name));
                    let takes_expression = character == '(' && is_function;
                    open.push(Bracket { takes_expression, argument: at + 1, ..Bracket::default() });
                }
                ',' => open.last_mut().into_iter().for_each(|bracket| bracket.argument = at + 1),
                ']' | ')' => {
                    let Bracket { is_filter, takes_expression, argument, .. } = open.pop().unwrap_or_default();
                    open_filters -= usize::from(is_filter);
                    outline.has_open_expression |= takes_expression && !is_quoted(text[argument..at].trim());
                }
                '?' => {
                    if let Some(Bracket { is_filter: is_filter @ false, .. }) = open.last_mut() {
                        *is_filter = true;
                        open_filters += 1;
                    }
                }
                '.' if before == '.' => outline.descents += 1,
                '$' if !open.is_empty() => outline.revisits += 1,
                '*' | ':' => {
                    if let Some(Bracket { plural, .. }) = open.last_mut() {
                        *plural += 1;
                        // A slice has at most two colons.
                        outline.revisits += i32::from(*plural == if character == '*' { 2 } else { 3 });
                    }
                }
                _ => {}
            }
            outline.depth = outline.depth.max(open.len());
            outline.filter_depth = outline.filter_depth.max(open_filters);
            before = character;
        }
        outline.is_open = quote.is_some();
        outline.expressions = (text.matches("match").count() + text.matches("search").count()) as i32;
        outline
    }

    /// Returns the power of the visits. A single `..`, or filters that look at adjacent values, visit each value once.
    fn power(&self) -> i32 {
        let descents_beyond_one = (self.descents - 1).max(0);
        1 + descents_beyond_one + self.revisits + self.expressions.min(1)
    }
}
