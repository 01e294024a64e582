//! Reading ranges of keys into the view, in as few requests as their number allows.

use super::cover;
use super::format::{carved_of, parse_key};
use super::gateway::{Delivery, Gateway};
use super::refusal::is_compacted;
use super::view::{Listed, Listing, View};
use super::wire::{Bytes, KeyValue, Number, Operation, Range, RangeResponse, TxnRequest, TxnResponse};
use crate::datastore::{BATCH_MAX, Error, Fault, Key};
use crate::net::Cidr;

/// How many keys are asked for at once with what stands there. A block of 64 addresses has about 20 kB.
const VALUES_MAX: u64 = 500;
/// How many are asked for without.
const NAMES_MAX: u64 = 20_000;
/// How often reading begins again when what it began with was compacted away.
const STARTS_MAX: u32 = 5;

/// Something to be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fetch {
    /// What stands at a key.
    Point(String),
    /// All that stands below a prefix.
    Prefix(String),
    /// The blocks that overlap a network.
    Blocks(Cidr),
    /// The names of those, or of networks carved out.
    Names(Listed, Cidr),
}

impl Fetch {
    fn ranges(&self) -> Vec<Range> {
        let names_only = |range: Range| Range { keys_only: true, ..range };
        match self {
            Fetch::Point(key) => vec![Range::point(key)],
            Fetch::Prefix(prefix) => vec![Range::prefix(prefix)],
            Fetch::Blocks(network) => of_network(*network),
            Fetch::Names(Listed::Blocks, network) => {
                of_network(*network).into_iter().map(names_only).collect()
            }
            Fetch::Names(Listed::Carved, network) => {
                vec![names_only(Range::prefix(&carved_of(network.family())))]
            }
        }
    }
}

fn of_network(network: Cidr) -> Vec<Range> {
    let around = cover::around(network);
    cover::inside(network).into_iter().chain(around.iter().map(|key| Range::point(key))).collect()
}

/// Reads all of it as it stood at one moment. `first`: done in the same step, before anything is read.
pub(super) fn fetch(
    gateway: &mut Gateway,
    view: &mut View,
    fetches: &[Fetch],
    first: Option<&Operation>,
) -> Result<(), Error> {
    let ranges: Vec<Range> = fetches.iter().flat_map(Fetch::ranges).collect();
    let mut starts = 1;
    let (revision, found) = loop {
        match read(gateway, &ranges, first) {
            Err(Error::Remote { problem, .. }) if is_compacted(&problem) && starts < STARTS_MAX => {
                starts += 1;
            }
            read => break read?,
        }
    };
    let mut found = found.into_iter();
    for fetch in fetches {
        let parts: Vec<Vec<KeyValue>> = found.by_ref().take(fetch.ranges().len()).collect();
        let all = parts.into_iter().flatten();
        match fetch {
            Fetch::Point(key) => {
                view.absent(key);
                all.for_each(|found| view.take(found));
            }
            Fetch::Prefix(prefix) => {
                all.for_each(|found| view.take(found));
                view.know_all(prefix);
            }
            Fetch::Blocks(network) => {
                all.for_each(|found| view.take(found));
                view.know_blocks(*network);
            }
            Fetch::Names(listed, network) => {
                let mut cidrs: Vec<Cidr> = all.filter_map(|found| cidr_of(&found.key)).collect();
                cidrs.retain(|cidr| cidr.overlaps(*network));
                cidrs.sort();
                cidrs.dedup();
                view.list(Listing { listed: *listed, network: *network, revision, cidrs });
            }
        }
    }
    Ok(())
}

/// The range that a key of a block or carved network names.
pub(super) fn cidr_of(key: &Bytes) -> Option<Cidr> {
    match parse_key(std::str::from_utf8(&key.0).ok()?)? {
        Key::Block(cidr) | Key::Carved(cidr) => Some(cidr),
        _ => None,
    }
}

/// What each range has, and the revision at which it had it.
fn read(
    gateway: &mut Gateway,
    ranges: &[Range],
    first: Option<&Operation>,
) -> Result<(u64, Vec<Vec<KeyValue>>), Error> {
    let mut revision = 0;
    let mut found = Vec::new();
    let mut first = first.cloned();
    if ranges.is_empty() && first.is_some() {
        ask(gateway, &[], first.take())?;
    }
    for chunk in ranges.chunks(BATCH_MAX - 1) {
        let at =
            |range: &Range| Range { revision: Number(revision), limit: limit_of(range), ..range.clone() };
        let asked: Vec<Range> = chunk.iter().map(at).collect();
        let answer = ask(gateway, &asked, first.take())?;
        if revision == 0 {
            revision = answer.header.revision.0;
        }
        let answers = answer.responses.into_iter().filter_map(|response| response.response_range);
        for (range, answer) in chunk.iter().zip(answers) {
            found.push(to_the_end(gateway, range, answer, revision)?);
        }
    }
    Ok((revision, found))
}

/// The rest of a range of which the limit let only some through.
fn to_the_end(
    gateway: &mut Gateway,
    range: &Range,
    answer: RangeResponse,
    revision: u64,
) -> Result<Vec<KeyValue>, Error> {
    let RangeResponse { mut kvs, mut more, .. } = answer;
    while more {
        let Some(last) = kvs.last() else { break };
        let mut next = last.key.clone();
        next.0.push(0);
        let rest = Range { key: next, revision: Number(revision), limit: limit_of(range), ..range.clone() };
        let mut answer = ask(gateway, &[rest], None)?;
        let part = answer.responses.pop().and_then(|response| response.response_range).unwrap_or_default();
        more = part.more && !part.kvs.is_empty();
        kvs.extend(part.kvs);
    }
    Ok(kvs)
}

const fn limit_of(range: &Range) -> Number {
    Number(if range.keys_only { NAMES_MAX } else { VALUES_MAX })
}

fn ask(gateway: &mut Gateway, ranges: &[Range], first: Option<Operation>) -> Result<TxnResponse, Error> {
    let mut request = TxnRequest::default();
    request.success.extend(first);
    request.success.extend(ranges.iter().cloned().map(Operation::Range));
    let answer = gateway.txn(&request, Delivery::Repeatable)?.unwrap_or_default();
    let given = answer.responses.iter().filter(|response| response.response_range.is_some()).count();
    if given != ranges.len() {
        let problem = format!("{given} answers to {} questions", ranges.len());
        return Err(Error::Remote { server: gateway.servers(), fault: Fault::Odd, problem });
    }
    Ok(answer)
}
