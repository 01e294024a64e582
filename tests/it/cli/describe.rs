use serde_json::json;

use super::support::Store;

#[test]
fn a_pool_is_described_with_its_usage() {
    let store = Store::new();
    store
        .apply(
            "IPPool",
            "small",
            &json!({ "cidr": "10.88.0.0/29", "blockSize": 29, "allowedUses": ["Workload"] }),
        )
        .exits(0);
    store.add("a", &store.network("n1", &json!([])));
    store.add("b", &store.network("n2", &json!([])));
    store.run(&["describe", "ippool", "small"]).prints(
        0,
        "
Name:              small
Labels:            <none>
Annotations:       <none>
API Version:       projectcalico.org/v3
Kind:              IPPool
Spec:
  allowedUses:     Workload
  assignmentMode:  Automatic
  blockSize:       29
  cidr:            10.88.0.0/29
  ipipMode:        Never
  nodeSelector:    all()
  vxlanMode:       Never
Usage:
  Total:           8
  In Use:          2 (25%)
  Reserved:        0 (0%)
  Free:            6 (75%)
Blocks:
  10.88.0.0/29:    2 of 8 in use, host:n1
",
    );
}

#[test]
fn a_node_is_described_with_its_blocks_and_loans() {
    let store = Store::new();
    store.apply("IPPool", "small", &json!({ "cidr": "10.88.0.0/29", "blockSize": 29 })).exits(0);
    store.apply("Node", "n1", &json!({})).exits(0);
    store.apply("Node", "n2", &json!({})).exits(0);
    store.add("a", &store.network("n1", &json!([])));
    store.add("b", &store.network("n2", &json!([])));
    store.run(&["describe", "node"]).prints(
        0,
        "
Name:              n1
Labels:            <none>
Annotations:       <none>
API Version:       projectcalico.org/v3
Kind:              Node
Spec:              <none>
Blocks:
  10.88.0.0/29:    2 of 8 in use, host:n1
Borrowed:          0


Name:              n2
Labels:            <none>
Annotations:       <none>
API Version:       projectcalico.org/v3
Kind:              Node
Spec:              <none>
Blocks:            <none>
Borrowed:          1
",
    );
}

#[test]
fn what_does_not_exist_is_not_described() {
    let store = Store::new();
    store.apply("Node", "n1", &json!({})).exits(0);
    store.run(&["describe", "ippool", "nope"]).says(
        1,
        "
error: IPPool `nope` does not exist
hint: run `host-affine get ippools` for those that exist
",
    );
    store.run(&["describe", "ippools"]).says(1, "note: there are no ippools\n");
}
