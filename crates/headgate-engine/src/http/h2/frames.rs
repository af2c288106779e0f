//! The heads of HTTP/2 frames, as they pass, and what need not pass.

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
pub(super) const WINDOW_UPDATE: u8 = 8;
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
    /// Frames that weren't wanted, and whose heads came in pieces.
    pub let_through: u32,
}

impl Frames {
    /// Looks through what came, and leaves out the frames that aren't wanted and have nothing behind their heads, if these lie
    /// within one piece. How many bytes are left.
    pub fn feed(&mut self, data: &mut [u8], mut is_wanted: impl FnMut(Frame) -> bool) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < data.len() {
            let begun = at;
            let payload = self.left.min(data.len() - at);
            self.left -= payload;
            at += payload;
            let taken = (HEAD_BYTES - self.head_length).min(data.len() - at);
            self.head[self.head_length..self.head_length + taken].copy_from_slice(&data[at..at + taken]);
            self.head_length += taken;
            at += taken;
            let mut left_out = 0;
            if self.head_length == HEAD_BYTES {
                let [high, middle, low, kind, flags, stream @ ..] = self.head;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.head_length = 0;
                let stream = u32::from_be_bytes(stream) & !RESERVED;
                let is_wanted = is_wanted(Frame { length: self.left, kind, flags, stream });
                match taken {
                    _ if is_wanted || self.left > 0 => {}
                    HEAD_BYTES => left_out = HEAD_BYTES,
                    _ => self.let_through = self.let_through.saturating_add(1),
                }
            }
            let length = at - begun - left_out;
            if kept < begun {
                data.copy_within(begun..begun + length, kept);
            }
            kept += length;
        }
        kept
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
            let mut bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect();
            let (mut finder, mut found) = (Frames::default(), Vec::new());
            let (mut passed, mut rest) = (Vec::new(), bytes.clone());
            let mut rest = &mut rest[..];
            let mut lengths = pieces.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at_mut(rest.len().min(*lengths.next().expect("cycled")));
                let kept = finder.feed(piece, |frame| {
                    found.push((frame.kind, frame.flags, frame.length));
                    frame.kind % 2 == 0
                });
                passed.extend_from_slice(&piece[..kept]);
                rest = after;
            }
            prop_assert_eq!(&frames, &found);
            let unwanted = frames.iter().filter(|(kind, _, length)| kind % 2 == 1 && *length == 0).count();
            let left_out = (bytes.len() - passed.len()) / HEAD_BYTES;
            prop_assert_eq!(unwanted, left_out + finder.let_through as usize);
            // What is left out has no payload; where all comes at once, nothing of it is left.
            let wanted = |frames: &[(u8, u8, usize)]| {
                let bytes = frames.iter().filter(|(kind, _, length)| kind % 2 == 0 || *length > 0);
                bytes.flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect::<Vec<_>>()
            };
            let mut found = Vec::new();
            let kept = Frames::default().feed(&mut passed, |frame| {
                found.push((frame.kind, frame.flags, frame.length));
                frame.kind % 2 == 0
            });
            prop_assert_eq!(wanted(&found), &passed[..kept]);
            let kept = Frames::default().feed(&mut bytes, |frame| frame.kind % 2 == 0);
            prop_assert_eq!(wanted(&frames), &bytes[..kept]);
            prop_assert_eq!(wanted(&frames), &passed[..wanted(&found).len()]);
        }
    }
}
