use serde_json::json;

use super::support::{Store, resource};

fn pool(store: &Store, name: &str, cidr: &str, size: u8) {
    store.apply("IPPool", name, &json!({ "cidr": cidr, "blockSize": size })).exits(0);
}

#[test]
fn a_pool_that_holds_addresses_stays_unless_it_is_forced() {
    let store = Store::new();
    let network = store.network("n1", &json!([]));
    pool(&store, "gone", "10.66.1.0/28", 28);
    store.add("u1", &network);
    store.run(&["delete", "ippool", "gone"]).says(
        2,
        "
error: IPPool `gone` was not deleted: it holds 1 address in 1 block
hint: delete their containers first, or use `--force`: then the blocks give nothing more, and go with their last address
",
    );
    let kept = store.run(&["get", "ippool", "gone", "-o", "json"]).json();
    assert!(kept["spec"].get("disabled").is_none(), "a refusal changes nothing: {kept}");
    pool(&store, "next", "10.66.1.16/28", 28);
    store.run(&["delete", "ippool", "gone", "--force"]).is(
        0,
        "ippool.projectcalico.org/gone deleted\n",
        "note: left: 1 address in 1 block, giving nothing more; what is empty goes\n",
    );
    let second = store.add("u2", &network);
    assert_eq!(second["ips"][0]["address"], "10.66.1.16/32", "a block without a pool gives nothing");
    store.del("u1", &network);
    let blocks = store.run(&["get", "ipamblocks", "-o", "name"]);
    blocks.prints(0, "ipamblock.projectcalico.org/10-66-1-16-28\n");
    store
        .run(&["get", "blockaffinities", "-o", "name"])
        .prints(0, "blockaffinity.projectcalico.org/n1-10-66-1-16-28\n");
}

#[test]
fn an_empty_pool_goes_with_the_blocks_that_hosts_still_have() {
    let store = Store::new();
    let mut network = store.network("n1", &json!([{ "cidr": "10.66.1.0/24", "name": "lan" }]));
    network["type"] = json!("bridge");
    store.add("a", &network);
    store.del("a", &network);
    store.run(&["get", "ipamblocks"]).exits(0);
    store.run(&["get", "ipreservation", "lan-subnet"]).exits(0);
    store.run(&["delete", "ippool", "lan"]).prints(0, "ippool.projectcalico.org/lan deleted\n");
    for kind in ["ippools", "ipamblocks", "blockaffinities", "ipamhandles", "ipreservations"] {
        store.run(&["get", kind]).exits(1);
    }
}

#[test]
fn a_pool_with_more_blocks_than_one_batch_takes_goes_whole() {
    let store = Store::new();
    pool(&store, "many", "10.66.0.0/23", 30);
    for number in 0..70 {
        let network = store.network(&format!("n{number}"), &json!([]));
        store.add("a", &network);
        store.del("a", &network);
    }
    assert_eq!(store.run(&["get", "ipamblocks", "-o", "name"]).out.lines().count(), 70);
    store.run(&["delete", "ippool", "many"]).prints(0, "ippool.projectcalico.org/many deleted\n");
    store.run(&["get", "ipamblocks"]).exits(1);
    store.run(&["get", "blockaffinities"]).exits(1);
}

#[test]
fn a_node_gives_up_its_blocks() {
    let store = Store::new();
    store.run(&["ipam", "configure", "--strictaffinity=true"]).exits(0);
    pool(&store, "p1", "10.64.0.0/29", 30);
    let on = |host| store.network(host, &json!([]));
    store.run_with(&["apply", "-f", "-"], &resource("Node", "n1", &json!({})).to_string()).exits(0);
    store.add("a", &on("n1"));
    store.add("b", &on("n2"));
    store.del("a", &on("n1"));
    assert!(!store.call("ADD", "c", &on("n3")).status.success(), "both blocks are kept for others");
    store.run(&["delete", "node", "n1"]).prints(0, "node.projectcalico.org/n1 deleted\n");
    store.add("c", &on("n3"));
    store.run(&["delete", "node", "n2"]).is(
        0,
        "node.projectcalico.org/n2 deleted\n",
        "note: left: 1 address in 1 block, kept for nobody now; what is empty goes\n",
    );
    store.run(&["delete", "node", "n2"]).says(
        2,
        "
error: Node `n2` does not exist
hint: run `host-affine get nodes` for those that exist
",
    );
    store.del("b", &on("n2"));
    let left = store.run(&["get", "ipamblocks", "-o", "json"]).json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["items"][0]["spec"]["affinity"], "host:n3");
}

#[test]
fn other_resources_go_by_name_or_by_file() {
    let store = Store::new();
    pool(&store, "p1", "10.64.0.0/24", 26);
    store.run(&["ipam", "configure", "--max-blocks-per-host=3"]).exits(0);
    store.apply("IPReservation", "r1", &json!({ "reservedCIDRs": ["10.64.0.1"] })).exits(0);
    store.apply("IPReservation", "r2", &json!({ "reservedCIDRs": ["10.64.0.2"] })).exits(0);
    store.run(&["delete", "ipreservation", "r1", "zz", "r2"]).is(
        2,
        "ipreservation.projectcalico.org/r1 deleted\nipreservation.projectcalico.org/r2 deleted\n",
        "
error: IPReservation `zz` does not exist
hint: run `host-affine get ipreservations` for those that exist
",
    );
    store.run(&["delete", "ipreservation/zz", "--ignore-not-found"]).prints(0, "");
    let file = json!([
        resource("IPAMConfiguration", "default", &json!({})),
        resource("IPPool", "p1", &json!({ "cidr": "10.64.0.0/24" })),
    ]);
    store.run_with(&["delete", "-f", "-"], &file.to_string()).prints(
        0,
        "ippool.projectcalico.org/p1 deleted\nipamconfiguration.projectcalico.org/default deleted\n",
    );
    store.run(&["get", "ipamconfiguration"]).exits(1);
}

#[test]
fn what_cannot_be_deleted_is_said() {
    let store = Store::new();
    pool(&store, "p1", "10.64.0.0/24", 26);
    store
        .run(&["delete", "ipamhandle", "x"])
        .says(2, "error: IPAMHandle is read-only: it is made by assigning addresses\n");
    store.run(&["delete", "ippool"]).says(
        2,
        "error: delete was told nothing to do: give KIND and NAME, or -f FILE\nhint: run `host-affine delete --help`\n",
    );
    store.run(&["delete", "ipamconfiguration", "other"]).exits(2);
    let absent = Store::new();
    absent.run(&["delete", "ippool", "p1"]).exits(2);
    assert!(!absent.path().exists());
}
