//! Who may know whom. Dependencies point down; what is not listed is forbidden.

use std::collections::BTreeSet;

use super::scan::{Use, tokens, uses};

/// The modules at the top, and those that each may use.
const MAY_USE: [(&str, &[&str]); 16] = [
    ("net", &[]),
    ("clock", &[]),
    ("host", &["ipam", "api", "clock"]),
    ("logging", &["clock"]),
    ("netlink", &["net"]),
    ("workload", &["ipam"]),
    ("api", &["net", "clock"]),
    ("datastore", &["api", "net", "clock"]),
    ("ipam", &["datastore", "api", "net", "clock"]),
    ("store", &["datastore"]),
    ("host_local", &["ipam", "datastore", "net", "netlink", "host"]),
    (
        "cni",
        &[
            "ipam",
            "store",
            "datastore",
            "api",
            "net",
            "netlink",
            "workload",
            "host",
            "host_local",
            "logging",
            "clock",
        ],
    ),
    (
        "cli",
        &[
            "ipam",
            "store",
            "datastore",
            "api",
            "net",
            "netlink",
            "host",
            "host_local",
            "logging",
            "clock",
            "cni",
        ],
    ),
    ("panic", &["cni"]),
    ("lib", &[]),
    ("main", &["cni", "cli", "panic", "clock", "netlink", "workload"]),
];

/// Modules that decide and convert: time, files and processes are parameters, if they matter at all.
const PURE: [&str; 3] = ["net", "api", "ipam"];

/// What pure modules may not use of the standard library, and what is excepted.
const IMPURE: [(&str, &[&str]); 9] = [
    ("env", &[]),
    ("fs", &[]),
    ("io", &[]),
    ("os", &[]),
    ("process", &[]),
    ("sync", &[]),
    ("thread", &[]),
    ("net", &["IpAddr", "Ipv4Addr", "Ipv6Addr", "AddrParseError"]),
    ("time", &["Duration"]),
];

/// Crates that have one home, or a few.
const HOMES: [(&str, &[&str]); 11] = [
    ("clap", &["cli"]),
    ("serde_saphyr", &["cli"]),
    ("fs2", &["datastore::file::lock", "datastore::etcd::turn"]),
    ("ureq", &["datastore::etcd"]),
    ("rustls", &["datastore::etcd"]),
    ("base64", &["datastore::etcd::wire"]),
    ("crc32fast", &["datastore::file"]),
    ("nix", &["datastore::file", "datastore::etcd", "netlink", "host", "host_local", "logging"]),
    ("rtnetlink", &["netlink"]),
    ("futures_util", &["netlink"]),
    ("tokio", &["netlink"]),
];

/// Backends of the datastore: none knows another, and of all others only `store` and the front ends know any.
const BACKENDS: [&str; 4] = ["memory", "file", "etcd", "kubernetes"];

/// What the command line may use of the other front end: how a network configuration is read, and what that names.
const CNI_FOR_CLI: [&str; 3] = ["config", "env", "failure"];

/// Everything that a file of `src` does and may not, a line each. `file` is its path below `src`.
pub(super) fn violations(file: &str, source: &str, externs: &BTreeSet<String>) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let module: Vec<&str> = stem.split('/').filter(|part| *part != "mod").collect();
    let area = module.first().copied().unwrap_or_default();
    // The names of the crate's root stand for themselves.
    let root = matches!(stem, "lib" | "main");
    let mut found = Vec::new();
    let Some((_, may_use)) = MAY_USE.iter().find(|(name, _)| *name == area) else {
        return vec![format!("src/{file}: the module `{area}` is new; say whom it may use")];
    };
    for used in uses(if root { &[] } else { &module }, source, externs) {
        let mut report = |problem: &str| {
            found.push(format!("src/{file}:{}: `{}`: {problem}", used.line, used.path.join("::")));
        };
        let segments: Vec<&str> = used.path.iter().map(String::as_str).collect();
        match *segments.as_slice() {
            ["crate", target, ..] if MAY_USE.iter().any(|(name, _)| *name == target) => {
                if target != area && !may_use.contains(&target) {
                    report(&format!("`{area}` may not use `{target}`"));
                }
                if let Some(problem) = of_another_front_or_backend(&module, &segments, &used) {
                    report(&problem);
                }
            }
            ["crate", ..] | [] => {}
            [krate, ..] => {
                if let Some(problem) = of_another_crate(&module, krate, &segments, &used) {
                    report(&problem);
                }
            }
        }
    }
    found.extend(
        words(area, source).into_iter().map(|(line, problem)| format!("src/{file}:{line}: {problem}")),
    );
    found
}

fn of_another_front_or_backend(module: &[&str], segments: &[&str], used: &Use) -> Option<String> {
    match *segments {
        // Tests run the engine, and one backend against the other, on whatever they need.
        _ if used.in_tests => None,
        ["crate", "datastore", backend, ..] if BACKENDS.contains(&backend) => match *module {
            ["datastore", own, ..] if own != backend => Some(format!("`{own}` may not know `{backend}`")),
            ["datastore" | "store" | "cni" | "cli", ..] => None,
            _ => Some("only `store` and the front ends know what the datastore is".into()),
        },
        ["crate", "cni", part, ..] if module.first() == Some(&"cli") && !CNI_FOR_CLI.contains(&part) => {
            Some("a front end may not know the other's inside".into())
        }
        _ => None,
    }
}

fn of_another_crate(module: &[&str], krate: &str, segments: &[&str], used: &Use) -> Option<String> {
    let area = module.first().copied().unwrap_or_default();
    if let Some((_, homes)) = HOMES.iter().find(|(name, _)| *name == krate) {
        let here = module.join("::");
        let at_home = |home: &&str| here == *home || here.starts_with(&format!("{home}::"));
        // A test may ask the system whether what it tests is so.
        return (!homes.iter().any(at_home) && !used.in_tests)
            .then(|| format!("`{krate}` is for {} alone", homes.join(", ")));
    }
    if !PURE.contains(&area) || used.in_tests || !matches!(krate, "std" | "core") {
        return None;
    }
    let (&part, rest) = segments.split_at(1).1.split_first()?;
    let (_, excepted) = IMPURE.iter().find(|(name, _)| *name == part)?;
    let harmless = rest.first().is_some_and(|item| excepted.contains(item));
    (!harmless).then(|| format!("`{area}` decides, and leaves the world to others"))
}

/// Words that may not stand anywhere, or not in a pure module, with their lines.
fn words(area: &str, source: &str) -> Vec<(usize, String)> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let follows = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text.as_str());
        let problem = match token.text.as_str() {
            "unsafe" => "`unsafe` is forbidden",
            "todo" | "unimplemented" | "dbg" if follows(1) == "!" => {
                "this is left over from work in progress"
            }
            "#" if follows(1) == "[" && follows(2) == "ignore" => "a test that does not run proves nothing",
            "SystemClock" | "SystemTime" | "Instant" if PURE.contains(&area) => {
                "the time is a parameter here"
            }
            _ => continue,
        };
        found.push((token.line, format!("`{}`: {problem}", token.text)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, source: &str) -> Vec<String> {
        let externs = ["std", "nix", "tokio", "clap", "fs2", "serde"].map(str::to_owned).into();
        violations(file, source, &externs)
    }

    #[track_caller]
    fn refused(file: &str, source: &str) {
        assert_eq!(found(file, source).len(), 1, "{source} in {file}: {:?}", found(file, source));
    }

    #[track_caller]
    fn allowed(file: &str, source: &str) {
        assert_eq!(found(file, source), [""; 0], "{source} in {file}");
    }

    #[test]
    fn dependencies_point_down() {
        allowed("ipam/block.rs", "use crate::{api::calico::IpamBlock, net::Cidr, datastore::Key};");
        allowed("ipam/mod.rs", "mod block; pub use block::Block; use serde::Serialize;");
        refused("ipam/block.rs", "use crate::cni::failure::Code;");
        refused("ipam/mod.rs", "use crate::netlink::Links;");
        refused("net/cidr.rs", "fn f(key: &crate::datastore::Key) {}");
        refused("api/mod.rs", "use super::ipam::Ipam;");
        refused("netlink/rtnetlink.rs", "use crate::{api::HostName, net::Cidr};");
        refused("datastore/file/mod.rs", "mod inner { use crate::ipam::Block; }");
        refused("cni/run.rs", "use crate::cli;");
        refused("panic.rs", "use crate::ipam::Error;");
        allowed("main.rs", "use host_affine::{cli, cni::run::run};");
        refused("main.rs", "use host_affine::ipam::Ipam;");
        refused("cni/run.rs", "use crate::main::x;");
    }

    #[test]
    fn a_new_module_needs_a_rule() {
        refused("somewhere/mod.rs", "");
    }

    #[test]
    fn a_backend_knows_no_other_and_the_engine_none() {
        refused("datastore/file/mod.rs", "use crate::datastore::memory::Memory;");
        refused("datastore/file/mod.rs", "use super::memory::Memory;");
        refused("datastore/etcd.rs", "use crate::datastore; fn f(s: datastore::file::FileStore) {}");
        allowed("datastore/file/read.rs", "use super::journal; use crate::datastore::{Key, file::layout};");
        refused("ipam/mod.rs", "use crate::datastore::file::FileStore;");
        allowed("store.rs", "use crate::datastore::{etcd::EtcdStore, file::FileStore};");
        refused("store.rs", "use crate::ipam::Ipam;");
        allowed("ipam/mod.rs", "#[cfg(test)] mod tests { use crate::datastore::memory::Memory; }");
        allowed("ipam/walk/tests.rs", "use crate::datastore::memory::Memory;");
        allowed("cni/run.rs", "use crate::datastore::file::FileStore;");
    }

    #[test]
    fn one_front_end_does_not_know_the_others_inside() {
        allowed("cli/store.rs", "use crate::cni::config::DatastoreConf; use crate::cni::failure::Failure;");
        refused("cli/verbs/show.rs", "use crate::cni::run::World;");
    }

    #[test]
    fn the_engine_does_not_touch_the_world() {
        allowed("ipam/block.rs", "use std::net::{IpAddr, Ipv4Addr}; use std::time::Duration; use std::fmt;");
        refused("ipam/block.rs", "use std::fs;");
        refused("ipam/block.rs", "use std::net::{IpAddr, UdpSocket};");
        refused("ipam/block.rs", "fn f() { std::env::var(\"HOME\"); }");
        refused("ipam/block.rs", "fn f() { std::thread::yield_now() }");
        refused("ipam/block.rs", "fn f() { nix::unistd::getpid() }");
        refused("ipam/block.rs", "fn f() { tokio::spawn(x) }");
        refused("ipam/block.rs", "fn f(clock: &SystemClock) {}");
        assert_eq!(
            found("ipam/block.rs", "use std::time::SystemTime;").len(),
            2,
            "by its path and by its name"
        );
        allowed("cni/run.rs", "use std::io::Read; fn f() { std::process::id() }");
    }

    #[test]
    fn crates_are_used_in_their_homes_alone() {
        allowed("datastore/file/lock.rs", "fn f() { fs2::FileExt::unlock(&x) }");
        refused("datastore/file/locks.rs", "fn f() { fs2::FileExt::unlock(&x) }");
        refused("cni/run.rs", "use clap::Parser;");
        refused("cni/run.rs", "use nix::unistd::{getpid};");
    }

    #[test]
    fn what_is_left_over_is_found_wherever_it_stands() {
        refused("net/set.rs", "fn f() { unsafe { g() } }");
        refused("net/set.rs", "fn f() { todo!() }");
        refused("net/set.rs", "fn f() { dbg!(1) }");
        refused("net/set.rs", "fn f() { unimplemented!() }");
        refused("net/set.rs", "mod tests { #[ignore] #[test] fn t() {} }");
        allowed("net/set.rs", "// todo!() and unsafe\nfn f() { g(\"unsafe\"); todo(); }");
        assert_eq!(
            found("net/set.rs", "\n\nunsafe fn f() {}"),
            ["src/net/set.rs:3: `unsafe`: `unsafe` is forbidden"]
        );
    }
}
