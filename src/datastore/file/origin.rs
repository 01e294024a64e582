//! What a journal says of itself where its header cannot be read: the first record, or the mark in its place, has a
//! checksum that was started from the generation, and a checksum can be taken back to its start.

use super::frame::{
    Found, Head, HeadLayout, MARK_BYTES, Scope, mark_at, parse_mark, record_at, records_after,
};
use super::header::HEADER_BYTES;

/// The certain fields of a lost header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) layout: HeadLayout,
    pub(super) first_seq: u64,
    pub(super) generation: u32,
}

/// Finds the origin of a journal. `None`: what stands behind the header does not say it beyond doubt.
pub(super) fn origin(journal: &[u8]) -> Option<Origin> {
    HeadLayout::ALL
        .into_iter()
        .find_map(|layout| of_records(layout, journal).or_else(|| of_mark(layout, journal)))
}

/// By the first record: whatever follows it must be of the same generation.
fn of_records(layout: HeadLayout, journal: &[u8]) -> Option<Origin> {
    let (text, rest) = journal.get(HEADER_BYTES..)?.split_at_checked(layout.head_bytes())?;
    let head = Head::parse(layout, text)?;
    let body = rest.get(..usize::try_from(head.len).ok()?)?;
    let generation = start_of(head.crc, text.get(..layout.summed_bytes())?.iter().chain(body));
    let scope = Scope { layout, generation };
    let at = |place, seq| record_at(journal, place, journal.len(), scope, |found| found == seq);
    let Found::Record { end, .. } = at(HEADER_BYTES, head.seq) else {
        return None;
    };
    let next = head.seq.checked_add(1)?;
    let is_sure =
        mark_at(journal, end, scope, next).is_some() || matches!(at(end, next), Found::Record { .. });
    is_sure.then_some(Origin { layout, first_seq: head.seq, generation })
}

/// By the mark of a journal without records: those of the generation before must be left behind it, unless it is the
/// very first.
fn of_mark(layout: HeadLayout, journal: &[u8]) -> Option<Origin> {
    let bytes = journal.get(HEADER_BYTES..HEADER_BYTES + MARK_BYTES)?;
    let (first_seq, crc) = parse_mark(layout, bytes)?;
    let generation = start_of(crc, bytes.get(..MARK_SUMMED)?);
    mark_at(journal, HEADER_BYTES, Scope { layout, generation }, first_seq)?;
    let origin = Origin { layout, first_seq, generation };
    if (first_seq, generation) == (1, 1) {
        return Some(origin);
    }
    let generation = generation.checked_sub(1)?;
    // The generation before may be of the format before.
    let mut before = HeadLayout::ALL
        .into_iter()
        .flat_map(|layout| records_after(journal, HEADER_BYTES, Scope { layout, generation }));
    before.any(|(_, head, _)| head.seq < first_seq).then_some(origin)
}

/// How much of a mark its checksum covers, in bytes.
const MARK_SUMMED: usize = 21;

/// From what a CRC-32 was started, by its end and the bytes in between.
fn start_of<'a>(crc: u32, bytes: impl IntoIterator<Item = &'a u8, IntoIter: DoubleEndedIterator>) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut state = !crc;
    for byte in bytes.into_iter().rev() {
        for _ in 0..8 {
            // The highest bit tells whether the polynomial was added: it has that bit, and what was shifted has not.
            state = if state >> 31 == 1 { (state ^ POLYNOMIAL) << 1 | 1 } else { state << 1 };
        }
        state ^= u32::from(*byte);
    }
    !state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datastore::file::frame::{Link, Mark, RECORD_HEAD_BYTES, finish_record};
    use crate::datastore::file::header::Header;

    const fn scope(generation: u32) -> Scope {
        Scope { layout: HeadLayout::Two, generation }
    }

    fn mark(generation: u32, seq: u64) -> Vec<u8> {
        crate::datastore::file::frame::mark(scope(generation), Mark::Flushed, seq)
    }

    fn record(generation: u32, seq: u64) -> Vec<u8> {
        let body = format!("{}clear 0 10.88.3.64/26 5 {seq}\n", " ".repeat(RECORD_HEAD_BYTES));
        let link = Link { flushed: seq - 1, previous: 0 };
        finish_record(scope(generation), seq, link, body.into_bytes()).0
    }

    /// A journal whose header is gone.
    fn journal(parts: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![b'?'; HEADER_BYTES];
        bytes.extend(parts.concat());
        bytes.resize(4096, 0);
        bytes
    }

    #[test]
    fn a_checksum_is_taken_back_to_its_start() {
        for start in [0, 1, 77, u32::MAX] {
            for bytes in [&b""[..], b"x", b"HAE2 0000000000000001"] {
                let mut hasher = crc32fast::Hasher::new_with_initial(start);
                hasher.update(bytes);
                assert_eq!(start_of(hasher.finalize(), bytes), start);
            }
        }
    }

    #[test]
    fn records_say_of_which_generation_they_are() {
        let expected = Some(Origin { layout: HeadLayout::Two, first_seq: 12, generation: 7 });
        assert_eq!(origin(&journal(&[record(7, 12), mark(7, 13)])), expected);
        assert_eq!(origin(&journal(&[record(7, 12), record(7, 13)])), expected);
        assert_eq!(origin(&journal(&[record(7, 12), record(7, 13), mark(7, 14)])), expected);
    }

    #[test]
    fn one_that_stands_alone_says_nothing() {
        assert_eq!(origin(&journal(&[record(7, 12)])), None);
        assert_eq!(origin(&journal(&[record(7, 12), record(6, 13)])), None);
        assert_eq!(origin(&journal(&[record(7, 12), record(7, 14)])), None);
        assert_eq!(origin(&journal(&[record(7, 12), mark(6, 13)])), None);
        assert_eq!(origin(&journal(&[])), None);
        assert_eq!(origin(&[]), None);
    }

    #[test]
    fn a_mark_needs_records_of_the_generation_before() {
        let expected = Some(Origin { layout: HeadLayout::Two, first_seq: 12, generation: 7 });
        assert_eq!(origin(&journal(&[mark(7, 12), vec![b'x'; 9], record(6, 11)])), expected);
        assert_eq!(origin(&journal(&[mark(7, 12), record(5, 11)])), None);
        assert_eq!(origin(&journal(&[mark(7, 12), record(6, 12)])), None);
        assert_eq!(origin(&journal(&[mark(7, 12)])), None);
        let first = Header::new().to_bytes();
        assert_eq!(
            origin(&journal(&[first[HEADER_BYTES..].to_vec()])),
            Some(Origin { layout: HeadLayout::Two, first_seq: 1, generation: 1 })
        );
    }
}
