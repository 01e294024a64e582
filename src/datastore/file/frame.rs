//! The frames of the journal: the header of a record, and the mark after the last record.
//!
//! ```text
//! HA02 <seq: 16> <body length: 8> <flushed: 16> <previous crc: 8> <crc: 8>\n <body> \n     a record of format 2
//! HA01 <seq: 16> <body length: 8> <crc: 8>\n <body> \n                                     a record of format 1
//! HAE2 <seq: 16> <crc: 8>\n       the end: the record `seq` will follow here
//! HAF2 <seq: 16> <crc: 8>\n       the same, and every record before it is flushed
//! ```
//!
//! All checksums start from the generation.
//!
//! # After a power cut
//!
//! The sectors of one flush reach the disk in any order. Several records wait for one flush if calls were killed before
//! theirs, or if commits are not flushed at all. A power cut in that flush may leave a hole: a record is torn, and a
//! record after it is whole. Nobody was answered on the strength of the torn record, so the journal ends at the hole.
//!
//! A record that was flushed and is damaged later leaves a hole too, and must not be dropped. `flushed` tells the two
//! apart. It is the highest commit number that the writer knew to be on disk before it wrote. If any record after a hole
//! has a `flushed` of the hole's number or more, then the hole was whole once: that is damage. A writer learns how far the
//! journal is flushed from the records, and from the mark: a call that flushed its commit replaces `HAE2` by `HAF2`
//! after its answer. If it is killed before that, the next writers know less, and never too much.
//!
//! After the journal has ended at a hole, the next record is written over it. Records of the lost flush may remain after
//! that one. `previous crc` keeps them out: it is the checksum of the record before, or 0 for the first of a generation.

use std::ops::Range;

/// The length of a record's header in format 2, in bytes.
pub(super) const RECORD_HEAD_BYTES: usize = 66;
/// The length of the mark, in bytes: shorter than any record's header, so that the next record covers it.
pub(super) const MARK_BYTES: usize = 31;
/// The letters that every record begins with.
pub(super) const RECORD_MAGIC: &[u8; 3] = b"HA0";

/// The layout of the records' headers, by the journal's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadLayout {
    /// Without `flushed` and `previous crc`.
    One,
    /// As this version writes it.
    Two,
}

impl HeadLayout {
    pub(super) const ALL: [HeadLayout; 2] = [HeadLayout::Two, HeadLayout::One];

    /// The length of a record's header, in bytes.
    pub(super) const fn head_bytes(self) -> usize {
        self.summed_bytes() + 10
    }

    /// The part of a record's header that its checksum covers, in bytes.
    pub(super) const fn summed_bytes(self) -> usize {
        match self {
            HeadLayout::One => 30,
            HeadLayout::Two => 56,
        }
    }

    const fn magic(self) -> &'static [u8; 5] {
        match self {
            HeadLayout::One => b"HA01 ",
            HeadLayout::Two => b"HA02 ",
        }
    }
}

/// The journal that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) layout: HeadLayout,
    pub(super) generation: u32,
}

impl Scope {
    fn sum(self, parts: [&[u8]; 2]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.generation);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// The fields of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) seq: u64,
    /// The length of the body, in bytes.
    pub(super) len: u64,
    /// The fields of format 2.
    pub(super) link: Option<Link>,
    pub(super) crc: u32,
}

/// What a record says of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The highest commit number that its writer knew to be flushed.
    pub(super) flushed: u64,
    /// The checksum of the record before; 0: it is the first of its generation.
    pub(super) previous: u32,
}

impl Head {
    /// Reads the header of a record.
    pub(super) fn parse(layout: HeadLayout, head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(layout.magic())?;
        let (seq, rest) = field(rest, 16, b" ")?;
        let (len, rest) = field(rest, 8, b" ")?;
        let (link, rest) = match layout {
            HeadLayout::One => (None, rest),
            HeadLayout::Two => {
                let (flushed, rest) = field(rest, 16, b" ")?;
                let (previous, rest) = field(rest, 8, b" ")?;
                (Some(Link { flushed, previous: u32::try_from(previous).ok()? }), rest)
            }
        };
        let (crc, rest) = field(rest, 8, b"\n")?;
        rest.is_empty().then_some(Self { seq, len, link, crc: u32::try_from(crc).ok()? })
    }

    /// Whether the writer of this record knew that another one was flushed.
    pub(super) fn proves_flushed(&self, seq: u64) -> bool {
        // In format 1 no record says so, and every one counts as proof.
        self.link.is_none_or(|link| link.flushed >= seq)
    }
}

/// A hexadecimal number of so many digits and what must follow it, and the rest.
fn field<'a>(text: &'a [u8], digits: usize, end: &[u8]) -> Option<(u64, &'a [u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    Some((hex(number)?, rest.strip_prefix(end)?))
}

/// The bytes of a record: its header, its body, and a line end; and its checksum. `bytes` is the body, after
/// [`RECORD_HEAD_BYTES`] of room.
pub(super) fn finish_record(scope: Scope, seq: u64, link: Link, mut bytes: Vec<u8>) -> (Vec<u8>, u32) {
    bytes.drain(..RECORD_HEAD_BYTES - scope.layout.head_bytes());
    let (head, body) = bytes.split_at_mut(scope.layout.head_bytes());
    let (text, crc) = record_head(scope, seq, link, body);
    head.copy_from_slice(&text);
    bytes.push(b'\n');
    (bytes, crc)
}

/// The header of a record with this body, and the checksum in it.
fn record_head(scope: Scope, seq: u64, link: Link, body: &[u8]) -> (Vec<u8>, u32) {
    let mut head = scope.layout.magic().to_vec();
    head.extend_from_slice(format!("{seq:016x} {:08x}", body.len()).as_bytes());
    if scope.layout == HeadLayout::Two {
        head.extend_from_slice(format!(" {:016x} {:08x}", link.flushed, link.previous).as_bytes());
    }
    let crc = scope.sum([&head, body]);
    head.extend_from_slice(format!(" {crc:08x}\n").as_bytes());
    (head, crc)
}

/// The contents of one place in the journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A valid record of this journal and generation.
    Record { head: Head, body: Range<usize>, end: usize },
    /// So many bytes of the journal must be read before it can be said.
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
    scope: Scope,
    wanted: impl Fn(u64) -> bool,
) -> Found {
    let head_end = at.saturating_add(scope.layout.head_bytes());
    let Some(text) = buffer.get(at..head_end) else {
        return if head_end <= capacity { Found::Needs(head_end) } else { Found::Nothing };
    };
    let Some(head) = Head::parse(scope.layout, text) else {
        return Found::Nothing;
    };
    let end = usize::try_from(head.len).ok().and_then(|len| head_end.checked_add(len)?.checked_add(1));
    let Some(end) = end.filter(|&end| end <= capacity && wanted(head.seq)) else {
        return Found::Nothing;
    };
    let body = head_end..end - 1;
    let Some(bytes) = buffer.get(body.clone()) else {
        return Found::Needs(end);
    };
    let summed = text.get(..scope.layout.summed_bytes()).unwrap_or(text);
    match buffer.get(end - 1) {
        None => Found::Needs(end),
        Some(b'\n') if head.crc == scope.sum([summed, bytes]) => Found::Record { head, body, end },
        Some(_) => Found::Nothing,
    }
}

/// The valid records of a journal that has been read whole, wherever they begin after `from`, with their places.
pub(super) fn records_after(
    journal: &[u8],
    from: usize,
    scope: Scope,
) -> impl Iterator<Item = (usize, Head, Range<usize>)> {
    let places = journal.get(from..).unwrap_or_default().windows(RECORD_MAGIC.len()).enumerate();
    let places = places.filter(|(_, letters)| letters == RECORD_MAGIC).map(move |(place, _)| from + place);
    places.filter_map(move |at| match record_at(journal, at, journal.len(), scope, |_| true) {
        Found::Record { head, body, .. } => Some((at, head, body)),
        Found::Needs(_) | Found::Nothing => None,
    })
}

/// The two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The journal ends here.
    End,
    /// The journal ends here, and all of it is flushed.
    Flushed,
}

/// The mark at the place of the record `seq`, which is not written yet.
///
/// [`Mark::End`] is written together with the record before it. It proves the end of the journal, so a reader does not
/// scan further for records after a damaged one.
pub(super) fn mark(scope: Scope, mark: Mark, seq: u64) -> Vec<u8> {
    let mut text = mark_magic(scope.layout, mark).to_vec();
    text.extend_from_slice(format!("{seq:016x}").as_bytes());
    let crc = scope.sum([&text, &[]]);
    text.extend_from_slice(format!(" {crc:08x}\n").as_bytes());
    text
}

/// The mark at a place, if it is one for the record `seq`.
pub(super) fn mark_at(buffer: &[u8], at: usize, scope: Scope, seq: u64) -> Option<Mark> {
    let text = buffer.get(at..at.saturating_add(MARK_BYTES))?;
    [Mark::End, Mark::Flushed].into_iter().find(|kind| text == mark(scope, *kind, seq))
}

/// The number and the checksum in a mark.
pub(super) fn parse_mark(layout: HeadLayout, bytes: &[u8]) -> Option<(u64, u32)> {
    let of = |kind| bytes.strip_prefix(mark_magic(layout, kind));
    let (seq, rest) = field(of(Mark::End).or_else(|| of(Mark::Flushed))?, 16, b" ")?;
    let (crc, rest) = field(rest, 8, b"\n")?;
    rest.is_empty().then_some((seq, u32::try_from(crc).ok()?))
}

const fn mark_magic(layout: HeadLayout, mark: Mark) -> &'static [u8; 5] {
    match (layout, mark) {
        (HeadLayout::One, _) => b"HAE1 ",
        (HeadLayout::Two, Mark::End) => b"HAE2 ",
        (HeadLayout::Two, Mark::Flushed) => b"HAF2 ",
    }
}

/// A hexadecimal number and a line end.
pub(super) fn hex_line(text: &[u8]) -> Option<u64> {
    hex(text.strip_suffix(b"\n")?)
}

pub(super) fn hex(digits: &[u8]) -> Option<u64> {
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
    fn a_record_is_valid_in_its_generation_only() {
        for layout in HeadLayout::ALL {
            let scope = Scope { layout, generation: 7 };
            let link = Link { flushed: 10, previous: 0xfeed };
            let mut body = vec![b' '; RECORD_HEAD_BYTES];
            body.extend_from_slice(b"clear 0 10.88.3.64/26 5 9\n");
            let (bytes, crc) = finish_record(scope, 12, link, body);
            let len = bytes.len();
            let at = |bytes: &[u8], scope, seq| record_at(bytes, 0, bytes.len(), scope, |found| found == seq);
            let link = (layout == HeadLayout::Two).then_some(link);
            let head = Head { seq: 12, len: 26, link, crc };
            let body = layout.head_bytes()..len - 1;
            assert_eq!(at(&bytes, scope, 12), Found::Record { head, body, end: len });
            assert_eq!(at(&bytes, Scope { generation: 6, ..scope }, 12), Found::Nothing);
            assert_eq!(at(&bytes, scope, 13), Found::Nothing);
            for other in HeadLayout::ALL.into_iter().filter(|other| *other != layout) {
                assert_eq!(at(&bytes, Scope { layout: other, ..scope }, 12), Found::Nothing);
            }
            let part = |have: usize, of: usize| record_at(&bytes[..have], 0, of, scope, |_| true);
            assert_eq!(part(len - 1, len), Found::Needs(len));
            assert_eq!(part(20, len), Found::Needs(layout.head_bytes()));
            assert_eq!(part(len - 1, len - 1), Found::Nothing, "reaches beyond the journal");
        }
    }

    #[test]
    fn a_mark_is_valid_at_its_number_only() {
        for layout in HeadLayout::ALL {
            let scope = Scope { layout, generation: 7 };
            for kind in [Mark::End, Mark::Flushed] {
                let bytes = mark(scope, kind, 12);
                assert_eq!(bytes.len(), MARK_BYTES);
                let expected = if layout == HeadLayout::One { Mark::End } else { kind };
                assert_eq!(mark_at(&bytes, 0, scope, 12), Some(expected));
                assert_eq!(mark_at(&bytes, 0, scope, 13), None);
                assert_eq!(mark_at(&bytes, 0, Scope { generation: 8, ..scope }, 12), None);
                assert_eq!(parse_mark(layout, &bytes).map(|(seq, _)| seq), Some(12));
            }
        }
    }
}
