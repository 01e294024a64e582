//! The integration tests: one binary, a module per subject.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make files, measure nothing by their clocks, and read their variables"
)]

#[path = "../support/choices.rs"]
mod choices;
mod cli;
mod cluster;
mod conformance;
mod datastore_contract;
mod engine;
mod etcd;
mod fleet;
mod fuzz;
mod plugin;
mod runtimes;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod tidy;
