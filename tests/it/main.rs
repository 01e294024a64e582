//! The integration tests: one binary, a module per subject.

mod conformance;
mod datastore_contract;
mod plugin;
#[path = "../support/mod.rs"]
mod support;
