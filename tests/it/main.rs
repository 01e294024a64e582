//! Everything that is tested from outside the crate, as one binary: it links once. A module per subject.

mod conformance;
