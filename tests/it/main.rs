//! The integration tests: one binary, a module per subject.

mod cli;
mod conformance;
mod datastore_contract;
mod engine;
mod tidy;
