//! Formats any value as one short line without characters that control a terminal.

/// The maximum number of characters of a body.
const MAX_BYTES_CHARS: usize = 80;
/// The maximum number of characters of any other value.
const MAX_TEXT_CHARS: usize = 200;

pub(super) fn text(text: &str) -> String {
    one_line(text, MAX_TEXT_CHARS)
}

pub(super) fn bytes(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => one_line(text, MAX_BYTES_CHARS),
        Err(_) => length(bytes.len()),
    }
}

pub(super) fn length(bytes: usize) -> String {
    format!("<{bytes} bytes>")
}

/// Returns headers as `name: value; name: value`.
pub(super) fn headers<'a>(headers: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut line = String::new();
    for (name, value) in headers {
        if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(name);
        line.push_str(": ");
        line.push_str(&value);
        if line.len() > 4 * MAX_TEXT_CHARS {
            break;
        }
    }
    text(&line)
}

fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let mut chars = text.chars();
    for char in chars.by_ref().take(max_chars) {
        // A character that moves the cursor or changes the direction of text would misrepresent the value.
        if char.is_control()
            || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
    }
    if chars.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(format!("{}…", "ü".repeat(80)), bytes("ü".repeat(81).as_bytes()));
        assert_eq!("ü".repeat(80), bytes("ü".repeat(80).as_bytes()));
        assert_eq!(format!("{}…", "x".repeat(200)), text(&"x".repeat(1000)));
    }

    #[test]
    fn only_printable_text_reaches_the_terminal() {
        assert_eq!("a\\r\\n\\u{1b}[2J\\u{202e}é\"\\", text("a\r\n\u{1b}[2J\u{202e}é\"\\"));
        assert_eq!("<3 bytes>", bytes(&[0xff, 0xfe, b'a']));
    }

    #[test]
    fn headers_take_one_line() {
        let pairs = [("server", "nginx".to_owned()), ("x-raw", length(2))];
        assert_eq!("server: nginx; x-raw: <2 bytes>", headers(pairs.into_iter()));
    }
}
