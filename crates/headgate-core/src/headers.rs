//! The headers of a response as they were received: order, repeats and the case of names kept.
//!
//! There are two allocations, however many headers: all names and values in sequence, and their lengths. A map from names
//! would cost more than reading the response did, and would lose the order.

/// Names and values in the order received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    bytes: Vec<u8>,
    lengths: Vec<(u32, u32)>,
}

/// A reference to headers, in either representation.
#[derive(Debug, Clone, Copy)]
pub enum HeadersRef<'a> {
    /// In the memory that they were read into.
    Parsed(&'a [httparse::Header<'a>]),
    Kept(&'a Headers),
}

impl<'a> HeadersRef<'a> {
    /// Returns the values of all headers of this name, whatever its case.
    pub fn get_all(self, name: &str) -> Vec<&'a [u8]> {
        match self {
            Self::Parsed(headers) => {
                let named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
                named.map(|header| header.value).collect()
            }
            Self::Kept(headers) => headers.get_all(name).collect(),
        }
    }

    pub fn for_each(self, mut look: impl FnMut(&str, &[u8])) {
        match self {
            Self::Parsed(headers) => headers.iter().for_each(|header| look(header.name, header.value)),
            Self::Kept(headers) => headers.iter().for_each(|(name, value)| look(name, value)),
        }
    }

    /// Returns a copy of the headers.
    pub(crate) fn to_headers(self) -> Headers {
        match self {
            Self::Parsed(parsed) => {
                let mut headers = Headers::with_capacity(parsed.len(), self.bytes());
                for header in parsed {
                    headers.push(header.name, header.value);
                }
                headers
            }
            Self::Kept(headers) => headers.clone(),
        }
    }

    /// Returns the bytes of all names and values.
    pub fn bytes(self) -> usize {
        match self {
            Self::Parsed(headers) => headers.iter().map(|header| header.name.len() + header.value.len()).sum(),
            Self::Kept(headers) => headers.bytes(),
        }
    }
}

impl Headers {
    pub fn with_capacity(headers: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), lengths: Vec::with_capacity(headers) }
    }

    /// Returns the memory of `headers` headers, whose names and values have `bytes` bytes.
    pub const fn needed_bytes(headers: usize, bytes: usize) -> usize {
        bytes + headers * size_of::<(u32, u32)>()
    }

    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(value);
        self.lengths.push((name.len() as u32, value.len() as u32));
    }

    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the bytes of all names and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |(name_length, value_length)| {
            let (name, after) = rest.split_at(*name_length as usize);
            let (value, after) = after.split_at(*value_length as usize);
            rest = after;
            (std::str::from_utf8(name).unwrap_or_default(), value)
        })
    }

    /// Returns the values of all headers of this name, whatever its case.
    pub fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl<'a> FromIterator<(&'a str, &'a [u8])> for Headers {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a [u8])>>(pairs: I) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name, value);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_repetitions_and_case_are_kept() {
        let pairs: [(&str, &[u8]); 4] =
            [("Set-Cookie", b"a"), ("X-Empty", b""), ("Date", b"now"), ("set-cookie", b"b")];
        let headers = Headers::from_iter(pairs);
        assert_eq!(pairs.to_vec(), headers.iter().collect::<Vec<_>>());
        assert_eq!(vec![b"a", b"b"], headers.get_all("SET-COOKIE").collect::<Vec<_>>());
        assert_eq!(4, headers.len());
    }

    #[test]
    fn headers_are_shown_alike_when_read_and_when_stored() {
        let pairs: [(&str, &[u8]); 3] = [("Set-Cookie", b"a"), ("X-Empty", b""), ("set-cookie", b"\xff")];
        let (parsed, kept) = (pairs.map(|(name, value)| httparse::Header { name, value }), Headers::from_iter(pairs));
        for headers in [HeadersRef::Parsed(&parsed), HeadersRef::Kept(&kept)] {
            let mut seen = Vec::new();
            headers.for_each(|name, value| seen.push((name.to_owned(), value.to_vec())));
            assert_eq!(pairs.map(|(name, value)| (name.to_owned(), value.to_vec())).to_vec(), seen);
            assert_eq!(29, headers.bytes());
        }
    }
}
