//! The heads of HTTP/2 frames, as they pass.

/// What the head of a frame says (RFC 9113 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub length: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GO_AWAY: u8 = 7;
pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;

const HEAD_BYTES: usize = 9;
/// Of the number of a stream.
const RESERVED: u32 = 1 << 31;

/// Finds the heads of frames in bytes that come in pieces.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_BYTES],
    head_length: usize,
    /// Bytes to come of the frame whose head was found last.
    left: usize,
}

impl Frames {
    pub fn feed(&mut self, mut data: &[u8], mut found: impl FnMut(Frame)) {
        while !data.is_empty() {
            let skipped = self.left.min(data.len());
            self.left -= skipped;
            data = &data[skipped..];
            let taken = (HEAD_BYTES - self.head_length).min(data.len());
            self.head[self.head_length..self.head_length + taken].copy_from_slice(&data[..taken]);
            self.head_length += taken;
            data = &data[taken..];
            if self.head_length == HEAD_BYTES {
                let [high, middle, low, kind, flags, stream @ ..] = self.head;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.head_length = 0;
                found(Frame { length: self.left, kind, flags, stream: u32::from_be_bytes(stream) & !RESERVED });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).expect("short").to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD_BYTES + payload, 0xAA);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_bytes_are_cut(
            frames in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..40_usize), 0..20),
            pieces in proptest::collection::vec(1..30_usize, 1..5),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect();
            let (mut finder, mut found) = (Frames::default(), Vec::new());
            let mut rest = &bytes[..];
            let mut lengths = pieces.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*lengths.next().expect("cycled")));
                finder.feed(piece, |frame| found.push((frame.kind, frame.flags, frame.length)));
                rest = after;
            }
            prop_assert_eq!(frames, found);
        }
    }
}
