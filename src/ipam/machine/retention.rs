//! Counts how long a virtual machine has had no pod.
//!
//! `vmRetention` promises that a machine keeps its addresses at least that long, so a clock set forward must not shorten
//! it. The record notes the moment by the wall clock, and by the boot clock of the host that served the last DEL.
//!
//! | the host that asks | time that counts |
//! | --- | --- |
//! | is in the noted boot | the smaller of both clocks: nobody can set the boot clock |
//! | is another host, or in another boot | the wall clock |
//! | the same, and the noted wall time is before 2020 | the wall clock, at most the time since the asking host booted |
//!
//! No boot clock reaches over a reboot or to another host. Counting only what some host saw pass would stop while all are
//! off, and would need a write for each look; so the wall clocks are trusted there, which hosts of one store have to
//! keep in step anyway. A host without a battery-backed clock may note 1970: its own boot then bounds the time.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::datastore::{BootTime, Machine};
use crate::ipam::Host;
use crate::ipam::liveness::is_plausible;

/// Notes that a machine has no pod from now on, unless it had none before.
pub(super) fn begin(machine: &mut Machine, host: &Host, now: Timestamp) {
    if machine.ownerless_since.is_some() {
        return;
    }
    machine.ownerless_since = Some(now);
    machine.ownerless_boot = host.boot.clone().zip(host.uptime).map(|(id, uptime)| {
        let seconds = uptime.as_secs() + u64::from(uptime.subsec_nanos() > 0);
        BootTime { id, seconds }
    });
}

/// The time for which a machine has had no pod; `None`: it has one.
pub(super) fn without_a_pod(machine: &Machine, host: &Host, now: Timestamp) -> Option<Duration> {
    let since = machine.ownerless_since?;
    let by_wall = now.since(since);
    let in_this_boot = machine.ownerless_boot.as_ref().filter(|then| Some(&then.id) == host.boot.as_ref());
    let most = match (in_this_boot, host.uptime) {
        (Some(then), Some(uptime)) => Some(uptime.saturating_sub(Duration::from_secs(then.seconds))),
        (None, Some(uptime)) if !is_plausible(since) => Some(uptime),
        _ => None,
    };
    Some(most.map_or(by_wall, |most| most.min(by_wall)))
}
