//! The request of a row as it was sent, made of the row once more: so requests that no caller looks at cost nothing.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use headgate_core::cookie_jar::SharedCookieJar;
use headgate_core::origin::Origin;
use headgate_core::row::{BodyPiece, Row, RowBody};
use headgate_core::target::{self, Target};
use http::HeaderValue;

use crate::cookies;
use crate::defaults::Defaults;
use crate::live_defaults::LiveDefaults;
use crate::request::{Destination, RequestContents, check_defect};
use crate::sent_body::end_head;
use crate::upload::UploadSource;

/// The last request of a row, in the form of HTTP/1.1.
#[derive(Clone, PartialEq, Eq)]
pub struct SentRequest {
    pub method: String,
    /// The absolute URL, without a user and without a fragment.
    pub url: String,
    pub headers: Vec<SentHeader>,
    /// `None`: it has no body, or one that is not in memory.
    pub body: Option<Bytes>,
}

/// A header of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct SentHeader {
    pub name: String,
    pub value: Box<[u8]>,
    /// It is a credential.
    pub is_secret: bool,
}

impl LiveDefaults {
    /// Returns the last request of a row: at the end of its redirect chain, with the run's headers of the version that was
    /// sent. If none was sent, it has the current ones. `None`: no request can be made of the row.
    pub fn sent_request(&self, row: &Row) -> Option<SentRequest> {
        let row = &with_upload(row);
        let Some((version, cookies)) = row.sent_headers() else { return self.next_request(row, None) };
        SentRequest::new(&self.of_version(version), row, |_, _| cookies.cloned())
    }

    /// Returns the request of a row that is yet to be sent, with the cookies of the client's jar. `None`: no request can be made
    /// of the row.
    pub fn next_request(&self, row: &Row, jar: Option<&SharedCookieJar>) -> Option<SentRequest> {
        SentRequest::new(&self.get().1, row, |origin, path| cookies::header(jar, row.chain(), origin, path))
    }
}

impl SentRequest {
    fn new(
        defaults: &Arc<Defaults>,
        row: &Row,
        cookies: impl FnOnce(&Origin, &str) -> Option<HeaderValue>,
    ) -> Option<Self> {
        check_defect(row).ok()?;
        let Target { origin, path, authorization } = target::parse(row.target()).ok()?;
        let (headers, credentials) = defaults.lines_to(&origin);
        let url = format!("{origin}{path}");
        let (cookies, gets_credentials) = (cookies(&origin, path.path()), credentials.is_some());
        let to = Destination { path, authorization, gets_credentials, cookies };
        let contents = RequestContents::new(defaults, row, to).ok()?;
        let mut head = Vec::new();
        contents.write_head(&origin, &headers, &mut head);
        let length = match &contents.body.upload {
            None => None,
            Some(UploadSource::Files(_)) => row.upload_length(),
            Some(UploadSource::Stream(stream)) => Some(stream.length()),
        };
        if let Some(length) = length {
            end_head(length, &mut head);
        }
        let body = contents.body.bytes;
        Some(Self {
            method: contents.method.to_string(),
            url,
            headers: headers_in(&head, |name| {
                let mut own = row.extra.iter().flat_map(|extra| &extra.credentials);
                defaults.is_credential_name(name) || own.any(|(own, _)| own.eq_ignore_ascii_case(name))
            }),
            body: (!body.is_empty()).then_some(body),
        })
    }
}

/// Returns the row with a body in place of one that was read while it was sent, and is no longer there.
fn with_upload(row: &Row) -> Cow<'_, Row> {
    let has_body = row.extra.as_ref().is_some_and(|extra| extra.body.is_some());
    if has_body || row.upload_length().is_none() {
        return Cow::Borrowed(row);
    }
    let mut row = row.clone();
    let any_file = BodyPiece::File(Path::new("").into());
    row.extra.get_or_insert_default().body = Some(RowBody::Pieces([any_file].into()));
    Cow::Owned(row)
}

/// Returns the headers in the head of a request.
fn headers_in(head: &[u8], is_secret: impl Fn(&str) -> bool) -> Vec<SentHeader> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let header = |line: &[u8]| {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = String::from_utf8_lossy(&line[..colon]).into_owned();
        let is_secret = is_secret(&name);
        Some(SentHeader { name, value: line.get(colon + 2..)?.into(), is_secret })
    };
    lines.filter_map(header).collect()
}
