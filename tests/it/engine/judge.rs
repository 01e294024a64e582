//! What must hold after any run, whoever went first and whoever died.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Entry, Key, Object};
use host_affine::ipam::{Attachment, Block, Error, Finding, Ipam, audit, noted, owner_key};
use host_affine::net::Family;

use super::build::{Ask, addresses, cidr};
use super::choices::Choices;
use super::scenarios::{Act, Room, Scenario};
use super::schedule::{Client, run_alone};
use super::sim::{Kind, Sim, World};

/// What a client was told, and between which moments.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    act: Act,
    began: usize,
    /// `None`: it died before it was told.
    answer: Option<(usize, Result<Vec<IpAddr>, Refusal>)>,
}

impl Event {
    /// What tells it from another event of the same scenario.
    pub(crate) fn in_short(&self) -> impl std::fmt::Debug + '_ {
        let (Act::Add(ask) | Act::Del(ask)) = &self.act;
        (&ask.attachment.container_id, &ask.attachment.ifname, self.began, &self.answer)
    }
}

#[derive(Clone, Debug)]
struct Refusal {
    text: String,
    exhausted: Option<Family>,
}

/// What all clients were told.
pub(crate) type Log = Rc<RefCell<Vec<Event>>>;

/// A client that does one thing after the other and logs the answers.
pub(crate) fn client<'a>(sim: Sim, acts: &'a [Act], log: &Log) -> Client<'a> {
    let log = Rc::clone(log);
    Box::pin(async move {
        let mut ipam = Ipam::new(sim);
        for act in acts {
            let place = log.borrow().len();
            let began = place + answered(&log.borrow());
            log.borrow_mut().push(Event { act: act.clone(), began, answer: None });
            let answer = perform(&mut ipam, act).await;
            let now = log.borrow().len() + answered(&log.borrow());
            log.borrow_mut()[place].answer = Some((now, answer));
        }
    })
}

fn answered(log: &[Event]) -> usize {
    log.iter().filter(|event| event.answer.is_some()).count()
}

async fn perform(ipam: &mut Ipam<Sim>, act: &Act) -> Result<Vec<IpAddr>, Refusal> {
    let answer = match act {
        Act::Add(ask) => ask.of(ipam).await.map(|assigned| addresses(&assigned)),
        Act::Del(ask) => ask.end(ipam).await.map(|released| released.addresses),
    };
    answer.map_err(|error| Refusal {
        text: error.to_string(),
        exhausted: match error {
            Error::Exhausted { family, .. } => Some(family),
            _ => None,
        },
    })
}

/// Judges the state that a run left, and what can still be done with it.
pub(crate) fn judge(scenario: &Scenario, kind: Kind, state: &Memory, log: &[Event], quiet: bool) {
    let holders = holders(state);
    let only_adds = log.iter().all(|event| matches!(event.act, Act::Add(_)));
    for event in log {
        judge_event(event, log, &holders, quiet);
        if scenario.room == Room::Plenty
            && let (Act::Add(_), Some((_, Err(refusal)))) = (&event.act, &event.answer)
        {
            panic!("refused although there is room: {}", refusal.text);
        }
        if quiet
            && only_adds
            && scenario.room == Room::Scarce
            && let Some((_, Err(Refusal { exhausted: Some(family), .. }))) = &event.answer
        {
            assert!(is_full(state, *family), "{family} exhausted, with addresses left and nobody releasing");
        }
    }
    for entry in state.entries() {
        if let (Key::Reservation(name), Object::Reservation(kept)) = (entry.key, entry.object)
            && name.ends_with("-subnet")
        {
            let taken = |text: &&String| holders.keys().any(|address| cidr(text).contains_address(*address));
            assert_eq!(kept.spec.reserved_cidrs.iter().find(taken), None, "kept back, and held");
        }
    }
    for finding in findings(state) {
        assert!(finding.mends_itself(), "left for good: {finding}");
    }
    judge_afterlife(scenario, kind, state, log);
}

fn judge_event(event: &Event, log: &[Event], holders: &BTreeMap<IpAddr, Attachment>, quiet: bool) {
    let (Act::Add(ask) | Act::Del(ask)) = &event.act;
    let attachment = &ask.attachment;
    let Some((ended, answer)) = &event.answer else {
        return;
    };
    let others = |adds: bool| {
        log.iter().filter(move |other| {
            let (Act::Add(of) | Act::Del(of)) = &other.act;
            of.attachment == *attachment
                && matches!(other.act, Act::Add(_)) == adds
                && other.began != event.began
                && other.answer.as_ref().is_none_or(|(ended, _)| *ended > event.began)
        })
    };
    let held = || holders.iter().filter(|(_, holder)| *holder == attachment);
    match (&event.act, answer) {
        (Act::Add(_), Ok(given)) if others(false).next().is_none() => {
            for address in given {
                assert_eq!(holders.get(address), Some(attachment), "{address} was answered, and is not held");
            }
            assert_eq!(given.len(), ask.wanted.len());
        }
        (Act::Add(_), Err(_)) if quiet && others(true).next().is_none() => {
            let before = log.iter().any(|other| {
                matches!(&other.act, Act::Add(of) if of.attachment == *attachment)
                    && other.answer.as_ref().is_some_and(|(other, _)| other < ended)
            });
            assert!(before || held().next().is_none(), "refused, and holds {:?}", held().next());
        }
        (Act::Del(_), Ok(_)) if others(true).next().is_none() => {
            assert_eq!(held().next(), None, "freed, and still held");
        }
        (Act::Del(_), Err(refusal)) => panic!("a DEL failed: {}", refusal.text),
        _ => {}
    }
}

/// Repeats every request, ends everything, lets every host claim, and looks whether anything is left behind.
fn judge_afterlife(scenario: &Scenario, kind: Kind, state: &Memory, log: &[Event]) {
    let world = Rc::new(RefCell::new(World::new(state.clone(), kind, Choices::every(), 0)));
    let asks: Vec<&Ask> = scenario
        .clients
        .iter()
        .flatten()
        .map(|act| match act {
            Act::Add(ask) | Act::Del(ask) => ask,
        })
        .collect();
    if scenario.room == Room::Plenty {
        let newcomer = Ask::new("newcomer", "n").after(7200);
        assert!(perform_alone(&world, &Act::Add(newcomer.clone())).is_ok(), "nothing is left for a newcomer");
        assert!(perform_alone(&world, &Act::Del(newcomer)).is_ok());
    }
    for ask in &asks {
        let again = perform_alone(&world, &Act::Add((*ask).clone()));
        assert!(again.is_ok() || scenario.room != Room::Plenty, "refused when repeated: {again:?}");
    }
    for ask in &asks {
        let freed = perform_alone(&world, &Act::Del((*ask).clone()));
        assert!(freed.is_ok(), "{freed:?}");
        let held = holders(&world.borrow().state);
        assert!(!held.values().any(|holder| *holder == ask.attachment), "a DEL that frees nothing");
    }
    if !findings(&world.borrow().state).is_empty() {
        for ask in &asks {
            claim(&world, ask);
        }
    }
    let left = findings(&world.borrow().state);
    assert_eq!(left, [], "left after retries, DELs and claims; log: {log:?}");
}

/// Has a host ask until it needs a block that it did not have, and ends all that again.
fn claim(world: &Rc<RefCell<World>>, ask: &Ask) {
    let mut given = Vec::new();
    for number in 0..40 {
        let mut ask = ask.clone().after(7200);
        ask.attachment.container_id = format!("claim-{number}");
        let before = block_count(&world.borrow().state);
        if perform_alone(world, &Act::Add(ask.clone())).is_err() {
            break;
        }
        given.push(ask);
        if block_count(&world.borrow().state) > before {
            break;
        }
    }
    for ask in given {
        assert!(perform_alone(world, &Act::Del(ask)).is_ok());
    }
}

fn block_count(state: &Memory) -> usize {
    state.entries().filter(|entry| matches!(entry.object, Object::Block(_))).count()
}

fn perform_alone(world: &Rc<RefCell<World>>, act: &Act) -> Result<Vec<IpAddr>, Refusal> {
    let log = Log::default();
    run_alone(client(Sim::new(world, 99), std::slice::from_ref(act), &log));
    let event = log.borrow_mut().pop().expect("one event");
    event.answer.expect("nobody dies here").1
}

fn findings(state: &Memory) -> Vec<Finding> {
    audit(state.entries().map(|entry| (entry.key, entry.object)))
}

/// Who holds which address, as the blocks say.
fn holders(state: &Memory) -> BTreeMap<IpAddr, Attachment> {
    let mut all = BTreeMap::new();
    for block in blocks(state) {
        for allocation in block.allocations() {
            let field = |key| noted(&allocation.fields, key).unwrap_or_default().to_owned();
            let network = field(owner_key::NETWORK);
            let handle = allocation.fields.handle_id.as_deref().unwrap_or_default();
            let id =
                handle.strip_prefix(&network).and_then(|rest| rest.strip_prefix('.')).unwrap_or_default();
            let holder =
                Attachment { container_id: id.to_owned(), ifname: field(owner_key::IFNAME), network };
            let before = all.insert(allocation.address, holder);
            assert!(before.is_none(), "{} is held twice", allocation.address);
        }
    }
    all
}

fn is_full(state: &Memory, family: Family) -> bool {
    let in_use: usize =
        blocks(state).filter(|block| block.cidr().family() == family).map(|block| block.in_use()).sum();
    let capacity: u128 = state
        .entries()
        .filter_map(|entry| match entry.object {
            Object::Pool(pool) if pool.spec.cidr.family() == family => Some(pool.spec.cidr.size()),
            _ => None,
        })
        .sum();
    u128::try_from(in_use).is_ok_and(|in_use| in_use == capacity)
}

fn blocks(state: &Memory) -> impl Iterator<Item = Block> + '_ {
    state
        .entries()
        .filter(|entry| matches!(entry.object, Object::Block(_)))
        .map(|entry: Entry| Block::from_wire(entry.into()).expect("a well-formed block"))
}
