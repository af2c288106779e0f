//! The field `RateLimit`: a list of quotas (`"default";r=50;t=30, "daily";r=0;t=3600`, draft-ietf-httpapi-ratelimit-headers
//! since version 8) or, in version 7, a dictionary of one (`limit=100, remaining=0, reset=5`).
//!
//! Both are structured fields (RFC 9651), of which only the syntax of these two is parsed; lists within lists are not part
//! of it. A malformed field is ignored as a whole.

use super::quota::Quota;

/// More digits than a structured field's integer has are malformed, so that none overflows.
const MAX_DIGITS: usize = 15;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Returns how long to wait by this line of the field, if at all.
pub(super) fn wait_ms(value: &str, is_refused: bool) -> Result<Option<u64>, Malformed> {
    let mut rest = UnparsedText(value.as_bytes());
    let (mut longest, mut dictionary, mut is_list) = (None, None, false);
    loop {
        match rest.item()? {
            Item::Name(name) if rest.next_is(b'=') => {
                let quota: &mut Quota = dictionary.get_or_insert_default();
                quota.learn(name, rest.item()?, "remaining", "reset")?;
                rest.parameters(|_, _| Ok(()))?;
            }
            Item::Name(_) | Item::Text => {
                is_list = true;
                let mut quota = Quota::default();
                rest.parameters(|name, value| quota.learn(name, value, "r", "t"))?;
                longest = longest.max(quota.wait_ms(is_refused));
            }
            Item::Integer(_) | Item::Other => return Err(Malformed),
        }
        rest.skip_spaces();
        if rest.0.is_empty() {
            break;
        }
        if !rest.next_is(b',') {
            return Err(Malformed);
        }
        rest.skip_spaces();
    }
    match dictionary {
        Some(_) if is_list => Err(Malformed),
        Some(quota) => Ok(quota.wait_ms(is_refused)),
        None => Ok(longest),
    }
}

impl Quota {
    fn learn(&mut self, name: &[u8], value: Item<'_>, remaining: &str, reset: &str) -> Result<(), Malformed> {
        let integer = if let Item::Integer(integer) = value { Ok(integer) } else { Err(Malformed) };
        if name == remaining.as_bytes() {
            self.is_used_up = Some(integer? == 0);
        } else if name == reset.as_bytes() {
            self.reset_ms = Some(integer? * 1000);
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Item<'a> {
    /// Not negative: no number here may be.
    Integer(u64),
    Name(&'a [u8]),
    Text,
    /// A value of another type, such as the bytes of a partition key.
    Other,
}

/// The text that has not been parsed yet.
struct UnparsedText<'a>(&'a [u8]);

impl<'a> UnparsedText<'a> {
    fn next_is(&mut self, byte: u8) -> bool {
        let after = self.0.strip_prefix(&[byte]);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    fn skip_spaces(&mut self) {
        while self.next_is(b' ') || self.next_is(b'\t') {}
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().position(|byte| !is_part(*byte)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at(length);
        self.0 = rest;
        part
    }

    fn item(&mut self) -> Result<Item<'a>, Malformed> {
        match self.0.first() {
            Some(b'0'..=b'9') => {
                let digits = self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
                if digits.len() > MAX_DIGITS + 1 {
                    return Err(Malformed);
                }
                let integer = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                Ok(integer.map_or(Item::Other, Item::Integer))
            }
            Some(b'A'..=b'Z' | b'a'..=b'z' | b'*') => Ok(Item::Name(
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)),
            )),
            Some(b'"') => self.text(),
            Some(b':') => {
                self.next_is(b':');
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                if self.next_is(b':') { Ok(Item::Other) } else { Err(Malformed) }
            }
            Some(b'?') => {
                self.next_is(b'?');
                if self.next_is(b'0') || self.next_is(b'1') { Ok(Item::Other) } else { Err(Malformed) }
            }
            _ => Err(Malformed),
        }
    }

    fn text(&mut self) -> Result<Item<'a>, Malformed> {
        self.next_is(b'"');
        loop {
            self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if self.next_is(b'"') {
                return Ok(Item::Text);
            }
            let is_escaped = self.next_is(b'\\') && (self.next_is(b'"') || self.next_is(b'\\'));
            if !is_escaped {
                return Err(Malformed);
            }
        }
    }

    fn parameters(
        &mut self,
        mut look: impl FnMut(&'a [u8], Item<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        while self.next_is(b';') {
            self.skip_spaces();
            let Item::Name(name) = self.item()? else { return Err(Malformed) };
            let value = if self.next_is(b'=') { self.item()? } else { Item::Other };
            look(name, value)?;
        }
        Ok(())
    }
}
