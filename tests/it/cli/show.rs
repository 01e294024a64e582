use serde_json::{Value, json};

use super::support::Store;

/// Two hosts, of which the second must borrow from the first's only block.
fn borrowing() -> (Store, Value, Value) {
    let store = Store::new();
    let pools = json!([{ "cidr": "10.88.0.0/29", "blockSize": 29, "name": "small" }]);
    let (one, two) = (store.network("n1", &pools), store.network("n2", &pools));
    store.add("a", &one);
    store.add("b", &two);
    store.add("c", &two);
    (store, one, two)
}

#[test]
fn counts_are_exact_and_add_up_however_large_the_pool() {
    let store = Store::new();
    let network = store.network("n1", &json!([{ "cidr": "fd73::/48", "name": "big" }]));
    store.add("a", &network);
    store.run(&["ipam", "show"]).prints(
        0,
        "
+----------+-----------+---------------------------+------------+--------------+----------------------------------+------+
| GROUPING | CIDR      | IPS TOTAL                 | IPS IN USE | IPS RESERVED | IPS FREE                         | NAME |
+----------+-----------+---------------------------+------------+--------------+----------------------------------+------+
| IP Pool  | fd73::/48 | 1208925819614629174706176 |     1 (0%) |       0 (0%) | 1208925819614629174706175 (100%) | big  |
+----------+-----------+---------------------------+------------+--------------+----------------------------------+------+
",
    );
    assert_eq!(
        store.run(&["ipam", "show", "-o", "json"]).json(),
        json!({ "pools": [{
            "name": "big", "cidr": "fd73::/48", "disabled": false, "inUse": 1, "reserved": 0, "carved": 0,
            "slots": {
                "prefixLength": 122, "total": "18889465931478580854784", "free": "18889465931478580854783", "broken": 0,
            },
            "total": "1208925819614629174706176", "free": "1208925819614629174706175",
        }] })
    );
}

#[test]
fn what_a_subnet_keeps_for_itself_is_reserved_and_not_free() {
    let store = Store::new();
    let mut network = store.network("n1", &json!([{ "cidr": "10.9.0.0/24", "name": "lan" }]));
    network["type"] = json!("bridge");
    store.add("a", &network);
    let pool = store.run(&["ipam", "show", "-o", "json"]).json()["pools"][0].clone();
    assert_eq!((&pool["total"], &pool["inUse"]), (&json!(256), &json!(1)));
    assert_eq!((&pool["reserved"], &pool["free"]), (&json!(3), &json!(252)));
}

#[test]
fn blocks_say_whose_they_are_and_who_borrows_from_them() {
    let (store, ..) = borrowing();
    let shown = store.run(&["ipam", "show", "--show-blocks"]);
    shown.prints(
        0,
        "
+----------+--------------+-----------+------------+--------------+----------+-------+----------+-------------+
| GROUPING | CIDR         | IPS TOTAL | IPS IN USE | IPS RESERVED | IPS FREE | NAME  | AFFINITY | BORROWED BY |
+----------+--------------+-----------+------------+--------------+----------+-------+----------+-------------+
| IP Pool  | 10.88.0.0/29 |         8 |    3 (38%) |       0 (0%) |  5 (62%) | small |          |             |
| Block    | 10.88.0.0/29 |         8 |    3 (38%) |       0 (0%) |  5 (62%) |       | host:n1  | n2 (2)      |
+----------+--------------+-----------+------------+--------------+----------+-------+----------+-------------+
",
    );
    let shown = store.run(&["ipam", "show", "--show-blocks", "-o", "json"]).json();
    assert_eq!(
        shown["pools"][0]["blocks"],
        json!([{
            "cidr": "10.88.0.0/29", "affinity": "host:n1", "total": 8, "inUse": 3, "reserved": 0, "free": 5,
            "borrowedBy": [{ "node": "n2", "count": 2 }],
        }])
    );
    assert_eq!(shown["blocksInNoPool"], json!([]));
}

#[test]
fn each_borrowed_address_is_listed_until_it_is_released() {
    let (store, _, two) = borrowing();
    store.run(&["ipam", "show", "--show-borrowed"]).prints(
        0,
        "
+-----------+----------------+--------------+-------------+------+--------------+
| IP        | BORROWING-NODE | BLOCK        | BLOCK OWNER | TYPE | ALLOCATED-TO |
+-----------+----------------+--------------+-------------+------+--------------+
| 10.88.0.1 | n2             | 10.88.0.0/29 | n1          | pod  | prod/b       |
| 10.88.0.2 | n2             | 10.88.0.0/29 | n1          | pod  | prod/c       |
+-----------+----------------+--------------+-------------+------+--------------+
",
    );
    store.del("b", &two);
    assert_eq!(
        store.run(&["ipam", "show", "--show-borrowed", "-o", "json"]).json(),
        json!({ "withoutHost": 0, "borrowed": [{
            "ip": "10.88.0.2", "borrower": "n2", "block": "10.88.0.0/29", "owner": "host:n1",
            "type": "pod", "allocatedTo": "prod/c",
        }] })
    );
}

#[test]
fn options_that_were_never_set_are_shown_with_their_defaults() {
    let store = Store::new();
    let table = "
+------------------------------+----------+----------+
| PROPERTY                     | VALUE    | DEFAULT  |
+------------------------------+----------+----------+
| StrictAffinity               | false    | false    |
| AutoAllocateBlocks           | true     | true     |
| MaxBlocksPerHost             | 20       | 20       |
| KubeVirtVMAddressPersistence | Disabled | Disabled |
| IPCooldownSeconds            | 0        | 0        |
+------------------------------+----------+----------+
";
    store.run(&["ipam", "show", "--show-configuration"]).is(
        0,
        table,
        "note: there is no store at DIR/store: nothing was ever assigned\n",
    );
    assert!(!store.path().exists(), "who only looks makes no store");
    store.run(&["ipam", "configure", "--max-blocks-per-host=4"]).exits(0);
    assert_eq!(
        store.run(&["ipam", "show", "--show-configuration", "-o", "json"]).json()["configuration"],
        json!({
            "strictAffinity": false, "autoAllocateBlocks": true, "maxBlocksPerHost": 4,
            "kubeVirtVMAddressPersistence": "Disabled", "ipCooldownSeconds": 0,
        })
    );
}

#[test]
fn an_address_in_use_says_whose_it_is() {
    let (store, ..) = borrowing();
    store.run(&["ipam", "show", "--ip=10.88.0.1"]).prints(
        0,
        "
IP 10.88.0.1 is in use
Handle ID: net.b
Active Owner Attributes:
  boot: BOOT
  booted: BEGINNING
  host-netns: IDENTITY
  ifname: eth0
  namespace: prod
  netns: /var/run/netns/none
  network: net
  node: n2
  pod: b
  timestamp: TIME
",
    );
    let shown = store.run(&["ipam", "show", "--ip", "10.88.0.1", "-o", "json"]).json();
    assert_eq!((&shown["assigned"], &shown["handle"]), (&json!(true), &json!("net.b")));
    assert_eq!(shown["activeOwner"]["pod"], "b");
    assert!(shown["sequenceNumber"].is_string(), "larger than what every JSON reader keeps: {shown}");
}

#[test]
fn an_address_that_nobody_has_is_an_answer_and_that_is_no() {
    let (store, ..) = borrowing();
    store.run(&["ipam", "show", "--ip=10.88.0.7"]).prints(
        1,
        "
10.88.0.7 is not assigned
  pool: small (10.88.0.0/29)
  block: 10.88.0.0/29 (affinity host:n1)
",
    );
    store
        .run(&["ipam", "show", "--ip=10.99.0.1"])
        .prints(1, "10.99.0.1 is not assigned\n  it lies in no pool\n");
    assert_eq!(
        store.run(&["ipam", "show", "--ip=10.99.0.1", "-o", "json"]).exits(1).json(),
        json!({
            "ip": "10.99.0.1", "assigned": false, "pool": null, "block": null, "affinity": null, "reservedBy": [],
        })
    );
    store.run(&["ipam", "show", "--ip=10.88.0.300"]).says(2, "error: invalid IP address `10.88.0.300`\n");
}

#[test]
fn a_released_address_that_cools_down_is_not_assigned() {
    let (store, one, _) = borrowing();
    store.run(&["ipam", "configure", "--ip-cooldown-seconds=1200"]).exits(0);
    store.del("a", &one);
    store.run(&["ipam", "show", "--ip=10.88.0.0"]).prints(
        1,
        "
10.88.0.0 is not assigned: it was released at TIME and is in cooldown
  pool: small (10.88.0.0/29)
  block: 10.88.0.0/29 (affinity host:n1)
",
    );
}

#[test]
fn an_empty_store_has_nothing_to_show_and_says_why() {
    let store = Store::new();
    store.run(&["ipam", "show", "-o", "json"]).is(
        0,
        "{\n  \"pools\": []\n}\n",
        "note: there is no store at DIR/store: nothing was ever assigned\n",
    );
    store
        .run(&["ipam", "show", "-o", "name"])
        .says(2, "error: `--output` is `name`; expected `table`, `wide`, `json` or `yaml` for `ipam show`\n");
}
