//! Requests as Python gives them, as rows.

use std::sync::Arc;
use std::time::Duration;

use headgate_core::body_stream::BodyStream;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::{OwnOptions, OwnRetrying, ReplyTo, Row, RowExtra, TotalTimeout};
use headgate_core::secret::Secret;
use headgate_engine::{CallTimeouts, Waker};
use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::call_timeouts::{CallDefaults, OwnCallTimeouts};
use crate::error::to_python;
use crate::upload::{NativeBody, bind};

const NO_UNICODE: &str = "a text of the request has a lone surrogate, such as '\\udce9', which can't be sent: decode it from the \
    encoding that it has, or percent-encode it";

/// The attributes of `headgate.client._request.NativeRequest`.
#[derive(FromPyObject)]
struct NativeRequest {
    url: String,
    method: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    without_headers: Vec<String>,
    credentials: Vec<(String, Vec<u8>)>,
    without_credentials: bool,
    body: Option<NativeBody>,
    body_type: Option<String>,
    cost: Option<u64>,
    own: Option<NativeOwnOptions>,
    defect: Option<String>,
}

/// The attributes of `headgate.client._own_options.OwnOptions`.
#[derive(FromPyObject)]
struct NativeOwnOptions {
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    total_timeout: Option<f64>,
    pool_timeout: Option<f64>,
    retries: Option<u16>,
    max_body_size: Option<u64>,
    redirects: Option<String>,
    max_redirects: Option<u32>,
}

impl NativeOwnOptions {
    /// Returns the options of a row, and the timeouts of a call.
    fn read(self, py: Python<'_>) -> PyResult<(OwnOptions, OwnCallTimeouts)> {
        let seconds = |seconds: Option<f64>| seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let total = seconds(self.total_timeout);
        let total_timeout = total.map(TotalTimeout::After);
        let redirects = self.redirects.map(|name| name.parse()).transpose();
        let own = OwnOptions {
            timeout: seconds(self.timeout),
            connect_timeout: seconds(self.connect_timeout),
            retrying: OwnRetrying { retries: self.retries, total_timeout, max_pause: None },
            max_body_size: self.max_body_size,
            redirects: redirects
                .map_err(|wrong| to_python(py, &JobError::usage(message!(OptionName::Redirects, " {wrong}"))))?,
            max_redirects: self.max_redirects,
            ..OwnOptions::default()
        };
        Ok((own, OwnCallTimeouts { total, pool: seconds(self.pool_timeout) }))
    }
}

/// A request from Python: a URL, or a `NativeRequest`.
pub(crate) struct Request {
    row: Row,
    timeouts: OwnCallTimeouts,
}

impl<'py> FromPyObject<'_, 'py> for Request {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Self::read(object).or_else(|error| Self::without_unicode(object, error))
    }
}

impl Request {
    fn read(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self { row: Row::new(0, object.extract::<String>()?), timeouts: OwnCallTimeouts::default() });
        }
        let NativeRequest {
            url,
            method,
            headers,
            without_headers,
            credentials,
            without_credentials,
            body,
            body_type,
            cost,
            own,
            defect,
        } = object.extract()?;
        let without_headers = without_headers.into_iter().map(Into::into).collect();
        let (own, timeouts) = own.map(|own| own.read(object.py())).transpose()?.unwrap_or_default();
        let own = OwnOptions { without_credentials, without_headers, ..own };
        let own = (own != OwnOptions::default()).then(|| Box::new(own));
        let extra = RowExtra {
            method: method.map(Into::into),
            headers: headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            credentials: credentials
                .into_iter()
                .map(|(name, value)| (name.into(), Secret::from(Box::<[u8]>::from(value))))
                .collect(),
            body: body.map(NativeBody::into_body),
            body_type: body_type.map(Into::into),
            cost,
            defect: defect.map(Into::into),
            own,
            ..RowExtra::default()
        };
        Ok(Self { row: Row { extra: Some(Box::new(extra)), ..Row::new(0, url) }, timeouts })
    }

    /// Returns a request with a defect if a text of it is no Unicode, and the error otherwise. Text that was decoded with
    /// `surrogateescape` has lone surrogates, and one such request must not end all others.
    fn without_unicode(object: Borrowed<'_, '_, PyAny>, error: PyErr) -> PyResult<Self> {
        let py = object.py();
        let mut cause = Some(error.clone_ref(py));
        while let Some(current) = cause {
            if current.is_instance_of::<PyUnicodeEncodeError>(py) {
                let url = object.getattr("url").unwrap_or_else(|_| object.to_owned());
                let url = url.cast::<PyString>().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
                let extra = RowExtra { defect: Some(NO_UNICODE.into()), ..RowExtra::default() };
                let row = Row { extra: Some(Box::new(extra)), ..Row::new(0, url) };
                return Ok(Self { row, timeouts: OwnCallTimeouts::default() });
            }
            cause = current.cause(py);
        }
        Err(error)
    }

    pub(crate) fn into_row(self) -> Row {
        self.row
    }

    /// Returns the row, and the timeouts of a call of this request.
    pub(crate) fn into_call(self, defaults: CallDefaults, waker: &Arc<Waker>) -> (Row, CallTimeouts) {
        let timeouts = defaults.with(self.timeouts);
        (self.for_reply(None, waker), timeouts)
    }

    /// Returns the row, whose outcome goes to `reply_to`. `waker` wakes the caller also while more of the body is wanted.
    pub(crate) fn for_reply(self, reply_to: Option<Arc<ReplyTo>>, waker: &Arc<Waker>) -> Row {
        bind(self.row.extra.as_ref().and_then(|extra| extra.body.as_ref()), waker);
        Row { reply_to, ..self.row }
    }

    /// Returns the request with a stream for the body of its response.
    pub(crate) fn streamed(mut self, body: Arc<BodyStream>) -> Self {
        self.row.extra.get_or_insert_default().own.get_or_insert_default().stream = Some(body);
        self
    }
}
