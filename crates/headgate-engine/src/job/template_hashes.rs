//! The templates of requests in the record of a job. They may have secrets, so only hashes are stored.

use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::Templates;
use serde::{Deserialize, Serialize};

use super::value_hash::ValueHasher;

/// Hashes that show whether templates are the same. `None`: there is no template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TemplateHashes {
    #[serde(rename = "header_templates_hash")]
    pub header_templates: Option<String>,
    #[serde(rename = "json_hash")]
    pub json: Option<String>,
    #[serde(rename = "data_urlencode_hash")]
    pub data_urlencode: Option<String>,
    #[serde(rename = "form_hash")]
    pub form: Option<String>,
}

impl TemplateHashes {
    pub(super) fn of(templates: &Templates, hasher: &ValueHasher) -> Self {
        let Templates { headers, json, data_urlencode, form, .. } = templates;
        let hash = |texts: Vec<&str>| (!texts.is_empty()).then(|| hasher.hash(texts.into_iter().map(str::as_bytes)));
        Self {
            header_templates: hash(
                headers.iter().flat_map(|(name, value)| [&**name, value.expose().as_str()]).collect(),
            ),
            json: hash(json.iter().map(String::as_str).collect()),
            data_urlencode: hash(data_urlencode.iter().map(String::as_str).collect()),
            form: hash(form.iter().map(String::as_str).collect()),
        }
    }

    /// Returns one message for each template that differs.
    pub(super) fn differences(&self, now: &Self) -> impl Iterator<Item = Message> {
        let options = self.by_option().into_iter().zip(now.by_option());
        options.filter_map(|((option, then), (_, now))| difference_of_hashes(option, then, now, "has changed"))
    }

    /// Returns the hashes with the names of their options.
    fn by_option(&self) -> [(OptionName, Option<&String>); 4] {
        [
            (OptionName::HeaderTemplates, self.header_templates.as_ref()),
            (OptionName::Json, self.json.as_ref()),
            (OptionName::DataUrlencode, self.data_urlencode.as_ref()),
            (OptionName::Form, self.form.as_ref()),
        ]
    }
}

/// Returns a message if the hashes of an option's earlier and current values differ.
pub(super) fn difference_of_hashes(
    option: OptionName,
    then: Option<&String>,
    now: Option<&String>,
    changed: &str,
) -> Option<Message> {
    match (then, now) {
        (Some(then), Some(now)) if then != now => Some(message!(option, " {changed}")),
        (Some(_), None) => Some(message!(option, " was given, now it is not")),
        (None, Some(_)) => Some(message!(option, " was not given, now it is")),
        _ => None,
    }
}
