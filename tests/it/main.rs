//! Integration tests, in one binary: a module per subject.

mod engine;
