//! Pods of one virtual machine, which share its addresses.

use host_affine::api::calico::VmAddressPersistence;
use host_affine::datastore::MachineRole::{Source, Target};
use host_affine::net::Family;

use super::super::act::Fate::{Deleted, Lives};
use super::super::act::{Act, Pod};
use super::super::build::{configure, pool, put_pool};
use super::{Scenario, add, after, scenario, with_pool};

/// Restarts, migrations and the end of a machine.
pub(crate) fn of_machines() -> Vec<Scenario> {
    let mut empty = with_pool("10.0.0.0/28", 30);
    put_pool(&mut empty, pool("p6", "fd00::/124", 126));
    configure(&mut empty, |spec| {
        spec.kube_virt_vm_address_persistence = Some(VmAddressPersistence::Enabled);
    });
    let pod = |host, name, role| Pod { host, name, role, families: &[Family::V4] };
    let source = || pod("a", "source", Source);
    let target = || pod("b", "target", Target);
    let again = || pod("b", "again", Source);
    let dual = |pod: Pod| Pod { families: &Family::BOTH, ..pod };
    let running = after(empty.clone(), &[Act::Join(source())]);
    let idle = after(running.clone(), &[Act::Leave(source(), Lives)]);
    let migrating = after(running.clone(), &[Act::Join(target())]);
    let all = [
        scenario(
            "two pods of a new machine start",
            empty.clone(),
            &[&[Act::Join(dual(source()))], &[Act::Join(dual(again()))]],
        ),
        scenario(
            "a pod of a new machine starts beside another container",
            empty,
            &[&[Act::Join(source())], &[add("a", "x")]],
        ),
        scenario(
            "a machine starts again while its first pod ends",
            running.clone(),
            &[&[Act::Join(again())], &[Act::Leave(source(), Lives)]],
        ),
        scenario(
            "a machine that has no pod starts twice",
            idle.clone(),
            &[&[Act::Join(source())], &[Act::Join(again())]],
        ),
        scenario(
            "a migration begins while the source ends",
            running.clone(),
            &[&[Act::Join(target())], &[Act::Leave(source(), Lives)]],
        ),
        scenario(
            "source and target end",
            migrating.clone(),
            &[&[Act::Leave(source(), Lives)], &[Act::Leave(target(), Lives)]],
        ),
        scenario(
            "source and target of a machine that is deleted end",
            migrating,
            &[&[Act::Leave(source(), Deleted)], &[Act::Leave(target(), Deleted)]],
        ),
        scenario(
            "the last pod of a deleted machine ends while another starts",
            running.clone(),
            &[&[Act::Leave(source(), Deleted)], &[Act::Join(again())]],
        ),
        scenario(
            "a machine is freed while its pod starts again",
            idle,
            &[&[Act::EndMachine], &[Act::Join(again())]],
        ),
        scenario(
            "a machine is freed while its pod ends",
            running,
            &[&[Act::EndMachine], &[Act::Leave(source(), Deleted)]],
        ),
    ];
    all.map(Scenario::ruled).into()
}
