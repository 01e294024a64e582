use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// Named on the command line of a test process that is in a namespace of its own. To the test runner it is one
/// more name to look for, which no test has.
const INSIDE: &str = "inside-a-namespace-of-its-own";

/// What the namespace that the question comes from has; then the process becomes the test itself.
const SET_UP_ASKER: &str = r#"set -e
ip address add 198.51.100.1 peer 198.51.100.2/32 dev lo
ip address add 198.51.100.7/24 dev lo
ip address add 127.0.0.5/8 dev lo
ip address add 169.254.9.9/16 dev lo
if [ -e /proc/net/if_inet6 ]; then
    ip address add fd00:9::7/64 dev lo
    ip address add fe80::9/64 dev lo
fi
exec "$@""#;

/// What the namespace that is asked about has; it lives until its standard input ends.
const SET_UP_ASKED: &str = r"set -e
ip address add 192.0.2.7/26 dev lo
ip address add 192.0.2.129 peer 192.0.2.130/32 dev lo
[ ! -e /proc/net/if_inet6 ] || ip address add fd00:77::7/122 dev lo
echo ready
read -r line || true";

fn question(netns: &Path, ifname: &str) -> Answer {
    Rtnetlink.addresses_of(netns, ifname).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Needs no privilege but the kernel's leave to make a user namespace; says so where that is not given.
#[test]
fn addresses_are_those_of_the_namespace_that_was_named() {
    if std::env::args().any(|argument| argument == INSIDE) {
        inside();
        return;
    }
    // Not the thread's name: with one thread for all tests that is `main`.
    let module = module_path!().split_once("::").expect("below the crate").1;
    let name = format!("{module}::addresses_are_those_of_the_namespace_that_was_named");
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--map-root-user").arg("--net");
        command
    };
    let may = unshare().args(["ip", "address", "add", "192.0.2.1/24", "dev", "lo"]).output();
    if !may.as_ref().is_ok_and(|output| output.status.success()) {
        let why = "`unshare --map-root-user --net ip address add ...` does not work here";
        let skipped = format!("skipped {name}: {why}: {may:?}\n");
        io::stderr().write_all(skipped.as_bytes()).expect("standard error");
        return;
    }
    let inside = unshare()
        .args(["sh", "-c", SET_UP_ASKER, "sh"])
        .arg(std::env::current_exe().expect("the test knows its file"))
        .args(["--exact", &name, INSIDE])
        .output()
        .expect("unshare ran before");
    let text =
        format!("{}{}", String::from_utf8_lossy(&inside.stdout), String::from_utf8_lossy(&inside.stderr));
    assert!(inside.status.success() && text.contains("1 passed"), "{text}");
}

fn inside() {
    let mut asked = Command::new("unshare")
        .args(["--net", "sh", "-c", SET_UP_ASKED])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare runs in here");
    let mut line = String::new();
    BufReader::new(asked.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let netns = PathBuf::from(format!("/proc/{}/ns/net", asked.id()));
    let ipv6 = Path::new("/proc/net/if_inet6").exists();
    let parsed = |text: &str| -> IpAddr { text.parse().expect(text) };

    let mut expected = vec![(parsed("192.0.2.7"), 26), (parsed("192.0.2.129"), 32)];
    expected.extend(ipv6.then(|| (parsed("fd00:77::7"), 122)));
    let Answer::Addresses(mut found) = question(&netns, "lo") else { panic!("`lo` is in every namespace") };
    found.sort_unstable_by_key(|&(address, prefix)| (expected.iter().position(|e| e.0 == address), prefix));
    assert_eq!(found, expected);
    assert_eq!(question(&netns, "eth0"), Answer::NoInterface);
    assert_eq!(question(&netns, ""), Answer::NoInterface);
    assert_eq!(question(&netns, "longer-than-15-bytes"), Answer::NoInterface);

    // Asked last: the thread that asks has not moved.
    let mut expected = vec![parsed("198.51.100.1"), parsed("198.51.100.7")];
    expected.extend(ipv6.then(|| parsed("fd00:9::7")));
    assert_eq!(Rtnetlink.host_addresses().expect("the kernel answers"), expected);

    drop(asked.stdin.take());
    assert!(asked.wait().expect("it ends").success());
    assert!(matches!(question(&netns, "lo"), Answer::NoNamespace { .. }), "it went with its last process");
}

#[test]
fn what_is_no_namespace_is_an_answer_and_not_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    File::create(&file).expect("a file");
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR).expect("a pipe");
    for (path, reason) in [
        (directory.path().join("absent"), Errno::ENOENT),
        (file.join("below"), Errno::ENOTDIR),
        (file, Errno::EINVAL),
        (pipe, Errno::EINVAL),
        (directory.path().to_owned(), Errno::EINVAL),
        (PathBuf::new(), Errno::ENOENT),
    ] {
        assert_eq!(question(&path, "lo"), Answer::NoNamespace { reason }, "{}", path.display());
    }
}

#[test]
fn a_question_may_come_from_a_thread_that_runs_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answer = runtime.block_on(async { Rtnetlink.host_addresses() });
    for address in answer.expect("the kernel answers") {
        assert!(!is_on_every_host(address), "{address}");
    }
}

#[test]
fn only_a_reason_that_lies_in_the_path_means_no_namespace() {
    for reason in [Errno::ENOENT, Errno::EINVAL, Errno::EPERM, Errno::EACCES] {
        assert!(is_no_namespace(reason), "{reason}");
    }
    for reason in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EIO] {
        assert!(!is_no_namespace(reason), "{reason}");
    }
}

#[test]
fn the_local_address_comes_before_the_other_ends() {
    let (ours, theirs): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let message = |attributes| {
        let mut message = AddressMessage::default();
        message.header.prefix_len = 32;
        message.attributes = attributes;
        message
    };
    let both = message(vec![AddressAttribute::Address(theirs), AddressAttribute::Local(ours)]);
    assert_eq!(own_address(&both), Some((ours, 32)));
    assert_eq!(own_address(&message(vec![AddressAttribute::Address(theirs)])), Some((theirs, 32)));
    assert_eq!(own_address(&message(vec![AddressAttribute::Label("lo".to_owned())])), None);
}
