//! The queue of rows between the source and the workers, bounded in rows and in bytes: rows may carry bodies.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::row::Row;

/// Rows that may wait, beside at least one chunk for each worker.
const MAX_ROWS: usize = 4096;
/// Bytes that may wait; one chunk may always, however large.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
struct Chunk {
    rows: Vec<Row>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Mutex<u64>,
    taken: Condvar,
}

/// The source's end: sends without an event loop.
#[derive(Debug)]
pub struct RowSender {
    chunks: async_channel::Sender<Chunk>,
    waiting: Arc<Waiting>,
}

/// A worker's end; all of them draw from one queue.
#[derive(Debug, Clone)]
pub struct RowReceiver {
    chunks: async_channel::Receiver<Chunk>,
    waiting: Arc<Waiting>,
}

/// Why there is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRows {
    /// None yet.
    Empty,
    /// None will come.
    Ended,
}

/// A queue for chunks of `chunk_rows` rows, drawn from by `workers`.
pub fn row_queue(chunk_rows: usize, workers: usize) -> (RowSender, RowReceiver) {
    let (sender, receiver) = async_channel::bounded((MAX_ROWS / chunk_rows).max(workers));
    let waiting = Arc::<Waiting>::default();
    (RowSender { chunks: sender, waiting: waiting.clone() }, RowReceiver { chunks: receiver, waiting })
}

impl RowSender {
    /// Queues rows, waiting while the queue is full. `false`: nobody wants rows any more.
    pub fn send(&self, rows: Vec<Row>) -> bool {
        let bytes = rows.iter().map(|row| row.bytes() as u64).sum();
        let mut waiting = self.waiting.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *waiting > 0 && *waiting + bytes > MAX_BYTES && !self.chunks.is_closed() {
            waiting = self.waiting.taken.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        *waiting += bytes;
        drop(waiting);
        self.chunks.send_blocking(Chunk { rows, bytes }).is_ok()
    }
}

impl RowReceiver {
    /// The next chunk, when there is one. Cancel safe.
    pub async fn recv(&self) -> Result<Vec<Row>, NoRows> {
        self.chunks.recv().await.map(|chunk| self.unpack(chunk)).map_err(|_| NoRows::Ended)
    }

    pub fn try_recv(&self) -> Result<Vec<Row>, NoRows> {
        match self.chunks.try_recv() {
            Ok(chunk) => Ok(self.unpack(chunk)),
            Err(async_channel::TryRecvError::Empty) => Err(NoRows::Empty),
            Err(async_channel::TryRecvError::Closed) => Err(NoRows::Ended),
        }
    }

    /// Lets the source know that nobody wants rows any more. What is queued can still be taken.
    pub fn close(&self) {
        self.chunks.close();
        self.waiting.taken.notify_all();
    }

    fn unpack(&self, chunk: Chunk) -> Vec<Row> {
        *self.waiting.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= chunk.bytes;
        self.waiting.taken.notify_one();
        chunk.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::RowExtra;

    fn heavy(ordinal: u64) -> Row {
        let extra = RowExtra { body: Some(vec![0; 10 << 20].into()), ..RowExtra::default() };
        Row { extra: Some(Box::new(extra)), ..Row::new(ordinal, "http://example.com/") }
    }

    #[test]
    fn heavy_rows_wait_for_room_and_come_in_order() {
        let (sender, receiver) = row_queue(1, 1);
        let source = std::thread::spawn(move || (0..5).all(|ordinal| sender.send(vec![heavy(ordinal)])));
        let mut ordinals = Vec::new();
        loop {
            match receiver.try_recv() {
                Ok(rows) => ordinals.extend(rows.iter().map(|row| row.ordinal)),
                Err(NoRows::Empty) => std::thread::yield_now(),
                Err(NoRows::Ended) => break,
            }
            assert!(*receiver.waiting.bytes.lock().expect("no panic") <= MAX_BYTES);
        }
        assert!(source.join().expect("no panic"));
        assert_eq!(vec![0, 1, 2, 3, 4], ordinals);
    }

    #[test]
    fn a_source_that_waits_for_room_learns_that_nobody_wants_rows() {
        let (sender, receiver) = row_queue(1, 1);
        assert!(sender.send(vec![heavy(0)]));
        let source = std::thread::spawn(move || sender.send(vec![heavy(1)]));
        receiver.close();
        assert!(!source.join().expect("no panic"));
    }
}
