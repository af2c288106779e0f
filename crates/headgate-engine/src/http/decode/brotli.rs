//! Brotli (RFC 7932), with each byte of its memory on the meter.
//!
//! The decoder takes its window as a stream needs it, up to 16 MiB, and fills it before it hands anything out. So its
//! allocator asks first, which also bounds what is done at once. Windows beyond 16 MiB are no part of the content coding.

use std::io;
use std::rc::Rc;

use brotli::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, SliceWrapperMut,
};

use super::decompress::{Decompressor, Progress};
use super::meter::Meter;

pub(super) struct Brotli<'a> {
    state: BrotliState<Bytes<'a>, Tables<'a>, Tables<'a>>,
    total_out: usize,
}

impl<'a> Brotli<'a> {
    pub(super) fn new(meter: &Rc<Meter<'a>>) -> Self {
        let tables = || Tables(meter.clone());
        Self { state: BrotliState::new_strict(Bytes(meter.clone()), tables(), tables()), total_out: 0 }
    }
}

impl Decompressor for Brotli<'_> {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Progress> {
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
            // What was written before the failure is of no use alone.
            BrotliResult::ResultFailure if written == 0 => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "brotli: Invalid Data"))
            }
            result => Ok(Progress { consumed, written, has_ended: matches!(result, BrotliResult::ResultSuccess) }),
        }
    }
}

/// Where windows come from. Where there is no room, the decoder gets less than it asked for, and ends.
struct Bytes<'a>(Rc<Meter<'a>>);

/// Where tables come from: a few megabytes at the most. They are there even where there is no room, which the next byte that
/// passes finds out.
struct Tables<'a>(Rc<Meter<'a>>);

/// Memory that is on the meter as long as it lives.
struct Cells<'a, T> {
    cells: Vec<T>,
    meter: Option<Rc<Meter<'a>>>,
}

impl<'a, T: Clone + Default> Cells<'a, T> {
    fn new(length: usize, meter: &Rc<Meter<'a>>) -> Self {
        Self { cells: vec![T::default(); length], meter: Some(meter.clone()) }
    }
}

impl<T> Default for Cells<'_, T> {
    fn default() -> Self {
        Self { cells: Vec::new(), meter: None }
    }
}

impl<T> Drop for Cells<'_, T> {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.free(size_of_val(self.cells.as_slice()) as u64);
        }
    }
}

impl<T> SliceWrapper<T> for Cells<'_, T> {
    fn slice(&self) -> &[T] {
        &self.cells
    }
}

impl<T> SliceWrapperMut<T> for Cells<'_, T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.cells
    }
}

impl<'a> Allocator<u8> for Bytes<'a> {
    type AllocatedMemory = Cells<'a, u8>;

    fn alloc_cell(&mut self, length: usize) -> Cells<'a, u8> {
        if self.0.draw_at_once(length as u64).is_ok() { Cells::new(length, &self.0) } else { Cells::default() }
    }

    fn free_cell(&mut self, _: Cells<'a, u8>) {}
}

impl<'a> Tables<'a> {
    fn alloc<T: Clone + Default>(&self, length: usize) -> Cells<'a, T> {
        // A meter that says no has stopped.
        let _ = self.0.draw((length * size_of::<T>()) as u64);
        Cells::new(length, &self.0)
    }
}

impl<'a> Allocator<u32> for Tables<'a> {
    type AllocatedMemory = Cells<'a, u32>;

    fn alloc_cell(&mut self, length: usize) -> Cells<'a, u32> {
        self.alloc(length)
    }

    fn free_cell(&mut self, _: Cells<'a, u32>) {}
}

impl<'a> Allocator<HuffmanCode> for Tables<'a> {
    type AllocatedMemory = Cells<'a, HuffmanCode>;

    fn alloc_cell(&mut self, length: usize) -> Cells<'a, HuffmanCode> {
        self.alloc(length)
    }

    fn free_cell(&mut self, _: Cells<'a, HuffmanCode>) {}
}
