//! The integration tests: one binary, a module per subject.

mod conformance;
mod datastore_contract;
mod tidy;
