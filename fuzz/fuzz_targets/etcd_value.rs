//! A key of etcd, a line end, and the value that stands there.

#![no_main]

#[path = "../../tests/support/fuzzed.rs"]
#[allow(dead_code, reason = "each target uses a part")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzzed::etcd_value(bytes);
});
