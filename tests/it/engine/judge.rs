//! What must hold after any run, whoever went first and whoever died.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Entry, Key, Object};
use host_affine::ipam::{Attachment, Block, Emptiness, Finding, Force, Ipam, audit, noted, owner_key};
use host_affine::net::Family;

use super::act::{Act, Fate, Refusal, the_machine};
use super::build::{Ask, affinity, any, cidr};
use super::choices::Choices;
use super::scenarios::{Room, Scenario};
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
        (self.act.in_short(), self.began, &self.answer)
    }

    /// Whether it was done, or may have been, after another began.
    fn is_not_over_before(&self, other: &Event) -> bool {
        self.began != other.began && self.answer.as_ref().is_none_or(|(ended, _)| *ended > other.began)
    }

    fn adds(&self, attachment: &Attachment) -> bool {
        self.act.added().is_some_and(|ask| ask.attachment == *attachment)
    }
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
            let answer = act.perform(&mut ipam).await;
            let now = log.borrow().len() + answered(&log.borrow());
            log.borrow_mut()[place].answer = Some((now, answer));
        }
    })
}

fn answered(log: &[Event]) -> usize {
    log.iter().filter(|event| event.answer.is_some()).count()
}

/// Judges the state that a run left, and what can still be done with it.
pub(crate) fn judge(scenario: &Scenario, kind: Kind, state: &Memory, log: &[Event], quiet: bool) {
    let holders = holders(state);
    let only_adds = log.iter().all(|event| event.act.added().is_some());
    for event in log {
        judge_event(event, log, &holders, quiet);
        judge_ending(scenario, kind, event, log, state, &holders);
        let Some((_, Err(refusal))) = &event.answer else {
            continue;
        };
        assert!(refusal.is_answer, "{} failed: {}", event.act.in_short(), refusal.text);
        if event.act.added().is_some() {
            assert!(scenario.room != Room::Plenty, "refused although there is room: {}", refusal.text);
        }
        if quiet
            && only_adds
            && scenario.room == Room::Scarce
            && let Some(family) = refusal.exhausted
        {
            assert!(is_full(state, family), "{family} exhausted, with addresses left and nobody releasing");
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
        // Where a claim is several steps, whoever gives a host up may take the record of a block that is just being made;
        // the host makes it again when it uses the block.
        let is_given_up = log.iter().any(|event| event.act.gives_up());
        let is_unrecorded = matches!(finding, Finding::UnrecordedAffinity { .. });
        let is_made_again = kind == Kind::InOrder && is_given_up && is_unrecorded;
        assert!(finding.mends_itself() || is_made_again, "left for good: {finding}");
    }
    for family in Family::BOTH {
        let held = of_machine(state);
        let of_family = held.iter().filter(|address| Family::of(**address) == family).count();
        assert!(of_family <= 1, "the machine has {held:?}");
    }
    judge_afterlife(scenario, kind, state, log);
}

/// Judges a race: everybody has an address; each block has an owner that has confirmed it, and whoever owns one has its
/// address there.
pub(crate) fn judge_race(state: &Memory, kind: Kind, log: &[Event], blocks_max: usize) {
    let mut given = BTreeSet::new();
    for event in log {
        match &event.answer {
            Some((_, Ok(addresses))) => assert!(given.insert(addresses[0]), "{} twice", addresses[0]),
            other => panic!("{}: {other:?}", event.act.in_short()),
        }
    }
    assert_eq!(holders(state).keys().copied().collect::<BTreeSet<_>>(), given);
    // Where a handle is a step of its own, it counts what was lost to others, until its DEL.
    let is_lost = |finding: &Finding| kind == Kind::InOrder && matches!(finding, Finding::Overcounted { .. });
    let wrong: Vec<_> = findings(state).into_iter().filter(|finding| !is_lost(finding)).collect();
    assert_eq!(wrong, []);
    let owned: Vec<Block> = blocks(state).collect();
    assert_eq!(owned.len(), blocks_max);
    let records = state.entries().filter(|entry| matches!(entry.object, Object::Affinity(_))).count();
    assert_eq!(records, blocks_max, "as many records as blocks, and the audit found them to agree");
    for event in log.iter().filter(|_| kind == Kind::Atomic) {
        let (Some(ask), Some((_, Ok(addresses)))) = (event.act.added(), &event.answer) else { continue };
        let own = owned.iter().find(|block| block.affinity() == Some(&ask.host.name.clone().into()));
        let inside = own.is_none_or(|own| own.cidr().contains_address(addresses[0]));
        assert!(inside, "{} has a block of its own, and its address elsewhere", ask.host.name);
    }
}

/// What an attachment was told about its addresses.
fn judge_event(event: &Event, log: &[Event], holders: &BTreeMap<IpAddr, Attachment>, quiet: bool) {
    let (Act::Add(ask) | Act::Del(ask)) = &event.act else {
        return;
    };
    let attachment = &ask.attachment;
    let Some((ended, answer)) = &event.answer else {
        return;
    };
    let meanwhile = || log.iter().filter(|other| other.is_not_over_before(event));
    let adds = || meanwhile().any(|other| other.adds(attachment));
    let ends = || meanwhile().any(|other| other.act.may_end(attachment));
    let held = || holders.iter().filter(|(_, holder)| *holder == attachment);
    match (&event.act, answer) {
        (Act::Add(_), Ok(given)) if !ends() => {
            for address in given {
                assert_eq!(holders.get(address), Some(attachment), "{address} was answered, and is not held");
            }
            assert_eq!(given.len(), ask.wanted.len());
        }
        (Act::Add(_), Err(_)) if quiet && !adds() => {
            let before = log.iter().any(|other| {
                other.adds(attachment) && other.answer.as_ref().is_some_and(|(other, _)| other < ended)
            });
            assert!(before || held().next().is_none(), "refused, and holds {:?}", held().next());
        }
        (Act::Del(_), Ok(_)) if !adds() => {
            assert_eq!(held().next(), None, "freed, and still held");
        }
        (Act::Del(_), Err(refusal)) => panic!("a DEL failed: {}", refusal.text),
        _ => {}
    }
}

/// What was told about what others have.
fn judge_ending(
    scenario: &Scenario,
    kind: Kind,
    event: &Event,
    log: &[Event],
    state: &Memory,
    holders: &BTreeMap<IpAddr, Attachment>,
) {
    match (&event.act, &event.answer) {
        (Act::RemovePool { name, .. }, Some((_, Err(_)))) => {
            let by_others =
                |other: &Event| matches!(other.act, Act::RemovePool { .. }) && other.began != event.began;
            let stored = state.entries().find(|entry| entry.key == Key::Pool((*name).to_owned()));
            if let Some(Object::Pool(pool)) = stored.map(|entry| entry.object)
                && !log.iter().any(by_others)
            {
                assert!(!pool.spec.disabled, "the pool was not deleted, and stays switched off");
            }
            return;
        }
        (_, Some((_, Ok(_)))) => {}
        _ => return,
    }
    let meanwhile = || log.iter().filter(|other| other.is_not_over_before(event));
    match &event.act {
        Act::Gc { host, keep } => {
            let is_gone = |attachment: &Attachment| {
                attachment.network == "net" && !keep.contains(&attachment.container_id.as_str())
            };
            let of_host: Vec<&str> = scenario.containers_of(host);
            for holder in holders.values().filter(|holder| is_gone(holder)) {
                let returned = meanwhile().any(|other| other.adds(holder));
                let is_here = of_host.contains(&holder.container_id.as_str());
                assert!(returned || !is_here, "{holder:?} is not valid, and still holds an address");
            }
        }
        Act::GiveUp { host, required: Emptiness::NotRequired } | Act::RemoveNode { host } => {
            let claims =
                meanwhile().any(|other| other.act.added().is_some_and(|ask| ask.host.name.as_str() == *host));
            let mut kept = blocks(state).filter(|block| block.affinity() == Some(&affinity(host)));
            assert!(claims || kept.next().is_none(), "a block is still kept for {host}");
        }
        Act::RemovePool { name, force } => {
            assert_eq!(state.revision(&Key::Pool((*name).to_owned())), None, "it is there");
            // A store that only looks at guards cannot exclude that somebody is faster.
            if *force == Force::No && kind == Kind::Atomic {
                let range = scenario.range_of(name);
                let held = holders.keys().find(|address| range.contains_address(**address));
                assert_eq!(held, None, "the pool is gone, and an address of it is held");
            }
        }
        Act::Join(_) => {
            let Some((_, Ok(given))) = &event.answer else { unreachable!("it was looked at above") };
            let ends = |other: &Event| matches!(other.act, Act::EndMachine | Act::Leave(_, Fate::Deleted));
            if !meanwhile().any(ends) {
                let held = of_machine(state);
                assert!(given.iter().eq(&held), "{given:?} was answered, and the machine has {held:?}");
            }
        }
        Act::EndMachine => {
            let joins = meanwhile().any(|other| matches!(other.act, Act::Join(_)));
            assert!(joins || of_machine(state).is_empty(), "freed, and still held");
        }
        _ => {}
    }
}

/// The addresses of the machine.
fn of_machine(state: &Memory) -> BTreeSet<IpAddr> {
    let handle = the_machine();
    blocks(state)
        .flat_map(|block| block.held_by(&handle).map(|held| held.address).collect::<Vec<_>>())
        .collect()
}

/// Repeats every request, ends everything, lets every host claim, and looks whether anything is left behind.
fn judge_afterlife(scenario: &Scenario, kind: Kind, state: &Memory, log: &[Event]) {
    let world = Rc::new(RefCell::new(World::new(state.clone(), kind, Choices::every(), 0)));
    let acts = scenario.clients.iter().flatten();
    let asks: Vec<&Ask> = acts
        .filter_map(|act| match act {
            Act::Add(ask) | Act::Del(ask) => Some(ask),
            _ => None,
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
    // Whoever was not told asks again.
    for event in log.iter().filter(|event| event.answer.is_none()) {
        if !matches!(event.act, Act::Add(_) | Act::Del(_)) {
            let again = perform_alone(&world, &event.act);
            assert!(again.as_ref().err().is_none_or(|refusal| refusal.is_answer), "{again:?}");
        }
    }
    let pods = scenario.clients.iter().flatten().filter_map(|act| match act {
        Act::Join(pod) | Act::Leave(pod, _) => Some(pod.clone()),
        _ => None,
    });
    let pods: Vec<_> = pods.collect();
    if !pods.is_empty() {
        for pod in pods {
            let left = perform_alone(&world, &Act::Leave(pod, Fate::Deleted));
            assert!(left.is_ok(), "{left:?}");
        }
        assert!(perform_alone(&world, &Act::EndMachine).is_ok());
        let world = world.borrow();
        let left = world.state.entries().find(|entry| {
            matches!(entry.object, Object::Machine(_) | Object::MachinesOf(_))
                || entry.key == Key::Handle(the_machine())
        });
        assert!(left.is_none() && of_machine(&world.state).is_empty(), "the machine has left {left:?}");
    }
    // A collection does not see what an earlier one left half-done, as nobody has it any more.
    for container in &scenario.stale {
        let freed = perform_alone(&world, &Act::Del(Ask::new("a", container)));
        assert!(freed.is_ok(), "{freed:?}");
    }
    for ask in &asks {
        if !findings(&world.borrow().state).is_empty() {
            claim(&world, ask);
        }
    }
    let hosts = hosts_of(&findings(&world.borrow().state));
    for (host, family) in hosts {
        claim(&world, &Ask::new(&host, "last").wanting([any(family)]));
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

/// The hosts whose next claim is to mend something, and in which family.
fn hosts_of(findings: &[Finding]) -> BTreeSet<(String, Family)> {
    let owner = |finding: &Finding| match finding {
        Finding::UnrecordedAffinity { owner, block }
        | Finding::UnconfirmedAffinity { owner, block, .. }
        | Finding::StaleAffinity { owner, block, .. } => Some((owner.name().to_string(), block.family())),
        _ => None,
    };
    findings.iter().filter_map(owner).collect()
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
