//! Several clients at once, in every order, with a crash or a lost answer at every point.
//!
//! An atomic store is taken through every order that somebody could tell apart. A store that applies a batch operation by
//! operation has too many of them for every day: there a client makes way for the other at most [`SWITCHES`] times,
//! save with `HOST_AFFINE_EVERY_ORDER=1` (some minutes). `HOST_AFFINE_SEEDS=n` runs that many seeds of the larger
//! scenarios; `HOST_AFFINE_SEED=s` repeats one.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use super::choices::Choices;
use super::judge::{Event, Log, client, judge};
use super::scenarios::{self, Scenario};
use super::schedule::{Run, run};
use super::sim::{Kind, Sim, World};
use super::{option, report};

/// Seeds of the larger scenarios, where nothing else is asked for.
const SEEDS: u64 = 2000;

/// How often a client makes way that could go on, in a store that applies in order.
const SWITCHES: usize = 3;

fn switches_max(kind: Kind) -> usize {
    let bounded = kind == Kind::InOrder && option("HOST_AFFINE_EVERY_ORDER").is_none();
    if bounded { SWITCHES } else { usize::MAX }
}

/// One run of a scenario. Returns the decisions for the next one.
fn run_once(
    scenario: &Scenario,
    kind: Kind,
    choices: Choices,
    faults: usize,
    judged: &mut HashSet<String>,
) -> (Run, Choices) {
    let world = Rc::new(RefCell::new(World::new(scenario.state.clone(), kind, choices, faults)));
    play(scenario, kind, &world, judged)
}

fn play(
    scenario: &Scenario,
    kind: Kind,
    world: &Rc<RefCell<World>>,
    judged: &mut HashSet<String>,
) -> (Run, Choices) {
    let faults = world.borrow().faults_left;
    let log = Log::default();
    let clients = scenario.clients.iter().enumerate();
    let clients = clients.map(|(at, acts)| client(Sim::new(world, at), acts, &log)).collect();
    let switches = match world.borrow().choices {
        Choices::Seeded(_) => usize::MAX,
        Choices::Every { .. } => switches_max(kind),
    };
    let outcome = run(world, clients, switches);
    let quiet = world.borrow().faults_left == faults;
    world.borrow_mut().calm_down();
    let (state, choices) = {
        let mut world = world.borrow_mut();
        (std::mem::take(&mut world.state), std::mem::replace(&mut world.choices, Choices::every()))
    };
    if outcome == Run::Complete {
        // Most orders end alike.
        let log = log.borrow();
        let objects: Vec<_> = state.entries().map(|entry| entry.object).collect();
        let answers: Vec<_> = log.iter().map(Event::in_short).collect();
        if judged.insert(format!("{quiet} {answers:?} {objects:?}")) {
            judge(scenario, kind, &state, &log, quiet);
        }
    }
    (outcome, choices)
}

/// Every order of a scenario's operations, with one crash or lost answer at every point.
fn every_order(scenario: &Scenario, kind: Kind) -> usize {
    let faults = 1;
    let mut choices = Choices::every();
    let mut judged = HashSet::new();
    let mut runs = 0;
    loop {
        let again = choices.clone();
        let ran = catch_unwind(AssertUnwindSafe(|| run_once(scenario, kind, choices, faults, &mut judged)));
        let (outcome, used) = ran.unwrap_or_else(|failure| {
            report(&format!("scenario `{}`, {kind:?}, after {runs} orders:", scenario.name));
            explain(scenario, kind, again, faults);
            resume_unwind(failure)
        });
        runs += usize::from(outcome == Run::Complete);
        choices = used;
        if !choices.advance() {
            return runs;
        }
    }
}

/// Repeats a run that failed, and tells what happened in it.
fn explain(scenario: &Scenario, kind: Kind, choices: Choices, faults: usize) {
    let world = Rc::new(RefCell::new(World::new(scenario.state.clone(), kind, choices, faults)));
    world.borrow_mut().trace = Some(Vec::new());
    let _ = catch_unwind(AssertUnwindSafe(|| play(scenario, kind, &world, &mut HashSet::new())));
    let trace = world.borrow_mut().trace.take();
    trace.iter().flatten().for_each(|line| report(line));
}

fn every_order_of(scenarios: &[Scenario], kinds: &[Kind]) {
    for scenario in scenarios {
        for &kind in kinds {
            let runs = every_order(scenario, kind);
            assert!(runs > 10, "`{}` has only {runs} orders: it proves nothing", scenario.name);
        }
    }
}

/// Every order of some scenarios, each kind of store by itself: so that several processors have something to do.
macro_rules! no_order_crash_or_lost_answer_breaks_a_promise {
    ($($module:ident: $scenarios:path;)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn no_order_crash_or_lost_answer_breaks_a_promise_of_an_atomic_store() {
                every_order_of(&$scenarios(), &[Kind::Atomic]);
            }

            #[test]
            fn no_order_crash_or_lost_answer_breaks_a_promise_of_a_store_that_applies_in_order() {
                every_order_of(&$scenarios(), &[Kind::InOrder]);
            }
        }
    )*};
}

no_order_crash_or_lost_answer_breaks_a_promise! {
    handles: scenarios::of_handles;
    last_address: scenarios::last_address;
    blocks: scenarios::of_blocks;
    nodes: scenarios::of_nodes;
    pools: scenarios::of_pools;
    collections: scenarios::of_collections;
    machines: scenarios::of_machines;
}

#[test]
fn guards_keep_apart_what_no_revision_does() {
    every_order_of(&scenarios::of_guards(), &[Kind::Atomic]);
}

#[test]
fn many_clients_break_no_promise_whatever_the_seed() {
    let seeds = match option("HOST_AFFINE_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=option("HOST_AFFINE_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        for kind in [Kind::Atomic, Kind::InOrder] {
            let mut choices = Choices::seeded(seed);
            let scenario = scenarios::of_many(&mut |among| choices.pick(among));
            let again = choices.clone();
            let mut judged = HashSet::new();
            let ran = catch_unwind(AssertUnwindSafe(|| run_once(&scenario, kind, choices, 3, &mut judged)));
            if let Err(failure) = ran {
                report(&format!("{kind:?}; repeat it with HOST_AFFINE_SEED={seed}"));
                explain(&scenario, kind, again, 3);
                resume_unwind(failure);
            }
        }
    }
}
