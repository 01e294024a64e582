use std::path::Path;

use super::*;
use crate::netlink::{self, Answer, Fixed};

fn directory(links: &Fixed) -> (tempfile::TempDir, HostLocalDirectory<'_>) {
    let temp = tempfile::tempdir().expect("a directory");
    let directory = HostLocalDirectory::new(temp.path().to_owned(), links);
    (temp, directory)
}

#[expect(clippy::disallowed_methods, reason = "host-local's files are not the store's")]
fn record(temp: &tempfile::TempDir, name: &str, text: &str) {
    std::fs::write(temp.path().join(name), text).expect("a record");
}

fn attachment(container: &str) -> Attachment {
    Attachment { network: "n".to_owned(), container_id: container.to_owned(), ifname: "eth0".to_owned() }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn addresses(leases: &[HostLocalLease]) -> Vec<String> {
    leases.iter().map(|lease| lease.address.to_string()).collect()
}

#[test]
fn records_of_every_version_are_read() {
    let links = Fixed::default();
    let (temp, directory) = directory(&links);
    record(&temp, "10.1.0.2", "c1\r\neth1");
    record(&temp, "10.1.0.3", "c2");
    record(&temp, "fd00::5", "c3\r\neth0\r\n");
    record(&temp, "10.1.0.4", "");
    record(&temp, "last_reserved_ip.0", "10.1.0.3");
    record(&temp, "lock", "");
    let records = directory.scan(Scan::All, &|_| true).expect("records");
    let seen: Vec<_> =
        records.leases.iter().map(|l| format!("{} {} {}", l.address, l.container_id, l.ifname)).collect();
    assert_eq!(seen, ["10.1.0.2 c1 eth1", "10.1.0.3 c2 eth0", "fd00::5 c3 eth0"]);
    assert_eq!(records.nameless, [address("10.1.0.4")]);
    assert_eq!(records.dead, []);
}

#[test]
fn forget_removes_only_what_names_the_attachment() {
    let links = Fixed::default();
    let (temp, directory) = directory(&links);
    record(&temp, "10.1.0.2", "c1\r\neth0");
    record(&temp, "10.1.0.3", "c1\r\neth1");
    record(&temp, "10.1.0.4", "c2\r\neth0");
    let left = || addresses(&directory.scan(Scan::Show, &|_| true).expect("records").leases);
    directory.forget("c1", "eth0", &[address("10.1.0.4")]).expect("nothing to remove");
    assert_eq!(left(), ["10.1.0.2", "10.1.0.3", "10.1.0.4"], "a freed address whose record names another");
    directory.forget("c1", "eth0", &[]).expect("removed");
    assert_eq!(left(), ["10.1.0.3", "10.1.0.4"]);
    directory.forget("c2", "eth0", &[address("10.1.0.4"), address("10.1.0.9")]).expect("removed");
    assert_eq!(left(), ["10.1.0.3"]);
    let absent = HostLocalDirectory::new(temp.path().join("absent"), &links);
    absent.forget("c", "eth0", &[]).expect("nothing to remove");
    absent.forget("c", "eth0", &[address("10.1.0.3")]).expect("nothing to remove");
}

#[test]
fn claim_takes_nothing_from_others() {
    let links = Fixed::default();
    let (temp, directory) = directory(&links);
    record(&temp, "10.1.0.2", "c1\r\neth0");
    record(&temp, "10.1.0.3", "");
    let claim = |address_: &str, container: &str| {
        directory.claim(address(address_), &attachment(container)).expect("an outcome")
    };
    directory.look().expect("a look").expect("a directory");
    assert_eq!(claim("10.1.0.2", "c2"), Claim::Recorded);
    assert_eq!(claim("10.1.0.2", "c1"), Claim::Held);
    assert_eq!(claim("10.1.0.3", "c2"), Claim::Nameless);
    assert_eq!(claim("10.1.0.4", "c2"), Claim::Held);
    // What is marked, the store decides about: and it gives the address to another.
    assert_eq!(claim("10.1.0.4", "c3"), Claim::Held);
    let text = std::fs::read_to_string(temp.path().join("10.1.0.4")).expect("a record");
    assert_eq!(text, "c3\r\neth0", "host-local compares it byte for byte");
    directory.withdraw(&[address("10.1.0.4"), address("10.1.0.2")], &attachment("c3"));
    assert!(!temp.path().join("10.1.0.4").exists() && temp.path().join("10.1.0.2").exists());
}

#[test]
fn stamp_sees_records_added_removed_and_filled() {
    let links = Fixed::default();
    let (temp, directory) = directory(&links);
    record(&temp, "10.1.0.2", "c1\r\neth0");
    record(&temp, "10.1.0.3", "");
    let is_unchanged = || directory.look().expect("a look").expect("a directory").is_unchanged;
    let import = || {
        let records = directory.scan(Scan::Unmarked, &|_| true).expect("records");
        directory.mark(&records.leases).expect("marked");
        directory.finish(&records).expect("finished");
        records
    };
    assert!(!is_unchanged());
    assert_eq!(addresses(&import().leases), ["10.1.0.2"]);
    assert!(is_unchanged());
    directory.claim(address("10.1.0.7"), &attachment("ours")).expect("a claim");
    directory.forget("ours", "eth0", &[address("10.1.0.7")]).expect("removed");
    assert!(is_unchanged(), "our own changes are none");
    record(&temp, "10.1.0.3", "late\r\neth0");
    assert!(!is_unchanged(), "a record that was filled in");
    assert_eq!(addresses(&import().leases), ["10.1.0.3"], "what is marked is not read again");
    assert!(is_unchanged());
}

#[test]
fn lock_that_cannot_be_had_is_named() {
    let links = Fixed::default();
    let (temp, mut directory) = directory(&links);
    directory.lock_timeout = Duration::ZERO;
    record(&temp, "10.1.0.2", "c1\r\neth0");
    let other = HostLocalDirectory::new(temp.path().to_owned(), &links);
    other.scan(Scan::All, &|_| true).expect("another import, which has the lock");
    directory.look().expect("a look").expect("a directory");
    let refused = directory.claim(address("10.1.0.5"), &attachment("c")).expect_err("no lock");
    assert!(refused.to_string().starts_with("could not lock "), "{refused}");
    assert!(refused.to_string().contains("/lock"), "{refused}");
    directory.scan(Scan::All, &|_| true).expect_err("no lock");
    directory.forget("c1", "eth0", &[address("10.1.0.2")]).expect_err("no lock");
    assert!(temp.path().join("10.1.0.2").exists());
}

/// Nothing is known of some namespace.
struct Unknown;

impl Links for Unknown {
    fn addresses_of(&self, _: &Path, _: &str) -> Result<Answer, netlink::Error> {
        unreachable!("no interface is asked for")
    }

    fn host_addresses(&self) -> Result<Vec<IpAddr>, netlink::Error> {
        unreachable!("all namespaces are asked for")
    }

    fn addresses_everywhere(&self) -> Result<BTreeSet<IpAddr>, netlink::Error> {
        let question = netlink::Question::Everywhere { path: "/proc/1/ns/net".into() };
        Err(netlink::Error::Unasked { question, source: io::ErrorKind::PermissionDenied.into() })
    }
}

#[test]
fn dead_needs_old_times_and_no_namespace() {
    let used = Fixed { host: vec![address("10.1.0.3")], ..Fixed::default() };
    let (temp, mut directory) = directory(&used);
    record(&temp, "10.1.0.2", "c1\r\neth0");
    record(&temp, "10.1.0.3", "c2\r\neth0");
    record(&temp, "10.1.0.4", "");
    let scan = |directory: &HostLocalDirectory<'_>| {
        let found = directory.scan(Scan::Show, &|_| true).expect("records");
        (addresses(&found.leases), addresses(&found.dead), found.nameless.len())
    };
    let all = || vec!["10.1.0.2".to_owned(), "10.1.0.3".to_owned()];
    assert_eq!(scan(&directory), (all(), Vec::new(), 1), "of this boot");
    directory.boot_time = || None;
    assert_eq!(scan(&directory), (all(), Vec::new(), 1), "nobody knows since when");
    directory.boot_time = || Some(i64::MAX);
    assert_eq!(scan(&directory), (vec!["10.1.0.3".to_owned()], vec!["10.1.0.2".to_owned()], 1));
    let mut unknown = HostLocalDirectory::new(temp.path().to_owned(), &Unknown);
    unknown.boot_time = || Some(i64::MAX);
    assert_eq!(scan(&unknown), (all(), Vec::new(), 1), "a namespace that cannot be looked at may have any");
    // Only times before the boot count, of both kinds: a file that is put back with its old time is of this boot.
    let old = std::time::SystemTime::UNIX_EPOCH;
    File::open(temp.path().join("10.1.0.2")).and_then(|file| file.set_modified(old)).expect("a time");
    directory.boot_time = || Some(1_700_000_000);
    assert_eq!(scan(&directory), (all(), Vec::new(), 1));
}
