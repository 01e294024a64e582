//! A store of any size, made without calling the plugin for each address.
//!
//! By itself the test makes a small one. To have a large one, and to keep it:
//!
//! ```sh
//! HOST_AFFINE_SCALE_STORE=/var/tmp/large HOST_AFFINE_SCALE_BLOCKS=16384 HOST_AFFINE_SCALE_ADDRESSES=1000000 \
//!   cargo test --test it a_store_of_any_size
//! /usr/bin/time -v target/release/host-affine --datastore file:///var/tmp/large ipam show
//! ```
//!
//! It says how much the store takes on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::json;

use super::support::Store;
use crate::support::filled::{Scale, make};
use crate::support::tally::tell;

const BLOCKS_PER_HOST: usize = 16;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What a directory and all in it take on the disk, in bytes.
fn on_disk(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    let below: u64 = if metadata.is_dir() {
        let entries = fs::read_dir(path).expect("a directory");
        entries.map(|entry| on_disk(&entry.expect("an entry").path())).sum()
    } else {
        0
    };
    metadata.blocks() * 512 + below
}

#[test]
fn a_store_of_any_size_is_counted_exactly_and_agrees_with_itself() {
    let number = |name, otherwise| variable(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let pool = variable("HOST_AFFINE_SCALE_POOL").unwrap_or_else(|| "10.0.0.0/12".to_owned());
    let scale = Scale {
        pool: pool.parse().expect("a range"),
        blocks: number("HOST_AFFINE_SCALE_BLOCKS", 80),
        blocks_per_host: BLOCKS_PER_HOST,
        addresses: number("HOST_AFFINE_SCALE_ADDRESSES", 4_005),
    };
    let store = Store::new();
    let path = variable("HOST_AFFINE_SCALE_STORE").map_or_else(|| store.path(), Into::into);
    make(&path, &scale);
    let bytes = on_disk(&path);
    let each = bytes / u64::try_from(scale.addresses).expect("a number");
    tell(&format!(
        "{} addresses in {} blocks: {bytes} bytes on disk, {each} an address",
        scale.addresses, scale.blocks
    ));
    let url = format!("file://{}", path.display());
    let run = |args: &[&str]| {
        let mut command = super::support::program();
        store.ran(super::support::feed(command.arg("--datastore").arg(&url).args(args), ""))
    };
    let shown = run(&["ipam", "show", "--show-blocks", "-o", "json"]).exits(0).json();
    let pool = &shown["pools"][0];
    let total = usize::try_from(scale.pool.size()).expect("a small pool");
    assert_eq!((&pool["total"], &pool["inUse"]), (&json!(total), &json!(scale.addresses)));
    assert_eq!(pool["free"], json!(total - scale.addresses));
    let blocks = pool["blocks"].as_array().expect("blocks");
    let mut shown: Vec<_> = blocks.iter().map(|block| block["inUse"].as_u64().expect("a count")).collect();
    let mut held: Vec<_> = scale.held().into_iter().map(|held| u64::try_from(held).expect("few")).collect();
    shown.sort_unstable();
    held.sort_unstable();
    assert_eq!(shown, held);
    // Whoever is not here is nobody's to judge.
    run(&["ipam", "check"]).exits(0);
}

/// Peak memory of the program in KiB, and the bytes that it printed. `None`: GNU time is not installed.
fn peak_of(store: &Path, args: &[&str]) -> Option<(u64, Vec<u8>)> {
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "/usr/bin/time -f %M -- \"$@\"; exit $?", "sh", env!("CARGO_BIN_EXE_host-affine")])
        .arg("--datastore")
        .arg(format!("file://{}", store.display()))
        .args(args)
        .output()
        .expect("a shell");
    if !Path::new("/usr/bin/time").exists() {
        crate::support::cni::skip("GNU time is not installed");
        return None;
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    Some((told.lines().last()?.trim().parse().expect("a figure"), output.stdout))
}

#[test]
fn get_blocks_needs_little_memory_for_many() {
    let store = Store::new();
    let scale = Scale {
        pool: "10.0.0.0/12".parse().expect("a range"),
        blocks: 3_000,
        blocks_per_host: BLOCKS_PER_HOST,
        addresses: 90_000,
    };
    make(&store.path(), &scale);
    for format in ["table", "wide", "name", "json", "yaml"] {
        let Some((kib, printed)) = peak_of(&store.path(), &["get", "blocks", "-o", format]) else { return };
        tell(&format!("get blocks -o {format}: {kib} KiB, {} bytes", printed.len()));
        assert!(kib <= 50 * 1024, "-o {format}: {kib} KiB");
        let count = match format {
            "json" => serde_json::from_slice::<serde_json::Value>(&printed).expect("JSON")["items"]
                .as_array()
                .map_or(0, Vec::len),
            "yaml" => String::from_utf8_lossy(&printed).matches("kind: IPAMBlock\n").count(),
            "name" => String::from_utf8_lossy(&printed).lines().count(),
            _ => String::from_utf8_lossy(&printed).lines().count() - 1,
        };
        assert_eq!(count, scale.blocks, "-o {format}");
    }
}
