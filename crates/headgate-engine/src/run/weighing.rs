//! The costs of rows whose bodies are in files, if bytes of bodies are limited. The thread that reads the rows looks them
//! up, once for each. It may wait for the disk; the scheduler, which all workers wait for, must not.

use headgate_core::limits::{CostOf, Limits};
use headgate_core::row::{Row, RowBody};
use headgate_http::upload::length_now;

/// Computes the costs of rows, if they are needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighing {
    is_wanted: bool,
}

impl Weighing {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { is_wanted: limits.cost.as_ref().is_some_and(|cost| cost.of == CostOf::BodyBytes) }
    }

    pub(super) fn weigh(self, rows: &mut [Row]) {
        if !self.is_wanted {
            return;
        }
        for extra in rows.iter_mut().filter_map(|row| row.extra.as_deref_mut()) {
            if let Some(body @ RowBody::Pieces(_)) = &extra.body {
                extra.cost = Some(length_now(body));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headgate_core::limits::CostLimit;
    use headgate_core::row::{BodyPiece, RowExtra};

    use super::*;

    #[test]
    fn files_are_measured_if_bytes_of_bodies_are_limited() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "12345").expect("a file");
        let file = |path: &Path| BodyPiece::File(path.into());
        let missing = directory.path().join("missing");
        let row = |body: RowBody| {
            let extra = RowExtra { body: Some(body), ..RowExtra::default() };
            Row { extra: Some(Box::new(extra)), ..Row::new(0, "http://a/") }
        };
        let rows = [
            Row::new(0, "http://a/"),
            row(RowBody::Bytes("123".into())),
            row(RowBody::Pieces([BodyPiece::Bytes("123".into()), file(&path), file(&missing)].into())),
        ];
        let weighed = |of: CostOf| {
            let limits = Limits { cost: Some(CostLimit { rate: None, of }), ..Limits::default() };
            let mut rows = rows.clone();
            Weighing::new(&limits).weigh(&mut rows);
            rows.map(|row| row.extra.and_then(|extra| extra.cost))
        };
        assert_eq!([None, None, Some(8)], weighed(CostOf::BodyBytes));
        assert_eq!([None; 3], weighed(CostOf::Column("cost".into())));
    }
}
