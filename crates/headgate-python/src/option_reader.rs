//! Reads the options of a Python object by their names, and collects the mistakes in them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use headgate_core::message::OptionName;
use headgate_core::option_rules::{self, Mistake};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// Reads options of one object. If the object lacks an option, the target keeps its value.
pub(crate) struct OptionReader<'a, 'py> {
    options: &'a Bound<'py, PyAny>,
    mistakes: RefCell<Vec<Mistake>>,
}

impl<'a, 'py> OptionReader<'a, 'py> {
    pub(crate) fn new(options: &'a Bound<'py, PyAny>) -> Self {
        Self { options, mistakes: RefCell::default() }
    }

    pub(crate) fn mistakes(self) -> Vec<Mistake> {
        self.mistakes.into_inner()
    }

    /// Returns the number of mistakes found so far.
    pub(crate) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }

    pub(crate) fn add(&self, mistakes: impl IntoIterator<Item = Mistake>) {
        self.mistakes.borrow_mut().extend(mistakes);
    }

    /// Returns an attribute of the object, which need not be an option.
    pub(crate) fn attribute(&self, name: &str) -> Option<Bound<'py, PyAny>> {
        self.options.getattr_opt(name).ok().flatten()
    }

    pub(crate) fn read<T: FromOption>(&self, option: OptionName, target: &mut T) {
        self.read_as(option, target, Ok);
    }

    /// Reads an option, and converts it.
    pub(crate) fn read_as<P: FromOption, T>(
        &self,
        option: OptionName,
        target: &mut T,
        convert: impl FnOnce(P) -> Result<T, String>,
    ) {
        self.read_with(option, target, |value| P::from_option(value).and_then(convert));
    }

    /// Reads a whole number.
    pub(crate) fn read_whole<T: TryFrom<u64>>(&self, option: OptionName, target: &mut T) {
        self.read_with(option, target, |value| whole(option, value));
    }

    pub(crate) fn read_whole_or_none<T: TryFrom<u64>>(&self, option: OptionName, target: &mut Option<T>) {
        self.read_with(option, target, |value| or_none(value, |value| whole(option, value)));
    }

    pub(crate) fn read_seconds(&self, option: OptionName, target: &mut Duration) {
        self.read_with(option, target, |value| seconds(option, value));
    }

    pub(crate) fn read_seconds_or_none(&self, option: OptionName, target: &mut Option<Duration>) {
        self.read_with(option, target, |value| or_none(value, |value| seconds(option, value)));
    }

    fn read_with<T>(
        &self,
        option: OptionName,
        target: &mut T,
        read: impl FnOnce(&Bound<'py, PyAny>) -> Result<T, String>,
    ) {
        let Some(value) = self.attribute(option.name()) else { return };
        match read(&value) {
            Ok(value) => *target = value,
            Err(wrong) => self.add([Mistake { option, message: wrong.into() }]),
        }
    }
}

/// A value that an option may have.
pub(crate) trait FromOption: Sized {
    /// Converts the value of an option.
    ///
    /// # Errors
    /// The message says what the value must be.
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String>;
}

impl FromOption for bool {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        let shown = || value.repr().map_or_else(|_| kind_of(value), |shown| shown.to_string());
        value
            .cast::<PyBool>()
            .map(PyBoolMethods::is_true)
            .map_err(|_| format!("must be True or False, not {}", shown()))
    }
}

impl FromOption for String {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        let text = value.cast::<PyString>().map_err(|_| format!("must be text, not {}", kind_of(value)))?;
        let text = text.to_cow().map_err(|_| "contains a lone surrogate, which UTF-8 can't encode")?;
        Ok(text.into_owned())
    }
}

impl FromOption for PathBuf {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        value.extract().map_err(|_| format!("must be a path, not {}", kind_of(value)))
    }
}

impl FromOption for Vec<u8> {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        let bytes = value.cast::<PyBytes>().map_err(|_| format!("must be bytes, not {}", kind_of(value)))?;
        Ok(bytes.as_bytes().to_vec())
    }
}

impl<T: FromOption> FromOption for Option<T> {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        or_none(value, T::from_option)
    }
}

impl<T: FromOption> FromOption for (String, T) {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = value.extract().map_err(|_| "must hold pairs")?;
        let name = String::from_option(&name)?;
        let value = T::from_option(&value).map_err(|wrong| format!("{name} {wrong}"))?;
        Ok((name, value))
    }
}

/// A list. It has its own type, so that bytes are not read as a list of numbers.
pub(crate) struct List<T>(pub Vec<T>);

impl<T: FromOption> FromOption for List<T> {
    fn from_option(value: &Bound<'_, PyAny>) -> Result<Self, String> {
        let items = value.try_iter().map_err(|_| format!("must be a list, not {}", kind_of(value)))?;
        let items = items.map(|item| T::from_option(&item.map_err(|error| error.to_string())?));
        items.collect::<Result<_, _>>().map(Self)
    }
}

fn or_none<T>(
    value: &Bound<'_, PyAny>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if value.is_none() { Ok(None) } else { read(value).map(Some) }
}

fn whole<T: TryFrom<u64>>(option: OptionName, value: &Bound<'_, PyAny>) -> Result<T, String> {
    if value.is_instance_of::<PyBool>() || !value.is_instance_of::<PyInt>() {
        return Err(format!("must be an int, not {}", kind_of(value)));
    }
    let is_negative = value.lt(0).unwrap_or_default();
    let number = value.extract().unwrap_or(if is_negative { i128::MIN } else { i128::MAX });
    let number = option_rules::whole(option, number, figure(value))?;
    T::try_from(number).map_err(|_| format!("is too large: {number}"))
}

fn seconds(option: OptionName, value: &Bound<'_, PyAny>) -> Result<Duration, String> {
    let is_number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    if value.is_instance_of::<PyBool>() || !is_number {
        return Err(format!("must be a number of seconds, not {}", kind_of(value)));
    }
    let fits = |_| format!("must be a number of seconds that fits a float, not {}", figure(value));
    let number = value.extract().map_err(fits)?;
    option_rules::seconds(option, number)
}

/// Returns a number as messages show it: a long number by its magnitude.
fn figure(value: &Bound<'_, PyAny>) -> String {
    let figure = value.py().import("headgate._checks").and_then(|checks| checks.getattr("figure")?.call1((value,)));
    figure.map_or_else(|_| kind_of(value), |text| text.to_string())
}

/// Returns the name of a value's type, as messages show it.
pub(crate) fn kind_of(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        "None".into()
    } else {
        value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string())
    }
}
