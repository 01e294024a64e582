//! Each row of the table in the module's head, and of the rule for whose an attachment is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::api::HostName;
use crate::ipam::owner::key;

const DAY: u64 = 86_400_000_000_000;
/// The present boot began here.
const BEGAN: u64 = 20_600 * DAY;
const ID: FileId = FileId { device: 4, inode: 4_026_532_281, born: None };
const OTHER_ID: FileId = FileId { device: 4, inode: 4_026_532_999, born: None };
const DIR: FileId = FileId { device: 25, inode: 7, born: Some(5) };
const PIDS: u64 = 4_026_531_836;
const START: ProcessId = ProcessId { start: 4711, pid_namespace: PIDS };

/// A system as a table. Paths and processes that are not in it do not exist.
#[derive(Default)]
struct System {
    files: BTreeMap<PathBuf, Probe<NamespaceFile>>,
    directories: BTreeMap<PathBuf, Probe<FileId>>,
    processes: BTreeMap<u32, Probe<ProcessId>>,
    pids: Option<u64>,
    /// Namespaces with processes; `None`: not all processes can be seen.
    inhabited: Option<Vec<u64>>,
}

impl Namespaces for System {
    fn file(&self, path: &Path) -> Probe<NamespaceFile> {
        self.files.get(path).cloned().unwrap_or(Probe::Absent)
    }

    fn directory(&self, path: &Path) -> Probe<FileId> {
        self.directories.get(path).cloned().unwrap_or(Probe::Absent)
    }

    fn process(&self, pid: u32) -> Probe<ProcessId> {
        self.processes.get(&pid).cloned().unwrap_or(Probe::Absent)
    }

    fn pid_namespace(&self) -> Option<u64> {
        self.pids
    }

    fn inhabited(&self, id: FileId) -> Inhabited {
        match &self.inhabited {
            Some(seen) if seen.contains(&id.inode) => Inhabited::Yes,
            Some(_) => Inhabited::No,
            None => Inhabited::NotSeen,
        }
    }

    fn booted(&self) -> Option<Timestamp> {
        None
    }
}

impl System {
    /// `/run/netns` is the noted directory.
    fn with_directory() -> Self {
        Self { directories: [("/run/netns".into(), Probe::Found(DIR))].into(), ..Self::default() }
    }

    fn file(mut self, path: &str, id: FileId, is_namespace: bool) -> Self {
        self.files.insert(path.into(), Probe::Found(NamespaceFile { id, is_namespace }));
        self
    }
}

fn host() -> Host {
    Host {
        boot: Some("now".into()),
        booted: Some(Timestamp::from_nanos(BEGAN)),
        netns: Some(OTHER_ID),
        ..Host::named(HostName::new("n1").expect("a name"))
    }
}

/// The notes of an ADD of this boot, an hour after its beginning, in `/run/netns/x`.
fn notes() -> BTreeMap<String, String> {
    let netns = Netns { path: "/run/netns/x".into(), id: Some(ID), directory: Some(DIR), process: None };
    let mut notes = BTreeMap::new();
    crate::ipam::provenance::note(&mut notes, &host(), Some(&netns));
    with(notes, &[("node", "n1"), ("network", "net"), ("timestamp", &made(BEGAN + DAY / 24))])
}

fn made(nanos: u64) -> String {
    Timestamp::from_nanos(nanos).to_go_string()
}

fn with(mut notes: BTreeMap<String, String>, changes: &[(&str, &str)]) -> BTreeMap<String, String> {
    for (key, value) in changes {
        if value.is_empty() {
            notes.remove(*key);
        } else {
            notes.insert((*key).into(), (*value).into());
        }
    }
    notes
}

/// The notes of an ADD in an earlier boot.
fn earlier() -> BTreeMap<String, String> {
    let booted = ((BEGAN - 2 * DAY) / 1_000_000_000).to_string();
    with(notes(), &[("boot", "then"), ("booted", &booted), ("timestamp", &made(BEGAN - DAY))])
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Alive,
    Dead,
    Unknown,
}
use Verdict::{Alive, Dead, Unknown};

fn verdict(one_kernel: bool, system: &System, notes: &BTreeMap<String, String>) -> Verdict {
    let host = host();
    match (Judge { host: &host, one_kernel, namespaces: system }).life(notes) {
        Life::Alive(_) => Alive,
        Life::Dead(_) => Dead,
        Life::Unknown(_) => Unknown,
    }
}

#[track_caller]
fn both(system: &System, notes: &BTreeMap<String, String>, expected: &Verdict) {
    for one_kernel in [true, false] {
        assert_eq!(verdict(one_kernel, system, notes), *expected, "one kernel: {one_kernel}, {notes:?}");
    }
}

fn whose(one_kernel: bool, notes: &BTreeMap<String, String>) -> Whose {
    let host = host();
    Judge { host: &host, one_kernel, namespaces: &Blind }.whose(&Noted::of(notes))
}

#[test]
fn namespace_at_its_path_is_alive_in_any_boot() {
    let system = System::with_directory().file("/run/netns/x", ID, true);
    both(&system, &notes(), &Alive);
    both(&system, &earlier(), &Alive);
    let elsewhere = System::default().file("/run/netns/x", ID, true);
    both(&elsewhere, &notes(), &Alive);
}

#[test]
fn missing_namespace_is_dead_in_its_directory_only() {
    both(&System::with_directory(), &notes(), &Dead);
    let again = FileId { born: Some(6), ..DIR };
    for other in [Probe::Found(again), Probe::Absent, Probe::Unknown("EACCES".into())] {
        let system = System { directories: [("/run/netns".into(), other)].into(), ..System::default() };
        both(&system, &notes(), &Unknown);
    }
    for less in ["netns-dir", "netns-id"] {
        both(&System::with_directory(), &with(notes(), &[(less, "")]), &Unknown);
    }
}

#[test]
fn another_namespace_at_the_path_is_death() {
    let path = "/run/netns/x";
    both(&System::with_directory().file(path, OTHER_ID, true), &notes(), &Dead);
    // A file that another mount namespace covers with a namespace.
    both(&System::with_directory().file(path, OTHER_ID, false), &notes(), &Unknown);
    both(&System::default().file(path, OTHER_ID, true), &notes(), &Unknown);
    let mut hidden = System::with_directory();
    hidden.files.insert(path.into(), Probe::Unknown("EACCES".into()));
    both(&hidden, &notes(), &Unknown);
}

#[test]
fn process_that_is_gone_is_death_in_its_pid_namespace() {
    let of_process = |process: ProcessId| {
        let process = process.to_string();
        with(notes(), &[("netns", "/proc/9/ns/net"), ("netns-dir", ""), ("netns-process", &process)])
    };
    let system =
        |pids, process| System { pids, processes: [(9, process)].into_iter().collect(), ..System::default() };
    let lives = Probe::Found(START);
    let reused = Probe::Found(ProcessId { start: 4712, ..START });
    both(&system(Some(PIDS), Probe::Absent), &of_process(START), &Dead);
    both(&system(Some(PIDS), reused), &of_process(START), &Dead);
    both(&system(Some(PIDS), lives.clone()), &of_process(START), &Unknown);
    both(&system(Some(PIDS), lives).file("/proc/9/ns/net", ID, true), &of_process(START), &Alive);
    both(&system(Some(PIDS + 1), Probe::Absent), &of_process(START), &Unknown);
    // Another process has the number, and its namespace the inode.
    let other = Probe::Found(ProcessId { start: 4712, ..START });
    both(&system(Some(PIDS), other).file("/proc/9/ns/net", ID, true), &of_process(START), &Dead);
    both(&system(None, Probe::Absent), &of_process(START), &Unknown);
    let unnoted = with(of_process(START), &[("netns-process", "")]);
    both(&system(Some(PIDS), Probe::Absent), &unnoted, &Unknown);
}

#[test]
fn ended_boot_is_death_without_a_namespace() {
    for system in [System::default(), System::with_directory()] {
        both(&system, &earlier(), &Dead);
    }
    let less = with(earlier(), &[("booted", ""), ("netns-id", ""), ("netns-dir", ""), ("host-netns", "")]);
    both(&System::default(), &less, &Dead);
    both(&System::default().file("/run/netns/x", OTHER_ID, true), &less, &Alive);
}

#[test]
fn covered_boot_id_does_not_end_a_boot() {
    // A container manager mounts a boot ID of its own over the kernel's.
    let covered = with(notes(), &[("boot", "covered"), ("node", "n2"), ("host-netns", "4:1")]);
    assert_eq!(verdict(true, &System::default(), &covered), Unknown);
    assert_eq!(verdict(true, &System::with_directory(), &covered), Dead);
    let system = System::with_directory().file("/run/netns/x", ID, true);
    assert_eq!(verdict(true, &system, &covered), Alive);
    // In this network namespace, or under this name, it was this host, if no process is left of it.
    let sees = |inhabited| System { inhabited, ..System::default() };
    for own in [("host-netns", OTHER_ID.to_string()), ("node", "n1".to_owned())] {
        let own = with(covered.clone(), &[(own.0, &own.1)]);
        assert_eq!(verdict(true, &sees(Some(vec![])), &own), Dead);
        assert_eq!(verdict(true, &sees(Some(vec![ID.inode])), &own), Alive);
        assert_eq!(verdict(true, &sees(None), &own), Unknown);
    }
    assert_eq!(verdict(true, &sees(Some(vec![])), &covered), Unknown);
}

#[test]
fn process_in_the_namespace_is_life() {
    let mut system = System::with_directory();
    system.inhabited = Some(vec![ID.inode]);
    // The inode may be another namespace's by now, so it does not outweigh a proof.
    both(&system, &notes(), &Dead);
    system.files.insert("/run/netns/x".into(), Probe::Unknown("EACCES".into()));
    both(&system, &notes(), &Alive);
}

#[test]
fn ordinary_file_seen_by_the_add_proves_no_death() {
    let noted = with(notes(), &[("netns-id", "7:12")]);
    both(&System::with_directory().file("/run/netns/x", OTHER_ID, true), &noted, &Unknown);
    both(&System::with_directory(), &noted, &Dead);
}

#[test]
fn only_namespaces_of_a_process_die_with_it() {
    let process = |path: &str| process_of(Path::new(path));
    assert_eq!(process("/proc/9/ns/net"), Some(9));
    assert_eq!(process("/proc/9/task/10/ns/net"), Some(9));
    for path in ["/proc/9/fd/5", "/proc/9/root/run/netns/x", "/proc/self/ns/net", "/proc/9", "/run/9/ns/net"]
    {
        assert_eq!(process(path), None, "{path}");
    }
}

#[test]
fn clock_that_was_never_set_compares_no_boots() {
    let unset = with(earlier(), &[("booted", "12"), ("timestamp", &made(90_000_000_000))]);
    assert_eq!(verdict(true, &System::default(), &unset), Dead);
    assert_eq!(verdict(false, &System::default(), &unset), Unknown);
    assert_eq!(whose(false, &unset), Whose::Ours);
}

#[test]
fn second_machine_of_a_name_is_never_judged() {
    let second = with(notes(), &[("boot", "theirs"), ("booted", "1779800000")]);
    assert_eq!(whose(false, &second), Whose::SecondMachine);
    assert_eq!(whose(true, &second), Whose::Ours);
    assert_eq!(whose(false, &with(second.clone(), &[("node", "")])), Whose::Ours, "no node is noted");
    // Paths and inode numbers repeat from one machine to the next.
    for system in [System::with_directory(), System::with_directory().file("/run/netns/x", ID, true)] {
        assert_eq!(verdict(false, &system, &second), Unknown);
    }
    // It was renewed after this boot began, although it is older.
    let booted = ((BEGAN + DAY) / 1_000_000_000).to_string();
    let renewed = with(earlier(), &[("booted", &booted)]);
    assert_eq!(whose(false, &renewed), Whose::SecondMachine);
}

#[test]
fn node_name_says_whose_an_attachment_is() {
    assert_eq!(whose(false, &notes()), Whose::Ours);
    assert_eq!(whose(false, &earlier()), Whose::Ours);
    assert_eq!(whose(false, &BTreeMap::new()), Whose::Ours, "Calico may note no node");
    let renamed = with(notes(), &[("node", "n2")]);
    let kind_style = with(renamed.clone(), &[("host-netns", "4:1")]);
    let other_boot = with(earlier(), &[("node", "n2")]);
    for one_kernel in [true, false] {
        assert_eq!(whose(one_kernel, &renamed), Whose::Renamed);
        assert_eq!(whose(one_kernel, &kind_style), Whose::OtherHost);
    }
    assert_eq!(whose(true, &other_boot), Whose::EarlierBoot);
    assert_eq!(whose(false, &other_boot), Whose::OtherHost);
    assert_eq!(verdict(false, &System::with_directory(), &kind_style), Unknown);
    assert_eq!(verdict(false, &System::with_directory(), &renamed), Dead);
}

#[test]
fn nameless_host_goes_by_boot_and_namespace() {
    let host = Host { is_nameless: true, ..host() };
    for one_kernel in [true, false] {
        let judge = Judge { host: &host, one_kernel, namespaces: &Blind };
        let whose = |notes: &BTreeMap<String, String>| judge.whose(&Noted::of(notes));
        assert_eq!(whose(&with(notes(), &[("node", "n7")])), Whose::Ours);
        assert_eq!(whose(&with(notes(), &[("host-netns", "4:1")])), Whose::OtherHost);
        assert_eq!(whose(&BTreeMap::new()), Whose::OtherHost);
    }
}

#[test]
fn renamed_host_ends_what_it_names_or_what_is_dead() {
    let host = host();
    let renamed = with(notes(), &[("node", "n2")]);
    let named = Netns { path: "/run/netns/x".into(), id: Some(ID), ..Netns::default() };
    let other = Netns { id: Some(OTHER_ID), ..named.clone() };
    let alive = System::with_directory().file("/run/netns/x", ID, true);
    let may = |system: &System, named: Option<&Netns>| {
        let judge = Judge { host: &host, one_kernel: false, namespaces: system };
        judge.may_end_noted(&Noted::of(&renamed), named)
    };
    assert!(may(&alive, Some(&named)));
    assert!(!may(&alive, Some(&other)));
    assert!(!may(&alive, None));
    assert!(may(&System::with_directory(), None));
}

#[test]
fn only_what_a_runtime_attached_can_be_dead() {
    let gone = System::with_directory();
    for change in [(key::NETWORK, ""), (key::VMI_NAME, "db"), (key::TYPE, "hostAddress")] {
        both(&gone, &with(notes(), &[change]), &Unknown);
        both(&gone, &with(earlier(), &[change]), &Unknown);
    }
}

#[test]
fn identities_are_read_back_as_written() {
    for id in [ID, DIR] {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    assert_eq!(START.to_string().parse(), Ok(START));
    for text in ["", "4", "4:", "4:5:6:7", "4:x", "-4:5"] {
        assert_eq!(text.parse::<FileId>(), Err(()), "{text}");
    }
}
