//! The integration tests: one binary, a module per subject.

mod cli;
mod conformance;
mod datastore_contract;
mod engine;
mod plugin;
#[path = "../support/mod.rs"]
mod support;
