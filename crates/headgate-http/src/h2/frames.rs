//! Finds the headers of HTTP/2 frames as they pass, and removes frames that are not wanted.

/// The header of a frame (RFC 9113 section 4.1).
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

const HEADER_BYTES: usize = 9;
/// The reserved bit of a stream identifier.
const RESERVED: u32 = 1 << 31;

/// Finds frame headers in bytes that come in pieces.
#[derive(Debug, Default)]
pub(super) struct FrameFilter {
    header: [u8; HEADER_BYTES],
    header_length: usize,
    /// The bytes that are still to come of the frame whose header was found last.
    left: usize,
    /// The number of unwanted frames that were not removed because their headers came in pieces.
    pub let_through: u32,
}

impl FrameFilter {
    /// Removes unwanted frames without a payload from `data`, if their headers are within one piece. Returns how many bytes
    /// are left.
    pub(super) fn feed(&mut self, data: &mut [u8], mut is_wanted: impl FnMut(Frame) -> bool) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < data.len() {
            let begun = at;
            let payload = self.left.min(data.len() - at);
            self.left -= payload;
            at += payload;
            let taken = (HEADER_BYTES - self.header_length).min(data.len() - at);
            self.header[self.header_length..self.header_length + taken].copy_from_slice(&data[at..at + taken]);
            self.header_length += taken;
            at += taken;
            let mut removed = 0;
            if self.header_length == HEADER_BYTES {
                let [high, middle, low, kind, flags, stream @ ..] = self.header;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.header_length = 0;
                let stream = u32::from_be_bytes(stream) & !RESERVED;
                let is_wanted = is_wanted(Frame { length: self.left, kind, flags, stream });
                match taken {
                    _ if is_wanted || self.left > 0 => {}
                    HEADER_BYTES => removed = HEADER_BYTES,
                    _ => self.let_through = self.let_through.saturating_add(1),
                }
            }
            let length = at - begun - removed;
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
        bytes.resize(HEADER_BYTES + payload, 0xAA);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_found_however_the_bytes_are_cut(
            frames in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..40_usize), 0..20),
            pieces in proptest::collection::vec(1..30_usize, 1..5),
        ) {
            let mut bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect();
            let (mut finder, mut found) = (FrameFilter::default(), Vec::new());
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
            let removed = (bytes.len() - passed.len()) / HEADER_BYTES;
            prop_assert_eq!(unwanted, removed + finder.let_through as usize);
            // Removed frames have no payload; if all bytes arrive at once, all unwanted frames without a payload are removed.
            let wanted = |frames: &[(u8, u8, usize)]| {
                let bytes = frames.iter().filter(|(kind, _, length)| kind % 2 == 0 || *length > 0);
                bytes.flat_map(|(kind, flags, length)| frame(*kind, *flags, *length)).collect::<Vec<_>>()
            };
            let mut found = Vec::new();
            let kept = FrameFilter::default().feed(&mut passed, |frame| {
                found.push((frame.kind, frame.flags, frame.length));
                frame.kind % 2 == 0
            });
            prop_assert_eq!(wanted(&found), &passed[..kept]);
            let kept = FrameFilter::default().feed(&mut bytes, |frame| frame.kind % 2 == 0);
            prop_assert_eq!(wanted(&frames), &bytes[..kept]);
            prop_assert_eq!(wanted(&frames), &passed[..wanted(&found).len()]);
        }
    }
}
