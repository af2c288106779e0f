//! The window: the number of rows that the source may read beyond the watermark, the oldest row that is not done. It bounds the
//! memory for rows that are done above the watermark, however long one row takes.
//!
//! A slow row stops the watermark, but not the other rows, until the window is full. Then the source waits, and
//! [`Window::full_at`] returns the row that it waits for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::row::{Row, RowBatch};

/// The window of one run. One source waits for it, and one sink advances it.
#[derive(Debug)]
pub struct Window {
    size: u64,
    state: Mutex<WindowState>,
    /// Notifies the source that the watermark has moved, or that no rows are wanted any more.
    moved: Condvar,
}

#[derive(Debug)]
struct WindowState {
    watermark: u64,
    /// The time at which the source began to wait, if it waits.
    full_since: Option<Instant>,
    /// The total duration of its earlier waits.
    waited: Duration,
    closed: bool,
}

impl Window {
    /// Creates a window of `size` rows, but at least one. All rows below `watermark` are done.
    pub fn new(size: u64, watermark: u64) -> Self {
        let state = WindowState { watermark, full_since: None, waited: Duration::ZERO, closed: false };
        Self { size: size.max(1), state: Mutex::new(state), moved: Condvar::new() }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Passes rows to `send` in pieces, each as soon as all of its rows are within the window. Calls `full` before it waits.
    /// The rows are in ascending order; some may be missing. Returns `false` if no rows are wanted any more: the window is
    /// closed, or `send` returned `false`.
    pub fn pass(&self, mut rows: RowBatch, full: impl Fn(), mut send: impl FnMut(RowBatch) -> bool) -> bool {
        while !rows.is_empty() {
            if self.room(&self.state(), &rows) == 0 {
                full();
            }
            let Some(count) = self.wait_for_room(&rows) else { return false };
            let later = rows.split_off(count);
            if !send(rows) {
                return false;
            }
            rows = later;
        }
        true
    }

    /// Waits until some of these rows, which are in ascending order, are within the window, and returns their number. `None`:
    /// the window is closed.
    fn wait_for_room(&self, rows: &[Row]) -> Option<usize> {
        let mut state = self.state();
        if self.room(&state, rows) == 0 && !state.closed {
            let since = clock::now();
            state.full_since = Some(since);
            let full = |state: &mut WindowState| !state.closed && self.room(state, rows) == 0;
            state = self.moved.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
            state.full_since = None;
            state.waited += clock::elapsed(since);
        }
        (!state.closed).then(|| self.room(&state, rows))
    }

    fn room(&self, state: &WindowState, rows: &[Row]) -> usize {
        let end = state.watermark.saturating_add(self.size);
        rows.partition_point(|row| row.ordinal < end)
    }

    /// Moves the watermark, below which all rows are done. It never moves back.
    pub fn advance(&self, watermark: u64) {
        let mut state = self.state();
        state.watermark = watermark.max(state.watermark);
        if state.full_since.is_some() {
            self.moved.notify_one();
        }
    }

    /// Closes the window, since no rows are wanted any more, and wakes a waiting source.
    pub fn close(&self) {
        self.state().closed = true;
        self.moved.notify_one();
    }

    /// Returns the row that the source waits for, if it waits.
    pub fn full_at(&self) -> Option<u64> {
        let state = self.state();
        state.full_since.map(|_| state.watermark)
    }

    /// Returns how long the source has waited so far.
    pub(crate) fn full_for(&self, now: Instant) -> Duration {
        let state = self.state();
        state.waited + state.full_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn state(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn rows(ordinals: impl IntoIterator<Item = u64>) -> RowBatch {
        ordinals.into_iter().map(|ordinal| Row::new(ordinal, "")).collect()
    }

    fn ordinals(rows: &[Row]) -> Vec<u64> {
        rows.iter().map(|row| row.ordinal).collect()
    }

    /// Waits until the source waits, and returns the row that it waits for.
    fn eventually_full(window: &Window) -> u64 {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            if let Some(row) = window.full_at() {
                return row;
            }
            thread::yield_now();
        }
        panic!("the source never waits");
    }

    #[test]
    fn rows_within_the_window_pass_at_once_and_the_rest_as_the_watermark_moves() {
        let window = Arc::new(Window::new(4, 10));
        let (sender, passed) = mpsc::channel();
        let source = thread::spawn({
            let window = window.clone();
            // 11 and 15 are done already.
            move || window.pass(rows([10, 12, 13, 14, 16, 17]), || (), |piece| sender.send(ordinals(&piece)).is_ok())
        });
        assert_eq!(Ok(vec![10, 12, 13]), passed.recv());
        assert_eq!(10, eventually_full(&window));
        window.advance(12);
        assert_eq!(Ok(vec![14]), passed.recv());
        assert_eq!(12, eventually_full(&window));
        window.advance(16);
        assert_eq!(Ok(vec![16, 17]), passed.recv());
        assert!(source.join().expect("no panic"));
        assert_eq!(None, window.full_at());
    }

    #[test]
    fn a_watermark_never_moves_back() {
        let window = Window::new(2, 5);
        window.advance(3);
        assert_eq!(Some(2), window.wait_for_room(&rows([5, 6, 7])));
    }

    #[test]
    fn the_largest_window_has_room_for_every_row() {
        assert_eq!(Some(2), Window::new(u64::MAX, 7).wait_for_room(&rows([7, u64::MAX - 1])));
    }

    #[test]
    fn a_waiting_source_is_notified_when_no_more_rows_are_wanted() {
        let window = Arc::new(Window::new(1, 0));
        let source = thread::spawn({
            let window = window.clone();
            move || window.pass(rows([1]), || (), |_| true)
        });
        assert_eq!(0, eventually_full(&window));
        window.close();
        assert!(!source.join().expect("no panic"));
        assert!(!window.pass(rows([0]), || (), |_| true), "nor later");
    }

    #[test]
    fn a_receiver_that_wants_no_more_rows_ends_the_passing() {
        assert!(!Window::new(1, 0).pass(rows([0, 1]), || (), |_| false));
    }

    #[test]
    fn the_time_for_which_the_window_was_full_is_added_up() {
        let window = Arc::new(Window::new(1, 0));
        let before = Instant::now();
        let source = thread::spawn({
            let window = window.clone();
            move || window.pass(rows([1]), || (), |_| true)
        });
        eventually_full(&window);
        let full = window.full_for(Instant::now() + Duration::from_secs(60));
        assert!((60..70).contains(&full.as_secs()), "{full:?}");
        window.advance(1);
        assert!(source.join().expect("no panic"));
        let total = window.full_for(Instant::now() + Duration::from_secs(60));
        assert!(Duration::ZERO < total && total <= before.elapsed(), "{total:?}");
    }

    proptest! {
        #[test]
        fn every_row_passes_once_in_order_and_never_beyond_the_window(
            count in 0_u64..200,
            size in 1_u64..50,
            done_before in proptest::collection::btree_set(0_u64..200, 0..100),
            batch in 1_usize..40,
            picks in proptest::collection::vec(any::<Index>(), 1..20),
        ) {
            let waiting: Vec<u64> = (0..count).filter(|row| !done_before.contains(row)).collect();
            let mut done = done_before;
            let mut watermark = first_missing(0, &done);
            let window = Arc::new(Window::new(size, watermark));
            // This watermark moves before that of the window, so every row that passes must be less than `size` beyond it.
            let newest_watermark = Arc::new(AtomicU64::new(watermark));
            let (sender, passed) = mpsc::channel();
            let source = thread::spawn({
                let (window, newest_watermark, waiting) = (window.clone(), newest_watermark.clone(), waiting.clone());
                move || waiting.chunks(batch).all(|chunk| window.pass(rows(chunk.iter().copied()), || (), |piece| {
                    let end = newest_watermark.load(Ordering::SeqCst) + size;
                    piece.iter().all(|row| row.ordinal < end && sender.send(row.ordinal).is_ok())
                }))
            });

            let (mut seen, mut in_flight) = (Vec::<u64>::new(), Vec::<u64>::new());
            for pick in picks.iter().cycle() {
                // The test waits only if there is no row to finish.
                let first = if in_flight.is_empty() { passed.recv().ok() } else { None };
                let received: Vec<u64> = first.into_iter().chain(passed.try_iter()).collect();
                seen.extend(&received);
                in_flight.extend(received);
                if in_flight.is_empty() {
                    break;
                }
                done.insert(in_flight.swap_remove(pick.index(in_flight.len())));
                watermark = first_missing(watermark, &done);
                newest_watermark.store(watermark, Ordering::SeqCst);
                window.advance(watermark);
            }
            prop_assert!(source.join().expect("no panic"), "a row passed beyond the window");
            prop_assert_eq!(waiting, seen);
        }
    }

    fn first_missing(from: u64, done: &BTreeSet<u64>) -> u64 {
        (from..=from + done.len() as u64).find(|row| !done.contains(row)).expect("one more than there are")
    }
}
