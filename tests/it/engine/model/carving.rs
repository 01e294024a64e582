//! How blocks end without a container that ends: they are given up, or their pool goes.

use host_affine::api::calico::IpamBlock;
use host_affine::ipam::{Emptiness, Force, ReleaseAffinityError, RemoveError, Removed};
use host_affine::net::Cidr;

use super::super::build::{affinity, cidr};
use super::Machine;
use super::operation::{POOLS, block_at};
use super::snapshot::{Snapshot, addresses_of};
use super::subject::{Subject, finish};

/// Whether a block holds something, as far as the reference can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Empty,
    /// What was seen to have cooled under another cooldown may be written so, or not.
    Unknown,
    Full,
}

fn required(empty_only: bool) -> Emptiness {
    if empty_only { Emptiness::Required } else { Emptiness::NotRequired }
}

impl<D: Subject> Machine<D> {
    fn fill(&self, block: Cidr) -> Fill {
        if addresses_of(block).all(|address| self.reference.is_free(address)) {
            Fill::Empty
        } else if addresses_of(block).any(|address| !self.reference.is_perhaps_free(address)) {
            Fill::Full
        } else {
            Fill::Unknown
        }
    }

    pub(super) fn give_up(&mut self, host: &str, empty_only: bool) {
        let required = required(empty_only);
        let outcome = finish(self.ipam.release_affinities_of(&affinity(host), required, self.reference.now));
        let owner = affinity(host);
        self.judge_given_up(|block| block.affinity.as_ref() == Some(&owner), empty_only, outcome);
    }

    /// Gives up the block of an address, whoever it is kept for.
    pub(super) fn give_up_block(&mut self, place: usize, empty_only: bool) {
        let block = block_at(place);
        let required = required(empty_only);
        let outcome = finish(self.ipam.release_block_affinity(block, required, None, self.reference.now));
        if matches!(outcome, Err(ReleaseAffinityError::Missing(_))) {
            let told = !self.ipam.store_mut().loses_answers();
            assert!(!told || !self.before.blocks.contains_key(&block), "{block} is there");
        }
        self.judge_given_up(|other| other.cidr == block, empty_only, outcome);
    }

    fn judge_given_up(
        &mut self,
        meant: impl Fn(&IpamBlock) -> bool,
        empty_only: bool,
        outcome: Result<Removed, ReleaseAffinityError>,
    ) {
        let after = Snapshot::of(self.ipam.store_mut());
        let (mut went, mut some_full) = (0, false);
        for (block, (revision, before)) in &self.before.blocks {
            let now = after.blocks.get(block);
            if !meant(before) {
                assert!(now.is_some_and(|(now, _)| now == revision), "{block} was not meant");
                continue;
            }
            let fill = self.fill(*block);
            let Some((_, now)) = now else {
                assert_ne!(fill, Fill::Full, "{block} is gone, and held something");
                went += 1;
                continue;
            };
            some_full = true;
            assert_ne!(fill, Fill::Empty, "{block} is left, and holds nothing");
            let expected = if empty_only { before.affinity.as_ref() } else { None };
            assert_eq!(now.affinity.as_ref(), expected, "{block}");
        }
        match outcome {
            Ok(removed) => {
                assert!(!(empty_only && some_full));
                let told = !self.ipam.store_mut().loses_answers();
                assert!(
                    removed.blocks == went || (!told && removed.blocks < went),
                    "{removed:?}, {went} went"
                );
            }
            Err(ReleaseAffinityError::NotEmpty { .. }) => assert!(empty_only && some_full),
            Err(ReleaseAffinityError::Missing(_)) => {
                assert!(went == 0 || self.ipam.store_mut().loses_answers());
            }
            Err(other) => panic!("unexpected: {other}"),
        }
    }

    pub(super) fn remove_pool(&mut self, which: usize, force: bool) {
        let (name, range, _) = POOLS[which];
        let range = cidr(range);
        let forced = if force { Force::Yes } else { Force::No };
        let outcome = finish(self.ipam.remove_pool(name, forced, self.reference.now));
        let fills: Vec<Fill> = self
            .before
            .blocks
            .keys()
            .filter(|block| range.contains(**block))
            .map(|block| self.fill(*block))
            .collect();
        match outcome {
            Err(RemoveError::Missing) => assert!(!self.reference.pools.contains_key(name)),
            Err(RemoveError::Holds(_)) => {
                let carved = self.reference.carved.values().any(|carved| range.contains(*carved));
                assert!(!force && (carved || fills.iter().any(|fill| *fill != Fill::Empty)));
                let stored = self.stored_pool(name).expect("it stays");
                assert_eq!(stored.spec.disabled, self.reference.pools[name].disabled, "nothing is changed");
            }
            Ok(_) => {
                assert!(force || !fills.contains(&Fill::Full), "it held something");
                assert!(self.reference.pools.remove(name).is_some());
                assert!(self.stored_pool(name).is_none());
                let after = Snapshot::of(self.ipam.store_mut());
                let left = after
                    .blocks
                    .keys()
                    .find(|block| range.contains(**block) && self.fill(**block) == Fill::Empty);
                assert_eq!(left, None, "an empty block of a pool that is gone");
            }
            Err(other) => panic!("unexpected: {other}"),
        }
    }
}
