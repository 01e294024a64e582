//! Power cuts under load, on file systems that lose what was not flushed: nothing that was answered is lost, nothing is
//! held twice, and the next call works, although the boot id is the same as before.
//!
//! A file system on a loop device is shut down without a flush of its log, unmounted and mounted again. By themselves the
//! tests make two hundred cuts; `scripts/power-cuts` makes as many as are wanted.

mod ledger;
mod load;
mod moments;

use std::path::{Path, PathBuf};

use host_affine::api::HostName;
use host_affine::api::calico::{Node, NodeSpec};
use host_affine::datastore::file::{Access, IfAbsent};
use host_affine::datastore::{Answer, Batch, Commit, Datastore as _, Key, Want, run_in_place};
use ledger::{Known, Ledger};
use moments::{Moment, Racer, race};
use serde_json::json;

use crate::choices::Choices;
use crate::support::cni::{Network, skip};
use crate::support::disk::{Disk, Kind};
use crate::support::store::{Lab, View, copy_tree, header_of, open};
use crate::support::strace::{SystemCall, record, strace, troubled};
use crate::support::tally::{Tally, tell};

/// How many cuts each file system gets, where nobody says.
const CUTS: usize = 76;
/// How many addresses a container has.
const FAMILIES: usize = 2;

fn network(store: &Path) -> Network {
    let pools =
        json!([{ "cidr": "10.210.0.0/22", "blockSize": 29 }, { "cidr": "fd02:210::/64", "blockSize": 125 }]);
    Network::new("pods", store, &pools)
}

#[test]
fn ext4_loses_nothing_that_was_answered() {
    survives_power_cuts(Kind::Ext4(64));
}

#[test]
fn xfs_loses_nothing_that_was_answered() {
    survives_power_cuts(Kind::Xfs);
}

fn survives_power_cuts(kind: Kind) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let disk = match Disk::that_can_be_cut(kind, lab.path()) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let cuts = number("HOST_AFFINE_POWER_CUTS").unwrap_or(CUTS);
    let seed = number("HOST_AFFINE_POWER_SEED")
        .unwrap_or_else(|| usize::try_from(std::process::id()).expect("small"));
    tell(&format!("{}: {cuts} power cuts, HOST_AFFINE_POWER_SEED={seed}", kind.name()));
    let mut bed = Bed {
        network: network(&disk.store()),
        disk,
        lab,
        strace,
        ledger: Ledger::default(),
        choices: Choices::seeded(u64::try_from(seed).expect("a number")),
        tally: Tally::default(),
    };
    for cut in 0..cuts {
        // Every other one at random, the rest at each of the moments in turn.
        let chosen = Moment::ALL.len() + 2;
        let moment = match (cut % 2, cut / 2 % chosen) {
            (0, _) => bed.at_random(),
            (_, 0) => bed.asked_again("ADD"),
            (_, 1) => bed.asked_again("DEL"),
            (_, n) => bed.at(Moment::ALL[n - 2]),
        };
        bed.tally.count(moment);
        bed.disk.mount_again();
        bed.holds(moment);
    }
    bed.tally.say(&format!("power cuts on {}", kind.name()));
    assert_eq!(bed.tally.sum(), cuts);
    let missed = bed.tally.of(MISSED);
    assert!(missed * 4 <= cuts, "{missed} of {cuts} moments were missed");
}

#[test]
fn a_store_that_is_being_made_on_ext4_is_there_or_not() {
    is_made_or_not(Kind::Ext4(64));
}

#[test]
fn a_store_that_is_being_made_on_xfs_is_there_or_not() {
    is_made_or_not(Kind::Xfs);
}

/// The power goes at system calls of the very first ADD, which makes the store and the directories above it.
fn is_made_or_not(kind: Kind) {
    let strace = match strace() {
        Ok(strace) => strace,
        Err(reason) => return skip(&reason),
    };
    let lab = Lab::in_memory();
    let disk = match Disk::that_can_be_cut(kind, lab.path()) {
        Ok(disk) => disk,
        Err(reason) => return skip(&reason),
    };
    let store_of = |n: usize| disk.path().join(format!("first-{n}/deep/store"));
    let (answer, calls) =
        record(&strace, network(&lab.path().join("first/deep/store")).call("ADD", "c"), lab.path());
    answer.succeeded();
    let changing =
        ["mkdir", "mkdirat", "openat2", "write", "pwrite64", "fsync", "fdatasync", "renameat", "fchmodat"];
    let is_changing = |call: &&SystemCall| changing.contains(&call.name.as_str());
    let points: Vec<SystemCall> = calls.iter().filter(is_changing).cloned().collect();
    let cuts = number("HOST_AFFINE_POWER_CUTS").map_or(14, |cuts| cuts / 4);
    let mut tally = Tally::default();
    for cut in 0..cuts {
        let network = network(&store_of(cut));
        let mut ledger = Ledger::default();
        // Spread over all of them; the last one is the call's last, behind its answer.
        let point = &points[(cut + 1) * (points.len() - 1) / cuts];
        let racer = Racer { verb: "ADD", container: "c".to_owned(), call: network.call("ADD", "c") };
        let power_goes = || disk.shut_down().expect("it was tried before");
        assert!(race(&strace, &[racer], point, &mut ledger, power_goes), "it did not come to {}", point.line);
        disk.mount_again();
        tally.count("while a store is made");
        ledger.agrees_with(&View::of(&store_of(cut)).sound(), FAMILIES);
        let again = network.add("c").succeeded();
        ledger.note("ADD", "c", &again);
        // And what was answered stays, however new the store is.
        disk.shut_down().expect("it was tried before");
        disk.mount_again();
        tally.count("behind a store's first answer");
        ledger.agrees_with(&View::of(&store_of(cut)).sound(), FAMILIES);
        network.del("c").succeeded();
    }
    tally.say(&format!("power cuts on {}", kind.name()));
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What a moment that no call came to is counted as.
const MISSED: &str = "between calls";

/// What a series of cuts is made with.
struct Bed {
    network: Network,
    disk: Disk,
    lab: Lab,
    strace: PathBuf,
    ledger: Ledger,
    choices: Choices,
    tally: Tally,
}

impl Bed {
    /// The power goes while calls are made.
    fn at_random(&mut self) -> &'static str {
        let answers = 5 + self.choices.pick(60);
        let (disk, shut_down) = (&self.disk, |disk: &Disk| disk.shut_down().expect("it was tried before"));
        load::run(&self.network, &mut self.ledger, &mut self.choices, answers, || shut_down(disk));
        "at random"
    }

    /// Calls are made, and the power stays.
    fn warm_up(&mut self) {
        let answers = 8 + self.choices.pick(20);
        load::run(&self.network, &mut self.ledger, &mut self.choices, answers, || {});
    }

    /// A call is killed before its flush; the same is asked again, and when it is answered the power goes.
    fn asked_again(&mut self, verb: &'static str) -> &'static str {
        self.warm_up();
        let container = format!("again{}", self.choices.pick(1000));
        if verb == "DEL" {
            let added = load::of_container(&self.network, &container).add(&container);
            self.ledger.note("ADD", &container, &added.succeeded());
        } else {
            self.ledger.note(
                "DEL",
                &container,
                &load::of_container(&self.network, &container).del(&container),
            );
        }
        let kill = ["-e", "inject=fdatasync:signal=KILL:when=1"].map(str::to_owned);
        let killed = troubled(
            &self.strace,
            load::of_container(&self.network, &container).call(verb, &container),
            &kill,
        );
        assert!(killed.was_killed() && killed.stdout.is_empty(), "{killed:?}");
        self.ledger.note(verb, &container, &killed);
        let again = load::of_container(&self.network, &container).call(verb, &container).run().succeeded();
        self.disk.shut_down().expect("it was tried before");
        self.ledger.note(verb, &container, &again);
        if verb == "ADD" { "after an ADD that was asked again" } else { "after a DEL that was asked again" }
    }

    /// The power goes at a chosen moment of one of several calls.
    fn at(&mut self, moment: Moment) -> &'static str {
        // So that it is known which call writes the journal out the next time.
        self.write_out();
        self.warm_up();
        if moment.is_of_a_cut() {
            self.come_close_to_a_cut();
        }
        let can_delete = !self.ledger.served().is_empty() && moment != Moment::AfterItsAnswer;
        let verb = if can_delete { ["ADD", "DEL"][self.choices.pick(2)] } else { "ADD" };
        let points = self.points(moment, verb);
        let point = points[self.choices.pick(points.len())].clone();
        let racers = self.racers(verb);
        let (disk, ledger) = (&self.disk, &mut self.ledger);
        let power_goes = || disk.shut_down().expect("it was tried before");
        if race(&self.strace, &racers, &point, ledger, power_goes) { moment.name() } else { MISSED }
    }

    /// Four calls, most of them of that verb.
    fn racers(&mut self, verb: &'static str) -> Vec<Racer> {
        let served = self.ledger.served();
        let mut racers = Vec::new();
        for n in 0..4 {
            let verb = if n == 3 { "ADD" } else { verb };
            let container = match verb {
                "DEL" if n < served.len() => served[n].clone(),
                _ => format!("racer{}-{n}", self.choices.pick(1000)),
            };
            let call = load::of_container(&self.network, &container).call(verb, &container);
            racers.push(Racer { verb, container, call });
        }
        racers
    }

    /// The system calls behind which it is that moment, of such a call on a copy of the store.
    fn points(&mut self, moment: Moment, verb: &str) -> Vec<SystemCall> {
        let copy = self.lab.path().join("copy");
        copy_tree(&self.disk.store(), &copy);
        let served = self.ledger.served();
        let container = if verb == "DEL" { served.first().map_or("nobody", String::as_str) } else { "new" };
        let before = header_of(&copy);
        let (answer, calls) = record(
            &self.strace,
            load::of_container(&network(&copy), container).call(verb, container),
            self.lab.path(),
        );
        answer.succeeded();
        assert_eq!(before != header_of(&copy), moment.is_of_a_cut(), "whether it writes the journal out");
        std::fs::remove_dir_all(&copy).expect("it is a copy");
        let points = moment.points(&calls);
        assert!(!points.is_empty(), "{moment:?} is not in {calls:#?}");
        points
    }

    fn write_out(&self) {
        let mut store = open(&self.disk.store(), Access::Change, IfAbsent::Create).expect("it is made");
        store.write_out().expect("it is written out");
    }

    /// Makes commits until the next call writes the journal out.
    fn come_close_to_a_cut(&self) {
        let mut store = open(&self.disk.store(), Access::Change, IfAbsent::None).expect("it is there");
        let key = Key::Node(HostName::new("filler").expect("a name"));
        for _ in 0..9 {
            let read = run_in_place(store.read(&[Want::Object(key.clone())])).expect("it can be read");
            let known = read.into_iter().next().and_then(Answer::object);
            let mut node = Node::new("filler", NodeSpec::default());
            node.metadata.annotations.insert("filler".to_owned(), "x".repeat(4 << 10));
            let mut batch = Batch::default();
            match known {
                None => batch.create(key.clone(), node),
                Some(entry) => batch.update(key.clone(), entry.revision, node),
            }
            assert_eq!(run_in_place(store.commit(batch)).expect("committed"), Commit::Applied);
        }
    }

    /// What was answered holds, and the next calls work.
    fn holds(&mut self, moment: &str) {
        let store = self.disk.store();
        if !store.join("journal").exists() {
            // The very first calls, none of which was answered.
            assert!(self.ledger.served().is_empty(), "{moment}: there is no store any more");
        }
        self.ledger.agrees_with(&View::of(&store).sound(), FAMILIES);
        // What a runtime does for those of which it does not know.
        for container in self.ledger.in_doubt() {
            let freed = load::of_container(&self.network, &container).del(&container).succeeded();
            self.ledger.note("DEL", &container, &freed);
        }
        for container in self.ledger.served().iter().take(2) {
            let again = load::of_container(&self.network, container).add(container).succeeded();
            self.ledger.note("ADD", container, &again);
        }
        let container = format!("after{}", self.choices.pick(1000));
        let added = load::of_container(&self.network, &container).add(&container).succeeded();
        assert!(matches!(self.ledger.of(&container), Known::Nothing | Known::Has(_)));
        self.ledger.note("ADD", &container, &added);
        let freed = load::of_container(&self.network, &container).del(&container).succeeded();
        self.ledger.note("DEL", &container, &freed);
        self.ledger.agrees_with(&View::of(&store).sound(), FAMILIES);
    }
}
