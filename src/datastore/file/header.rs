//! The header of the journal: its format, its generation, and the derived files that belong to it.
//!
//! All numbers are lower-case hexadecimal of fixed width, so each text has one spelling only.
//!
//! # Formats
//!
//! `HAJ2` is what this version writes. `HAJ1` differs in the records, which do not say how far the journal was flushed
//! (see [`frame`](super::frame)), and in the number of the index, which was the generation alone. A journal of format 1
//! is read, and goes on with records of format 1; its next checkpoint begins a journal of format 2.

use super::frame::{HeadLayout, Mark, Scope, hex, hex_line, mark};

/// The length of the journal's header, in bytes. It is written at once, within one sector.
pub(super) const HEADER_BYTES: usize = 128;
/// The version of the store that this program writes.
pub(super) const VERSION: u32 = 2;
/// The offset of the header's checksum; a line end follows.
const HEADER_CRC_AT: usize = HEADER_BYTES - 9;

/// What the journal's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The format of the records.
    pub(super) layout: HeadLayout,
    /// The number of the first commit since the last cut.
    pub(super) first_seq: u64,
    /// Counts the cuts. Checksums of records start from it, so no record of an earlier generation is taken for one of
    /// this.
    pub(super) generation: u32,
    /// One more than the highest sequence number of any block that was deleted before the cut.
    pub(super) floor: u64,
    /// The checksum of `state` as of the cut; `None`: no settings had ever been written.
    pub(super) state: Option<u32>,
    /// The number that `index` bears, see [`index::id`](super::index::id); 0: no handle had ever been written out.
    pub(super) index: u64,
}

/// Why a header cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// It is not what any version writes.
    Damaged,
    /// A newer version wrote it.
    Newer(String),
}

impl Header {
    /// The header of a new store.
    pub(super) const fn new() -> Self {
        Self { layout: HeadLayout::Two, first_seq: 1, generation: 1, floor: 0, state: None, index: 0 }
    }

    /// The header's bytes, and behind them the mark of a journal without records.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let state = self.state.map_or_else(|| "-".repeat(8), |crc| format!("{crc:08x}"));
        let (version, digits) = match self.layout {
            HeadLayout::One => (1, 8),
            HeadLayout::Two => (2, 16),
        };
        let text = format!(
            "HAJ{version} {:016x} {:08x} floor {:016x} state {state} index {:0digits$x}",
            self.first_seq, self.generation, self.floor, self.index
        );
        let mut bytes = text.into_bytes();
        bytes.resize(HEADER_CRC_AT, b' ');
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(format!("{crc:08x}\n").as_bytes());
        bytes.extend_from_slice(&mark(self.scope(), Mark::End, self.first_seq));
        bytes
    }

    /// Reads a header.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadHeader> {
        let (text, crc) = bytes
            .get(..HEADER_BYTES)
            .and_then(|bytes| bytes.split_at_checked(HEADER_CRC_AT))
            .ok_or(BadHeader::Damaged)?;
        if hex_line(crc) != Some(u64::from(crc32fast::hash(text))) {
            return Err(BadHeader::Damaged);
        }
        let text = str::from_utf8(text).map_err(|_| BadHeader::Damaged)?;
        let (version, rest) = text.split_once(' ').ok_or(BadHeader::Damaged)?;
        let version = version.strip_prefix("HAJ").ok_or(BadHeader::Damaged)?;
        let layout = match version {
            "1" => HeadLayout::One,
            "2" => HeadLayout::Two,
            newer => return Err(BadHeader::Newer(newer.to_owned())),
        };
        Self::parse_fields(layout, rest).ok_or(BadHeader::Damaged)
    }

    /// What checksums of this journal start from, and how its records are laid out.
    pub(super) const fn scope(&self) -> Scope {
        Scope { layout: self.layout, generation: self.generation }
    }

    fn parse_fields(layout: HeadLayout, rest: &str) -> Option<Self> {
        let mut words = rest.split_ascii_whitespace();
        let first_seq = hex(words.next()?.as_bytes())?;
        let generation = u32::try_from(hex(words.next()?.as_bytes())?).ok()?;
        let mut field = |name| (words.next() == Some(name)).then(|| words.next()).flatten();
        let floor = hex(field("floor")?.as_bytes())?;
        let state = match field("state")? {
            "--------" => None,
            crc => Some(u32::try_from(hex(crc.as_bytes())?).ok()?),
        };
        let index = hex(field("index")?.as_bytes())?;
        Some(Self { layout, first_seq, generation, floor, state, index })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::MARK_BYTES;
    use super::*;

    #[test]
    fn a_header_comes_back_and_no_other_text_is_one() {
        let header = Header {
            layout: HeadLayout::Two,
            first_seq: 77,
            generation: 3,
            floor: 1_787_400_000_123_456_790,
            state: Some(0xdead_beef),
            index: 0x2_0000_0007,
        };
        let of_format_1 = Header { layout: HeadLayout::One, index: 2, ..header.clone() };
        for header in [header, of_format_1, Header::new()] {
            let bytes = header.to_bytes();
            assert_eq!(bytes.len(), HEADER_BYTES + MARK_BYTES);
            assert_eq!(Header::parse(&bytes), Ok(header));
            for place in 0..HEADER_BYTES {
                for bit in 0..8 {
                    let mut flipped = bytes.clone();
                    flipped[place] ^= 1 << bit;
                    assert_eq!(Header::parse(&flipped), Err(BadHeader::Damaged), "bit {bit} of byte {place}");
                }
            }
        }
    }

    #[test]
    fn a_newer_header_is_told_from_a_damaged_one() {
        let mut bytes = Header::new().to_bytes();
        bytes[3] = b'3';
        let crc = crc32fast::hash(&bytes[..HEADER_CRC_AT]);
        bytes.splice(HEADER_CRC_AT..HEADER_BYTES, format!("{crc:08x}\n").into_bytes());
        assert_eq!(Header::parse(&bytes), Err(BadHeader::Newer("3".to_owned())));
    }
}
