//! Source, target and deletion at once, in every order, with a crash or a lost answer at every point.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use host_affine::datastore::memory::Memory;
use host_affine::ipam::{Deletion, Finding, Ipam, MachineFate, audit};

use super::super::choices::Choices;
use super::super::schedule::{Client, Run, run, run_alone};
use super::super::sim::{Kind, Sim, World};
use super::{Launcher, prepared};

/// Seeds for a store that applies in order, which has too many orders for every day.
const SEEDS: u64 = 150;

/// What a pod does.
#[derive(Clone)]
enum Act {
    Add(Launcher),
    Del(Launcher),
    /// A DEL that knows that the machine is being deleted.
    DelDeleted(Launcher),
}

fn client(sim: Sim, act: &Act) -> Client<'_> {
    Box::pin(async move {
        let mut ipam = Ipam::new(sim);
        match act {
            // A refusal is an answer too.
            Act::Add(pod) => drop(pod.ask(&mut ipam).await),
            Act::Del(pod) => {
                ipam.release(&pod.attachment, &pod.host, super::at(1)).await.expect("a DEL");
            }
            Act::DelDeleted(pod) => {
                ipam.delete(
                    &Deletion { vm: MachineFate::Deleted, ..Deletion::of(&pod.attachment) },
                    &pod.host,
                    super::at(1),
                )
                .await
                .expect("a DEL");
            }
        }
    })
}

/// Runs acts in every order from a state, one of them disturbed once; then each is repeated, and `judge` looks. A store
/// that applies in order is taken through orders that seeds decide.
fn every_order(state: &Memory, acts: &[Act], judge: impl Fn(&mut Ipam<Memory>)) {
    let mut choices = Choices::every();
    let (mut runs, mut ends) = (0, BTreeSet::new());
    loop {
        let (outcome, now, used) = play(state, acts, Kind::Atomic, choices);
        if outcome == Run::Complete {
            runs += 1;
            let objects: Vec<_> = now.entries().map(|entry| entry.object).collect();
            // Most orders end alike.
            if ends.insert(format!("{objects:?}")) {
                look(&now, acts, Kind::Atomic, &judge);
            }
        }
        choices = used;
        if !choices.advance() {
            break;
        }
    }
    assert!(runs > 10, "{runs} orders prove nothing");
    for seed in 1..=SEEDS {
        let (_, now, _) = play(state, acts, Kind::InOrder, Choices::seeded(seed));
        look(&now, acts, Kind::InOrder, &judge);
    }
}

fn play(state: &Memory, acts: &[Act], kind: Kind, choices: Choices) -> (Run, Memory, Choices) {
    let world = Rc::new(RefCell::new(World::new(state.clone(), kind, choices, 1)));
    let clients = acts.iter().enumerate().map(|(at, act)| client(Sim::new(&world, at), act)).collect();
    let outcome = run(&world, clients, usize::MAX);
    let mut world = world.borrow_mut();
    world.calm_down();
    let choices = std::mem::replace(&mut world.choices, Choices::every());
    (outcome, world.state.clone(), choices)
}

fn look(state: &Memory, acts: &[Act], kind: Kind, judge: &impl Fn(&mut Ipam<Memory>)) {
    let findings = |state: &Memory| audit(state.entries().map(|entry| (entry.key, entry.object)));
    for finding in findings(state) {
        assert!(finding.mends_itself(), "left for good: {finding}");
    }
    one_address(&mut Ipam::new(state.clone()));
    let world = Rc::new(RefCell::new(World::new(state.clone(), kind, Choices::every(), 0)));
    for act in acts {
        run_alone(client(Sim::new(&world, 99), act));
    }
    let state = world.borrow().state.clone();
    let left: Vec<Finding> = findings(&state).into_iter().filter(|finding| !finding.mends_itself()).collect();
    assert_eq!(left, []);
    let mut ipam = Ipam::new(state);
    one_address(&mut ipam);
    judge(&mut ipam);
}

/// However many pods ask, a machine has one address.
fn one_address(ipam: &mut Ipam<Memory>) {
    let addresses = super::machine(ipam).map(|machine| machine.addresses).unwrap_or_default();
    assert!(addresses.len() <= 1, "{addresses:?}");
}

fn owners(ipam: &mut Ipam<Memory>) -> (String, String) {
    super::owners(ipam)
}

#[test]
fn first_starts_of_one_machine_at_once_have_one_address() {
    let state = prepared(Memory::new());
    let acts = [Act::Add(Launcher::source("a", "p1")), Act::Add(Launcher::source("b", "p2"))];
    every_order(&state, &acts, |ipam| assert_eq!(owners(ipam).0, "p2", "who came last"));
}

fn running() -> Memory {
    let mut ipam = Ipam::new(prepared(Memory::new()));
    Launcher::source("a", "s").start(&mut ipam);
    ipam.into_store()
}

#[test]
fn a_target_that_comes_while_the_source_goes_has_the_address() {
    let acts = [Act::Add(Launcher::target("b", "t")), Act::Del(Launcher::source("a", "s"))];
    every_order(&running(), &acts, |ipam| assert_eq!(owners(ipam), super::are("t", "-")));
}

#[test]
fn source_and_target_that_go_at_once_leave_the_machine_its_address() {
    let mut ipam = Ipam::new(running());
    Launcher::target("b", "t").start(&mut ipam);
    let acts = [Act::Del(Launcher::target("b", "t")), Act::Del(Launcher::source("a", "s"))];
    every_order(&ipam.into_store(), &acts, |ipam| {
        assert_eq!(owners(ipam), super::are("-", "-"));
        assert_eq!(super::machine(ipam).expect("the machine").addresses.len(), 1);
    });
}

#[test]
fn a_deletion_while_the_machine_migrates_frees_its_address_once_both_are_gone() {
    let mut ipam = Ipam::new(running());
    Launcher::target("b", "t").start(&mut ipam);
    let acts = [Act::DelDeleted(Launcher::target("b", "t")), Act::DelDeleted(Launcher::source("a", "s"))];
    every_order(&ipam.into_store(), &acts, |ipam| assert_eq!(super::machine(ipam), None));
}

#[test]
fn a_start_while_the_machine_is_deleted_has_an_address_of_its_own() {
    let acts = [Act::DelDeleted(Launcher::source("a", "s")), Act::Add(Launcher::source("b", "n"))];
    every_order(&running(), &acts, |ipam| assert_eq!(owners(ipam), super::are("n", "-")));
}

#[test]
fn source_target_and_deletion_at_once_whatever_the_seed() {
    for seed in 1..=400 {
        let acts = [
            Act::DelDeleted(Launcher::source("a", "s")),
            Act::Add(Launcher::target("b", "t")),
            Act::Add(Launcher::source("c", "n")),
        ];
        for kind in [Kind::Atomic, Kind::InOrder] {
            let world = Rc::new(RefCell::new(World::new(running(), kind, Choices::seeded(seed), 2)));
            let clients =
                acts.iter().enumerate().map(|(at, act)| client(Sim::new(&world, at), act)).collect();
            run(&world, clients, usize::MAX);
            world.borrow_mut().calm_down();
            let state = world.borrow().state.clone();
            look(&state, &acts, kind, &|ipam: &mut Ipam<Memory>| {
                let report = super::machine(ipam);
                assert!(report.is_some_and(|report| report.addresses.len() == 1), "seed {seed}");
            });
        }
    }
}
