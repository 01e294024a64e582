//! Commands in documents that are not run with the other examples: they need a runtime, a long time, or the network.
//! Each names the test that covers it.

/// The words that a command begins with, and the test that covers it.
const ELSEWHERE: [(&str, &str); 9] = [
    ("podman run", "podman_gives_a_container_an_address_or_the_one_it_asks_for_and_says_why_not"),
    ("cnitool add", "under_the_runtime_library_of_today_every_call_of_cni_1_1_works"),
    ("ip netns add", "under_the_runtime_library_of_today_every_call_of_cni_1_1_works"),
    ("go install", "under_the_runtime_library_of_today_every_call_of_cni_1_1_works"),
    ("cargo run --example man", "every_verb_has_a_manual_page"),
    // These run this test themselves, or are run by `scripts/test`.
    ("cargo build", "documents_name_what_exists"),
    ("cargo test", "documents_name_what_exists"),
    ("scripts/planted-bugs", "every_fault_that_is_planted_has_its_place_and_its_tests"),
    ("scripts/", "documents_name_what_exists"),
];

/// The test that covers a command which is not run with the others.
pub(super) fn covered_by(command: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(begin, _)| command.starts_with(begin)).map(|(_, test)| *test)
}

/// The tests that are named here.
pub(super) fn tests() -> impl Iterator<Item = &'static str> {
    ELSEWHERE.iter().map(|(_, test)| *test)
}

/// The filter of `cargo test --test it FILTER`; it must select some test.
pub(super) fn filter(command: &str) -> Option<&str> {
    command.strip_prefix("cargo test --test it ")?.split_whitespace().next()
}
