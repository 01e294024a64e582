//! Which store is meant.

use serde_json::{Value, json};

use super::support::{Ran, Store, feed, program};

/// A store with one pool of a name.
fn with_pool(name: &str) -> Store {
    let store = Store::new();
    store.add("a", &store.network("n1", &json!([{ "cidr": "10.88.0.0/24", "name": name }])));
    store
}

/// Names of the pools in the store that is found in an environment.
fn pools(store: &Store, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = program();
    // Whatever networks this machine has are not meant.
    command.env("NETCONFPATH", store.dir().join("absent"));
    command.envs(variables.iter().copied()).args(args).args(["get", "ippools", "-o", "name"]);
    store.ran(feed(&mut command, ""))
}

fn conf(store: &Store, file: &str, network: &Value) -> String {
    store.file(file, network)
}

#[test]
fn the_variable_names_it_unless_an_option_does() {
    let (one, two) = (with_pool("one"), with_pool("two"));
    let url = |store: &Store| format!("file://{}", store.path().display());
    let variables = [("HOST_AFFINE_DATASTORE", &*url(&one))];
    pools(&one, &[], &variables).prints(0, "ippool.projectcalico.org/one\n");
    pools(&one, &["--datastore", &url(&two)], &variables).prints(0, "ippool.projectcalico.org/two\n");
}

#[test]
fn a_network_configuration_names_it_alone_or_in_a_list() {
    let store = with_pool("one");
    let network = store.network("n1", &json!([]));
    let single = conf(&store, "net.conf", &network);
    pools(&store, &["--conf", &single], &[]).prints(0, "ippool.projectcalico.org/one\n");
    let list = json!({ "cniVersion": "1.0.0", "name": "net", "plugins": [
        { "type": "loopback" },
        { "type": "calico", "ipam": network["ipam"] },
    ] });
    let list = conf(&store, "net.conflist", &list);
    pools(&store, &["--conf", &list], &[]).prints(0, "ippool.projectcalico.org/one\n");
    let other = conf(&store, "other.conf", &json!({ "name": "x", "ipam": { "type": "host-local" } }));
    pools(&store, &["--conf", &other], &[])
        .says(2, "error: DIR/other.conf: no network in it has an `ipam` section of type `host-affine`\n");
}

#[test]
fn the_first_network_of_ours_in_the_directory_counts() {
    let (one, two) = (with_pool("one"), with_pool("two"));
    let dir = one.dir().join("net.d");
    conf(&one, "net.d/05-other.conf", &json!({ "name": "x", "ipam": { "type": "host-local" } }));
    conf(
        &one,
        "net.d/10-a.conflist",
        &json!({ "name": "x", "cniVersion": "1.0.0", "plugins": [
        { "type": "calico", "ipam": one.network("n1", &json!([]))["ipam"] },
    ] }),
    );
    conf(&one, "net.d/20-b.conf", &two.network("n1", &json!([])));
    let dir = dir.display().to_string();
    pools(&one, &[], &[("NETCONFPATH", &dir)]).prints(0, "ippool.projectcalico.org/one\n");
    std::fs::remove_file(one.dir().join("net.d/10-a.conflist")).expect("removed");
    pools(&one, &[], &[("NETCONFPATH", &dir)]).prints(0, "ippool.projectcalico.org/two\n");
}

#[test]
fn what_names_no_store_is_refused_by_name() {
    let store = Store::new();
    pools(&store, &["--datastore", "kubernetes://"], &[]).says(
        2,
        "
error: a datastore of type `kubernetes` is not served by this version
hint: use a file store, `--datastore file:///var/lib/cni/host-affine`, or etcd, `--datastore etcd://HOST:PORT`
",
    );
    pools(&store, &[], &[("DATASTORE_TYPE", "etcdv3")]).says(
        2,
        "error: `DATASTORE_TYPE` in the environment is `etcdv3`; expected `ETCD_ENDPOINTS` beside it, such as `http://127.0.0.1:2379`\n",
    );
    pools(&store, &["--datastore", "store"], &[]).says(
        2,
        "error: `--datastore` is `store`; expected `file:///DIRECTORY`, `etcd://HOST:PORT[,HOST:PORT…]`, `etcds://HOST:PORT[,…]` or `kubernetes://`\n",
    );
    pools(&store, &["--datastore", "file:///x", "--conf", "/y"], &[])
        .says(2, "error: `--conf` beside `--datastore` is `/y`; expected one of the two\n");
    pools(&store, &["--conf", "/nowhere/x.conf"], &[])
        .says(2, "error: could not read /nowhere/x.conf: No such file or directory (os error 2)\n");
}
