use serde_json::json;

use super::support::Store;

fn options(store: &Store) -> serde_json::Value {
    store.run(&["ipam", "show", "--show-configuration", "-o", "json"]).json()["configuration"].clone()
}

#[test]
fn changing_one_option_leaves_the_others_alone() {
    let store = Store::new();
    store
        .run(&["ipam", "configure", "--strictaffinity=true", "--max-blocks-per-host=4"])
        .prints(0, "Successfully set StrictAffinity to: true\nSuccessfully set MaxBlocksPerHost to: 4\n");
    store
        .run(&["ipam", "configure", "--kubevirt-ip-persistence=Enabled"])
        .prints(0, "Successfully set KubeVirtVMAddressPersistence to: Enabled\n");
    store
        .run(&["ipam", "configure", "--strictaffinity=false", "--max-blocks-per-host=4"])
        .prints(0, "Successfully set StrictAffinity to: false\nMaxBlocksPerHost was 4 already\n");
    assert_eq!(
        options(&store),
        json!({
            "strictAffinity": false, "autoAllocateBlocks": true, "maxBlocksPerHost": 4,
            "kubeVirtVMAddressPersistence": "Enabled", "ipCooldownSeconds": 0,
        })
    );
}

#[test]
fn two_changes_of_different_options_at_once_both_survive() {
    let store = Store::new();
    std::thread::scope(|scope| {
        scope.spawn(|| store.run(&["ipam", "configure", "--strictaffinity=true"]).exits(0).out.clone());
        scope.spawn(|| store.run(&["ipam", "configure", "--max-blocks-per-host=7"]).exits(0).out.clone());
        scope.spawn(|| store.run(&["ipam", "configure", "--ip-cooldown-seconds=9"]).exits(0).out.clone());
    });
    let options = options(&store);
    assert_eq!(options["strictAffinity"], true);
    assert_eq!(options["maxBlocksPerHost"], 7);
    assert_eq!(options["ipCooldownSeconds"], 9);
}

#[test]
fn a_value_that_is_not_accepted_is_named_and_changes_nothing() {
    let store = Store::new();
    let blocks = "a number from 0 to 2147483647 (0: the default, 20)";
    for (option, value, expected) in [
        ("--max-blocks-per-host", "-1", blocks),
        ("--max-blocks-per-host", "2147483648", blocks),
        ("--max-blocks-per-host", "+4", blocks),
        ("--max-blocks-per-host", "four", blocks),
        ("--strictaffinity", "yes", "`true` or `false`"),
        ("--auto-allocate-blocks", "", "`true` or `false`"),
        ("--kubevirt-ip-persistence", "Maybe", "`Enabled` or `Disabled`"),
        ("--kubevirt-ip-persistence", "enabled", "`Enabled` or `Disabled`"),
        ("--ip-cooldown-seconds", "1201", "a number from 0 to 1200"),
    ] {
        let told = format!("error: `{option}` is `{value}`; expected {expected}\n");
        store.run(&["ipam", "configure", &format!("{option}={value}")]).says(2, &told);
        store.run(&["ipam", "configure", "--ip-cooldown-seconds=3", option, value]).exits(2);
    }
    assert!(!store.path().exists(), "not even a store was made");
}

#[test]
fn options_are_judged_together() {
    let store = Store::new();
    store
        .run(&["ipam", "configure", "--auto-allocate-blocks=false"])
        .says(2, "error: `spec.autoAllocateBlocks` is false, which needs `spec.strictAffinity` to be true\n");
    store.run(&["ipam", "configure", "--strictaffinity=1", "--auto-allocate-blocks=F"]).exits(0);
    store.run(&["ipam", "configure", "--strictaffinity=false"]).exits(2);
    assert_eq!(options(&store)["strictAffinity"], true);
}

#[test]
fn without_options_nothing_is_done_and_that_is_said() {
    let store = Store::new();
    store.run(&["ipam", "configure"]).says(
        2,
        "
error: ipam configure was told nothing to do: give at least one option; nothing was changed
hint: run `host-affine ipam configure --help`
",
    );
    assert!(!store.path().exists());
}

#[test]
fn a_change_binds_the_next_call() {
    let store = Store::new();
    let network = |host| store.network(host, &json!([{ "cidr": "10.88.0.0/29", "blockSize": 29 }]));
    store.add("a", &network("n1"));
    store.add("b", &network("n2"));
    store.run(&["ipam", "configure", "--strictaffinity=true"]).exits(0);
    let refused = store.call("ADD", "c", &network("n2"));
    assert!(!refused.status.success());
    store.add("d", &network("n1"));
}
