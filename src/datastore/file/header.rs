//! The fixed texts of the journal: its header, the header of a record, and the mark behind the last record.
//!
//! All numbers are lower-case hexadecimal of fixed width, so each text has one spelling only.

use std::ops::Range;

/// The length of the journal's header, in bytes. It is written at once, within one sector.
pub(super) const HEADER_BYTES: usize = 128;
/// The length of a record's header, in bytes.
pub(super) const RECORD_HEAD_BYTES: usize = 40;
/// The length of the mark, in bytes: shorter than a record's header, so that the next record covers it.
pub(super) const MARK_BYTES: usize = 31;
/// The version of the store that this program writes.
pub(super) const VERSION: u32 = 1;

/// How a record begins.
pub(super) const RECORD_MAGIC: &[u8; 5] = b"HA01 ";
const MARK_MAGIC: &[u8; 5] = b"HAE1 ";
/// Where the header's checksum stands; a line end follows.
const HEADER_CRC_AT: usize = HEADER_BYTES - 9;

/// What the journal's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The number of the first commit since the last cut.
    pub(super) first_seq: u64,
    /// Counts the cuts. Checksums of records start from it, so no record of an earlier generation is taken for one of
    /// this.
    pub(super) generation: u32,
    /// One more than the highest sequence number of any block that was deleted before the cut.
    pub(super) floor: u64,
    /// The checksum of `state` as of the cut; `None`: no settings had ever been written.
    pub(super) state: Option<u32>,
    /// The generation whose cut last changed `index`, which bears the same number; 0: no handle had ever been
    /// written out.
    pub(super) index: u32,
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
        Self { first_seq: 1, generation: 1, floor: 0, state: None, index: 0 }
    }

    /// The header's bytes, and behind them the mark of a journal without records.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let state = self.state.map_or_else(|| "-".repeat(8), |crc| format!("{crc:08x}"));
        let text = format!(
            "HAJ{VERSION} {:016x} {:08x} floor {:016x} state {state} index {:08x}",
            self.first_seq, self.generation, self.floor, self.index
        );
        let mut bytes = text.into_bytes();
        bytes.resize(HEADER_CRC_AT, b' ');
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(format!("{crc:08x}\n").as_bytes());
        bytes.extend_from_slice(&mark(self.generation, self.first_seq));
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
        if version != VERSION.to_string() {
            return Err(BadHeader::Newer(version.to_owned()));
        }
        Self::parse_fields(rest).ok_or(BadHeader::Damaged)
    }

    fn parse_fields(rest: &str) -> Option<Self> {
        let mut words = rest.split_ascii_whitespace();
        let first_seq = hex(words.next()?.as_bytes())?;
        let generation = u32::try_from(hex(words.next()?.as_bytes())?).ok()?;
        let mut field = |name| (words.next() == Some(name)).then(|| words.next()).flatten();
        let floor = hex(field("floor")?.as_bytes())?;
        let state = match field("state")? {
            "--------" => None,
            crc => Some(u32::try_from(hex(crc.as_bytes())?).ok()?),
        };
        let index = u32::try_from(hex(field("index")?.as_bytes())?).ok()?;
        Some(Self { first_seq, generation, floor, state, index })
    }
}

/// What stands at a place in the journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A valid record of this generation.
    Record { seq: u64, body: Range<usize>, end: usize },
    /// As much of the journal must be read before it can be said.
    Needs(usize),
    /// No valid record.
    Nothing,
}

/// Looks for a record at a place. `buffer` is the beginning of a journal of `capacity` bytes; a record whose number is
/// not among `wanted` is none.
pub(super) fn record_at(
    buffer: &[u8],
    at: usize,
    capacity: usize,
    generation: u32,
    wanted: impl Fn(u64) -> bool,
) -> Found {
    let head_end = at.saturating_add(RECORD_HEAD_BYTES);
    let Some(head) = buffer.get(at..head_end) else {
        return if head_end <= capacity { Found::Needs(head_end) } else { Found::Nothing };
    };
    let Some((seq, len, crc)) = parse_record_head(head) else {
        return Found::Nothing;
    };
    let end = usize::try_from(len).ok().and_then(|len| head_end.checked_add(len)?.checked_add(1));
    let Some(end) = end.filter(|&end| end <= capacity && wanted(seq)) else {
        return Found::Nothing;
    };
    let body = head_end..end - 1;
    let Some(bytes) = buffer.get(body.clone()) else {
        return Found::Needs(end);
    };
    match buffer.get(end - 1) {
        None => Found::Needs(end),
        Some(b'\n') if crc == record_crc(generation, head, bytes) => Found::Record { seq, body, end },
        Some(_) => Found::Nothing,
    }
}

/// The number, the length of the body and the checksum that the header of a record tells.
pub(super) fn parse_record_head(head: &[u8]) -> Option<(u64, u64, u32)> {
    let rest = head.strip_prefix(RECORD_MAGIC)?;
    let (seq, rest) = rest.split_at_checked(16)?;
    let (len, rest) = rest.strip_prefix(b" ")?.split_at_checked(8)?;
    let crc = hex_line(rest.strip_prefix(b" ")?)?;
    Some((hex(seq)?, hex(len)?, u32::try_from(crc).ok()?))
}

/// The header of a record with this body.
pub(super) fn record_head(generation: u32, seq: u64, body: &[u8]) -> Vec<u8> {
    let mut head = format!("HA01 {seq:016x} {:08x}", body.len()).into_bytes();
    let crc = record_crc(generation, &head, body);
    head.extend_from_slice(format!(" {crc:08x}\n").as_bytes());
    head
}

/// The checksum of a record: of its header up to the length, and of its body.
fn record_crc(generation: u32, head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(generation);
    hasher.update(head.get(..30).unwrap_or(head));
    hasher.update(body);
    hasher.finalize()
}

/// The mark where the record `seq` will stand.
///
/// It is written together with the record before it. Whoever finds it need not search the rest of the journal for
/// records behind a damaged one; whoever does not, searches. And it makes an end where, after a power cut that a store
/// without flushes did not survive, later records of the same generation may have been left.
pub(super) fn mark(generation: u32, seq: u64) -> Vec<u8> {
    let mut mark = MARK_MAGIC.to_vec();
    mark.extend_from_slice(format!("{seq:016x}").as_bytes());
    let mut hasher = crc32fast::Hasher::new_with_initial(generation);
    hasher.update(&mark);
    mark.extend_from_slice(format!(" {:08x}\n", hasher.finalize()).as_bytes());
    mark
}

/// The number and the checksum that a mark tells.
pub(super) fn parse_mark(bytes: &[u8]) -> Option<(u64, u32)> {
    let (seq, rest) = bytes.strip_prefix(MARK_MAGIC)?.split_at_checked(16)?;
    let crc = hex_line(rest.strip_prefix(b" ")?)?;
    Some((hex(seq)?, u32::try_from(crc).ok()?))
}

/// A hexadecimal number and a line end.
fn hex_line(text: &[u8]) -> Option<u64> {
    hex(text.strip_suffix(b"\n")?)
}

fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_no_other_text_is_one() {
        let header = Header {
            first_seq: 77,
            generation: 3,
            floor: 1_787_400_000_123_456_790,
            state: Some(0xdead_beef),
            index: 2,
        };
        for header in [header, Header::new()] {
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
        bytes[3] = b'2';
        let crc = crc32fast::hash(&bytes[..HEADER_CRC_AT]);
        bytes.splice(HEADER_CRC_AT..HEADER_BYTES, format!("{crc:08x}\n").into_bytes());
        assert_eq!(Header::parse(&bytes), Err(BadHeader::Newer("2".to_owned())));
    }

    #[test]
    fn a_record_is_valid_in_its_generation_only() {
        let body = b"clear 0 10.88.3.64/26 5 9\n";
        let mut bytes = record_head(7, 12, body);
        assert_eq!(bytes.len(), RECORD_HEAD_BYTES);
        bytes.extend_from_slice(body);
        bytes.push(b'\n');
        let len = bytes.len();
        let any = |_| true;
        assert_eq!(record_at(&bytes, 0, len, 7, any), Found::Record { seq: 12, body: 40..len - 1, end: len });
        assert_eq!(record_at(&bytes, 0, len, 6, any), Found::Nothing);
        assert_eq!(record_at(&bytes, 0, len, 7, |seq| seq == 13), Found::Nothing);
        assert_eq!(record_at(&bytes[..len - 1], 0, len, 7, any), Found::Needs(len));
        assert_eq!(record_at(&bytes[..39], 0, len, 7, any), Found::Needs(40));
        assert_eq!(
            record_at(&bytes[..len - 1], 0, len - 1, 7, any),
            Found::Nothing,
            "reaches beyond the journal"
        );
    }
}
