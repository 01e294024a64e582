//! What is done with any bytes at all, by the property tests and by the fuzzing targets alike: never a panic, never an
//! answer that contradicts itself. What makes bytes is elsewhere, so this file stands alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use host_affine::api::HandleId;
use host_affine::clock::Timestamp;
use host_affine::cni::config::{NetConf, Stdin};
use host_affine::cni::env::Call;
use host_affine::cni::failure::Failure;
use host_affine::cni::plan::Plan;
use host_affine::datastore::etcd::format::{self, Held};
use host_affine::datastore::file::{Access, Durability, FileStore, IfAbsent, Options};
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{
    Answer, Batch, Collection, Commit, Datastore as _, Entry, Error, Key, Want, run_in_place,
};
use host_affine::ipam::{Assign, Attachment, Host, Ipam, Netns, Owner, Sharing, audit};
use serde_json::Value;
use serde_json::value::RawValue;

/// The size of a journal that never grew.
const JOURNAL_BYTES: usize = 128 << 10;

/// A call's configuration on standard input: read for every verb, and where it can be read, served by an engine whose
/// store is in memory.
pub(crate) fn network_configuration(bytes: &[u8]) {
    let call = |verb: &'static str| call_with(verb, "");
    for verb in ["ADD", "CHECK", "DEL", "GC", "STATUS"] {
        let call = call(verb);
        let stdin = match Stdin::parse(bytes) {
            Ok(stdin) => stdin,
            Err(failure) => {
                is_an_error_object(&failure);
                return;
            }
        };
        let conf = match verb {
            "ADD" => NetConf::for_add(&stdin, &call, "host-affine"),
            "CHECK" => NetConf::for_check(&stdin, &call),
            "STATUS" => NetConf::for_status(&stdin, "host-affine"),
            _ => NetConf::for_release(&stdin, &call),
        };
        match conf {
            Ok(conf) if verb == "ADD" => serve(&conf, &call),
            Ok(_) => {}
            Err(failure) => is_an_error_object(&failure),
        }
    }
}

/// `CNI_ARGS`, and the other variables beside it.
pub(crate) fn cni_args(bytes: &[u8]) {
    let conf = br#"{"cniVersion":"1.1.0","name":"pods","type":"x","ipam":{"type":"host-affine","pools":[{"cidr":"10.0.0.0/24"}]}}"#;
    let text = String::from_utf8_lossy(bytes).replace('\0', "");
    for verb in ["ADD", "DEL"] {
        let call = call_with(verb, &text);
        let stdin = Stdin::parse(conf).unwrap_or_else(|failure| panic!("{}", failure.msg));
        let conf = match verb {
            "ADD" => NetConf::for_add(&stdin, &call, "host-affine"),
            _ => NetConf::for_release(&stdin, &call),
        };
        match conf {
            Ok(conf) if verb == "ADD" => serve(&conf, &call),
            Ok(_) => {}
            // A DEL has to free what there is, whatever else is said.
            Err(failure) => {
                is_an_error_object(&failure);
                assert_eq!(verb, "ADD", "a DEL was refused for {text:?}: {}", failure.msg);
            }
        }
    }
    // As a container's name, an interface's, a verb: whatever it is, it is taken or named.
    for name in ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"] {
        let mut variables = variables("ADD", "");
        variables.insert(name, text.clone());
        if let Err(failure) = Call::read(|name| variables.get(name).map(OsString::from)) {
            is_an_error_object(&failure);
        }
    }
}

/// A journal in a store that has nothing else: as it is, and as the bodies of records that are valid otherwise, a line
/// of `%%` between two.
pub(crate) fn journal(bytes: &[u8], scratch: &Path) {
    let store = scratch.join("journal-store");
    let raw = [bytes, &vec![0; JOURNAL_BYTES.saturating_sub(bytes.len())]].concat();
    for content in [raw, journal_of(&bodies(bytes))] {
        begin(&store);
        fs::write(store.join("journal"), &content).unwrap_or_else(|error| panic!("{error}"));
        let first = ask_everything(&store);
        assert_eq!(ask_everything(&store), first, "a reader is told something else the second time");
        if first.is_ok() {
            write_to(&store);
        }
    }
}

/// An object's file in a store: the first byte says which.
pub(crate) fn object_file(bytes: &[u8], scratch: &Path) {
    let files = [
        "ipam/affinities/host%3An/10.0.0.0-29.json",
        "ipam/blocks/10.0.0.0-29.json",
        "ipam/carved/10.0.1.0-28.json",
        "ipam/machines-of/pods.c.json",
        "ipam/machines/pods.vmi.prod.db.json",
        "ipam/imports/pods.json",
        "ipam.miloapis.com/ipallocations/default/web.json",
        "ipam.miloapis.com/ipclaims/default/web.json",
        "ipam.miloapis.com/ippools/pods.json",
        "projectcalico.org/ipamconfigurations/default.json",
        "projectcalico.org/ippools/pods.json",
        "projectcalico.org/ipreservations/kept.json",
        "projectcalico.org/nodes/n.json",
        "state",
        "index",
        "format",
    ];
    let Some((which, content)) = bytes.split_first() else { return };
    let file = files[usize::from(*which) % files.len()];
    let store = scratch.join("object-store");
    begin(&store);
    // Of the second generation, so that what is derived may have been written.
    let crc = crc32fast::hash(content);
    fs::write(store.join("journal"), journal_after_a_cut(crc)).unwrap_or_else(|error| panic!("{error}"));
    let path = store.join(file);
    make_folders(&store, &path);
    fs::write(&path, content).unwrap_or_else(|error| panic!("{error}"));
    if let Err(error) = ask_everything(&store) {
        assert!(error.contains(&store.display().to_string()), "{error} names no file");
    }
    write_to(&store);
}

/// A key of etcd on the first line, and what stands there: it is read as an object and written back as the same, or named.
/// Whether there is an object.
pub(crate) fn etcd_value(bytes: &[u8]) -> bool {
    let split = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(split);
    let value = rest.get(1..).unwrap_or_default();
    let Ok(at) = std::str::from_utf8(line) else { return false };
    let Some(key) = format::parse_key(at) else { return false };
    let homes = format::homes_of(&key);
    for home in &homes {
        assert_eq!(format::parse_key(home).as_ref(), Some(&key), "{home} is another's");
    }
    // A spelling that is not ours is read where it stands.
    let place = homes.iter().position(|home| home == at).unwrap_or(0);
    let mut stored: Vec<Option<Vec<u8>>> = vec![None; homes.len()];
    stored[place] = Some(value.to_vec());
    let assemble = |stored: &[Option<Vec<u8>>]| {
        let values = stored.iter().map(Option::as_deref);
        let held: Vec<_> = values.map(|value| value.map(|value| Held { value, mod_revision: 7 })).collect();
        format::assemble(&key, &held)
    };
    let entry = match assemble(&stored) {
        Ok(Some(entry)) => entry,
        Ok(None) => return false,
        Err(error) => {
            assert!(
                homes.iter().any(|home| error.to_string().contains(home.as_str())),
                "{error} names no key"
            );
            return false;
        }
    };
    let written = rewrite(&entry, &homes, &stored);
    let Some(written) = written else { return false };
    let again = assemble(&written).unwrap_or_else(|error| panic!("what was written cannot be read: {error}"));
    let again = again.unwrap_or_else(|| panic!("{key} is gone"));
    assert_eq!(meaning(&again), meaning(&entry), "another object than was meant");
    assert_eq!(rewrite(&again, &homes, &written), Some(written), "it changes each time it is written");
    true
}

/// What an object says, whatever it was read from: a member that is `null` says as much as none.
fn meaning(entry: &Entry) -> Value {
    let text = format::encode(&entry.key, &entry.object, None).unwrap_or_else(|error| panic!("{error}"));
    let raw: &RawValue = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{error}"));
    // A number that no type holds stays as it is spelt.
    serde_json::from_str(raw.get()).map_or_else(|_| raw.get().into(), without_nulls)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let said = members.into_iter().filter(|(_, member)| !member.is_null());
            said.map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// What stands at an object's keys once it is written as it is. `None`: it may not be written under its name.
fn rewrite(entry: &Entry, homes: &[String], stored: &[Option<Vec<u8>>]) -> Option<Vec<Option<Vec<u8>>>> {
    let held = |key: &str| {
        let place = homes.iter().position(|home| home == key)?;
        Some(Held { value: stored.get(place)?.as_deref()?, mod_revision: 7 })
    };
    let mut batch = Batch::default();
    batch.update(entry.key.clone(), entry.revision, entry.object.clone());
    let writes = match format::writes_of(&batch.ops[0], held) {
        Ok(writes) => writes.unwrap_or_else(|| panic!("{} stands at another revision", entry.key)),
        Err(Error::NotStorable { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let put =
        |home: &String| writes.iter().find(|write| write.key == *home).and_then(|write| write.put.clone());
    Some(homes.iter().map(put).collect())
}

#[allow(dead_code, reason = "the property runs each in a process of its own")]
/// Manifests, by a dry run of `apply`, which writes nothing. What it says goes to the process's own streams.
pub(crate) fn manifest(bytes: &[u8], scratch: &Path) {
    let file = scratch.join(if bytes.first() == Some(&b'{') { "m.json" } else { "m.yaml" });
    fs::write(&file, bytes).unwrap_or_else(|error| panic!("{error}"));
    let store = format!("file://{}", scratch.join("no-store").display());
    let args = ["host-affine", "--datastore", store.as_str(), "apply", "--dry-run", "-f"].map(OsString::from);
    host_affine::cli::main(args.into_iter().chain([file.into_os_string()]), &|_| None);
    assert!(!scratch.join("no-store").exists(), "a dry run made a store");
}

fn variables(verb: &'static str, args: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("CNI_COMMAND", verb.to_owned()),
        ("CNI_CONTAINERID", "c".to_owned()),
        ("CNI_IFNAME", "eth0".to_owned()),
        ("CNI_NETNS", "/run/netns/x".to_owned()),
        ("CNI_PATH", "/opt/cni/bin".to_owned()),
        ("CNI_ARGS", args.to_owned()),
    ])
}

fn call_with(verb: &'static str, args: &str) -> Call {
    let variables = variables(verb, args);
    let call = Call::read(|name| variables.get(name).map(OsString::from));
    call.unwrap_or_else(|failure| panic!("{}", failure.msg)).unwrap_or_else(|| panic!("a call"))
}

/// An error is one JSON object in every version, whatever is quoted in it.
fn is_an_error_object(failure: &Failure) {
    assert!(!failure.msg.is_empty());
    let text = failure.render(host_affine::cni::version::Version::LATEST);
    let object: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(object["code"].as_u64().is_some_and(|code| code > 0), "{text}");
}

/// An ADD, the same again, and a DEL.
fn serve(conf: &NetConf, call: &Call) {
    let plan = match Plan::of(conf) {
        Ok(plan) => plan,
        Err(failure) => return is_an_error_object(&failure),
    };
    let name = host_affine::api::HostName::new("n").unwrap_or_else(|_| panic!("a name"));
    let host = Host::named(name);
    let attachment = Attachment {
        network: conf.name.clone(),
        container_id: call.container_id.clone(),
        ifname: call.ifname.clone(),
    };
    let pod = conf.request.pod.as_ref().map(|pod| (pod.namespace.clone(), pod.name.clone()));
    let owner = Owner {
        attachment,
        host: host.clone(),
        netns: call.netns.clone().map(|path| Netns { path, ..Netns::default() }),
        pod,
    };
    let now = Timestamp::from_nanos(1_790_000_000_000_000_000);
    let request = Assign {
        host: &host,
        owner: &owner,
        sharing: Sharing::Attachment,
        wanted: &plan.wanted,
        pools: &plan.pools,
        gateways: plan.gateways.as_deref(),
        import: None,
        own_addresses: &Nowhere,
        now,
    };
    let mut ipam = Ipam::new(Memory::new());
    let given = run_in_place(ipam.assign(&request));
    let findings =
        |ipam: &mut Ipam<Memory>| audit(ipam.store_mut().entries().map(|entry| (entry.key, entry.object)));
    assert_eq!(findings(&mut ipam), [], "after {given:?}");
    if let Ok(given) = given {
        let text = plan.result(&given, conf.ipam.dns.clone()).render(conf.cni_version);
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&text);
        assert!(parsed.is_ok(), "{text}");
        let again =
            run_in_place(ipam.assign(&request)).unwrap_or_else(|error| panic!("asked again: {error}"));
        let addresses = |given: &host_affine::ipam::Assigned| -> Vec<std::net::IpAddr> {
            given.addresses.iter().map(|given| given.address).collect()
        };
        assert_eq!(addresses(&given), addresses(&again), "asked again");
        let released = run_in_place(ipam.release(&owner.attachment, &host, now));
        let released = released.unwrap_or_else(|error| panic!("released: {error}"));
        assert_eq!(released.addresses.len(), given.addresses.len());
        assert_eq!(findings(&mut ipam), [], "after the release");
    }
}

/// A host without addresses of its own.
struct Nowhere;

impl host_affine::ipam::OwnAddresses for Nowhere {
    fn within(&self, _: host_affine::net::Cidr) -> Vec<std::net::IpAddr> {
        Vec::new()
    }
}

fn options(store: &Path) -> Options {
    Options {
        path: store.to_owned(),
        durability: Durability::Process,
        allow_network_file_system: true,
        lock_timeout: Duration::from_secs(60),
        operation: "a fuzzer".to_owned(),
    }
}

/// Begins with an empty store's directory.
fn begin(store: &Path) {
    let _ = fs::remove_dir_all(store);
    fs::create_dir_all(store).unwrap_or_else(|error| panic!("{error}"));
    private(store);
}

fn make_folders(store: &Path, file: &Path) {
    let folder = file.parent().unwrap_or(store);
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{error}"));
    folder.ancestors().take_while(|above| *above != store).for_each(private);
}

fn private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap_or_else(|error| panic!("{error}"));
}

fn wants() -> Vec<Want> {
    let handle = HandleId::new("pods.c").unwrap_or_else(|_| panic!("a handle"));
    let all: host_affine::net::Cidr = "0.0.0.0/0".parse().unwrap_or_else(|_| panic!("a range"));
    let mut wants = vec![
        Want::Settings,
        Want::AllBlocks,
        Want::AllHandles,
        Want::AllAffinities,
        Want::Nodes,
        Want::BlockCidrs(all),
        Want::CarvedCidrs(all),
        Want::Held(handle.clone()),
        Want::Object(Key::MachinesOf(handle)),
    ];
    wants.extend(Collection::ALL.map(Want::All));
    wants
}

/// What a reader is told, question by question; the first error otherwise.
fn ask_everything(store: &Path) -> Result<Vec<Answer>, String> {
    let opened =
        FileStore::open(&options(store), Access::Read, IfAbsent::None).map_err(|error| shown(&error))?;
    let Some(mut opened) = opened else { return Ok(Vec::new()) };
    let mut answers = Vec::new();
    let mut first_error = None;
    for want in wants() {
        match run_in_place(opened.read(&[want])) {
            Ok(answer) => answers.extend(answer),
            Err(error) => drop(first_error.get_or_insert(shown(&error))),
        }
    }
    first_error.map_or(Ok(answers), Err)
}

fn shown(error: &Error) -> String {
    assert!(!matches!(error, Error::Locked { .. } | Error::OutcomeUnknown { .. }), "{error}");
    error.to_string()
}

/// A commit, a cut, and again a reader: what works is kept, whatever else there is.
fn write_to(store: &Path) {
    let Ok(Some(mut opened)) = FileStore::open(&options(store), Access::Change, IfAbsent::None) else {
        return;
    };
    let name = host_affine::api::HostName::new("fuzzer").unwrap_or_else(|_| panic!("a name"));
    let node =
        || host_affine::api::calico::Node::new("fuzzer", host_affine::api::calico::NodeSpec::default());
    let mut batch = Batch::default();
    batch.create(Key::Node(name.clone()), node());
    match run_in_place(opened.commit(batch)) {
        Ok(Commit::Applied) => {}
        Ok(Commit::Refused(_) | Commit::Unknown) | Err(_) => return,
    }
    let _ = opened.write_out();
    drop(opened);
    let reader = FileStore::open(&options(store), Access::Read, IfAbsent::None);
    let mut reader = reader.unwrap_or_else(|error| panic!("{error}")).unwrap_or_else(|| panic!("a store"));
    let read = run_in_place(reader.read(&[Want::Object(Key::Node(name))])).map(|mut answers| answers.pop());
    let found = read.unwrap_or_else(|error| panic!("{error}")).and_then(Answer::object);
    assert!(found.is_some(), "a commit that was answered is lost");
}

/// The bodies of the records that bytes stand for.
fn bodies(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut bodies = vec![Vec::new()];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match bodies.last_mut() {
            Some(body) if line != b"%%\n" => body.extend_from_slice(line),
            _ => bodies.push(Vec::new()),
        }
    }
    bodies.retain(|body| !body.is_empty());
    bodies
}

/// A journal with these records, each with the right number, link and checksum.
fn journal_of(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut journal = header_of(
        "HAJ2 0000000000000001 00000001 floor 0000000000000000 state -------- index 0000000000000000",
    );
    let mut previous = 0;
    for (seq, body) in (1_u64..).zip(bodies) {
        let mut head =
            format!("HA02 {seq:016x} {:08x} {:016x} {previous:08x}", body.len(), seq - 1).into_bytes();
        let mut hasher = crc32fast::Hasher::new_with_initial(1);
        hasher.update(&head);
        hasher.update(body);
        previous = hasher.finalize();
        head.extend_from_slice(format!(" {previous:08x}\n").as_bytes());
        journal.extend_from_slice(&head);
        journal.extend_from_slice(body);
        journal.push(b'\n');
    }
    let len = journal.len().max(JOURNAL_BYTES);
    journal.resize(len, 0);
    journal
}

fn journal_after_a_cut(state: u32) -> Vec<u8> {
    let mut journal = header(2, 2, Some(state));
    journal.resize(JOURNAL_BYTES, 0);
    journal
}

/// The header of a journal of format 1.
fn header(first_seq: u64, generation: u32, state: Option<u32>) -> Vec<u8> {
    let (index, state) = (generation - 1, state.map_or_else(|| "-".repeat(8), |crc| format!("{crc:08x}")));
    let text =
        format!("HAJ1 {first_seq:016x} {generation:08x} floor {:016x} state {state} index {index:08x}", 0);
    header_of(&text)
}

fn header_of(text: &str) -> Vec<u8> {
    let mut header = text.as_bytes().to_vec();
    header.resize(119, b' ');
    let crc = crc32fast::hash(&header);
    header.extend_from_slice(format!("{crc:08x}\n").as_bytes());
    header
}
