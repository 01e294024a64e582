use serde_json::{Value, json};

use super::support::Store;

fn filled() -> Store {
    let store = Store::new();
    let pools = json!([{ "cidr": "10.88.0.0/24", "blockSize": 29, "name": "small" }, { "cidr": "10.89.0.0/24", "name": "wide" }]);
    store.add("a", &store.network("n1", &pools));
    store.add("b", &store.network("n1", &pools));
    store
}

/// The block that the host got.
fn block(store: &Store) -> Value {
    store.run(&["get", "ipamblocks", "-o", "json"]).json()["items"][0].clone()
}

#[test]
fn kinds_are_listed_in_columns() {
    let store = filled();
    store.run(&["get", "ippools"]).prints(
        0,
        "
NAME    CIDR           SELECTOR   BLOCKSIZE   DISABLED
small   10.88.0.0/24   all()      29          false
wide    10.89.0.0/24   all()      26          false
",
    );
    store.run(&["get", "IPP", "small", "-o", "wide"]).prints(
        0,
        "
NAME    CIDR           SELECTOR   BLOCKSIZE   DISABLED   NAT     IPIPMODE   VXLANMODE   DISABLEBGPEXPORT   ASSIGNMENTMODE   ALLOWEDUSES
small   10.88.0.0/24   all()      29          false      false   Never      Never       false              Automatic        Workload,Tunnel
",
    );
    let cidr = block(&store)["spec"]["cidr"].as_str().expect("a CIDR").to_owned();
    let name = cidr.replace(['.', '/'], "-");
    store.run(&["get", "ipamhandle"]).prints(
        0,
        &format!("NAME    ADDRESSES   BLOCKS\nnet.a   1           {cidr}\nnet.b   1           {cidr}\n"),
    );
    let pad = |text: &str, width: usize| format!("{text:width$}");
    let (name_wide, cidr_wide) = (pad(&name, name.len()), pad(&cidr, cidr.len()));
    store.run(&["get", "block"]).prints(
        0,
        &format!(
            "{}   {}   AFFINITY   INUSE   FREE\n{name_wide}   {cidr_wide}   host:n1    2       6\n",
            pad("NAME", name.len()),
            pad("CIDR", cidr.len())
        ),
    );
    store.run(&["get", "blockaffinities"]).prints(
        0,
        &format!(
            "{}   {}   NODE   TYPE   STATE\nn1-{name}   {cidr}   n1     host   confirmed\n",
            pad("NAME", name.len() + 3),
            pad("CIDR", cidr.len())
        ),
    );
    store.run(&["ipam", "configure", "--strictaffinity=true"]).exits(0);
    store.run(&["get", "ipamconfig", "-o", "wide"]).prints(
        0,
        "
NAME      STRICTAFFINITY   MAXBLOCKSPERHOST   KUBEVIRTVMADDRESSPERSISTENCE   AUTOALLOCATEBLOCKS   IPCOOLDOWNSECONDS
default   true             20                 Disabled                       true                 0
",
    );
}

#[test]
fn one_resource_is_a_document_and_several_are_a_list() {
    let store = filled();
    store.run(&["get", "ippool", "small", "-o", "yaml"]).prints(
        0,
        "
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
  name: small
  resourceVersion: \"1\"
spec:
  allowedUses:
  - Workload
  - Tunnel
  assignmentMode: Automatic
  blockSize: 29
  cidr: 10.88.0.0/24
  ipipMode: Never
  nodeSelector: all()
  vxlanMode: Never
",
    );
    let list = store.run(&["get", "ippools", "-o", "json"]).json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("IPPoolList"), &json!("projectcalico.org/v3")));
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    let two = store.run(&["get", "ippools", "wide", "small", "-o", "json"]).json();
    assert_eq!(two, list);
}

#[test]
fn a_name_leads_back_to_its_resource() {
    let store = filled();
    for (kind, count) in [("ippools", 2), ("ipamblocks", 1), ("ipamhandles", 2), ("blockaffinities", 1)] {
        let names = store.run(&["get", kind, "-o", "name"]).exits(0).out.clone();
        assert_eq!(names.lines().count(), count, "{kind}: {names}");
        for name in names.lines() {
            let again = store.run(&["get", name, "-o", "name"]);
            again.prints(0, &format!("{name}\n"));
        }
    }
    let cidr = block(&store)["spec"]["cidr"].as_str().expect("a CIDR").to_owned();
    assert_eq!(store.run(&["get", "ipamblock", &cidr, "-o", "json"]).json(), block(&store));
}

#[test]
fn a_block_is_shown_as_it_is_and_not_as_its_file_lags() {
    let store = filled();
    let spec = block(&store)["spec"].clone();
    let taken = spec["allocations"].as_array().expect("a list").iter().filter(|slot| !slot.is_null()).count();
    assert_eq!(taken, 2);
    assert_eq!(spec["attributes"][1]["handle_id"], "net.b");
    assert!(spec["sequenceNumber"].is_u64(), "a number, as Calico writes it");
}

#[test]
fn what_does_not_exist_is_named_and_the_rest_is_printed() {
    let store = filled();
    store.run(&["get", "ippool", "nope", "small", "-o", "name"]).is(
        1,
        "ippool.projectcalico.org/small\n",
        "
error: IPPool `nope` does not exist
hint: run `host-affine get ippools` for those that exist
",
    );
}

#[test]
fn nothing_found_is_an_answer_and_that_is_no() {
    let store = filled();
    store.run(&["get", "nodes"]).says(1, "note: there are no nodes\n");
    store.run(&["get", "nodes", "-o", "json"]).exits(1);
    store.run(&["get", "ipamconfiguration", "default"]).says(
        1,
        "
error: IPAMConfiguration `default` does not exist
hint: every option has its default then; `host-affine ipam show --show-configuration` lists them
",
    );
    let empty = Store::new();
    empty
        .run(&["get", "ippools"])
        .says(1, "note: there is no store at DIR/store: nothing was ever assigned\n");
    assert!(!empty.path().exists());
}

#[test]
fn a_word_for_no_kind_is_answered_with_those_there_are() {
    let store = Store::new();
    store.run(&["get", "pods"]).says(
        2,
        "
error: there is no kind `pods`
  known: ipamconfiguration, ippool, ipreservation, node, blockaffinity, ipamblock, ipamhandle, ippool.ipam.miloapis.com, ipallocation, ipclaim
",
    );
}

#[test]
fn labels_and_fields_choose_what_is_listed() {
    let store = Store::new();
    for (name, labels) in
        [("n1", json!({ "zone": "north" })), ("n2", json!({ "zone": "south", "gpu": "yes" }))]
    {
        let mut node = super::support::resource("Node", name, &json!({}));
        node["metadata"]["labels"] = labels;
        store.run_with(&["apply", "-f", "-"], &node.to_string()).exits(0);
    }
    let names = |args: &[&str]| store.run(&[&["get", "nodes", "-o", "name"], args].concat()).out.clone();
    let (one, two) = ("node.projectcalico.org/n1\n", "node.projectcalico.org/n2\n");
    assert_eq!(names(&["-l", "zone=north"]), one);
    assert_eq!(names(&["-l", "zone!=north,gpu"]), two);
    assert_eq!(names(&["--selector=!has(gpu) && zone in {\"north\"}"]), one);
    assert_eq!(names(&["--field-selector=metadata.name!=n1"]), two);
    store.run(&["get", "nodes", "-l", "zone=west"]).says(1, "note: no nodes match\n");
    store.run(&["get", "nodes", "-l", "zone~north"]).says(
        2,
        "error: `--selector` is `zone~north`; expected `zone=north,gpu!=none`, `zone in (a,b)`, `gpu`, `!gpu`, or a selector of Calico such as `zone == \"north\" && !has(gpu)`\n",
    );
    store.run(&["get", "ippools", "--field-selector=spec.gateway=x"]).exits(2);
}
