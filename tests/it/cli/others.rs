//! `ipam why`, `ipam split`, `ipam metrics` and `completion`.

use std::process::Command;

use serde_json::json;

use super::support::{Store, resource};

#[test]
fn a_host_without_an_address_is_told_why() {
    let store = Store::new();
    let why = |args: &[&str]| store.run(&[&["ipam", "why", "--node=n1"], args].concat());
    let nothing = why(&[]);
    nothing.exits(1);
    assert!(
        nothing.out.starts_with(
            "host `n1` would get no IPv4 address: no IPv4 pool may serve host `n1`: there is no pool\n"
        ),
        "{nothing:?}"
    );
    store
        .apply(
            "IPPool",
            "x",
            &json!({ "cidr": "10.1.0.0/30", "blockSize": 30, "nodeSelector": "zone == 'x'" }),
        )
        .exits(0);
    let refused = why(&[]);
    refused.exits(1);
    assert!(refused.out.contains("pool `x` (10.1.0.0/30) does not select this host"), "{refused:?}");
    let mut node = resource("Node", "n1", &json!({}));
    node["metadata"]["labels"] = json!({ "zone": "x" });
    store.run_with(&["apply", "-f", "-"], &node.to_string()).exits(0);
    why(&[]).prints(
        0,
        "
host `n1` would get the IPv4 address 10.1.0.0 of pool `x`, in a new block, 10.1.0.0/30
  pool `x` (10.1.0.0/30) would give 10.1.0.0, in a new block, 10.1.0.0/30
",
    );
    let answer = why(&["-o", "json"]).json();
    assert_eq!(answer["verdicts"][0]["possible"], true);
    assert_eq!(answer["verdicts"][0]["pools"][0]["outcome"], "gives");
    let network = store.network("n1", &json!([]));
    for id in ["a", "b", "c", "d"] {
        store.add(id, &network);
    }
    let full = why(&["--pod=prod/e"]);
    full.exits(1);
    assert!(
        full.out.starts_with(
            "pod prod/e holds no address\nhost `n1` would get no IPv4 address: no free IPv4 address"
        ),
        "{full:?}"
    );
    let held = why(&["--pod=prod/a"]);
    held.exits(0);
    assert!(held.out.starts_with("pod prod/a holds 10.1.0."), "{held:?}");
}

#[test]
fn a_pool_is_split_and_nobody_notices() {
    let store = Store::new();
    store
        .apply("IPPool", "pods", &json!({ "cidr": "10.0.1.0/24", "blockSize": 28, "natOutgoing": true }))
        .exits(0);
    let network = store.network("n1", &json!([]));
    let before = store.add("a", &network);
    store.run(&["ipam", "split", "4", "--pool=pods"]).prints(
        0,
        "
Successfully split IP pool pods (10.0.1.0/24)
Created split-pods-0 (10.0.1.0/26)
Created split-pods-1 (10.0.1.64/26)
Created split-pods-2 (10.0.1.128/26)
Created split-pods-3 (10.0.1.192/26)
",
    );
    assert_eq!(store.add("a", &network), before);
    assert_eq!(store.run(&["get", "ippools", "-o", "json"]).json()["items"][3]["spec"]["natOutgoing"], true);
    for (args, told) in [
        (&["3", "--pool=split-pods-0"][..], "3 is not a valid power of 2"),
        (&["1", "--pool=split-pods-0"], "1 is not a valid power of 2"),
        (&["x", "--pool=split-pods-0"], "the number of parts is `x`"),
        (&["8", "--cidr=10.0.1.0/26"], "not large enough for 8 parts"),
        (&["2", "--pool=pods"], "unable to find IP pool `pods`"),
        (&["2"], "give `--pool` or `--cidr`"),
    ] {
        let refused = store.run(&[&["ipam", "split"], args].concat());
        refused.exits(2);
        assert!(refused.err.contains(told), "{args:?}: {refused:?}");
    }
    assert_eq!(store.run(&["get", "ippools", "-o", "name"]).out.lines().count(), 4);
}

#[test]
fn counts_are_printed_for_prometheus() {
    let store = Store::new();
    store.apply("IPPool", "small", &json!({ "cidr": "10.88.0.0/29", "blockSize": 29 })).exits(0);
    store.add("a", &store.network("n1", &json!([])));
    store.add("b", &store.network("n2", &json!([])));
    store.run(&["ipam", "metrics"]).prints(
        0,
        "
# TYPE host_affine_pool_addresses gauge
# UNIT host_affine_pool_addresses addresses
# HELP host_affine_pool_addresses Addresses of a pool, by what they are: in use, reserved, carved out or free.
host_affine_pool_addresses{pool=\"small\",cidr=\"10.88.0.0/29\",state=\"in_use\"} 2
host_affine_pool_addresses{pool=\"small\",cidr=\"10.88.0.0/29\",state=\"reserved\"} 0
host_affine_pool_addresses{pool=\"small\",cidr=\"10.88.0.0/29\",state=\"carved\"} 0
host_affine_pool_addresses{pool=\"small\",cidr=\"10.88.0.0/29\",state=\"free\"} 6
# TYPE host_affine_pool_blocks gauge
# UNIT host_affine_pool_blocks blocks
# HELP host_affine_pool_blocks Blocks of a pool that exist.
host_affine_pool_blocks{pool=\"small\",cidr=\"10.88.0.0/29\"} 1
# TYPE host_affine_host_blocks gauge
# UNIT host_affine_host_blocks blocks
# HELP host_affine_host_blocks Blocks that are affine to a host.
host_affine_host_blocks{host=\"n1\"} 1
host_affine_host_blocks{host=\"n2\"} 0
# TYPE host_affine_host_borrowed_addresses gauge
# UNIT host_affine_host_borrowed_addresses addresses
# HELP host_affine_host_borrowed_addresses Addresses that a host uses from blocks of others.
host_affine_host_borrowed_addresses{host=\"n1\"} 0
host_affine_host_borrowed_addresses{host=\"n2\"} 1
# TYPE host_affine_unreadable_blocks gauge
# UNIT host_affine_unreadable_blocks blocks
# HELP host_affine_unreadable_blocks Blocks whose files cannot be read, and which no other metric counts.
host_affine_unreadable_blocks 0
# EOF
",
    );
}

#[test]
fn a_shell_completes_verbs_options_and_kinds() {
    let store = Store::new();
    let script = store.run(&["completion", "bash"]).exits(0).out.clone();
    let complete = |words: &str| {
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _host_affine; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash").arg("-c").arg(ask).output().expect("bash");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    assert_eq!(complete("host-affine ap"), "apply");
    assert_eq!(complete("host-affine ipam sh"), "show");
    assert_eq!(
        complete("host-affine --datastore file:///x ipam show --show-b"),
        "--show-blocks --show-borrowed"
    );
    assert_eq!(complete("host-affine get ipp"), "ippools ippools.ipam.miloapis.com");
    assert_eq!(complete("host-affine get ippools --out"), "--output");
    store.run(&["completion", "zsh"]).exits(0);
    store.run(&["completion", "fish"]).exits(0);
    store
        .run(&["completion", "csh"])
        .says(2, "error: the shell is `csh`; expected `bash`, `zsh` or `fish`\n");
}

#[test]
fn metrics_replace_a_file_as_a_whole() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let store = Store::new();
    store.apply("IPPool", "small", &json!({ "cidr": "10.88.0.0/29", "blockSize": 29 })).exits(0);
    let folder = store.dir().join("collector");
    std::fs::create_dir(&folder).expect("a directory");
    let file = folder.join("host_affine.prom");
    std::fs::write(&file, "old").expect("a file");
    let old = std::fs::File::open(&file).expect("the old file");
    let option = format!("--output-file={}", file.display());
    store.run(&["ipam", "metrics", &option]).prints(0, "");
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.starts_with("# TYPE") && text.ends_with("# EOF\n"), "{text}");
    let new = std::fs::metadata(&file).expect("a file");
    assert_eq!(new.permissions().mode() & 0o777, 0o644);
    assert_ne!(new.ino(), old.metadata().expect("it is open").ino(), "who reads the old file sees all of it");
    // A file that cannot be replaced leaves nothing of the new one.
    let option = format!("--output-file={}", folder.display());
    store.run(&["ipam", "metrics", &option]).exits(2);
    let names = |path: &std::path::Path| std::fs::read_dir(path).expect("a directory").count();
    assert_eq!((names(&folder), names(store.dir())), (1, 2), "the directory and the store");
}

#[test]
fn no_name_commands_the_terminal() {
    let store = Store::new();
    let mut network = store.network("n1", &json!([{ "cidr": "10.88.0.0/29" }]));
    network["ipam"]["nodename"] = json!("n1");
    store.add("a", &network);
    let raw = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}');
    let inventory = store.dir().join("inventory\u{1b}[31m\u{202e}.json");
    let option = format!("--inventory={}", inventory.display());
    for args in
        [&["ipam", "check", &option][..], &["get", "pools", "a\u{1b}[31m\u{202e}"], &["get", "\u{1b}[31m"]]
    {
        let ran = store.run(args);
        assert!(!raw(&ran.out) && !raw(&ran.err), "{args:?}: {ran:?}");
        assert!(ran.err.contains(r"\u{1b}[31m"), "{args:?}: {ran:?}");
    }
    std::fs::write(&inventory, r#"{"workloads":[{"podName":"p\u001b[31m\u202e\n","ips":["10.88.0.6"]}]}"#)
        .expect("a file");
    let ran = store.run(&["ipam", "check", &option]);
    assert!(!raw(&ran.out) && !raw(&ran.err), "{ran:?}");
}
