//! `Answer`: what became of one request. Its fields become Python's when they are looked at.

use headgate_engine::engine::inbox::Arrived;
use headgate_engine::model::outcome::Outcome;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A kind of error, its message, and what of it varies.
type Failure = (&'static str, String, Option<String>);

/// Its memory is the caller's: none of it is set aside in the engine any more.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Answer {
    /// `None`: the run has ended before.
    outcome: Option<Outcome>,
    #[pyo3(get)]
    failed: bool,
}

impl Answer {
    pub fn of(arrived: Arrived) -> Self {
        let Arrived { mut outcome, failed, .. } = arrived;
        if let Some(answer) = outcome.as_mut().and_then(|outcome| outcome.answer.as_mut()) {
            drop(std::mem::take(&mut answer.memory));
            if let Some(body) = &mut answer.body {
                drop(std::mem::take(&mut body.reservation));
            }
        }
        Self { outcome, failed }
    }

    fn answer(&self) -> Option<&headgate_engine::model::outcome::Answer> {
        self.outcome.as_ref()?.answer.as_ref()
    }
}

#[pymethods]
impl Answer {
    #[getter]
    fn status(&self) -> Option<u16> {
        Some(self.answer()?.status)
    }

    /// Names and values as they were received; a value that is no UTF-8 is read as Latin-1.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        let Some(answer) = self.answer() else { return Vec::new() };
        let text = |value: &[u8]| match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => value.iter().copied().map(char::from).collect(),
        };
        answer.headers.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let body = self.answer().and_then(|answer| answer.body.as_ref());
        PyBytes::new(py, body.map_or(&[], |body| &body.bytes))
    }

    /// Bytes of the body, without making it Python's.
    #[getter]
    fn body_len(&self) -> usize {
        self.answer().and_then(|answer| answer.body.as_ref()).map_or(0, |body| body.bytes.len())
    }

    /// The content codings that the body still has.
    #[getter]
    fn body_encoding(&self) -> Option<&str> {
        self.answer()?.body_encoding.as_deref()
    }

    #[getter]
    fn body_truncated(&self) -> bool {
        self.answer().is_some_and(|answer| answer.body_truncated)
    }

    #[getter]
    fn method(&self) -> Option<&str> {
        Some(&self.outcome.as_ref()?.method)
    }

    #[getter]
    fn url(&self) -> Option<&str> {
        Some(&self.outcome.as_ref()?.row.url)
    }

    /// Where redirects have led.
    #[getter]
    fn final_url(&self) -> Option<&str> {
        Some(self.outcome.as_ref()?.row.target())
    }

    /// Status and the URL that it led to, of each redirect.
    #[getter]
    fn redirects(&self) -> Vec<(u16, &str)> {
        let hops = self.outcome.as_ref().map_or(&[][..], |outcome| outcome.row.hops());
        hops.iter().map(|hop| (hop.status, &*hop.location)).collect()
    }

    #[getter]
    fn started_at_us(&self) -> i64 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.started_at_us)
    }

    #[getter]
    fn elapsed_us(&self) -> u64 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.elapsed_us)
    }

    #[getter]
    fn attempts(&self) -> u16 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.attempts)
    }

    /// As `HTTP/1.1`.
    #[getter]
    fn http_version(&self) -> Option<String> {
        Some(format!("{:?}", self.answer()?.version))
    }

    #[getter]
    fn remote_addr(&self) -> Option<&str> {
        self.outcome.as_ref()?.remote_addr.as_deref()
    }

    /// Why there is no usable answer, if there is none.
    #[getter]
    fn error(&self) -> Option<Failure> {
        let Some(outcome) = &self.outcome else {
            return Some(("cancelled", "the client was closed before it had an answer".to_owned(), None));
        };
        let failure = outcome.failure.as_ref()?;
        let detail = failure.reason.detail.as_deref().map(str::to_owned);
        Some((failure.kind.name(), failure.reason.message.to_string(), detail))
    }
}
