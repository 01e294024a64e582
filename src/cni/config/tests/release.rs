use super::*;
use crate::cni::result::check_expressible;
use crate::net::Family;

fn del(members: &str, args: &str) -> NetConf {
    let text = format!(r#"{{"cniVersion":"1.0.0","name":"n"{members}}}"#);
    read(&text, Verb::Del, args).unwrap_or_else(|failure| panic!("{members}: {failure}"))
}

#[test]
fn nothing_that_add_would_refuse_stops_a_delete() {
    for members in [
        "",
        r#","ipam":"host-local""#,
        r#","ipam":[]"#,
        r#","ipam":{"subnet":"not-a-subnet"}"#,
        r#","ipam":{"subnet":"0.0.0.0/0","ranges":5,"routes":"x","pools":[{"cidr":7,"x":1}],"gateway":{}}"#,
        r#","ipam":{"assign_ipv4":"maybe","addressing":3,"ipv4_pools":9,"lock_timeout_seconds":"x","dns":[]}"#,
        r#","ipam":{"nodename":"a b","log_level":5},"type":7,"log_file_path":[],"ipam_lock_file":{},"kubernetes":1"#,
        r#","ipam":{},"runtimeConfig":{"ips":["banana"],"ipRanges":"x"},"args":{"cni":{"ips":["192.0.2.1"]}}"#,
        r#","ipam":{},"runtimeConfig":5,"args":7"#,
        r#","ipam":{},"prevResult":{"cniVersion":"7.7","ips":"nonsense","interfaces":5}"#,
        r#","ipam":{},"prevResult":"nonsense","cni.dev/valid-attachments":"all""#,
        r#","ipam":{"datastore":{"unknown":1}}"#,
    ] {
        let conf = del(members, "IP=banana;=;;x;FOO=BAR");
        assert_eq!(conf.datastore, DatastoreConf::default(), "{members}");
        assert_eq!((conf.name.as_str(), conf.lock_timeout), ("n", LOCK_TIMEOUT));
    }
}

#[test]
fn a_delete_knows_who_is_meant_and_where() {
    let conf = del(
        r#","type":"bridge","nodename":"node-a","ipam":{"dataDir":"/data","lock_timeout_seconds":5,"subnet":"x","kubevirt":{"vmRetention":"1h"}},
            "runtimeConfig":{"ips":5,"io.kubernetes.cri.pod-annotations":{"kubevirt.io/domain":"db"}},"args":{"cni":{"vm":{"name":"db"}}}"#,
        "x;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=web-0;IPAM_VM_DELETING=1",
    );
    assert_eq!(conf.datastore, DatastoreConf::File(FileConf::at("/data".into())));
    assert_eq!(conf.node.nodename.as_deref(), Some("node-a"));
    assert_eq!(conf.lock_timeout, Duration::from_secs(5));
    assert_eq!(conf.request.pod.map(|pod| pod.name).as_deref(), Some("web-0"));
    assert_eq!(conf.request.args.vm.len(), 1);
    assert_eq!(conf.request.vm.as_deref(), Some(r#"{"name":"db"}"#));
    assert_eq!(conf.request.annotations.len(), 1);
    assert_eq!(conf.ipam.kubevirt.vm_retention, Some(std::time::Duration::from_secs(3600)));
}

#[test]
fn a_delete_that_cannot_tell_the_store_is_no_success() {
    for (members, says) in [
        (r#""ipam":{"datastore":{"type":"etcd2"}}"#, "`ipam.datastore.type` is `etcd2`"),
        (r#""ipam":{"dataDir":5}"#, "`ipam.dataDir` is `5`"),
        (
            r#""ipam":{"datastore":{"path":"store"}}"#,
            "`ipam.datastore.path` is `store`; expected an absolute path",
        ),
    ] {
        refused(read(&format!(r#"{{"name":"n",{members}}}"#), Verb::Del, ""), 7, says);
    }
    refused(read(r#"{"name":"../x","ipam":{}}"#, Verb::Del, ""), 7, "`name`");
}

#[test]
fn collection_frees_nothing_unless_the_runtime_says_what_is_valid() {
    let gc = |members: &str| {
        let text = format!(r#"{{"cniVersion":"1.1.0","name":"n","ipam":{{"subnet":"x"}}{members}}}"#);
        read(&text, Verb::Gc, "").map(|conf| conf.valid_attachments)
    };
    let entry = r#"{"containerID":"a","ifname":"eth0"}"#;
    let attachment = Attachment { container_id: "a".into(), ifname: "eth0".into() };
    let list =
        |entries: &str| gc(&format!(r#","cni.dev/valid-attachments":{entries},"cni.dev/attachments":[5]"#));
    assert_eq!(gc(""), Ok(ValidAttachments::Absent));
    assert_eq!(
        gc(&format!(r#","cni.dev/attachments":[{entry}]"#)),
        Ok(ValidAttachments::Absent),
        "the historic key"
    );
    assert_eq!(list("[]"), Ok(ValidAttachments::List(vec![])));
    assert_eq!(list("null"), Ok(ValidAttachments::List(vec![])));
    assert_eq!(list(&format!("[{entry}]")), Ok(ValidAttachments::List(vec![attachment])));
    let hostile = list(r#"[{"containerID":"../../x","ifname":"eth0"}]"#);
    assert!(matches!(hostile, Ok(ValidAttachments::List(list)) if list.len() == 1), "it matches nothing");
    for (bad, says) in [
        ("\"all\"", "`\"cni.dev/valid-attachments\"` is `all`; expected a list"),
        (&format!("[5,{entry}]"), "`\"cni.dev/valid-attachments\"[0]` is `5`; expected an object"),
        (r#"[{"containerID":"a"}]"#, "`\"cni.dev/valid-attachments\"[0]` has no `ifname`"),
        (r#"[{"containerID":"","ifname":"eth0"}]"#, "has no `containerID`"),
        (r#"[{"containerID":7,"ifname":"eth0"}]"#, "`\"cni.dev/valid-attachments\"[0].containerID` is `7`"),
    ] {
        let failure = list(bad).expect_err(bad);
        assert!(failure.msg.contains(says), "{}", failure.msg);
        assert_eq!(failure.code.number(), 7);
    }
}

#[test]
fn a_check_needs_the_previous_result() {
    let check = |members: &str| {
        read(
            &format!(r#"{{"cniVersion":"1.0.0","name":"n","ipam":{{"subnet":"x"}}{members}}}"#),
            Verb::Check,
            "IP=banana",
        )
    };
    refused(check(""), 7, "`prevResult` is missing, which CHECK needs");
    refused(check(r#","prevResult":null"#), 7, "`prevResult` is missing");
    refused(check(r#","prevResult":"nonsense""#), 7, "`prevResult` is a string");
    let conf = check(r#","prevResult":{"ips":[{"address":"10.0.0.5/24"}]}"#).expect("good");
    assert!(conf.prev_result.is_some_and(|previous| previous.contains("10.0.0.5".parse().expect("address"))));
}

#[test]
fn status_refuses_what_add_would_refuse() {
    let status = |section: &str| {
        read(&format!(r#"{{"cniVersion":"1.1.0","name":"n","ipam":{section}}}"#), Verb::Status, "")
    };
    refused(status(r#"{"subnet":"not-a-subnet"}"#), 7, "`ipam.subnet`");
    assert_eq!(status("{}").expect("ranges may come with ADD").ipam.dialect, Dialect::Stored);
}

#[test]
fn two_addresses_of_a_family_are_seen_before_anything_is_assigned() {
    let conf = ipam(r#"{"ranges":[[{"subnet":"10.77.7.0/24"}],[{"subnet":"10.77.8.0/24"}]]}"#).expect("good");
    let families: Vec<Family> =
        conf.ipam.slots(&conf.request).expect("slots").iter().map(|slot| slot.family).collect();
    assert!(check_expressible(Version::V0_2_0, families.iter().copied()).is_err());
    assert!(check_expressible(Version::V0_3_0, families).is_ok());
}
