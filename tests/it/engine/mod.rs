//! The engine's promises, over a store in memory and over stores that are interrupted.

mod act;
mod build;
mod carve;
#[path = "../../support/effect.rs"]
mod effect;
mod either;
mod judge;
mod machines;
mod model;
#[path = "../../support/model.rs"]
mod reference;
mod scenarios;
#[path = "../../support/schedule.rs"]
mod schedule;
mod schedules;
#[path = "../../support/sim.rs"]
mod sim;
mod tables;
mod verbs;

use crate::choices;

/// An option of the tests, such as a seed to be replayed. Absent, or not a number: `None`.
#[expect(clippy::disallowed_methods, reason = "the one home of the tests' options")]
fn option(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tells what a failing test needs to be repeated.
#[expect(clippy::print_stderr, reason = "the one place where the tests speak")]
fn report(text: &str) {
    eprintln!("{text}");
}
