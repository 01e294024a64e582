//! Any bytes at all, in the places where bytes come from outside: the same functions as the fuzzing targets in `fuzz/`,
//! with what a plain generator makes of the same seeds. Here for seconds; there for as long as is wanted.

mod seeds;

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::choices::Choices;
use crate::support::fuzzed;
use crate::support::store::Lab;

/// How many inputs each property sees, where nobody says.
const CASES: u32 = 400;

/// Gives a property seeds as they are, seeds with a few places changed, and mixtures of two.
fn with_any(seeds: &[Vec<u8>], dictionary: &[&str], property: impl Fn(&[u8])) {
    assert!(!seeds.is_empty());
    for seed in seeds {
        property(seed);
    }
    let cases = std::env::var("HOST_AFFINE_FUZZ_CASES").ok().map(|text| text.parse().expect("a number"));
    let config = Config { cases: cases.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let strategy = (any::<u64>(), prop::collection::vec(any::<u8>(), 0..40));
    let outcome = runner.run(&strategy, |(seed, noise)| {
        let mut choices = Choices::seeded(seed);
        property(&mutated(seeds, dictionary, &noise, &mut choices));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// A seed, changed.
fn mutated(seeds: &[Vec<u8>], dictionary: &[&str], noise: &[u8], choices: &mut Choices) -> Vec<u8> {
    let mut bytes = seeds[choices.pick(seeds.len())].clone();
    for _ in 0..=choices.pick(5) {
        let at = choices.pick(bytes.len() + 1);
        let end = (at + choices.pick(24)).min(bytes.len());
        match choices.pick(8) {
            0 => drop(bytes.splice(at..end, [])),
            1 => drop(bytes.splice(at..end, noise.iter().copied())),
            2 | 3 if !dictionary.is_empty() => {
                let word = dictionary[choices.pick(dictionary.len())];
                drop(bytes.splice(at..end.min(at + 8), word.bytes()));
            }
            4 => bytes.truncate(at),
            5 => {
                let other = &seeds[choices.pick(seeds.len())];
                let from = choices.pick(other.len() + 1);
                let to = (from + choices.pick(200)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            6 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << choices.pick(8);
                }
            }
        }
    }
    bytes
}

#[test]
fn any_network_configuration_is_served_or_refused() {
    with_any(&seeds::configurations(), &seeds::WORDS, fuzzed::network_configuration);
}

#[test]
fn any_cni_args_are_read_or_refused_and_never_keep_a_del_from_its_work() {
    with_any(&seeds::args(), &seeds::ARGS, fuzzed::cni_args);
}

#[test]
fn any_journal_is_read_or_named() {
    let lab = Lab::in_memory();
    with_any(&seeds::journals(lab.path()), &seeds::OPERATIONS, |bytes| fuzzed::journal(bytes, lab.path()));
}

#[test]
fn any_content_of_an_objects_file_is_read_or_named() {
    let lab = Lab::in_memory();
    with_any(&seeds::objects(lab.path()), &seeds::WORDS, |bytes| fuzzed::object_file(bytes, lab.path()));
}

#[test]
fn any_value_in_etcd_is_read_and_written_back_or_named() {
    let seeds = seeds::etcd_values();
    for seed in &seeds {
        assert!(fuzzed::etcd_value(seed), "no object: {}", String::from_utf8_lossy(seed));
    }
    with_any(&seeds, &seeds::WORDS, |bytes| {
        fuzzed::etcd_value(bytes);
    });
}

#[test]
fn any_manifest_is_taken_or_refused_by_its_place() {
    let lab = Lab::in_memory();
    // Each in a process of its own, since it answers on the streams of its process.
    let seeds = seeds::manifests();
    let property = |bytes: &[u8]| apply(bytes, lab.path());
    with_any(&seeds, &seeds::WORDS, property);
}

fn apply(bytes: &[u8], scratch: &Path) {
    let file = scratch.join(if bytes.first() == Some(&b'{') { "m.json" } else { "m.yaml" });
    std::fs::write(&file, bytes).expect("a manifest");
    let mut command = std::process::Command::new(crate::support::cni::plugin());
    let store = format!("file://{}", scratch.join("no-store").display());
    let args = ["--datastore", store.as_str(), "apply", "--dry-run", "-f"];
    let output = command.env_clear().args(args).arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0..=2)), "{:?}: {said}", output.status);
    assert!(output.status.success() || said.contains("error: "), "{said}");
    assert!(!scratch.join("no-store").exists(), "a dry run made a store");
}

/// The seeds, as files for the targets in `fuzz/`, where a directory is named for them.
#[test]
fn the_seeds_are_all_different() {
    let lab = Lab::in_memory();
    let of_targets = [
        ("network_configuration", seeds::configurations()),
        ("cni_args", seeds::args()),
        ("journal", seeds::journals(lab.path())),
        ("object_file", seeds::objects(lab.path())),
        ("etcd_value", seeds::etcd_values()),
        ("manifest", seeds::manifests()),
    ];
    let corpus = std::env::var("HOST_AFFINE_FUZZ_SEEDS").ok();
    for (target, seeds) in of_targets {
        let different: BTreeSet<&Vec<u8>> = seeds.iter().collect();
        assert_eq!(different.len(), seeds.len(), "{target}");
        let Some(corpus) = &corpus else { continue };
        let folder = Path::new(corpus).join(target);
        std::fs::create_dir_all(&folder).expect("a directory");
        for (n, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{n}")), seed).expect("a seed");
        }
    }
}
