//! Configurations and stores that cannot be used: each is refused with what is wrong with what, and costs nothing.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::cni::{Network, Refusal, plugin, program, skip};
use crate::support::store::{Lab, View, write_out};

fn pools() -> Value {
    json!([{ "cidr": "10.205.0.0/24" }])
}

/// A store in which `c` has an address.
fn with_one(lab: &Lab) -> Network {
    let network = Network::new("pods", &lab.store(), &pools());
    network.add("c").succeeded();
    network
}

/// What ADD and DEL of `c` are refused with while the store is as it is. Once `mend` has put it right nothing is lost.
#[track_caller]
fn refused_until(lab: &Lab, network: &Network, mend: impl FnOnce()) -> [Refusal; 2] {
    let refusals = [network.add("d").refused(), network.del("c").refused()];
    mend();
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.held.len(), 1, "{:?}", view.held);
    assert_eq!(network.add("c").addresses(), view.of_container("c"));
    network.add("d").succeeded();
    network.del("d").succeeded();
    network.del("c").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
    refusals
}

#[test]
fn an_unknown_key_of_a_pool_is_named_with_the_one_that_was_meant() {
    let lab = Lab::new();
    let network = |pool: Value| Network::new("pods", &lab.store(), &json!([pool]));
    let refusal = network(json!({ "cidr": "10.205.0.0/24", "blckSize": 28 })).add("c").refused();
    assert!(matches!(refusal.code, 2 | 7), "{refusal:?}");
    refusal.says(&["blckSize", "did you mean", "blockSize"]);
    let mistyped = Network::new("pods", &lab.store(), &pools());
    let mut conf = mistyped.conf;
    conf["ipam"]["datastore"]["durabilty"] = "process".into();
    let refusal = Network::of(&conf).add("c").refused();
    refusal.says(&["durabilty", "did you mean", "durability"]);
    assert!(!lab.store().exists(), "nothing was made");
}

#[test]
fn a_pool_keeps_its_block_size_and_its_name() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let other = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.205.0.0/24", "blockSize": 28 }]));
    let refusal = other.add("d").refused();
    assert_eq!(refusal.code, 111);
    refusal.says(&["10.205.0.0/24", "28", "26"]);
    let other = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.205.0.0/24", "name": "blue" }]));
    let refusal = other.add("d").refused();
    assert_eq!(refusal.code, 111);
    refusal.says(&["10.205.0.0/24", "blue", "10-205-0-0-24"]);
    // A DEL does not look at pools.
    let mut conf = other.conf;
    conf["ipam"]["pools"] = json!([{ "cidr": "nonsense" }]);
    Network::of(&conf).del("c").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
    network.add("d").succeeded();
}

#[test]
fn pools_that_overlap_are_refused_and_both_are_named() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let other = Network::new("others", &lab.store(), &json!([{ "cidr": "10.205.0.0/16" }]));
    let refusal = other.add("d").refused();
    assert_eq!(refusal.code, 111);
    refusal.says(&["10.205.0.0/16", "10.205.0.0/24"]);
    let both = Network::new(
        "both",
        &lab.store(),
        &json!([{ "cidr": "10.206.0.0/24" }, { "cidr": "10.206.0.0/26" }]),
    );
    both.add("d").refused().says(&["10.206.0.0/24", "10.206.0.0/26"]);
    // The same CIDR is the same pool, for whatever network.
    let same = Network::new("others", &lab.store(), &pools());
    assert_ne!(same.add("d").addresses(), network.add("c").addresses());
    let in_host_locals_words = Network::of(&json!({
        "cniVersion": "1.0.0", "name": "old", "type": "bridge",
        "ipam": { "type": "host-affine", "subnet": "10.205.0.0/25", "dataDir": lab.store(), "nodename": "node-1" },
    }));
    let refusal = in_host_locals_words.add("d").refused();
    assert_eq!(refusal.code, 111);
    refusal.says(&["10.205.0.0/25", "10.205.0.0/24", "dataDir"]);
}

#[test]
fn a_gateway_must_lie_in_a_pool_of_the_network_except_in_host_locals_words() {
    let lab = Lab::new();
    let network = Network::new("pods", &lab.store(), &pools());
    let refusal = network.with("gateway", "10.9.9.9").add("c").refused();
    assert_eq!(refusal.code, 7);
    refusal.says(&["gateway", "10.9.9.9", "10.205.0.0/24"]);
    assert!(!lab.store().exists(), "nothing was made");
    let host_local = Network::of(&json!({
        "cniVersion": "1.0.0", "name": "old", "type": "ptp",
        "ipam": {
            "type": "host-affine", "subnet": "10.205.0.0/24", "gateway": "10.9.9.9",
            "dataDir": lab.store(), "nodename": "node-1",
        },
    }));
    let result = host_local.add("c").result();
    assert_eq!(result["ips"][0]["gateway"], "10.9.9.9", "as host-local has it");
}

#[test]
fn a_gateway_that_a_container_holds_is_refused_and_stays_the_containers() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let held = View::of(&lab.store()).of_container("c")[0];
    let refusal = network.with("gateway", held.to_string()).add("d").refused();
    assert_eq!(refusal.code, 107);
    refusal.says(&[&held.to_string(), "c", "gateway"]);
    assert_eq!(View::of(&lab.store()).sound().of_container("c"), [held]);
}

#[test]
fn something_else_in_the_place_of_the_store_is_named() {
    let lab = Lab::new();
    let network = Network::new("pods", &lab.store(), &pools());
    fs::write(lab.store(), "a file\n").expect("a file");
    let path = lab.store().display().to_string();
    for refusal in
        [network.add("c").refused(), network.del("c").refused(), network.gc_call(&[]).run().refused()]
    {
        assert_eq!(refusal.code, 100, "{refusal:?}");
        refusal.says(&[&path]);
    }
    let status = network.call("STATUS", "").run().refused();
    assert_eq!(status.code, 50);
    status.says(&[&path]);
    assert_eq!(fs::read(lab.store()).expect("it is there"), b"a file\n", "nothing of it was changed");
}

#[test]
fn a_store_that_others_may_write_to_is_not_used() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let set_mode = |mode| fs::set_permissions(lab.store(), Permissions::from_mode(mode)).expect("ours");
    set_mode(0o777);
    for refusal in refused_until(&lab, &network, || set_mode(0o700)) {
        assert_eq!(refusal.code, 100);
        refusal.says(&[&lab.store().display().to_string(), "others may write", "777"]);
    }
}

#[test]
fn a_strangers_store_is_not_used() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let journal = lab.store().join("journal");
    if !nix::unistd::geteuid().is_root() || chown(&journal, Some(65534), None).is_err() {
        return skip("only root can give a file to somebody else");
    }
    for refusal in refused_until(&lab, &network, || chown(&journal, Some(0), None).expect("root can")) {
        assert_eq!(refusal.code, 100);
        refusal.says(&[&journal.display().to_string(), "65534"]);
    }
}

#[test]
fn a_store_that_may_not_be_read_is_no_empty_store() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let Some(setpriv) = program("setpriv") else { return skip("setpriv is not installed") };
    if fs::set_permissions(lab.path(), Permissions::from_mode(0o755)).is_err()
        || !nix::unistd::geteuid().is_root()
    {
        return skip("only root can make calls as somebody else");
    }
    // Where it was built it may not be found by everybody.
    let copy = lab.path().join("plugin");
    fs::copy(plugin(), &copy).expect("a copy");
    let as_nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"].map(PathBuf::from);
    let under: Vec<PathBuf> = [setpriv].into_iter().chain(as_nobody).collect();
    for verb in ["ADD", "DEL"] {
        let refusal = network.call(verb, "c").program(&copy).under(&under).run().refused();
        assert_eq!(refusal.code, 100);
        refusal.says(&[&lab.store().display().to_string(), "ermission denied"]);
    }
    assert_eq!(View::of(&lab.store()).sound().held.len(), 1);
}

#[test]
fn a_symbolic_link_is_not_followed_whatever_it_stands_for() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let foreign = lab.path().join("foreign");
    for name in ["journal", "lock", "ipam"] {
        let (path, aside) = (lab.store().join(name), lab.path().join("aside"));
        if !path.exists() {
            write_out(&network, &lab.store());
        }
        fs::rename(&path, &aside).expect("it is there");
        // Once to something of its kind, once to a file of somebody else's.
        symlink(&aside, &path).expect("a link");
        let refusal = network.add("d").refused();
        refusal.says(&[&path.display().to_string(), "symbolic link"]);
        assert_eq!(refusal.code, 100, "{name}");
        fs::remove_file(&path).expect("a link");
        fs::write(&foreign, "not yours\n").expect("a file");
        symlink(&foreign, &path).expect("a link");
        network.add("d").refused().says(&["symbolic link"]);
        network.del("c").refused();
        fs::remove_file(&path).expect("a link");
        fs::rename(&aside, &path).expect("the place is free");
        assert_eq!(fs::read(&foreign).expect("it is there"), b"not yours\n");
        let view = View::of(&lab.store()).sound();
        assert_eq!(view.held.len(), 1, "{name}");
        assert_eq!(network.add("c").addresses(), view.of_container("c"), "{name}");
    }
    let elsewhere = lab.path().join("elsewhere");
    symlink(lab.store(), &elsewhere).expect("a link");
    let linked = Network::new("pods", &elsewhere, &pools());
    linked.add("d").refused().says(&[&elsewhere.display().to_string(), "symbolic link"]);
    linked.del("c").refused();
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let journal = lab.store().join("journal");
    let old = fs::read(&journal).expect("a journal");
    let mut newer = old.clone();
    newer[..4].copy_from_slice(b"HAJ7");
    let crc = crc32fast::hash(&newer[..119]);
    newer[119..127].copy_from_slice(format!("{crc:08x}").as_bytes());
    fs::write(&journal, &newer).expect("a journal");
    for refusal in refused_until(&lab, &network, || {
        assert_eq!(fs::read(&journal).expect("a journal"), newer, "it was not touched");
        fs::write(&journal, &old).expect("a journal");
    }) {
        assert_eq!(refusal.code, 100);
        refusal.says(&[&journal.display().to_string(), "7", "newer"]);
    }
}

#[test]
fn a_held_lock_is_waited_for_no_longer_than_was_said_and_its_holder_is_named() {
    let lab = Lab::new();
    let network = with_one(&lab);
    for seconds in [0, 1] {
        for name in ["", "lock"] {
            let hold = File::open(lab.store().join(name)).expect("it is there");
            hold.lock().expect("nobody else has it");
            let impatient = network.with("lock_timeout_seconds", seconds);
            let refusal = impatient.add("d").refused();
            assert_eq!(refusal.code, 11, "the runtime may try again");
            refusal.says(&[
                "lock",
                &lab.store().display().to_string(),
                &format!("{seconds} s"),
                "container c",
            ]);
            assert_eq!(impatient.del("c").refused().code, 11);
            let status = impatient.call("STATUS", "").run().refused();
            assert_eq!(status.code, 50);
            drop(hold);
            assert_eq!(View::of(&lab.store()).sound().held.len(), 1);
        }
    }
    // What a dead process wrote into it holds nobody up.
    fs::write(lab.store().join("lock"), "99999").expect("a lock");
    network.with("lock_timeout_seconds", 0).add("d").succeeded();
    fs::remove_file(lab.store().join("lock")).expect("a lock");
    network.with("lock_timeout_seconds", 0).del("d").succeeded();
}

#[test]
fn a_log_that_cannot_be_written_fails_no_call_and_never_mixes_with_the_answer() {
    let lab = Lab::new();
    let network = Network::new("pods", &lab.store(), &pools()).with("log_level", "debug");
    let answer = network.add("c").succeeded();
    assert!(!answer.stderr.is_empty(), "debug says something");
    answer.result();
    network.with("log_file_path", "/proc/nope/x.log").add("d").result();
    let fifo = lab.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let told = network.with("log_file_path", fifo.to_str().expect("text")).add("f").succeeded();
    assert!(told.stderr.contains("the log goes to standard error"), "{told:?}");
    let file = lab.path().join("a.log");
    let answer = network.with("log_file_path", file.to_str().expect("text")).add("e").succeeded();
    assert_eq!(answer.stderr, "");
    let log = fs::read_to_string(&file).expect("a log");
    assert!(log.contains("ADD e on pods"), "{log}");
    assert_eq!(mode(&file), 0o600);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn a_result_that_nobody_takes_is_taken_back() {
    let lab = Lab::new();
    let network = with_one(&lab);
    let to_full = ["/bin/sh", "-c", "\"$@\" > /dev/full", "sh"].map(PathBuf::from);
    let answer = network.call("ADD", "d").under(&to_full).run();
    assert!(!answer.is_success());
    let again = network.call("ADD", "c").under(&to_full).run();
    assert!(!again.is_success());
    let view = View::of(&lab.store()).sound();
    assert_eq!(
        (view.of_container("d").len(), view.of_container("c").len()),
        (0, 1),
        "what it had before it keeps"
    );
}
