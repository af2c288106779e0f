//! The key that a failed row is counted by, as text: the name of its kind of error, or its status as `status:503`.

const STATUS: &str = "status:";

pub fn status_key(status: u16) -> String {
    format!("{STATUS}{status}")
}

/// Returns the status in such a key, or `None` if it is the name of a kind of error.
pub fn status_of(key: &str) -> Option<&str> {
    key.strip_prefix(STATUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_parsed_from_its_key_and_from_no_other_text() {
        assert_eq!("status:503", status_key(503));
        assert_eq!(Some("503"), status_of(&status_key(503)));
        assert_eq!(None, status_of("timeout"));
    }
}
