//! How addresses are freed: by their attachment, their handle, a collection, or by themselves.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;

use host_affine::ipam::{Assignment, Attachment, ReleaseError};

use super::super::reference::Lease;
use super::Machine;
use super::operation::{Attached, HOSTS, Read};
use super::snapshot::Snapshot;
use super::subject::{Subject, finish};

impl<D: Subject> Machine<D> {
    pub(super) fn del(&mut self, attached: Attached) {
        let attachment = attached.name();
        let expected = self.reference.held_by(&attachment);
        let host = self.host(attached.host());
        let released = finish(self.ipam.release(&attachment, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a DEL succeeds").addresses.into_iter().collect();
        self.check_released(&released, &expected);
        self.reference.release(&expected, false);
        self.check_given_back(&expected);
    }

    pub(super) fn del_handle(&mut self, attached: Attached) {
        let handle = attached.name().handle().expect("a handle");
        let leases = &self.reference.leases;
        let is_meant = |lease: &Lease| {
            lease.attachment.handle().ok().as_ref() == Some(&handle) && lease.node == attached.host()
        };
        let meant = leases.iter().filter(|(_, lease)| is_meant(lease));
        let expected: BTreeSet<_> = meant.map(|(address, _)| *address).collect();
        let host = self.host(attached.host());
        let released = finish(self.ipam.release_handle(&handle, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a release succeeds").addresses.into_iter().collect();
        self.check_released(&released, &expected);
        self.reference.release(&expected, false);
        self.check_given_back(&expected);
    }

    pub(super) fn gc(&mut self, network: &str, keep: u32) {
        let valid = Attached::of_containers(keep).map(|kept| (kept.container_id, kept.ifname)).collect();
        let host = self.host(HOSTS[0]);
        let released = finish(self.ipam.collect(network, &valid, &host, self.reference.now));
        let released: BTreeSet<_> = released.expect("a GC succeeds").addresses.into_iter().collect();
        let is_gone = |attachment: &Attachment| {
            attachment.network == network
                && !valid.contains(&(attachment.container_id.clone(), attachment.ifname.clone()))
        };
        let is_near = |lease: &Lease| lease.node == HOSTS[0];
        let leases = self.reference.leases.iter();
        let leases = leases.filter(|(_, lease)| is_near(lease) && is_gone(&lease.attachment));
        let expected: BTreeSet<_> = leases.map(|(address, _)| *address).collect();
        self.check_released(&released, &expected);
        // Attachments go one by one, so nobody here knows the order of the addresses.
        let cooldown = self.reference.cooldown;
        self.reference.release(&expected, false);
        if cooldown == 0 {
            self.reference.mix(&expected);
        }
        self.check_given_back(&expected);
    }

    /// A call that did not learn what became of its commit finds nothing left, and does not say what went.
    fn check_released(&mut self, released: &BTreeSet<IpAddr>, expected: &BTreeSet<IpAddr>) {
        if self.ipam.store_mut().loses_answers() {
            assert!(released.is_subset(expected), "{released:?} of {expected:?}");
        } else {
            assert_eq!(released, expected);
        }
    }

    /// A block that a release emptied is gone, unless it is its host's last one of a pool that serves the host.
    pub(super) fn check_given_back(&mut self, released: &BTreeSet<IpAddr>) {
        let after = Snapshot::of(self.ipam.store_mut());
        for address in released {
            let Some(block) = after.block_of(*address).filter(|block| block.attributes.is_empty()) else {
                continue;
            };
            let owner = block.affinity.as_ref().expect("an empty block of nobody stays");
            let host = owner.name().as_str();
            assert!(self.reference.keeps_blocks_of(host, block.cidr), "{} stays with {host}", block.cidr);
            let pool = self.reference.pools.values().find(|pool| pool.range.contains(block.cidr));
            let range = pool.expect("blocks lie in pools").range;
            let of_pool =
                after.blocks_of(host, range.family()).iter().filter(|b| range.contains(b.cidr)).count();
            assert_eq!(of_pool, 1, "{} is empty, and {host} has others", block.cidr);
        }
    }

    pub(super) fn free(&mut self, address: IpAddr, read: Read) {
        let block = self.before.block_of(address);
        let number = block.and_then(|block| {
            let ordinal = u16::try_from(block.cidr.position(address)?).ok()?;
            block.sequence_number_for_allocation.get(&ordinal).copied()
        });
        let lease = self.reference.leases.get(&address).cloned();
        let handle = lease.as_ref().map(|lease| lease.attachment.handle().expect("a handle").to_string());
        let number = number.unwrap_or(7);
        let (sequence, named) = match read {
            Read::Blindly => (None, None),
            Read::Now => (Some(number), handle.clone()),
            Read::Before => (Some(number - 1), handle.clone()),
        };
        let meant = Assignment { address, sequence, handle: named };
        let outcome =
            finish(self.ipam.release_address(&meant, self.reference.now, |_| Ok::<(), Infallible>(())));
        match (outcome, read) {
            (Ok(fact), Read::Blindly | Read::Now) => {
                assert!(handle.is_some() && fact.handle == handle, "{fact:?}, and {handle:?} has it");
                let expected = BTreeSet::from([address]);
                self.reference.release(&expected, false);
                self.check_given_back(&expected);
            }
            (Err(ReleaseError::Reassigned { now, .. }), Read::Before) => {
                assert!(lease.is_some() && now == number, "{now} is not {number}");
            }
            (Err(ReleaseError::Unassigned { in_pool, .. }), _) => {
                assert!(lease.is_none() && self.reference.is_perhaps_free(address));
                assert_eq!(in_pool, self.reference.pool_of(address).is_some());
            }
            (Err(ReleaseError::Cooling(_)), _) => {
                assert!(lease.is_none() && !self.reference.is_free(address));
            }
            (other, _) => panic!("{other:?}, and {lease:?} has it"),
        }
    }
}
