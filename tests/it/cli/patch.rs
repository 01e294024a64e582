use serde_json::json;

use super::support::Store;

fn with_pool() -> Store {
    let store = Store::new();
    store
        .apply("IPPool", "old", &json!({ "cidr": "10.66.0.0/28", "blockSize": 28, "natOutgoing": true }))
        .exits(0);
    store
}

#[test]
fn a_patch_changes_what_it_names_and_nothing_else() {
    let store = with_pool();
    let patch = |patch: &str| store.run(&["patch", "ippool", "old", "-p", patch]);
    patch(r#"{"spec":{"disabled":true}}"#).prints(0, "ippool.projectcalico.org/old patched\n");
    patch(r#"{"spec":{"disabled":true}}"#).prints(0, "ippool.projectcalico.org/old patched (no change)\n");
    patch("spec: {natOutgoing: null}").exits(0);
    store
        .run(&[
            "patch",
            "ippool/old",
            "--type",
            "json",
            "-p",
            r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#,
        ])
        .exits(0);
    let pool = store.run(&["get", "ippool", "old", "-o", "json"]).json();
    assert_eq!((&pool["spec"]["disabled"], pool["spec"].get("natOutgoing")), (&json!(true), None));
    assert_eq!(pool["metadata"]["labels"], json!({ "a": "b" }));
}

#[test]
fn a_disabled_pool_gives_nothing_more_at_once() {
    let store = with_pool();
    let network = store.network("n1", &json!([]));
    store.add("a", &network);
    store.run(&["patch", "ippool", "old", "-p", r#"{"spec":{"disabled":true}}"#]).exits(0);
    assert!(!store.call("ADD", "b", &network).status.success());
    store.del("a", &network);
}

#[test]
fn what_a_patch_may_not_do_is_said() {
    let store = with_pool();
    for (args, told) in [
        (
            &["-p", r#"{"spec":{"disabeld":true}}"#][..],
            "`spec.disabeld` is no field of IPPool; did you mean `disabled`?",
        ),
        (
            &["-p", r#"{"spec":{"blockSize":29}}"#],
            "`spec.blockSize` cannot be changed: it is 28, and would become 29",
        ),
        (&["-p", r#"{"metadata":{"name":"new"}}"#], "the patch changes `metadata.name`, which stays"),
        (&["-p", "5"], "the patch is no object, as a merge patch is"),
        (&["-p", r#"{"metadata":{"resourceVersion":"0"}}"#], "it has changed since it was read"),
        (
            &["--type=json", "-p", r#"[{"op":"test","path":"/spec/blockSize","value":26}]"#],
            "the patch fails at operation 0: `/spec/blockSize` is 28",
        ),
        (&["--type=xml", "-p", "{}"], "`--type` is `xml`; expected `merge` or `json`"),
        (&["-p", "{"], "`--patch` is `{`; expected a document: it is not valid"),
    ] {
        let refused = store.run(&[&["patch", "ippool", "old"], args].concat());
        refused.exits(2);
        assert!(refused.err.contains(told), "{args:?}: {refused:?}");
    }
    store.run(&["patch", "ippool", "none", "-p", "{}"]).exits(2);
    store
        .run(&["patch", "ipamblock", "x", "-p", "{}"])
        .says(2, "error: IPAMBlock is read-only: it is made by assigning addresses\n");
    assert_eq!(store.run(&["get", "ippool", "old", "-o", "json"]).json()["spec"]["blockSize"], 28);
}
