//! What a row uses of a limit on costs, from a column.

use headgate_core::reason::{Reason, shown};
use headgate_core::row::Row;

use super::cells::{RowPosition, add_defect};

/// Sets the cost from the text of a cell: a number of 0 or more, rounded up. An empty cell sets nothing.
pub(super) fn set_cost(row: &mut Row, position: RowPosition, column: &str, text: &[u8]) {
    let text = text.trim_ascii();
    if text.is_empty() {
        return;
    }
    if let Some(cost) = parse(text) {
        row.extra.get_or_insert_default().cost = Some(cost);
    } else {
        let reason = Reason::new(format!("the column {column:?} has no cost: a cost is a number, and not below 0"));
        add_defect(row, position, reason.with(shown(text)));
    }
}

fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let rounded = || text.parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost >= 0.0).map(f64::ceil);
    text.parse().ok().or_else(|| rounded().map(|cost| cost as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_number_that_is_not_negative_and_rounded_up() {
        let cases = [
            (Some(0), "0"),
            (Some(0), "-0.0"),
            (Some(17), "17"),
            (Some(2), "1.01"),
            (Some(1500), "1.5e3"),
            (Some(u64::MAX), "18446744073709551615"),
            (Some(u64::MAX), "1e300"),
            (None, "-1"),
            (None, "-0.5"),
            (None, "many"),
            (None, "NaN"),
            (None, "inf"),
            (None, "1e999"),
            (None, "1,000"),
            (None, "true"),
        ];
        for (expected, text) in cases {
            assert_eq!(expected, parse(text.as_bytes()), "{text}");
        }
        assert_eq!(None, parse(b"1\xFF"));
    }
}
