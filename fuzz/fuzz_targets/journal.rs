//! A journal: raw, and records whose checksums are right.

#![no_main]

#[path = "../../tests/support/fuzzed.rs"]
#[allow(dead_code, reason = "each target uses a part")]
mod fuzzed;
#[path = "../scratch.rs"]
mod scratch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::journal(bytes, scratch::folder()));
