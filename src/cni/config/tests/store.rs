use super::*;

/// The store of a configuration with these members at the top level and in `ipam`.
fn store(top: &str, own: &str) -> DatastoreConf {
    conf(top, own).unwrap_or_else(|failure| panic!("{top} {own}: {failure}")).datastore
}

fn conf(top: &str, own: &str) -> Result<NetConf, Failure> {
    add(&format!(r#"{{"name":"n",{top}"ipam":{{{own}}}}}"#))
}

fn file(path: &str) -> DatastoreConf {
    DatastoreConf::File(FileConf::at(path.into()))
}

#[test]
fn the_store_is_a_directory_unless_it_is_said_otherwise() {
    for (own, path) in [
        ("", FILE_STORE_PATH),
        (r#""dataDir":"/data""#, "/data"),
        (r#""dataDir":"""#, FILE_STORE_PATH),
        (r#""datastore":{}"#, FILE_STORE_PATH),
        (r#""datastore":{"path":"/store"},"dataDir":"/data""#, "/store"),
        (r#""datastore":{"type":"file"},"dataDir":"/data""#, "/data"),
    ] {
        assert_eq!(store("", own), file(path), "{own}");
    }
    assert_eq!(
        store(
            "",
            r#""datastore":{"type":"file","path":"/s","durability":"process","allowNetworkFilesystem":true}"#
        ),
        DatastoreConf::File(FileConf {
            path: "/s".into(),
            durability: Durability::Process,
            allow_network_filesystem: true
        })
    );
    let conf = conf("", r#""datastore":{"path":"/s"},"dataDir":"/data""#).expect("good");
    assert_eq!(conf.ipam.host_local_dir(&conf.name), PathBuf::from("/data/n"));
    assert_eq!(IpamConf::default().host_local_dir("n"), PathBuf::from("/var/lib/cni/networks/n"));
}

#[test]
fn an_etcd_cluster_is_named_in_our_words_or_in_calicos() {
    let ours = store(
        "",
        r#""datastore":{"type":"etcdv3","endpoints":["https://a:2379","https://b:2379"],"caCertFile":"/ca","certFile":"/crt",
            "keyFile":"/key","username":"u","passwordFile":"/pw"}"#,
    );
    let wanted = EtcdConf {
        endpoints: vec!["https://a:2379".into(), "https://b:2379".into()],
        ca_cert_file: Some("/ca".into()),
        cert_file: Some("/crt".into()),
        key_file: Some("/key".into()),
        username: Some("u".into()),
        password_file: Some("/pw".into()),
    };
    assert_eq!(ours, DatastoreConf::Etcd(wanted.clone()));
    let calicos = r#""datastore_type":"etcdv3","etcd_endpoints":"https://a:2379, https://b:2379,","etcd_key_file":"/key",
        "etcd_cert_file":"/crt","etcd_ca_cert_file":"/ca","#;
    let wanted = DatastoreConf::Etcd(EtcdConf { username: None, password_file: None, ..wanted });
    assert_eq!(store(calicos, ""), wanted);
    assert_eq!(store(calicos, r#""dataDir":"/data""#), wanted, "dataDir is a directory of host-local's then");
    assert_eq!(store(calicos, r#""datastore":{"path":"/s"}"#), file("/s"), "our own section counts first");
    let short = r#""etcd_endpoints":"http://a:2379","#;
    assert!(matches!(store(short, ""), DatastoreConf::Etcd(_)), "Calico's default type");
    assert!(matches!(store("", r#""datastore":{"endpoints":"http://a:2379"}"#), DatastoreConf::Etcd(_)));
}

#[test]
fn a_cluster_is_named_by_its_kubeconfig() {
    let kubernetes = |path: &str| DatastoreConf::Kubernetes(KubernetesConf { kubeconfig: Some(path.into()) });
    assert_eq!(store("", r#""datastore":{"type":"kubernetes","kubeconfig":"/k"}"#), kubernetes("/k"));
    let calicos = r#""datastore_type":"kubernetes","kubernetes":{"kubeconfig":"/k","k8s_api_root":"x"},"#;
    assert_eq!(store(calicos, ""), kubernetes("/k"));
    assert_eq!(conf(calicos, "").expect("good").kubeconfig, Some("/k".into()));
}

#[test]
fn a_store_that_cannot_be_meant_is_refused_by_name() {
    for (top, own, code, says) in [
        (
            "",
            r#""datastore":{"type":"etcd2"}"#,
            7,
            "network config: `ipam.datastore.type` is `etcd2`; expected `file`, `etcdv3` or `kubernetes`",
        ),
        ("", r#""datastore":"file""#, 7, "`ipam.datastore` is `file`; expected an object"),
        (
            "",
            r#""datastore":{"durabilty":"process"}"#,
            2,
            "`ipam.datastore.durabilty` with value `process` is not supported; did you mean `durability`?",
        ),
        (
            "",
            r#""datastore":{"durability":"disk"}"#,
            7,
            "`ipam.datastore.durability` is `disk`; expected `power` or `process`",
        ),
        (
            "",
            r#""datastore":{"path":"store"}"#,
            7,
            "`ipam.datastore.path` is `store`; expected an absolute path",
        ),
        ("", r#""dataDir":"store""#, 7, "`ipam.dataDir` is `store`; expected an absolute path"),
        (
            "",
            r#""datastore":{"type":"file","endpoints":["x"]}"#,
            2,
            "`ipam.datastore.endpoints` with value `[\"x\"]`",
        ),
        ("", r#""datastore":{"type":"etcdv3"}"#, 7, "`ipam.datastore` has no `endpoints`"),
        ("", r#""datastore":{"type":"etcdv3","endpoints":[5]}"#, 7, "`ipam.datastore.endpoints[0]` is `5`"),
        (r#""datastore_type":"etcdv3","#, "", 7, "`etcd_endpoints` names no endpoint"),
        (r#""datastore_type":"consul","#, "", 7, "`datastore_type` is `consul`"),
    ] {
        refused(conf(top, own), code, says);
    }
}

#[test]
fn the_hosts_name_is_set_in_either_place() {
    let node = |top: &str, own: &str| conf(top, own).expect("good").node;
    assert_eq!(node("", ""), NodeConf::default());
    let top =
        node(r#""nodename":"a","nodename_file":"/f","nodename_file_optional":true,"hostname":"h","#, "");
    let wanted = NodeConf {
        nodename: Some("a".into()),
        nodename_file: Some("/f".into()),
        nodename_file_optional: true,
        hostname: Some("h".into()),
    };
    assert_eq!(top, wanted);
    assert_eq!(node(r#""nodename":"a","#, r#""nodename":" b\n""#).nodename.as_deref(), Some("b"));
    assert_eq!(node(r#""nodename":"","#, "").nodename, None);
    refused(conf(r#""nodename":"a b","#, ""), 7, "`nodename` is `a b`; expected a host name");
}

#[test]
fn a_call_waits_for_the_lock_as_long_as_it_is_told() {
    let wait = |own: &str| conf("", own).expect("good").lock_timeout;
    assert_eq!(wait(""), Duration::from_secs(60));
    assert_eq!(wait(r#""lock_timeout_seconds":0"#), Duration::ZERO);
    refused(conf("", r#""lock_timeout_seconds":-1"#), 7, "`ipam.lock_timeout_seconds` is `-1`");
    assert_eq!(conf(r#""ipam_lock_file":"/l","#, "").expect("good").lock_file, Some("/l".into()));
}
