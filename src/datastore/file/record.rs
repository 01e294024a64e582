//! What a record of the journal says: a list of operations in text.
//!
//! Each is a line `<verb> <length> <words…>`; `put` and `set` are followed by so many bytes and a line end. Names are
//! escaped paths, ranges and handles, none of which holds white space.
//!
//! ```text
//! put 412 projectcalico.org/ippools/blue.json        the object, as its file holds it
//! delete 0 ipam/blocks/10.88.3.64-26.json 1787…790   the lowest sequence number of a block from now on; else 0
//! set 180 10.88.3.64/26 5 1787…790                   the attribute; ordinal and the block's new sequence number
//! clear 0 10.88.3.64/26 5 1787…791
//! handle-add 0 pods.4f2a90c1 10.88.3.64/26
//! handle-remove 0 pods.4f2a90c1 10.88.3.64/26
//! ```

use std::io::Write;
use std::ops::Range;

use crate::api::HandleId;
use crate::net::Cidr;

/// An operation, as places in the bytes that it was parsed from: parsing copies nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    /// What it does.
    pub(super) verb: OpVerb,
    /// The key, block or handle.
    pub(super) name: Range<usize>,
    /// Of a handle's operation: the block.
    pub(super) block: Range<usize>,
    /// What is put or set.
    pub(super) payload: Range<usize>,
    /// Of `set` and `clear`.
    pub(super) ordinal: u16,
    /// Of `set` and `clear`: the block's new sequence number. Of `delete`: the lowest of any block from now on.
    pub(super) sequence: u64,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpVerb {
    /// An object is written whole.
    Put,
    /// An object goes.
    Delete,
    /// An ordinal of a block is given to somebody.
    Set,
    /// An ordinal of a block is freed.
    Clear,
    /// A handle gets its first address in a block.
    HandleAdd,
    /// A handle loses its last address in a block.
    HandleRemove,
}

impl OpVerb {
    const ALL: [(OpVerb, &[u8]); 6] = [
        (OpVerb::Put, b"put"),
        (OpVerb::Delete, b"delete"),
        (OpVerb::Set, b"set"),
        (OpVerb::Clear, b"clear"),
        (OpVerb::HandleAdd, b"handle-add"),
        (OpVerb::HandleRemove, b"handle-remove"),
    ];
}

/// Parses the body that stands at `body` of `buffer` and appends its operations.
///
/// # Errors
/// The offset of what is no operation.
pub(super) fn parse(buffer: &[u8], body: Range<usize>, ops: &mut Vec<Op>) -> Result<(), usize> {
    let mut at = body.start;
    while at < body.end {
        let op = parse_one(buffer, at..body.end).ok_or(at)?;
        at = op.payload.end;
        if matches!(op.verb, OpVerb::Put | OpVerb::Set) {
            at += 1;
        }
        ops.push(op);
    }
    Ok(())
}

fn parse_one(buffer: &[u8], at: Range<usize>) -> Option<Op> {
    let words = words(buffer, at.clone())?;
    let word = |place: usize| words.ranges.get(place).and_then(|range| buffer.get(range.clone()));
    let verb_word = word(0)?;
    let verb = OpVerb::ALL.iter().find(|(_, text)| *text == verb_word)?.0;
    let expected = match verb {
        OpVerb::Put => 3,
        OpVerb::Delete | OpVerb::HandleAdd | OpVerb::HandleRemove => 4,
        OpVerb::Set | OpVerb::Clear => 5,
    };
    if words.count != expected {
        return None;
    }
    let length = usize::try_from(number(word(1)?)?).ok()?;
    let [_, _, name, block, _] = words.ranges.clone();
    let (block, ordinal, sequence) = match verb {
        OpVerb::Put => (0..0, 0, 0),
        OpVerb::Delete => (0..0, 0, number(word(3)?)?),
        OpVerb::Set | OpVerb::Clear => (0..0, u16::try_from(number(word(3)?)?).ok()?, number(word(4)?)?),
        OpVerb::HandleAdd | OpVerb::HandleRemove => (block, 0, 0),
    };
    let start = words.line_end + 1;
    let end = start.checked_add(length)?;
    if matches!(verb, OpVerb::Put | OpVerb::Set) {
        if end >= at.end || buffer.get(end) != Some(&b'\n') {
            return None;
        }
    } else if length != 0 {
        return None;
    }
    Some(Op { verb, name, block, payload: start..end, ordinal, sequence })
}

/// The most words that a line has.
const WORDS_MAX: usize = 5;

/// The words of a line, as places in the buffer.
struct Words {
    ranges: [Range<usize>; WORDS_MAX],
    count: usize,
    line_end: usize,
}

/// Splits the line that starts at `at`. `None`: it does not end, has too many words, or an empty one.
fn words(buffer: &[u8], at: Range<usize>) -> Option<Words> {
    let mut ranges = [const { 0..0 }; WORDS_MAX];
    let mut count = 0;
    let mut start = at.start;
    for (place, byte) in buffer.get(at.clone())?.iter().enumerate() {
        if *byte != b' ' && *byte != b'\n' {
            continue;
        }
        let end = at.start + place;
        if end == start {
            return None;
        }
        *ranges.get_mut(count)? = start..end;
        count += 1;
        start = end + 1;
        if *byte == b'\n' {
            return Some(Words { ranges, count, line_end: end });
        }
    }
    None
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A body that is being written, with room in front for the record's header.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    head: usize,
    /// The largest file that it writes, with its length.
    largest_put: Option<(String, usize)>,
}

impl Body {
    /// An empty body behind `head` bytes of room.
    pub(super) fn new(head: usize) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.resize(head, b' ');
        Self { bytes, head, largest_put: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.len() == self.head
    }

    /// The room in front, and the body behind it.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    pub(super) fn largest_put(&self) -> Option<(&str, usize)> {
        self.largest_put.as_ref().map(|(name, len)| (name.as_str(), *len))
    }

    pub(super) fn put(&mut self, key: &str, value: &[u8]) {
        if self.largest_put().is_none_or(|(_, len)| len < value.len()) {
            self.largest_put = Some((key.to_owned(), value.len()));
        }
        self.line(format_args!("put {} {key}", value.len()));
        self.payload(value);
    }

    pub(super) fn delete(&mut self, key: &str, floor: u64) {
        self.line(format_args!("delete 0 {key} {floor}"));
    }

    pub(super) fn set(&mut self, block: Cidr, ordinal: u16, sequence: u64, attribute: &str) {
        self.line(format_args!("set {} {block} {ordinal} {sequence}", attribute.len()));
        self.payload(attribute.as_bytes());
    }

    pub(super) fn clear(&mut self, block: Cidr, ordinal: u16, sequence: u64) {
        self.line(format_args!("clear 0 {block} {ordinal} {sequence}"));
    }

    pub(super) fn handle_add(&mut self, handle: &HandleId, block: Cidr) {
        self.line(format_args!("handle-add 0 {handle} {block}"));
    }

    pub(super) fn handle_remove(&mut self, handle: &HandleId, block: Cidr) {
        self.line(format_args!("handle-remove 0 {handle} {block}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        let _ = self.bytes.write_fmt(line);
        self.bytes.push(b'\n');
    }

    fn payload(&mut self, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.bytes.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Vec<u8> {
        let cidr = "10.88.3.64/26".parse().expect("cidr");
        let handle = HandleId::new("pods.ümläut").expect("handle");
        let mut body = Body::new(3);
        body.put("state", b"{\"a\":\n1}\n");
        body.put("ipam/room/_/10.88.3.64-26", b"");
        body.delete("ipam/blocks/10.88.3.64-26.json", u64::MAX);
        body.set(cidr, 63, 101, "{}");
        body.clear(cidr, 0, 102);
        body.handle_add(&handle, cidr);
        body.handle_remove(&handle, cidr);
        body.into_bytes()
    }

    #[test]
    fn operations_come_back_as_they_were_written() {
        let bytes = body();
        let mut ops = Vec::new();
        parse(&bytes, 3..bytes.len(), &mut ops).expect("parses");
        let seen: Vec<_> = ops
            .iter()
            .map(|op| {
                let text = |range: &Range<usize>| String::from_utf8_lossy(&bytes[range.clone()]).into_owned();
                (op.verb, text(&op.name), text(&op.block), text(&op.payload), op.ordinal, op.sequence)
            })
            .collect();
        let op = |verb, name: &str, block: &str, payload: &str, ordinal, sequence| {
            (verb, name.to_owned(), block.to_owned(), payload.to_owned(), ordinal, sequence)
        };
        assert_eq!(
            seen,
            [
                op(OpVerb::Put, "state", "", "{\"a\":\n1}\n", 0, 0),
                op(OpVerb::Put, "ipam/room/_/10.88.3.64-26", "", "", 0, 0),
                op(OpVerb::Delete, "ipam/blocks/10.88.3.64-26.json", "", "", 0, u64::MAX),
                op(OpVerb::Set, "10.88.3.64/26", "", "{}", 63, 101),
                op(OpVerb::Clear, "10.88.3.64/26", "", "", 0, 102),
                op(OpVerb::HandleAdd, "pods.ümläut", "10.88.3.64/26", "", 0, 0),
                op(OpVerb::HandleRemove, "pods.ümläut", "10.88.3.64/26", "", 0, 0),
            ]
        );
    }

    #[test]
    fn a_body_cut_short_or_made_up_is_no_body() {
        let bytes = body();
        let whole: Vec<usize> = {
            let mut ops = Vec::new();
            parse(&bytes, 3..bytes.len(), &mut ops).expect("parses");
            let payload = |op: &Op| usize::from(matches!(op.verb, OpVerb::Put | OpVerb::Set));
            ops.iter().map(|op| op.payload.end + payload(op)).collect()
        };
        for end in 4..bytes.len() {
            let parsed = parse(&bytes, 3..end, &mut Vec::new());
            assert_eq!(parsed.is_ok(), whole.contains(&end), "cut at {end}");
        }
        for bad in [
            "put 1 a\n",
            "put 18446744073709551615 a\nx\n",
            "put -1 a\nx\n",
            "put 0 a b\n\n",
            "drop 0 a\n",
            "delete 0 a\n",
            "delete 1 a 0\n",
            "clear 0 a 65536 1\n",
            "clear 0 a 1 18446744073709551616\n",
            "handle-add 0 a\n",
            "put  1 a\nx\n",
            "\n",
        ] {
            assert!(parse(bad.as_bytes(), 0..bad.len(), &mut Vec::new()).is_err(), "{bad:?}");
        }
    }
}
