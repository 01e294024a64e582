use serde_json::{Value, json};

use super::support::{Store, resource};

const POOL: &str = "\
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
  name: p1
  labels: {team: a}
spec:
  cidr: 10.61.0.0/24
  blockSize: 28
  nodeSelector: zone == 'x'
";

fn spec(store: &Store, kind: &str, name: &str) -> Value {
    store.run(&["get", kind, name, "-o", "json"]).json()["spec"].clone()
}

#[test]
fn what_a_file_says_is_made_so_once() {
    let store = Store::new();
    let apply = |text: &str| store.run_with(&["apply", "-f", "-"], text);
    apply(POOL).prints(0, "ippool.projectcalico.org/p1 created\n");
    apply(POOL).prints(0, "ippool.projectcalico.org/p1 unchanged\n");
    let disabled = format!("{POOL}  disabled: true\n");
    apply(&disabled).prints(0, "ippool.projectcalico.org/p1 configured\n");
    assert_eq!(spec(&store, "ippool", "p1")["disabled"], true);
}

#[test]
fn what_an_earlier_file_said_is_taken_back_and_what_others_said_stays() {
    let store = Store::new();
    let apply = |text: &str| store.run_with(&["apply", "-f", "-"], text);
    apply(POOL).exits(0);
    store
        .run(&[
            "patch",
            "ippool",
            "p1",
            "-p",
            r#"{"spec":{"disabled":true},"metadata":{"labels":{"by":"hand"}}}"#,
        ])
        .exits(0);
    apply(&POOL.replace("  nodeSelector: zone == 'x'\n", "").replace("team: a", "tier: b")).exits(0);
    let pool = store.run(&["get", "ippool", "p1", "-o", "json"]).json();
    assert_eq!(pool["spec"]["nodeSelector"], "all()", "no file says it any more");
    assert_eq!(pool["spec"]["disabled"], true, "no file ever said it");
    assert_eq!(pool["metadata"]["labels"], json!({ "by": "hand", "tier": "b" }));
}

#[test]
fn a_pool_that_a_network_made_can_be_applied_over() {
    let store = Store::new();
    store.add("a", &store.network("n1", &json!([{ "cidr": "10.61.0.0/24", "name": "p1", "blockSize": 28 }])));
    store.run_with(&["apply", "-f", "-"], POOL).prints(0, "ippool.projectcalico.org/p1 configured\n");
    assert_eq!(spec(&store, "ippool", "p1")["nodeSelector"], "zone == 'x'");
}

#[test]
fn a_dry_run_judges_and_changes_nothing() {
    let store = Store::new();
    store
        .run_with(&["apply", "-f", "-", "--dry-run"], POOL)
        .prints(0, "ippool.projectcalico.org/p1 created (dry run)\n");
    assert!(!store.path().exists(), "not even a store is made");
    store.run_with(&["create", "-f", "-"], POOL).prints(0, "ippool.projectcalico.org/p1 created\n");
    store.run_with(&["create", "-f", "-", "--dry-run=server"], &POOL.replace("p1", "p2")).says(
        2,
        "
error: IPPool `p2`: its CIDR 10.61.0.0/24 overlaps pool `p1` (10.61.0.0/24)
hint: choose another CIDR, or delete that pool first
",
    );
    store.run_with(&["apply", "-f", "-", "--dry-run=maybe"], POOL).exits(2);
}

#[test]
fn files_directories_and_lists_are_read_and_any_fault_stops_everything() {
    let store = Store::new();
    let dir = store.dir().join("pools");
    std::fs::create_dir(&dir).expect("a directory");
    let write = |name: &str, text: &str| {
        std::io::Write::write_all(
            &mut std::fs::File::create(dir.join(name)).expect("a file"),
            text.as_bytes(),
        )
        .expect("written");
    };
    write("b.yaml", &format!("{POOL}---\n{}", POOL.replace("p1", "p2").replace("61.0", "62.0")));
    write("a.json", &resource("Node", "n1", &json!({})).to_string());
    write("ignored.txt", "not a resource");
    let args = ["apply", "-f", dir.to_str().expect("text")];
    write(
        "z.yaml",
        "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata:\n  name: p3\nspec:\n  cidr: 10.0.0.1/8\n  size: 26\n",
    );
    store.run(&args).says(
        2,
        "
error: 2 faults; nothing was changed
  DIR/pools/z.yaml:6:3: IPPool `p3`: `spec.cidr` is the text \"10.0.0.1/8\"; expected a network without host bits: `10.0.0.0/8`, or `10.0.0.1/32` for the one address
  DIR/pools/z.yaml:7:3: IPPool `p3`: `spec.size` is no field of IPPool (known: `cidr`, `blockSize`, `disabled`, `nodeSelector`, `namespaceSelector`, `allowedUses`, `assignmentMode`, `ipipMode`, `vxlanMode`, `natOutgoing`, `disableBGPExport`)
",
    );
    assert!(!store.path().exists());
    std::fs::remove_file(dir.join("z.yaml")).expect("removed");
    store.run(&args).prints(
        0,
        "
node.projectcalico.org/n1 created
ippool.projectcalico.org/p1 created
ippool.projectcalico.org/p2 created
",
    );
    let list = store.run(&["get", "ippools", "-o", "yaml"]).out.clone();
    let reapplied = store.run_with(&["apply", "-f", "-"], &list);
    assert_eq!(reapplied.exits(0).out.lines().count(), 2, "what is printed can be applied: {reapplied:?}");
}

#[test]
fn options_accept_what_the_reference_says_and_refuse_the_rest_by_place() {
    let store = Store::new();
    let sample = "\
apiVersion: projectcalico.org/v3
kind: IPAMConfiguration
metadata:
  name: default
spec:
  strictAffinity: false
  maxBlocksPerHost: 4
  kubeVirtVMAddressPersistence: Disabled
";
    let file = store.dir().join("ipam.yaml");
    let apply = |text: &str| {
        std::io::Write::write_all(&mut std::fs::File::create(&file).expect("a file"), text.as_bytes())
            .expect("written");
        store.run(&["apply", "-f", file.to_str().expect("text")])
    };
    for (from, to, told) in [
        (
            "name: default",
            "name: other",
            "4:3: IPAMConfiguration `other`: `metadata.name` is `other`; the only IPAMConfiguration is `default`",
        ),
        (
            "Host: 4",
            "Host: 2147483648",
            "7:3: IPAMConfiguration `default`: `spec.maxBlocksPerHost` is 2147483648; expected a whole number from 0 to 2147483647",
        ),
        (
            "Host: 4",
            "Host: -1",
            "7:3: IPAMConfiguration `default`: `spec.maxBlocksPerHost` is -1; expected a whole number from 0 to 2147483647",
        ),
        (
            "Host: 4",
            "Host: \"4\"",
            "7:3: IPAMConfiguration `default`: `spec.maxBlocksPerHost` is the text \"4\"; expected a whole number from 0 to 2147483647, without quotes",
        ),
        (
            "Affinity: false",
            "Affinity: \"true\"",
            "6:3: IPAMConfiguration `default`: `spec.strictAffinity` is the text \"true\"; expected true or false, without quotes",
        ),
        (
            ": Disabled",
            ": disabled",
            "8:3: IPAMConfiguration `default`: `spec.kubeVirtVMAddressPersistence` is the text \"disabled\"; expected `Enabled` or `Disabled`",
        ),
    ] {
        apply(&sample.replace(from, to)).says(2, &format!("error: DIR/ipam.yaml:{told}\n"));
    }
    assert!(!store.path().exists());
    apply(sample).prints(0, "ipamconfiguration.projectcalico.org/default created\n");
    apply(&sample.replace("Host: 4", "Host: 0")).exits(0);
    apply(&sample.replace("Host: 4", "Host: 2147483647")).exits(0);
    assert_eq!(
        spec(&store, "ipamconfiguration", "default"),
        json!({
            "strictAffinity": false, "maxBlocksPerHost": 2_147_483_647, "kubeVirtVMAddressPersistence": "Disabled",
            "autoAllocateBlocks": true,
        })
    );
}

#[test]
fn what_is_fixed_stays_and_blocks_never_overlap() {
    let store = Store::new();
    store.apply("IPPool", "p1", &json!({ "cidr": "10.66.2.0/25", "blockSize": 29 })).exits(0);
    store.apply("IPPool", "p1", &json!({ "cidr": "10.66.2.0/25", "blockSize": 27 })).says(
        2,
        "
error: IPPool `p1`: `spec.blockSize` cannot be changed: it is 29, and would become 27
hint: make a new pool, disable this one, and delete it when it is empty
",
    );
    store.apply("IPPool", "p1", &json!({ "cidr": "10.66.0.0/16", "blockSize": 29 })).exits(2);
    let network = store.network("n1", &json!([]));
    store.add("a", &network);
    store.run(&["delete", "ippool", "p1", "--force"]).exits(0);
    let refused = store.apply("IPPool", "p2", &json!({ "cidr": "10.66.2.0/25", "blockSize": 27 }));
    refused.exits(2);
    assert!(refused.err.contains("its blocks of /27 would overlap 1 block"), "{refused:?}");
    store.apply("IPPool", "p2", &json!({ "cidr": "10.66.2.0/25", "blockSize": 29 })).exits(0);
    store.add("b", &network);
}

#[test]
fn a_reserved_address_is_stored_as_a_network() {
    let store = Store::new();
    store
        .apply("IPReservation", "r", &json!({ "reservedCIDRs": ["10.0.0.9", "fd00::1", "10.0.0.16/30"] }))
        .exits(0);
    assert_eq!(
        spec(&store, "ipreservation", "r"),
        json!({ "reservedCIDRs": ["10.0.0.9/32", "fd00::1/128", "10.0.0.16/30"] })
    );
    store
        .apply("IPReservation", "r", &json!({ "reservedCIDRs": ["10.0.0.9", "fd00::1", "10.0.0.16/30"] }))
        .prints(0, "ipreservation.projectcalico.org/r unchanged\n");
    store
        .run(&["get", "reservations"])
        .prints(0, "NAME   CIDRS\nr      10.0.0.9/32,fd00::1/128,10.0.0.16/30\n");
}

#[test]
fn labels_decide_which_pool_serves_a_host() {
    let store = Store::new();
    store.apply("IPPool", "x", &json!({ "cidr": "10.1.0.0/24", "nodeSelector": "zone == 'x'" })).exits(0);
    store.apply("IPPool", "y", &json!({ "cidr": "10.2.0.0/24", "nodeSelector": "zone == 'y'" })).exits(0);
    let node =
        "apiVersion: projectcalico.org/v3\nkind: Node\nmetadata:\n  name: n1\n  labels:\n    zone: y\n";
    store.run_with(&["apply", "-f", "-"], node).prints(0, "node.projectcalico.org/n1 created\n");
    let result = store.add("a", &store.network("n1", &json!([])));
    assert!(result["ips"][0]["address"].as_str().expect("text").starts_with("10.2.0."), "{result}");
    assert!(!store.call("ADD", "b", &store.network("n2", &json!([]))).status.success());
}

#[test]
fn what_was_written_can_be_printed() {
    let store = Store::new();
    store.run_with(&["apply", "-f", "-", "-o", "name"], POOL).prints(0, "ippool.projectcalico.org/p1\n");
    let pool =
        store.run_with(&["apply", "-f", "-", "-o", "json"], &format!("{POOL}  disabled: true\n")).json();
    assert_eq!((&pool["kind"], &pool["spec"]["disabled"]), (&json!("IPPool"), &json!(true)));
}

#[test]
fn nothing_given_is_said() {
    let store = Store::new();
    store
        .run_with(&["apply", "-f", "-"], "# nothing\n")
        .says(2, "error: there is no resource in what was given\n");
    store
        .run(&["apply", "-f", "/nowhere.yaml"])
        .says(2, "error: could not read /nowhere.yaml: No such file or directory (os error 2)\n");
    store.run(&["apply"]).exits(2);
}
