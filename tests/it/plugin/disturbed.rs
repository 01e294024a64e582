//! Calls that do not come to their end, and what must be true then: used by the tests of kills and of faults.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use crate::support::cni::{Answer, Call, Network};
use crate::support::store::{Lab, View, copy_tree, header_of};
use crate::support::strace::{self, SystemCall};
use crate::support::tally::tell;

/// A call, and the store that it meets.
pub(super) struct Scenario {
    /// The network, with its store at a path.
    pub(super) network: fn(&Path) -> Network,
    /// What happens before. `None`: nothing ever did, and there is no store.
    pub(super) before: Option<fn(&Network, &Path)>,
    /// The call.
    pub(super) call: fn(&Network) -> Call,
    /// What it does.
    pub(super) effect: Effect,
    /// Whether it writes the journal out.
    pub(super) cuts: bool,
}

/// What a call does when nothing disturbs it.
pub(super) enum Effect {
    /// The container has an address of each pool.
    Gives(&'static str),
    /// The same, and the containers of [`LEASES`] have theirs.
    Imports(&'static str),
    /// The containers, and no others, have nothing.
    Frees(&'static [&'static str]),
}

pub(super) fn one_pool(store: &Path) -> Network {
    Network::new("pods", store, &json!([{ "cidr": "10.202.0.0/20" }]))
}

pub(super) fn small_blocks(store: &Path) -> Network {
    Network::new("pods", store, &json!([{ "cidr": "10.202.16.0/24", "blockSize": 29 }]))
}

pub(super) fn both_families(store: &Path) -> Network {
    let pools =
        json!([{ "cidr": "10.202.32.0/22", "blockSize": 29 }, { "cidr": "fd02:32::/64", "blockSize": 125 }]);
    Network::new("pods", store, &pools)
}

/// What host-local recorded before it was replaced, for [`Effect::Imports`].
pub(super) const LEASES: [(&str, &str); 3] =
    [("10.202.64.2", "old2"), ("10.202.64.3", "old3"), ("10.202.64.9", "old9")];

/// A scenario, prepared: each trial gets a copy of the store.
pub(super) struct Stage {
    lab: Lab,
    scenario: Scenario,
    before: View,
    /// What the call does when nothing disturbs it.
    pub(super) undisturbed: Vec<SystemCall>,
}

impl Stage {
    pub(super) fn set(strace: &Path, scenario: Scenario) -> Self {
        let lab = Lab::in_memory();
        let template = lab.path().join("template");
        let network = (scenario.network)(&template);
        if let Some(before) = scenario.before {
            before(&network, &template);
            if scenario.cuts {
                come_close_to_a_cut(&network, &template, lab.path(), &(scenario.call)(&network));
            }
        }
        let before = View::of(&template).sound();
        let mut stage = Self { lab, scenario, before, undisturbed: Vec::new() };
        let store = stage.copy("undisturbed");
        let header = header_of(&store);
        let call = (stage.scenario.call)(&(stage.scenario.network)(&store));
        let (answer, calls) = strace::record(strace, call, stage.lab.path());
        stage.undisturbed = calls;
        let wrote_out = header != header_of(&store);
        assert_eq!(wrote_out, stage.scenario.cuts || header.is_empty(), "the journal's header");
        stage.holds(&store, &answer.succeeded());
        stage
    }

    fn copy(&self, name: &str) -> std::path::PathBuf {
        let store = self.lab.path().join(name);
        let template = self.lab.path().join("template");
        if template.exists() {
            copy_tree(&template, &store);
        }
        store
    }

    /// Makes the call once for each trial, on a copy of the store each, under `strace` with the options of the trial.
    /// Afterwards all must be as promised; `expect` says what must be true of the answer besides.
    pub(super) fn try_all<T: Sync>(
        &self,
        strace: &Path,
        trials: &[T],
        options: impl Fn(&T) -> Vec<String> + Sync,
        expect: impl Fn(&T, &Answer) + Sync,
    ) {
        const WORKERS: usize = 3;
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(Vec::new());
        let work = || {
            let claim = || {
                let n = next.fetch_add(1, Ordering::Relaxed);
                trials.get(n).map(|trial| (n, trial))
            };
            while let Some((n, trial)) = claim() {
                let options = options(trial);
                let attempt = std::panic::AssertUnwindSafe(|| {
                    let store = self.copy(&format!("trial-{n}"));
                    let call = (self.scenario.call)(&(self.scenario.network)(&store));
                    let answer = strace::troubled(strace, call, &options);
                    expect(trial, &answer);
                    self.holds(&store, &answer);
                    drop(fs::remove_dir_all(&store));
                });
                if std::panic::catch_unwind(attempt).is_err() {
                    failed
                        .lock()
                        .expect("not poisoned")
                        .push(format!("trial {n}: strace {}", options.join(" ")));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(work);
            }
        });
        let failed = failed.into_inner().expect("not poisoned");
        let is_kill = |trial| options(trial).iter().any(|option| option.contains("signal=KILL"));
        let kind = if trials.iter().all(is_kill) { "kills" } else { "I/O errors" };
        let name = thread::current().name().unwrap_or("a test").to_owned();
        tell(&format!("COUNT {} {kind} at a system call: {name}", trials.len()));
        assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), trials.len(), failed.join("\n"));
    }

    /// What was promised holds after the call: for a reader, for the next container, for the same call again.
    fn holds(&self, store: &Path, answer: &Answer) {
        let now = View::of(store).sound();
        let ours: BTreeSet<&str> = match self.scenario.effect {
            Effect::Gives(container) => BTreeSet::from([container]),
            Effect::Imports(container) => LEASES.iter().map(|(_, old)| *old).chain([container]).collect(),
            Effect::Frees(containers) => containers.iter().copied().collect(),
        };
        self.others_are_untouched(&now, &ours);
        match self.scenario.effect {
            Effect::Gives(container) | Effect::Imports(container) => {
                let had = self.before.of_container(container);
                let has = now.of_container(container);
                if let Some(mut printed) = answer.printed_addresses() {
                    printed.sort();
                    assert_eq!(has, printed, "what was printed is not what is held");
                } else {
                    assert!(has == had || has.len() == self.families(), "half of it: {has:?}");
                }
                assert!(had.iter().all(|address| has.contains(address)), "it had {had:?}, now {has:?}");
            }
            Effect::Frees(containers) => {
                for container in containers {
                    let has = now.of_container(container);
                    let had = self.before.of_container(container);
                    assert!(has.is_empty() || has == had, "{container} had {had:?}, now {has:?}");
                    assert!(
                        !answer.is_success() || has.is_empty(),
                        "{container} was to be freed, has {has:?}"
                    );
                }
            }
        }
        if matches!(self.scenario.effect, Effect::Imports(_)) {
            let taken_over = now.held.keys().filter(|address| is_leased(**address)).count();
            assert!(taken_over == 0 || taken_over == LEASES.len(), "all or none: {:?}", now.held);
            assert!(answer.printed_addresses().is_none() || taken_over > 0);
        }
        self.next_container_is_served(store, &now, &ours);
        self.same_call_again(store, answer, &now, &ours);
    }

    fn families(&self) -> usize {
        let network = (self.scenario.network)(Path::new("/"));
        network.conf["ipam"]["pools"].as_array().map_or(1, Vec::len)
    }

    fn others_are_untouched(&self, now: &View, ours: &BTreeSet<&str>) {
        let others = |view: &View| {
            let mut held = view.held.clone();
            held.retain(|_, holder| !ours.contains(holder.container.as_str()));
            held
        };
        assert_eq!(others(now), others(&self.before), "somebody else's address");
    }

    fn next_container_is_served(&self, store: &Path, now: &View, ours: &BTreeSet<&str>) {
        let network = (self.scenario.network)(store);
        let given = network.add("bystander").addresses();
        assert_eq!(given.len(), self.families());
        for address in &given {
            assert!(!now.held.contains_key(address), "{address} was given twice");
            let is_live = matches!(self.scenario.effect, Effect::Imports(_)) && is_leased(*address);
            assert!(!is_live, "{address} has been in use since before the store");
        }
        network.del("bystander").succeeded();
        self.others_are_untouched(&View::of(store).sound(), ours);
    }

    fn same_call_again(&self, store: &Path, first: &Answer, now: &View, ours: &BTreeSet<&str>) {
        let network = (self.scenario.network)(store);
        let again = (self.scenario.call)(&network).run();
        let view;
        match self.scenario.effect {
            Effect::Gives(container) | Effect::Imports(container) => {
                let mut given = again.addresses();
                given.sort();
                let had = now.of_container(container);
                assert!(had.iter().all(|a| given.contains(a)), "it had {had:?} and was told {given:?}");
                assert!(first.printed_addresses().is_none() || !had.is_empty());
                view = View::of(store).sound();
                assert_eq!(view.of_container(container), given);
                assert_eq!(given.len(), self.families());
            }
            Effect::Frees(containers) => {
                again.succeeded();
                view = View::of(store).sound();
                for container in containers {
                    assert_eq!(view.of_container(container), Vec::<IpAddr>::new(), "{container}");
                }
            }
        }
        self.others_are_untouched(&view, ours);
        if matches!(self.scenario.effect, Effect::Imports(_)) {
            for (address, container) in LEASES {
                assert_eq!(view.of_container(container), [address.parse::<IpAddr>().expect("an address")]);
            }
        }
        let attachments: BTreeSet<_> =
            view.held.values().map(|holder| (&holder.container, &holder.network)).collect();
        assert_eq!(view.handles, attachments.len(), "handles of nobody");
    }
}

fn is_leased(address: IpAddr) -> bool {
    LEASES.iter().any(|(leased, _)| leased.parse() == Ok(address))
}

/// Makes calls until the next one is the one that writes the journal out.
pub(super) fn come_close_to_a_cut(network: &Network, store: &Path, scratch: &Path, call: &Call) {
    let saved = scratch.join("saved");
    for n in 0..400 {
        copy_tree(store, &saved);
        let before = header_of(store);
        call.run().succeeded();
        let cut = header_of(store) != before;
        fs::remove_dir_all(store).expect("it is a copy");
        fs::rename(&saved, store).expect("the place is free");
        if cut {
            return;
        }
        // Each takes a block and gives it back now and then, so that the cut has files to make and to remove.
        let filler = format!("filler{}", n / 2);
        if n % 2 == 0 { network.add(&filler) } else { network.del(&filler) }.succeeded();
    }
    panic!("400 commits, and the journal was not written out");
}
