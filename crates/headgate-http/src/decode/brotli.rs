//! Decompresses brotli (RFC 7932), with each byte of its memory on the meter.
//!
//! The decoder allocates its window as a stream needs it, up to 16 MiB, and fills it before it returns any output. So its
//! allocator reserves memory first, which also bounds the work of a step. Larger windows are not part of the content encoding.

use std::io;
use std::rc::Rc;

use brotli::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, SliceWrapperMut,
};

use super::decompress::{DecompressProgress, Decompressor};
use super::meter::Meter;

pub(super) struct Brotli<'a> {
    state: BrotliState<WindowAllocator<'a>, TableAllocator<'a>, TableAllocator<'a>>,
    total_out: usize,
}

impl<'a> Brotli<'a> {
    pub(super) fn new(meter: &Rc<Meter<'a>>) -> Self {
        let tables = || TableAllocator(meter.clone());
        Self { state: BrotliState::new_strict(WindowAllocator(meter.clone()), tables(), tables()), total_out: 0 }
    }
}

impl Decompressor for Brotli<'_> {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<DecompressProgress> {
        let (mut available_in, mut consumed) = (input.len(), 0);
        let (mut available_out, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut consumed,
            input,
            &mut available_out,
            &mut written,
            output,
            &mut self.total_out,
            &mut self.state,
        );
        match result {
            // Output before the failure is returned first; the next call fails.
            BrotliResult::ResultFailure if written == 0 => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "brotli: Invalid Data"))
            }
            result => {
                Ok(DecompressProgress { consumed, written, has_ended: matches!(result, BrotliResult::ResultSuccess) })
            }
        }
    }
}

/// Allocates windows. If there is no memory, it returns an empty one, and the decoder ends.
struct WindowAllocator<'a>(Rc<Meter<'a>>);

/// Allocates tables: a few megabytes at most. They are allocated even if there is no memory; then the next byte that passes
/// the meter fails.
struct TableAllocator<'a>(Rc<Meter<'a>>);

/// Memory that counts on the meter as long as it lives.
struct MeteredCells<'a, T> {
    cells: Vec<T>,
    meter: Option<Rc<Meter<'a>>>,
}

impl<'a, T: Clone + Default> MeteredCells<'a, T> {
    fn new(length: usize, meter: &Rc<Meter<'a>>) -> Self {
        Self { cells: vec![T::default(); length], meter: Some(meter.clone()) }
    }
}

impl<T> Default for MeteredCells<'_, T> {
    fn default() -> Self {
        Self { cells: Vec::new(), meter: None }
    }
}

impl<T> Drop for MeteredCells<'_, T> {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.release(size_of_val(self.cells.as_slice()) as u64);
        }
    }
}

impl<T> SliceWrapper<T> for MeteredCells<'_, T> {
    fn slice(&self) -> &[T] {
        &self.cells
    }
}

impl<T> SliceWrapperMut<T> for MeteredCells<'_, T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.cells
    }
}

impl<'a> Allocator<u8> for WindowAllocator<'a> {
    type AllocatedMemory = MeteredCells<'a, u8>;

    fn alloc_cell(&mut self, length: usize) -> MeteredCells<'a, u8> {
        if self.0.reserve_window(length as u64).is_ok() {
            MeteredCells::new(length, &self.0)
        } else {
            MeteredCells::default()
        }
    }

    fn free_cell(&mut self, _: MeteredCells<'a, u8>) {}
}

impl<'a> TableAllocator<'a> {
    fn alloc<T: Clone + Default>(&self, length: usize) -> MeteredCells<'a, T> {
        // If this fails, the meter has stopped.
        let _ = self.0.reserve((length * size_of::<T>()) as u64);
        MeteredCells::new(length, &self.0)
    }
}

impl<'a> Allocator<u32> for TableAllocator<'a> {
    type AllocatedMemory = MeteredCells<'a, u32>;

    fn alloc_cell(&mut self, length: usize) -> MeteredCells<'a, u32> {
        self.alloc(length)
    }

    fn free_cell(&mut self, _: MeteredCells<'a, u32>) {}
}

impl<'a> Allocator<HuffmanCode> for TableAllocator<'a> {
    type AllocatedMemory = MeteredCells<'a, HuffmanCode>;

    fn alloc_cell(&mut self, length: usize) -> MeteredCells<'a, HuffmanCode> {
        self.alloc(length)
    }

    fn free_cell(&mut self, _: MeteredCells<'a, HuffmanCode>) {}
}
