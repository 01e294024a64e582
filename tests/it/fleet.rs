//! What lives is never given twice and never freed: random calls on several hosts, against a model of ownership.
//!
//! The hosts are real namespaces, the containers are real network namespaces, and the plugin is called as a process. Each
//! host can be renamed, restarted with new namespaces, or booted again with its kernel; several can share a kernel.
//! Container IDs collide between hosts, and with the handle of a virtual machine.
//!
//! | fleet | hosts | operations of its own |
//! | --- | --- | --- |
//! | `files` | three of one kernel, one store directory | reboots with and without new names |
//! | `kind` | two of one kernel, one store directory | restarts only, so that GC meets the other's allocations |
//! | `masked` | one, one store directory | another boot ID is shown without a boot, to one mount namespace |
//! | `etcd` | two of one kernel, and two machines that use one name at times | a shared store |
//!
//! | wrong rule in the plugin | operations that catch it |
//! | --- | --- |
//! | the node name alone decides the owner | DEL after a rename, `ipam gc` after a reboot with a new name (`files`); ADD, DEL and GC of the second machine (`etcd`) |
//! | the boot ID alone decides the owner or death | GC and DEL of the other node (`kind`), `ipam gc` under another boot ID (`masked`) |
//! | a missing path means death | `ipam gc` after `/run/netns` was created again, and in another mount namespace (all fleets) |
//! | a namespace of a process cannot be judged | `ipam gc` after a container without a pin died (all fleets) |
//! | a handle identifies its owner | ADD and DEL of one ID on two hosts, and of the ID that joins to the VM's handle (all fleets) |
//!
//! `HOST_AFFINE_FLEET_CALLS` sets the number of calls, `HOST_AFFINE_FLEET_SEED` the sequence of operations. Kills depend
//! on timing, so only the operations of a seed repeat, not every outcome. A failure names both and the last calls.

mod container;
mod forward;
mod host;
mod kernel;
mod model;
mod node;
mod operations;
mod oracle;
mod runner;
mod steps;
mod upkeep;

use model::Scope;
use node::{Datastore, Plan};
use operations::Disturbance::{Mask, Reboot, Remake, Rename, Restart};
use operations::{Disturbance, Mix};
use oracle::Dead;
use runner::Fleet;

use crate::choices::Choices;
use crate::support::cni::skip;
use crate::support::etcd::{Server, need_etcd};
use crate::support::store::Lab;

/// Steps between two comparisons of store and model, where the operation itself does not compare.
const STEPS_PER_AUDIT: usize = 8;

const ALPHA: Plan = plan(["alpha", "alpha-2", "alpha.example"], 0, false, false);
const BETA: Plan = plan(["beta", "beta-2", "beta.example"], 0, true, false);
const GAMMA: Plan = plan(["gamma", "gamma-2", "gamma.example"], 0, true, true);
/// Two machines that never boot again. Each sees that the other's allocations are younger than its own boot.
const WEB_ONE: Plan = plan(["web1", "web1", "delta"], 1, false, false);
const WEB_TWO: Plan = plan(["web1", "web1", "epsilon"], 2, true, true);

const fn plan(names: [&'static str; 3], kernel: usize, own_processes: bool, by_file: bool) -> Plan {
    Plan { names, kernel, own_processes, by_file }
}

#[test]
fn files() {
    let mix = mix(14, &[Reboot, Restart, Rename, Remake]);
    run_on_files(&[ALPHA, BETA, GAMMA], mix, 2600);
}

#[test]
fn kind() {
    let mix = mix(14, &[Restart, Remake]);
    run_on_files(&[ALPHA, BETA], mix, 1000);
}

#[test]
fn masked() {
    run_on_files(&[GAMMA], mix(14, &[Mask]), 700);
}

#[test]
fn etcd() {
    need_etcd!();
    let server = Server::start();
    let mix = Mix { keeps_killed: true, ..mix(10, &[Reboot, Restart, Rename, Remake]) };
    let lab = Lab::in_memory();
    let datastore = Datastore::Etcd(server.address().to_owned());
    run(&lab, &[ALPHA, BETA, WEB_ONE, WEB_TWO], datastore, Scope::Shared, mix, 700);
}

fn mix(ids: usize, disturbances: &'static [Disturbance]) -> Mix {
    Mix { ids, disturbances, kernels: 1, ..Mix::default() }
}

fn run_on_files(plans: &[Plan], mix: Mix, calls: usize) {
    let lab = Lab::in_memory();
    run(&lab, plans, Datastore::Files(lab.store()), Scope::OneKernel, mix, calls);
}

fn run(lab: &Lab, plans: &[Plan], datastore: Datastore, scope: Scope, mix: Mix, calls: usize) {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can create namespaces");
    }
    let mix = Mix { nodes: plans.len(), ..mix };
    let (calls, seed) = (option("CALLS").unwrap_or(calls), option("SEED").unwrap_or(1));
    let mut fleet = match Fleet::start(lab.path(), plans, datastore, scope) {
        Ok(fleet) => fleet,
        Err(reason) => return skip(&reason),
    };
    let mut choices = Choices::seeded(u64::try_from(seed).expect("a seed"));
    let mut step = 0;
    let outcome = fleet.start_vm().and_then(|()| {
        while fleet.calls() < calls {
            step += 1;
            fleet.step(&mix.choose(&mut choices))?;
            if step % STEPS_PER_AUDIT == 0 {
                fleet.audit(Dead::MayBeGone)?;
            }
        }
        fleet.end()
    });
    if let Err(problem) = outcome {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        panic!(
            "{problem}\nseed {seed}, step {step}; again: HOST_AFFINE_FLEET_SEED={seed} HOST_AFFINE_FLEET_CALLS={calls} \
             cargo test --test it {test}\nthe last calls, each with its node's net.conf on standard input:\n{}",
            fleet.report()
        );
    }
}

fn option(name: &str) -> Option<usize> {
    let text = std::env::var(format!("HOST_AFFINE_FLEET_{name}")).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("HOST_AFFINE_FLEET_{name} is no number: {text}")))
}
