//! Who is believed to be whom: certificates and passwords.

use host_affine::datastore::etcd::{EtcdOptions, Password};
use host_affine::datastore::{Class, Commit, Fault, Key, Want};
use serde_json::json;

use super::{cidr, commit, fault, get, handle, held, need_etcd, open, options, read};
use crate::cli::support::resource;
use crate::support::cni::{Answer, Call, Network, skip};
use crate::support::etcd::{Certificates, Server, Start, try_ask};

fn refused(options: &EtcdOptions) -> (Fault, Class, String) {
    let mut store = open(options);
    fault(&read(&mut store, &[Want::Settings]).expect_err("it must be refused"))
}

#[test]
fn certificates_open_the_way_and_nothing_else_does() {
    need_etcd!();
    let Some(certificates) = Certificates::make() else { return skip("there is no `openssl`") };
    let server = Server::start_with(&Start { tls: Some(&certificates), ..Start::default() });
    let file = |name: &str| Some(certificates.path(name));
    let good = EtcdOptions {
        ca_cert_file: file("ca.pem"),
        cert_file: file("client.pem"),
        key_file: file("client.key"),
        ..options(&[server.url()])
    };
    let mut store = open(&good);
    read(&mut store, &[Want::Settings]).expect("it is read");
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Applied);
    assert!(get(&mut store, Key::Handle(handle("h"))).is_some());
    let port = server.address().rsplit_once(':').expect("a port").1;
    let by_name = EtcdOptions { endpoints: vec![format!("https://localhost:{port}")], ..good.clone() };
    assert!(read(&mut open(&by_name), &[Want::Settings]).is_ok());
    let stranger =
        EtcdOptions { cert_file: file("stranger.pem"), key_file: file("stranger.key"), ..good.clone() };
    let nobody = EtcdOptions { cert_file: None, key_file: None, ..good.clone() };
    let other_authority = EtcdOptions { ca_cert_file: file("other-ca.pem"), ..good.clone() };
    let plain = EtcdOptions { endpoints: vec![server.url().replace("https", "http")], ..good.clone() };
    assert!(refused(&plain).2.contains("`https`"));
    for (what, options) in [("stranger", stranger), ("nobody", nobody), ("authority", other_authority)] {
        let (fault, class, said) = refused(&options);
        assert_eq!((fault, class), (Fault::Untrusted, Class::Refused), "{what}: {said}");
        assert!(said.contains(server.address()), "{said}");
    }
    let no_tls = Server::start();
    let tls_to_none = EtcdOptions { endpoints: vec![no_tls.url().replace("http", "https")], ..good.clone() };
    assert_eq!(refused(&tls_to_none).0, Fault::Untrusted);
    for (options, names) in [
        (EtcdOptions { ca_cert_file: file("none.pem"), ..good.clone() }, "none.pem"),
        (EtcdOptions { ca_cert_file: file("client.key"), ..good.clone() }, "client.key"),
        (EtcdOptions { key_file: file("client.pem"), ..good.clone() }, "client.pem"),
        (EtcdOptions { key_file: None, ..good.clone() }, "client.pem"),
    ] {
        let error = host_affine::datastore::etcd::EtcdStore::open(&options).expect_err("it must be refused");
        let (fault, _, said) = fault(&error);
        assert_eq!(fault, Fault::Options);
        assert!(said.contains(names), "{said}");
    }
}

/// Users `root` and `ipam`, and a role that may do what we do; log-ins are asked for from now on.
fn with_users(server: &Server) {
    for (path, request) in [
        ("/v3/auth/user/add", json!({ "name": "root", "password": "r" })),
        ("/v3/auth/role/add", json!({ "name": "root" })),
        ("/v3/auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("/v3/auth/user/add", json!({ "name": "ipam", "password": "p w" })),
        ("/v3/auth/role/add", json!({ "name": "ipam" })),
        (
            "/v3/auth/role/grant",
            json!({ "name": "ipam", "perm": { "permType": "READWRITE", "key": "L2NhbGljby8=", "range_end": "L2NhbGljbzA=" } }),
        ),
        (
            "/v3/auth/role/grant",
            json!({ "name": "ipam", "perm": { "permType": "READWRITE", "key": "L2hvc3QtYWZmaW5lLw==", "range_end": "L2hvc3QtYWZmaW5lMA==" } }),
        ),
        ("/v3/auth/user/grant", json!({ "user": "ipam", "role": "ipam" })),
        ("/v3/auth/user/add", json!({ "name": "guest", "password": "g" })),
        ("/v3/auth/enable", json!({})),
    ] {
        server.ask(path, &request);
    }
}

fn as_user(server: &Server, name: &str, password: &str) -> EtcdOptions {
    EtcdOptions {
        username: Some(name.to_owned()),
        password: Some(Password::Text(password.to_owned())),
        ..options(&[server.url()])
    }
}

#[test]
fn a_user_logs_in_and_again_when_the_users_change() {
    need_etcd!();
    let server = Server::start();
    // Who names a user before anybody is asked for one is served too.
    assert!(read(&mut open(&as_user(&server, "ipam", "p w")), &[Want::Settings]).is_ok());
    with_users(&server);
    let mut store = open(&as_user(&server, "ipam", "p w"));
    assert_eq!(commit(&mut store, held("h", "10.0.0.0/30")).expect("no error"), Commit::Applied);
    let (status, token) =
        try_ask(server.address(), "/v3/auth/authenticate", &json!({ "name": "root", "password": "r" }));
    assert_eq!(status, 200, "{token}");
    server.change_users_as_root("r");
    assert!(get(&mut store, Key::Handle(handle("h"))).is_some());
    server.change_users_as_root("r");
    assert_eq!(commit(&mut store, held("i", "10.0.0.0/30")).expect("no error"), Commit::Applied);
}

#[test]
fn a_user_who_may_not_is_told_what_to_ask_for() {
    need_etcd!();
    let server = Server::start();
    with_users(&server);
    let nobody = options(&[server.url()]);
    let wrong = as_user(&server, "ipam", "wrong");
    let guest = as_user(&server, "guest", "g");
    for (what, options) in [("nobody", nobody), ("wrong", wrong), ("guest", guest)] {
        let (fault, class, said) = refused(&options);
        assert_eq!((fault, class), (Fault::Denied, Class::Refused), "{what}: {said}");
        assert!(said.contains(server.address()) && said.contains("/host-affine/"), "{said}");
        assert!(!said.contains("wrong"), "no password is told: {said}");
    }
}

/// What a person types who has these variables.
fn typed(words: &[&str], variables: &[(&'static str, String)], stdin: &str) -> Answer {
    let call = Call::typed(words, stdin);
    variables.iter().fold(call, |call, (name, value)| call.variable(name, value)).run()
}

/// A pool, as a person's manifest.
fn pool() -> String {
    resource("IPPool", "pods", &json!({ "cidr": "10.66.0.0/24", "blockSize": 28 })).to_string()
}

#[test]
fn certificates_are_taken_from_a_calico_configuration_and_from_calicos_variables() {
    need_etcd!();
    let Some(certificates) = Certificates::make() else { return skip("there is no `openssl`") };
    let server = Server::start_with(&Start { tls: Some(&certificates), ..Start::default() });
    let file = |name: &str| certificates.path(name).display().to_string();
    let ours = [("CA_CERT_FILE", "ca.pem"), ("CERT_FILE", "client.pem"), ("KEY_FILE", "client.key")]
        .map(|(n, f)| (n, file(f)));
    let plain = [("ETCD_CA_CERT_FILE", 0), ("ETCD_CERT_FILE", 1), ("ETCD_KEY_FILE", 2)]
        .map(|(n, at)| (n, ours[at].1.clone()));
    let url = format!("--datastore=etcds://{}", server.address());
    typed(&[&url, "apply", "-f", "-"], &plain, &pool()).succeeded();
    // All of it from variables, and the longer name before the shorter.
    let mut longer =
        [("CALICO_ETCD_CA_CERT_FILE", 0), ("CALICO_ETCD_CERT_FILE", 1), ("CALICO_ETCD_KEY_FILE", 2)]
            .map(|(n, at)| (n, ours[at].1.clone()))
            .to_vec();
    longer.extend([
        ("CALICO_ETCD_ENDPOINTS", server.url()),
        ("ETCD_ENDPOINTS", "http://127.0.0.1:1".to_owned()),
        ("ETCD_CERT_FILE", "/does/not/exist".to_owned()),
    ]);
    assert!(typed(&["get", "ippools"], &longer, "").succeeded().stdout.contains("10.66.0.0/24"));
    let without = typed(&[&url, "get", "ippools"], &plain[..1], "");
    assert!(!without.is_success() && without.stderr.contains(server.address()), "{}", without.stderr);
    // What was written for `calico-ipam`.
    let conf = json!({
        "cniVersion": "1.0.0", "name": "calico", "type": "calico", "nodename": "node-1",
        "datastore_type": "etcdv3", "etcd_endpoints": format!("{},{}", server.url(), server.url()),
        "etcd_ca_cert_file": ours[0].1, "etcd_cert_file": ours[1].1, "etcd_key_file": ours[2].1,
        "ipam": { "type": "host-affine" },
    });
    let address = Network::of(&conf).add("c").address();
    assert!(cidr("10.66.0.0/24").contains_address(address));
    Network::of(&conf).del("c").succeeded();
    let stranger = Network::of(&conf)
        .with_top("etcd_cert_file", file("stranger.pem"))
        .with_top("etcd_key_file", file("stranger.key"));
    stranger.add("d").refused().says(&[server.address(), "certificate"]);
}

#[test]
fn a_user_is_taken_from_the_configuration_and_from_calicos_variables() {
    need_etcd!();
    let server = Server::start();
    with_users(&server);
    let url = format!("--datastore=etcd://{}", server.address());
    let variables =
        |password: &str| [("ETCD_USERNAME", "ipam".to_owned()), ("ETCD_PASSWORD", password.to_owned())];
    typed(&[&url, "apply", "-f", "-"], &variables("p w"), &pool()).succeeded();
    for refused in
        [typed(&[&url, "get", "ippools"], &[], ""), typed(&[&url, "get", "ippools"], &variables("wrong"), "")]
    {
        assert!(!refused.is_success() && refused.stderr.contains(server.address()), "{}", refused.stderr);
        assert!(!refused.stderr.contains("wrong"), "no password is told: {}", refused.stderr);
    }
    let folder = tempfile::tempdir().expect("a directory");
    let password = folder.path().join("password");
    std::fs::write(&password, "p w\n").expect("a file");
    let datastore = json!({
        "type": "etcdv3", "endpoints": [server.url()], "username": "ipam", "passwordFile": password,
    });
    let network = Network::of(&json!({
        "cniVersion": "1.1.0", "name": "users", "type": "bridge",
        "ipam": { "type": "host-affine", "nodename": "node-1", "datastore": datastore },
    }));
    network.add("c").address();
    std::fs::write(&password, "wrong").expect("a file");
    let refusal = network.add("d").refused();
    assert_eq!(refusal.code, 100);
    refusal.says(&[server.address(), "ipam"]);
    std::fs::remove_file(&password).expect("gone");
    let refusal = network.add("d").refused();
    assert_eq!(refusal.code, 7, "who cannot be asked with what is configured is not asked again");
    refusal.says(&["password"]);
}
