//! The tree as it must be: who knows whom, how long a file is, what may not be left in it, and what the documents say.

mod documents;
mod rules;
mod scan;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this, in lines, does several things.
const LINES_MAX: usize = 700;
/// Half of the engine's files are at most this long.
const ENGINE_LINES_MEDIAN_MAX: usize = 300;

#[test]
fn dependencies_point_down_and_nothing_is_left_over() {
    let externs = externs(&read("Cargo.toml"));
    assert!(externs.contains("serde_json") && externs.contains("std"), "{externs:?}");
    let mut found = Vec::new();
    for file in rust_files("src") {
        let below = file.strip_prefix("src/").expect("below src");
        found.extend(rules::violations(below, &read(&file), &externs));
    }
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn files_stay_small() {
    let lengths = |folder| {
        let of = |file: String| (read(&file).lines().count(), file);
        rust_files(folder).into_iter().map(of).collect::<Vec<_>>()
    };
    let long: Vec<_> =
        lengths("src").into_iter().chain(lengths("tests")).filter(|(l, _)| *l >= LINES_MAX).collect();
    assert!(long.is_empty(), "{LINES_MAX} lines or more: {long:?}");
    let engine = median(lengths("src/ipam").into_iter().map(|(lines, _)| lines).collect());
    assert!(engine <= ENGINE_LINES_MEDIAN_MAX, "the median under src/ipam is {engine} lines");
}

#[test]
fn the_crate_and_each_of_its_parts_say_what_they_are_for() {
    let tops = rust_files("src").into_iter().filter(|file| {
        let parts: Vec<_> = file.split('/').collect();
        parts.len() == 2 || parts.len() == 3 && file.ends_with("/mod.rs")
    });
    let silent: Vec<_> = tops.filter(|file| !read(file).starts_with("//! ")).collect();
    assert!(silent.is_empty(), "no documentation at the top of {silent:?}");
}

/// A fault whose place is gone would only be missed when somebody next plants all of them.
#[test]
fn every_fault_that_is_planted_has_its_place_and_its_tests() {
    let script = read("scripts/planted-bugs");
    let list =
        script.split("<<'LIST'\n").nth(1).and_then(|rest| rest.split("\nLIST\n").next()).expect("a list");
    let names = tests_named(&["tests/it", "src"]);
    for line in list.lines() {
        let fields: Vec<_> = line.split(" | ").collect();
        let [name, file, found, put, tests] = *fields else { panic!("{line} has {} fields", fields.len()) };
        let there = found.replace("\\n", "\n").replace("\\|", "|");
        assert_eq!(read(file).matches(&there).count(), 1, "{name}: `{there}` in {file}");
        assert_ne!(found, put, "{name} changes nothing");
        for test in tests.split(' ') {
            let function = test.rsplit("::").next().unwrap_or(test);
            assert!(names.iter().any(|name| name.starts_with(function)), "{name}: there is no `{test}`");
        }
    }
}

/// The names of modules and functions.
fn tests_named(folders: &[&str]) -> BTreeSet<String> {
    let files = folders.iter().flat_map(|folder| rust_files(folder));
    let mut names = BTreeSet::new();
    for file in files {
        names.extend(file.trim_end_matches(".rs").split('/').map(str::to_owned));
        for line in read(&file).lines() {
            let line = line.trim_start();
            let of =
                |word: &str| line.strip_prefix(word)?.split(['(', ' ', ';', '<']).next().map(str::to_owned);
            names.extend(
                of("fn ")
                    .or_else(|| of("mod "))
                    .or_else(|| line.split_once(": scenarios::").map(|(name, _)| name.to_owned())),
            );
        }
    }
    names
}

#[test]
fn no_file_tells_where_it_was_written() {
    let places = places_of_this_checkout();
    let mut found = Vec::new();
    for file in committed_files() {
        let bytes = fs::read(root().join(&file)).expect("a file of the tree");
        let text = String::from_utf8_lossy(&bytes);
        found.extend(
            places.iter().filter(|place| names_place(&text, place)).map(|place| (file.clone(), place)),
        );
    }
    assert!(found.is_empty(), "paths of this machine: {found:?}");
}

#[test]
fn packages_come_from_crates_io_alone() {
    let lock = read("Cargo.lock");
    let sources: BTreeSet<_> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    let crates_io = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), [crates_io]);
    for file in committed_files().into_iter().filter(|file| file.starts_with(".cargo/")) {
        assert!(!read(&file).contains("[source"), "{file} puts another registry in its place");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files of a folder and of those in it, by their paths from the root of the tree, sorted.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the tree") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else {
                found.push(path.to_str().expect("a name in UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

fn rust_files(folder: &str) -> Vec<String> {
    let found: Vec<_> = files(folder)
        .into_iter()
        .filter(|file| Path::new(file).extension().is_some_and(|end| end == "rs"))
        .collect();
    assert!(!found.is_empty(), "no source in {folder}");
    found
}

/// Everything that belongs to the project, as far as the tree itself tells.
fn committed_files() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).expect("the tree") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        match entry.file_type().expect("a type").is_dir() {
            true if [".git", "target"].contains(&name.as_str()) => {}
            true => found.extend(files(&name)),
            false if name == ".git" => {}
            false => found.push(name),
        }
    }
    assert!(found.iter().any(|file| file == "Cargo.toml"), "{found:?}");
    found
}

/// The names by which source may call other crates.
fn externs(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut names: BTreeSet<_> = ["std", "core", "alloc"].map(str::to_owned).into();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && let Some((name, _)) = line.split_once('=')
        {
            names.insert(name.trim().replace('-', "_"));
        }
    }
    names
}

fn median(mut numbers: Vec<usize>) -> usize {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// The directory of this checkout and those above it, without the ones that every machine has.
fn places_of_this_checkout() -> Vec<String> {
    const EVERYWHERE: [&str; 10] =
        ["/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr", "/var"];
    let above = root().ancestors().filter_map(Path::to_str);
    above.filter(|place| !EVERYWHERE.contains(place)).map(str::to_owned).collect()
}

/// Whether a text names a place as such, not as a part of another name.
fn names_place(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let part_of_a_name = |c: char| c.is_alphanumeric() || "_-./~".contains(c);
        let after = rest.split_at(place.len()).1;
        !before.ends_with(part_of_a_name)
            && !after.starts_with(|c: char| part_of_a_name(c) && c != '/' && c != '.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_where_it_is_named_and_nowhere_else() {
        for text in ["see /yard/tree", "/yard/tree/src", "cd /yard/tree.\n", "\"/yard/tree\"", "(/yard/tree)"]
        {
            assert!(names_place(text, "/yard/tree"), "{text}");
        }
        for text in ["/yard/trees", "/back/yard/tree", "example.org/yard/tree", "/yard", "/yard/tree-2"] {
            assert!(!names_place(text, "/yard/tree"), "{text}");
        }
    }

    #[test]
    fn names_of_crates_are_taken_from_the_manifest() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nserde-saphyr = \"2\"\n[features]\na = []\n";
        assert!(externs(manifest).contains("serde_saphyr"));
        assert!(!externs(manifest).contains("name") && !externs(manifest).contains("a"));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(Vec::new()), 0);
    }
}
