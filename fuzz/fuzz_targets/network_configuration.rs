//! A call's configuration on standard input.

#![no_main]

#[path = "../../tests/support/fuzzed.rs"]
#[allow(dead_code, reason = "each target uses a part")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::network_configuration(bytes));
