//! Tokens that Python provides.

use headgate_core::token_source::ProvideToken;
use pyo3::prelude::*;

use crate::option_reader::kind_of;

/// A callable without arguments that returns a token.
pub(crate) struct PythonToken(pub(crate) Py<PyAny>);

impl ProvideToken for PythonToken {
    fn token(&self) -> Result<String, String> {
        let token = Python::try_attach(|py| {
            let shown = |error: PyErr| {
                let value = error.value(py);
                let kind = value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
                let text = value.str().map_or_else(|_| String::new(), |text| text.to_string());
                if text.is_empty() { kind } else { format!("{kind}: {text}") }
            };
            let token = self.0.call0(py).map_err(shown)?;
            let token: String =
                token.extract(py).map_err(|_| format!("it must be text, not {}", kind_of(token.bind(py))))?;
            match token.trim() {
                "" => Err("it is empty".to_owned()),
                token => Ok(token.to_owned()),
            }
        });
        token.unwrap_or_else(|| Err("Python ends".to_owned()))
    }
}
