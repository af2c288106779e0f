//! The rows that the lanes of one worker have in flight: a place for each lane, where the worker can look.
//!
//! A lane would hold its row itself, but nobody sees into a lane that waits; and somebody may want to know which row
//! takes so long.

use std::cell::RefCell;

use crate::model::row::Row;

/// As many places as there ever were lanes at a time.
#[derive(Debug, Default)]
pub struct InFlight {
    places: RefCell<Vec<Option<Row>>>,
    /// Places that no lane has.
    free: RefCell<Vec<Place>>,
}

/// A lane's own place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

impl InFlight {
    /// A place for a lane that begins.
    pub fn enter(&self) -> Place {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut places = self.places.borrow_mut();
            places.push(None);
            Place(places.len() as u32 - 1)
        })
    }

    /// Gives up the place of a lane that ends.
    pub fn leave(&self, place: Place) {
        self.places.borrow_mut()[place.0 as usize] = None;
        self.free.borrow_mut().push(place);
    }

    pub fn put(&self, place: Place, row: Row) {
        self.places.borrow_mut()[place.0 as usize] = Some(row);
    }

    /// # Panics
    /// No row was put there.
    pub fn look<T>(&self, place: Place, at: impl FnOnce(&Row) -> T) -> T {
        at(self.places.borrow()[place.0 as usize].as_ref().expect("a lane looks at its own row"))
    }

    /// # Panics
    /// No row was put there.
    pub fn take(&self, place: Place) -> Row {
        self.places.borrow_mut()[place.0 as usize].take().expect("a lane takes back its own row")
    }

    /// The URL of a row, if it is in flight here. Looks at all of them.
    pub fn url_of(&self, ordinal: u64) -> Option<Box<str>> {
        let places = self.places.borrow();
        places.iter().flatten().find(|row| row.ordinal == ordinal).map(|row| row.url.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_as_long_as_it_is_in_flight() {
        let rows = InFlight::default();
        let (first, second) = (rows.enter(), rows.enter());
        rows.put(first, Row::new(7, "http://a/"));
        rows.put(second, Row::new(3, "http://b/"));
        assert_eq!((Some("http://b/".into()), None), (rows.url_of(3), rows.url_of(4)));
        assert_eq!(7, rows.look(first, |row| row.ordinal));
        assert_eq!((Row::new(3, "http://b/"), None), (rows.take(second), rows.url_of(3)));
    }

    #[test]
    fn the_place_of_a_lane_that_has_ended_is_used_again_and_holds_no_row() {
        let rows = InFlight::default();
        let place = rows.enter();
        rows.put(place, Row::new(7, "http://a/"));
        rows.leave(place);
        assert_eq!(None, rows.url_of(7));
        assert_eq!(place, rows.enter());
        assert_ne!(place, rows.enter());
    }
}
