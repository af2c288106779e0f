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

/// Formats a size as `512 B` or `1.2 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut number, mut unit) = (bytes as f64, "");
    for larger in UNITS {
        (number, unit) = (number / 1024.0, larger);
        if number < 999.95 {
            break;
        }
    }
    if number < 99.95 { format!("{number:.1} {unit}") } else { format!("{} {unit}", grouped(number.round() as u64)) }
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

    #[test]
    fn a_size_has_the_unit_that_makes_it_short() {
        for (expected, bytes) in [
            ("0 B", 0),
            ("1023 B", 1023),
            ("1.0 KiB", 1024),
            ("1.5 MiB", 3 << 19),
            ("100 MiB", 100 << 20),
            ("1.0 GiB", 1_073_700_000),
            ("16,384 PiB", u64::MAX),
        ] {
            assert_eq!(expected, size(bytes));
        }
    }
}
