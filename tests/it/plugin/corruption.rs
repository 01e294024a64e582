//! A file of every kind that a store has, cut short, zeroed, emptied, edited, with flipped bits, or gone: never fewer
//! answers without an error that names the file, and `ipam check --repair` mends what is derived.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_affine::api::HandleId;
use host_affine::api::calico::IpamConfigurationSpec;
use host_affine::api::milo::{IpAllocation, IpAllocationSpec, IpClaim};
use host_affine::clock::{Clock as _, SystemClock};
use host_affine::datastore::file::{Access, FileStore, IfAbsent};
use host_affine::datastore::{
    Answer, Collection, Datastore as _, Entry, Error, Key, Object, Want, run_in_place,
};
use host_affine::ipam::{IfExists, Ipam, Trial};
use host_affine::net::Family;
use serde_json::{Value, json};

use crate::support::cni::{Network, plugin};
use crate::support::store::{Lab, View, configure, open};
use crate::support::tally::Tally;

const CONTAINERS: usize = 6;

/// A store with every kind of file, all of it written out.
struct Bed {
    lab: Lab,
    network: Network,
    everything: Told,
}

/// What a reader is told: for each question the keys of the answer, or the error.
type Told = Vec<(String, Result<BTreeSet<String>, String>)>;

impl Bed {
    fn new() -> Self {
        let lab = Lab::in_memory();
        let store = lab.store();
        let pools = json!([{ "cidr": "10.211.0.0/25", "name": "pods", "blockSize": 29 }]);
        let network = Network::new("pods", &store, &pools).unflushed();
        // Before there is a store: what host-local had recorded in its place is imported.
        let records = store.join("old");
        fs::create_dir_all(&records).expect("a directory");
        fs::write(records.join("10.211.2.7"), "old7\r\neth0").expect("a record");
        let old = json!({ "type": "host-affine", "subnet": "10.211.2.0/24", "dataDir": store, "nodename": "node-1" });
        Network::of(&json!({ "cniVersion": "1.0.0", "name": "old", "type": "bridge", "ipam": old }))
            .add("new")
            .succeeded();
        configure(
            &store,
            IpamConfigurationSpec {
                kube_virt_vm_address_persistence: Some(
                    host_affine::api::calico::VmAddressPersistence::Enabled,
                ),
                ..IpamConfigurationSpec::default()
            },
        );
        for n in 0..CONTAINERS {
            network.on(["node-1", "node-2"][n % 2]).add(&format!("c{n}")).succeeded();
        }
        let annotations = json!({ "io.kubernetes.cri.pod-annotations": { "kubevirt.io/domain": "db" } });
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME=virt-launcher-db-aaaaa";
        let call = network.with_top("runtimeConfig", annotations).call("ADD", "vm");
        call.variable("CNI_ARGS", args).run().succeeded();
        let bed = Self { lab, network, everything: Told::new() };
        let manifests = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "projectcalico.org/v3", "kind": "IPReservation", "metadata": { "name": "kept" },
              "spec": { "reservedCIDRs": ["10.211.0.120/30"] } },
            { "apiVersion": "projectcalico.org/v3", "kind": "Node", "metadata": { "name": "node-1" }, "spec": {} },
        ] });
        bed.cli(&["apply", "-f", "-"], &manifests.to_string()).exits(0);
        bed.carve();
        open(&store, Access::Change, IfAbsent::None).expect("it is there").write_out().expect("written out");
        let everything = bed.told().expect("it opens");
        assert!(
            everything.iter().all(|(_, keys)| keys.as_ref().is_ok_and(|keys| !keys.is_empty())),
            "{everything:#?}"
        );
        assert_eq!(View::of(&store).findings, []);
        bed.cli(&["ipam", "check"], "").exits(0);
        Self { everything, ..bed }
    }

    /// What people carve out of pools.
    fn carve(&self) {
        let store = open(&self.lab.store(), Access::Change, IfAbsent::None).expect("it is there");
        let (mut ipam, now) = (Ipam::new(store), SystemClock.now());
        let pool = json!({
            "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPPool", "metadata": { "name": "blue" },
            "spec": { "cidr": "10.211.8.0/24", "ipFamily": "IPv4" },
        });
        let pool = serde_json::from_value(pool).expect("a pool");
        run_in_place(ipam.put_pool(None, &pool, IfExists::Refuse, Trial::Write, now)).expect("a pool");
        let allocation = IpAllocation::new("web", IpAllocationSpec::new(Family::V4, "blue"));
        run_in_place(ipam.allocate("default", &allocation, IfExists::Refuse, Trial::Write, now))
            .expect("carved");
        let spec = json!({ "ipFamily": "IPv4", "prefixLength": 28, "poolRef": { "name": "blue" } });
        let claim = IpClaim::new("db", serde_json::from_value(spec).expect("a claim"));
        run_in_place(ipam.claim("default", &claim, IfExists::Refuse, Trial::Write, now)).expect("claimed");
        run_in_place(ipam.store_mut().settle());
    }

    /// Asks a reader everything that has one right answer.
    fn told(&self) -> Result<Told, Error> {
        let mut wants = vec![
            Want::Settings,
            Want::AllBlocks,
            Want::AllHandles,
            Want::AllAffinities,
            Want::Nodes,
            Want::All(Collection::Carved),
            Want::All(Collection::PoolExtras),
            Want::All(Collection::Allocations),
            Want::All(Collection::Claims),
            Want::All(Collection::Machines),
            Want::Object(Key::MachinesOf(handle("pods.vm"))),
        ];
        for n in 0..CONTAINERS {
            wants.push(Want::Held(handle(&format!("pods.c{n}"))));
        }
        let mut store = try_open(&self.lab.store())?;
        Ok(wants
            .into_iter()
            .map(|want| {
                let name = format!("{want:?}");
                let answer = run_in_place(store.read(&[want])).map(|mut answers| keys(&answers.remove(0)));
                (name, answer.map_err(|error| error.to_string()))
            })
            .collect())
    }

    /// Every file of the store, by its name in it.
    fn files(&self) -> Vec<String> {
        let (mut folders, mut files) = (vec![self.lab.store()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { folders.push(path) } else { files.push(self.name(&path)) }
            }
        }
        // What host-local left is not ours.
        files.retain(|file| !file.starts_with("old/"));
        files.sort();
        files
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.lab.store()).expect("below").display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.lab.store().join(name)
    }

    /// After something befell a file: whoever is not told the same is told which file it is.
    fn tells_the_same_or_names(&self, file: &str, what: &str) {
        let path = self.path(file).display().to_string();
        let told = match self.told() {
            Ok(told) => told,
            Err(error) => {
                assert!(error.to_string().contains(&path), "{what} {file}: {error}");
                return;
            }
        };
        for ((want, keys), (_, before)) in told.iter().zip(&self.everything) {
            match keys {
                Ok(keys) if is_derived(file) => {
                    assert_eq!(Ok(keys), before.as_ref(), "{what} {file}: {want}");
                }
                // Which blocks there are is what their directory says; who holds something knows better.
                Ok(_) if what == GONE && !want.starts_with("Held") => {}
                // And a name that is another now is missed by who asks for it.
                Ok(_) if want == "AllHandles" => {}
                // What a person could have written there as well is believed; that something is gone is not.
                Ok(keys) => {
                    let before = before.as_ref().expect("everything could be read");
                    let places = |keys: &BTreeSet<String>| {
                        keys.iter()
                            .map(|key| key.split(" = ").next().unwrap_or_default().to_owned())
                            .collect()
                    };
                    let (now, then): (BTreeSet<String>, BTreeSet<String>) = (places(keys), places(before));
                    assert!(now.is_superset(&then), "{what} {file}: {want}: {then:?} became {now:?}");
                }
                Err(error) => assert!(error.contains(&path), "{what} {file}: {want}: {error}"),
            }
        }
    }

    fn cli(&self, args: &[&str], stdin: &str) -> Ran {
        use std::io::Write as _;
        let url = format!("file://{}", self.lab.store().display());
        let mut command = Command::new(plugin());
        command.env_clear().current_dir("/").arg("--datastore").arg(url).args(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the plugin runs");
        let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), text: text(&output.stdout) + &text(&output.stderr) }
    }
}

fn handle(text: &str) -> HandleId {
    HandleId::new(text).expect("a handle")
}

/// What the command line said and ended with.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    text: String,
}

impl Ran {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }
}

fn try_open(path: &Path) -> Result<FileStore, Error> {
    use host_affine::datastore::file::{Durability, Options};
    let options = Options {
        path: path.to_owned(),
        durability: Durability::Process,
        allow_network_file_system: false,
        lock_timeout: std::time::Duration::from_secs(20),
        operation: "a test".to_owned(),
    };
    FileStore::open(&options, Access::Read, IfAbsent::None).map(|store| store.expect("it is there"))
}

/// What befalls a file that is removed.
const GONE: &str = "no";

/// What is made anew from the rest.
fn is_derived(file: &str) -> bool {
    matches!(file, "format" | "index" | "lock" | "state") || file.starts_with("ipam/room/")
}

/// Whether `state` has a copy of it.
fn is_a_setting(file: &str) -> bool {
    let folders = ["ipam/imports/", "projectcalico.org/ip"];
    folders.iter().any(|folder| file.starts_with(folder))
}

/// The keys of an answer; behind those of blocks who has which address, which a person may change.
fn keys(answer: &Answer) -> BTreeSet<String> {
    let entry = |entry: &Entry| match &entry.object {
        Object::Block(block) => {
            let mut text = format!("{} has", entry.key);
            for (ordinal, index) in block.allocations.iter().enumerate().filter(|(_, index)| index.is_some())
            {
                let _ = write!(text, " {ordinal}");
                assert!(index.is_some_and(|index| usize::from(index) < block.attributes.len()));
            }
            text
        }
        Object::Handle(handle) => format!("{} = {handle:?}", entry.key),
        object => format!("{} = {object:?}", entry.key),
    };
    match answer {
        Answer::Object(found) => found.iter().map(entry).collect(),
        Answer::Objects(found) => found.iter().map(entry).collect(),
        Answer::Held(handle, blocks) => handle.iter().chain(blocks).map(entry).collect(),
        Answer::Settings(settings) => {
            let mut keys = BTreeSet::new();
            keys.extend(settings.configuration.iter().map(|c| format!("configuration = {c:?}")));
            keys.extend(settings.pools.iter().map(|(_, pool)| format!("pool {} = {pool:?}", pool.name())));
            keys.extend(
                settings.reservations.iter().map(|(_, r)| format!("reservation {} = {r:?}", r.name())),
            );
            keys.extend(settings.imports.iter().map(|(_, t)| format!("import {} = {t:?}", t.network)));
            keys
        }
        Answer::Cidrs(cidrs) => cidrs.iter().map(ToString::to_string).collect(),
    }
}

/// What can befall a file, besides flipped bits.
fn misfortunes(whole: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found: Vec<(String, Option<Vec<u8>>)> = vec![
        (GONE.into(), None),
        ("an empty".into(), Some(Vec::new())),
        ("a halved".into(), Some(whole[..whole.len() / 2].to_vec())),
        ("a zeroed".into(), Some(vec![0; whole.len()])),
        ("nonsense in".into(), Some(b"\xff\0 nonsense".to_vec())),
        ("an empty object in".into(), Some(b"{}\n".to_vec())),
        ("an empty list in".into(), Some(b"[]\n".to_vec())),
        ("a longer".into(), Some([whole, b"{}"].concat())),
    ];
    let json: Option<Value> = serde_json::from_slice(whole).ok();
    if let Some(Value::Object(object)) = json {
        for key in object.keys() {
            let mut without = object.clone();
            without.remove(key);
            found.push((format!("no `{key}` in"), Some(Value::Object(without).to_string().into_bytes())));
            let mut nulled = object.clone();
            nulled.insert(key.clone(), Value::Null);
            found.push((
                format!("a null for `{key}` in"),
                Some(Value::Object(nulled).to_string().into_bytes()),
            ));
        }
    }
    found
}

#[test]
fn whatever_befalls_a_file_of_any_kind_no_answer_is_missing_without_its_name() {
    let bed = Bed::new();
    let files = bed.files();
    let kinds = [
        "format",
        "index",
        "journal",
        "lock",
        "state",
        "ipam/affinities/",
        "ipam/blocks/",
        "ipam/carved/",
        "ipam/machines-of/",
        "ipam/machines/",
        "ipam/room/",
        "ipam/imports/",
        "ipam.miloapis.com/ipallocations/",
        "ipam.miloapis.com/ipclaims/",
        "ipam.miloapis.com/ippools/",
        "projectcalico.org/ipamconfigurations/",
        "projectcalico.org/ippools/",
        "projectcalico.org/ipreservations/",
        "projectcalico.org/nodes/",
    ];
    for kind in kinds {
        assert!(files.iter().any(|file| file.starts_with(kind)), "no file of {kind}: {files:?}");
    }
    let mut tally = Tally::default();
    for file in &files {
        assert!(kinds.iter().any(|kind| file.starts_with(kind)), "{file} is of a kind that is not tested");
        let path = bed.path(file);
        let whole = fs::read(&path).expect("it is there");
        let mut flips = Vec::new();
        let step = (whole.len().min(4096) / 60).max(1);
        for at in (0..whole.len().min(4096)).step_by(step) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 7);
            flips.push((format!("a flipped bit at byte {at} of"), Some(flipped)));
        }
        for (what, content) in misfortunes(&whole).into_iter().chain(flips) {
            if content.is_none()
                && !is_derived(file)
                && !file.starts_with("ipam/blocks/")
                && file != "journal"
            {
                // A directory is what says which objects there are: one that is gone, people have removed.
                continue;
            }
            match &content {
                Some(content) => fs::write(&path, content).expect("ours"),
                None => fs::remove_file(&path).expect("it is there"),
            }
            if file != "journal" || content.is_some() {
                bed.tells_the_same_or_names(file, &what);
            }
            if is_a_setting(file) {
                // Without the copy of the settings it is the file itself that counts.
                fs::rename(bed.path("state"), bed.lab.path().join("aside")).expect("it is there");
                bed.tells_the_same_or_names(file, &format!("without `state`, {what}"));
                fs::rename(bed.lab.path().join("aside"), bed.path("state")).expect("put back");
            }
            tally.count(kinds.iter().find(|kind| file.starts_with(**kind)).copied().unwrap_or_default());
        }
        fs::write(&path, &whole).expect("ours");
    }
    tally.say("damaged files");
    assert_eq!(bed.told().expect("it opens"), bed.everything, "all is put back");
}

#[test]
fn a_check_names_the_file_and_a_repair_mends_what_is_derived() {
    let bed = Bed::new();
    for file in bed.files() {
        let path = bed.path(&file);
        let whole = fs::read(&path).expect("it is there");
        fs::write(&path, "{").expect("ours");
        let checked = bed.cli(&["ipam", "check"], "");
        let is_silent = is_a_hint(&file);
        if !is_silent {
            assert_ne!(checked.code, Some(0), "{file}: {}", checked.text);
            assert!(checked.text.contains(&file), "{file} is not named: {}", checked.text);
        }
        // Of what was carved for whom nothing is said that rests on what cannot be read.
        for hearsay in ["which does not have it", "which is not carved out for it"] {
            assert!(!checked.text.contains(hearsay), "{file}: {}", checked.text);
        }
        let repaired = bed.cli(&["ipam", "check", "--repair", "--yes"], "");
        if is_derived(&file) || file.starts_with("ipam/affinities/") {
            repaired.exits(0);
            bed.cli(&["ipam", "check"], "").exits(0);
            let told = bed.told().expect("it opens");
            let without_affinities = |told: &Told| -> Told {
                told.iter().filter(|(want, _)| want != "AllAffinities").cloned().collect()
            };
            assert_eq!(without_affinities(&told), without_affinities(&bed.everything), "{file}");
            if is_derived(&file) && !is_silent {
                assert_ne!(fs::read(&path).expect("it is there"), b"{", "{file} is not mended");
            }
        } else {
            assert_ne!(repaired.code, Some(0), "{file}: {}", repaired.text);
            assert_eq!(
                fs::read(&path).expect("it is there"),
                b"{",
                "{file}: what cannot be made anew is left"
            );
            fs::write(&path, &whole).expect("ours");
            bed.cli(&["ipam", "check"], "").exits(0);
        }
    }
    for n in 0..CONTAINERS {
        bed.network.on(["node-1", "node-2"][n % 2]).del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&bed.lab.store()).findings, []);
}

/// What is for people, or a note for who waits: whatever is in it, nothing goes by it.
fn is_a_hint(file: &str) -> bool {
    matches!(file, "format" | "lock") || file.starts_with("ipam/room/")
}
