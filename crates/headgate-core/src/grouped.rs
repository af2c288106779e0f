//! Numbers in the format for users.

/// Formats a number as `1,024`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(
            ["0", "999", "1,234", "1,000,000"],
            [0, 999, 1234, 1_000_000].map(grouped).each_ref().map(String::as_str)
        );
    }
}
