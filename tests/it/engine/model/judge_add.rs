//! What an ADD may answer, as the reference sees it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use host_affine::api::calico::IpamBlock;
use host_affine::ipam::{Assigned, Error, PoolChoice, Wanted};
use host_affine::net::{AddrSet, Cidr, Family};

use super::super::build::{Ask, affinity, any, exactly, from, ip, name};
use super::super::reference::{Freed, Pool};
use super::Machine;
use super::operation::{ADDRESSES, Attached, POOLS, Want};
use super::snapshot::{Snapshot, addresses_of};
use super::subject::{Subject, finish};

/// The age at which an empty block may change hands, in seconds.
const SETTLED: u64 = 60;

impl Want {
    fn wanted(self) -> Wanted {
        match self {
            Want::V4 => any(Family::V4),
            Want::V6 => any(Family::V6),
            Want::Range => {
                let mut usable = AddrSet::new();
                usable.insert_range(ip("10.0.0.14"), ip("10.0.0.31"));
                Wanted { usable: Some(usable), ..any(Family::V4) }
            }
            Want::Pool(which) => from(Family::V4, &[POOLS[which].0]),
            Want::Exactly(which) => exactly(ADDRESSES[which]),
        }
    }
}

impl<D: Subject> Machine<D> {
    pub(super) fn add(&mut self, attached: Attached, wants: &[Want]) {
        let host = self.host(attached.host());
        let wanted: Vec<Wanted> = wants.iter().map(|want| want.wanted()).collect();
        let ask = Ask {
            host: host.clone(),
            attachment: attached.name(),
            wanted,
            pools: Vec::new(),
            gateways: None,
            now: self.reference.now,
        };
        if ask.wanted.iter().any(|wanted| self.asks_for_unknown_pool(wanted)) {
            return;
        }
        match finish(ask.of(&mut self.ipam)) {
            Ok(assigned) => self.judge_answer(&ask, attached.host(), &assigned),
            Err(error) => self.judge_refusal(&ask, attached.host(), &error),
        }
    }

    fn asks_for_unknown_pool(&self, wanted: &Wanted) -> bool {
        matches!(&wanted.choice, PoolChoice::Requested(names)
            if names.iter().any(|name| !self.reference.pools.contains_key(name)))
    }

    /// The pools that may serve a want.
    fn pools(&self, host: &str, wanted: &Wanted) -> Vec<&Pool> {
        match &wanted.choice {
            PoolChoice::Requested(names) => {
                let asked = names.iter().filter_map(|name| self.reference.pools.get(name));
                asked.filter(|pool| !pool.disabled).collect()
            }
            _ => self.reference.pools_for(host, wanted.family),
        }
    }

    /// Whether a want may be answered with a free address, as far as pools, ranges and reservations go.
    fn permits(&self, host: &str, wanted: &Wanted, address: IpAddr) -> bool {
        let in_pool = self.pools(host, wanted).iter().any(|pool| pool.range.contains_address(address));
        let in_range = wanted.usable.as_ref().is_none_or(|usable| usable.contains(address));
        match wanted.address {
            Some(asked) => in_pool && in_range && address == asked,
            None => in_pool && in_range && !self.reference.is_reserved(address),
        }
    }

    /// The same, and a block may lie there.
    fn permits_here(&self, host: &str, wanted: &Wanted, address: IpAddr) -> bool {
        self.permits(host, wanted, address) && !self.reference.is_broken(address)
    }

    fn judge_answer(&mut self, ask: &Ask, host: &str, assigned: &Assigned) {
        let held = self.reference.held_by(&ask.attachment);
        assert_eq!(assigned.addresses.len(), ask.wanted.len());
        let after = Snapshot::of(self.ipam.store_mut());
        let lost = self.judge_displaced(ask, host, &after);
        let mut given = BTreeSet::new();
        let all: BTreeSet<IpAddr> = assigned.addresses.iter().map(|answer| answer.address).collect();
        let mut first_of = BTreeSet::new();
        for (wanted, answer) in ask.wanted.iter().zip(&assigned.addresses) {
            let address = answer.address;
            assert!(given.insert(address), "{address} twice in one answer");
            assert_eq!(Family::of(address), wanted.family);
            assert!(wanted.address.is_none_or(|asked| asked == address), "another address than asked for");
            assert_eq!(answer.held_before, held.contains(&address), "{address}");
            if answer.held_before {
                continue;
            }
            let unused =
                held.iter().find(|held| Family::of(**held) == wanted.family && !given.contains(held));
            let of_family = ask.wanted.iter().filter(|other| other.family == wanted.family).count();
            assert!(unused.is_none() || of_family > 1, "has {unused:?}, and got {address} besides");
            assert!(self.permits_here(host, wanted, address), "{address} is not permitted");
            assert!(!self.reference.leases.contains_key(&address) || lost.contains(&address));
            assert!(!self.reference.cools(address), "{address} cools");
            let block = after.block_of(address).expect("an address in a block");
            let owner = block.affinity.as_ref().map(|owner| owner.name().as_str().to_owned());
            assert!(!self.reference.strict || owner.as_deref() == Some(host), "strict, and {owner:?} has it");
            // A block that a particular address brings along serves the others too.
            let free_choice = ask.wanted.iter().all(|wanted| wanted.address.is_none());
            if free_choice && lost.is_empty() && first_of.insert(block.cidr) {
                self.judge_place(host, wanted, block, address, &all);
            }
            let number = block.sequence_number_for_allocation.values().max();
            assert_eq!(number, Some(&(block.sequence_number - 1)), "the number before the write is noted");
        }
        self.reference.release(&lost, true);
        for cidr in after.blocks.keys().filter(|cidr| !self.before.blocks.contains_key(cidr)) {
            self.reference.forget(*cidr);
        }
        let node = host.to_owned();
        for address in held.union(&given) {
            self.reference.assign(*address, &ask.attachment, &node);
        }
    }

    /// Leases that are gone: dead ones of this host, which were in the way.
    fn judge_displaced(&self, ask: &Ask, host: &str, after: &Snapshot) -> BTreeSet<IpAddr> {
        let now = after.leases();
        let gone = |(address, lease): &(&IpAddr, &super::super::reference::Lease)| {
            lease.attachment != ask.attachment
                && now.get(*address).is_none_or(|after| after.attachment != lease.attachment)
        };
        let lost: BTreeSet<IpAddr> =
            self.reference.leases.iter().filter(gone).map(|(address, _)| *address).collect();
        for address in &lost {
            assert!(self.reference.is_dead(*address, host), "{address} was taken from somebody alive");
            let asked = ask.wanted.iter().any(|wanted| wanted.address == Some(*address));
            let family: Vec<_> =
                ask.wanted.iter().filter(|wanted| wanted.family == Family::of(*address)).collect();
            let rest = family.iter().all(|wanted| self.reachable(host, wanted).count() < family.len());
            // The first of two may have claimed the last block that a strict host may have.
            let two_strict = self.reference.strict && family.len() > 1;
            let passed_over = !self.unlisted.is_empty();
            assert!(
                asked || rest || two_strict || passed_over,
                "{address} was taken from the dead, with others free"
            );
        }
        lost
    }

    /// The order of search, and of addresses within a block.
    fn judge_place(
        &self,
        host: &str,
        wanted: &Wanted,
        block: &IpamBlock,
        address: IpAddr,
        given: &BTreeSet<IpAddr>,
    ) {
        let permitted = |other: &IpAddr| {
            let given_too = *other != address && given.contains(other);
            !given_too && self.permits_here(host, wanted, *other)
        };
        let usable = |other: &IpAddr| self.reference.is_free(*other) && permitted(other);
        let perhaps = |other: &IpAddr| self.reference.is_perhaps_free(*other) && permitted(other);
        let own = self.before.blocks_of(host, wanted.family);
        let mut listed = own.iter().filter(|own| !self.unlisted.contains(&own.cidr));
        let own_has_room = listed.any(|own| addresses_of(own.cidr).any(|address| usable(&address)));
        let is_own = own.iter().any(|own| own.cidr == block.cidr);
        let alone = given.iter().filter(|given| Family::of(**given) == wanted.family).count() == 1;
        // Where a claim is a step of its own, a block that the last of several claims is there for the first.
        let claimed_first = !alone && !self.reference.store.atomic && block.affinity == Some(affinity(host));
        assert!(
            !own_has_room || is_own || claimed_first,
            "{address} comes from elsewhere, with room in an own block"
        );
        let existed = self.before.blocks.get(&block.cidr).map(|(_, before)| before);
        let stays_anothers = existed.is_some_and(|before| before.affinity == block.affinity) && !is_own;
        // An earlier want of the family may have claimed the last block that the host may have.
        assert!(
            !alone || !stays_anothers || !self.can_claim(host, wanted),
            "{address} is borrowed, and a block was to be had"
        );
        let freed = |address: IpAddr| (self.reference.freed(address), address);
        let candidates: Vec<_> = addresses_of(block.cidr).filter(perhaps).map(freed).collect();
        if candidates.iter().all(|(freed, _)| *freed != Freed::Sometime) {
            let expected = candidates.iter().min().map(|(_, address)| *address);
            assert_eq!(expected, Some(address), "not the one that was freed longest ago");
        }
    }

    /// Whether a host may claim a block with a usable address: a new one, or one that was left empty.
    fn can_claim(&self, host: &str, wanted: &Wanted) -> bool {
        let below = self.before.blocks_of(host, wanted.family).len() < self.reference.cap;
        if !below || !self.reference.auto_allocate {
            return false;
        }
        let usable =
            |address: IpAddr| self.reference.is_free(address) && self.permits_here(host, wanted, address);
        self.pools(host, wanted).iter().any(|pool| {
            self.before.has_space(pool.range, pool.block_prefix, usable)
                || self.left_empty(host, pool.range).any(|block| addresses_of(block.cidr).any(usable))
        })
    }

    /// Blocks that nobody uses, and that another host has had for a while.
    fn left_empty(&self, host: &str, pool: Cidr) -> impl Iterator<Item = &IpamBlock> {
        let blocks = self.before.blocks.values().map(|(_, block)| block);
        let listed = |cidr| !self.unlisted.contains(&cidr);
        blocks.filter(move |block| pool.contains(block.cidr) && listed(block.cidr)).filter(move |block| {
            let settled = block
                .affinity_claim_time
                .is_none_or(|claimed| self.reference.now.since(claimed).as_secs() >= SETTLED);
            let is_own = block.affinity.as_ref() == Some(&name(host).into());
            let is_empty = addresses_of(block.cidr).all(|address| self.reference.is_free(address));
            !is_own && is_empty && (settled || block.affinity.is_none())
        })
    }

    /// Free addresses that a host must be able to get.
    fn reachable<'a>(&'a self, host: &'a str, wanted: &'a Wanted) -> impl Iterator<Item = IpAddr> + 'a {
        let claims = self.can_claim(host, wanted);
        let pools = self.pools(host, wanted);
        let all = pools.into_iter().flat_map(|pool| addresses_of(pool.range));
        all.filter(|address| self.reference.is_free(*address) && self.permits_here(host, wanted, *address))
            .filter(move |address| {
                let me = name(host).into();
                match self.before.block_of(*address) {
                    Some(block) if self.reference.strict => {
                        let abandoned = || {
                            self.left_empty(host, block.cidr).any(|empty| empty.cidr == block.cidr) && claims
                        };
                        block.affinity.as_ref() == Some(&me) || abandoned()
                    }
                    Some(_) => true,
                    None if self.reference.strict => claims,
                    None => self.reference.auto_allocate,
                }
            })
    }

    fn judge_refusal(&self, ask: &Ask, host: &str, error: &Error) {
        let held = self.reference.held_by(&ask.attachment);
        let asked = |address: &IpAddr| {
            ask.wanted
                .iter()
                .find(|wanted| wanted.address == Some(*address))
                .expect("only what was asked for")
        };
        match error {
            Error::Exhausted { family, .. } => {
                let wants: Vec<_> = ask.wanted.iter().filter(|wanted| wanted.family == *family).collect();
                let has = held.iter().filter(|held| Family::of(**held) == *family).count();
                let missing = wants.len().saturating_sub(has);
                assert!(missing > 0, "refused what it holds");
                let enough = |wanted: &&Wanted| {
                    // Under strict affinity one claim may give less than all.
                    let wanted_here = if self.reference.strict { 1 } else { missing };
                    self.reachable(host, wanted).count() >= wanted_here
                };
                let one = !self.reference.strict || wants.len() == 1;
                assert!(!(one && wants.iter().all(enough)), "{error}, and there is room");
            }
            Error::NoUsablePool { family, .. } => {
                let of_family = |wanted: &&Wanted| wanted.family == *family;
                assert!(
                    ask.wanted.iter().filter(of_family).any(|wanted| self.pools(host, wanted).is_empty())
                );
            }
            Error::Taken { address, .. } => {
                let lease = self.reference.leases.get(address).expect("taken by nobody");
                assert!(lease.attachment != ask.attachment, "taken by itself");
                assert!(!self.reference.is_dead(*address, host), "{address} is kept by the dead");
            }
            Error::Cooling { address, .. } => assert!(!self.reference.is_free(*address)),
            Error::OutsidePools { address, .. } => {
                let pools = self.pools(host, asked(address));
                assert!(!pools.iter().any(|pool| pool.range.contains_address(*address)));
            }
            Error::StrictAffinity { address, .. } => {
                let block = self.before.block_of(*address).expect("a block of somebody");
                assert!(self.reference.strict && block.affinity.as_ref() != Some(&name(host).into()));
            }
            Error::NoNewBlock { address, .. } => {
                assert!(self.before.block_of(*address).is_none() && !self.can_claim(host, asked(address)));
                assert!(self.reference.strict || !self.reference.auto_allocate);
            }
            Error::CarvedOut { address, .. } => {
                assert!(self.reference.is_broken(*address) && self.before.block_of(*address).is_none());
            }
            Error::HoldsAnother { asked: address, held: other } => {
                assert!(held.contains(other) && !held.contains(address));
                assert_eq!(Family::of(*address), Family::of(*other));
            }
            other => panic!("unexpected: {other}"),
        }
    }
}
