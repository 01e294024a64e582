//! What people carve out of the pools that containers use.

use host_affine::api::milo::{IpAllocation, IpAllocationSpec, IpAllocationStatus, IpClaim, IpClaimStatus};
use host_affine::datastore::ProjectName;
use host_affine::ipam::carve::Clash;
use host_affine::ipam::{CarveError, IfExists, Outcome, Trial};
use host_affine::net::{Cidr, Family};
use serde_json::json;

use super::super::build::cidr;
use super::Machine;
use super::operation::{POOLS, block_at};
use super::subject::{Subject, finish};

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carve {
    /// Its name, by number. Odd ones are claims.
    pub(crate) name: u8,
    /// The pool.
    pub(crate) pool: usize,
    /// How much longer than the pool's prefix.
    pub(crate) longer: u8,
    /// The network around one address, instead of any of that length.
    pub(crate) around: Option<usize>,
}

fn named(name: u8) -> ProjectName {
    ProjectName { project: "p".into(), name: format!("n{name}") }
}

impl<D: Subject> Machine<D> {
    pub(super) fn carve(&mut self, asked: Carve) {
        let (pool, range, _) = POOLS[asked.pool];
        let range = cidr(range);
        let wanted = match asked.around {
            Some(place) => block_at(place),
            None => match Cidr::containing(range.first(), range.prefix() + asked.longer) {
                Some(sized) => sized,
                None => return,
            },
        };
        let length = wanted.prefix();
        let requested = asked.around.map(|_| wanted);
        let outcome = if asked.name % 2 == 1 {
            self.claim(asked.name, pool, range.family(), length, requested)
        } else {
            self.allocate(asked.name, pool, range.family(), length, requested)
        };
        if !self.reference.store.atomic {
            assert!(matches!(outcome, Err(CarveError::NotAtomic)), "no guard keeps two apart");
            return;
        }
        let name = named(asked.name).name;
        match outcome {
            Ok(Outcome::Created(got)) => {
                assert!(!self.reference.carved.contains_key(&name), "it was there");
                let expected = requested.or_else(|| self.lowest_free(range, length));
                assert_eq!(Some(got), expected, "not the lowest that is free");
                assert!(range.contains(got) && self.is_free_for_people(got), "{got} is somebody's");
                self.reference.carved.insert(name, got);
            }
            Ok(Outcome::Unchanged(got) | Outcome::Configured(got)) => {
                assert_eq!(self.reference.carved.get(&name), Some(&got));
            }
            Err(CarveError::Immutable(_)) => assert!(self.reference.carved.contains_key(&name)),
            Err(CarveError::PoolMissing { .. }) => assert!(!self.reference.pools.contains_key(pool)),
            Err(CarveError::PoolClosed { .. }) => assert!(self.reference.pools[pool].disabled),
            Err(CarveError::Exhausted { .. }) => assert_eq!(self.lowest_free(range, length), None),
            Err(CarveError::Clash { clash, .. }) => match clash {
                Clash::Outside { asked, .. } => assert!(!range.contains(asked)),
                Clash::Taken { asked, .. } => assert!(!self.is_free_for_people(asked)),
            },
            // A claim's network may have another size than the annotation says.
            Err(CarveError::Invalid(_)) => assert!(asked.around.is_some()),
            Err(other) => panic!("unexpected: {other}"),
        }
    }

    fn allocate(
        &mut self,
        name: u8,
        pool: &str,
        family: Family,
        length: u8,
        requested: Option<Cidr>,
    ) -> Result<Outcome<Cidr>, CarveError> {
        let name = named(name);
        let mut manifest = IpAllocation::new(name.name, IpAllocationSpec::new(family, pool));
        let (key, value) = match requested {
            Some(cidr) => ("requested-cidr", cidr.to_string()),
            None => ("prefix-length", length.to_string()),
        };
        manifest.metadata.annotations.insert(format!("ipam.miloapis.com/{key}"), value);
        let made =
            self.ipam.allocate(&name.project, &manifest, IfExists::Change, Trial::Write, self.reference.now);
        finish(made).map(|outcome| {
            outcome_of(outcome, |it| IpAllocationStatus::of(it).and_then(|status| status.allocated_cidr))
        })
    }

    fn claim(
        &mut self,
        name: u8,
        pool: &str,
        family: Family,
        length: u8,
        requested: Option<Cidr>,
    ) -> Result<Outcome<Cidr>, CarveError> {
        let name = named(name);
        let spec =
            json!({ "ipFamily": family.to_string(), "prefixLength": length, "poolRef": { "name": pool } });
        let mut manifest = IpClaim::new(name.name, serde_json::from_value(spec).expect("a claim"));
        if let Some(cidr) = requested {
            let key = "ipam.miloapis.com/requested-cidr".to_owned();
            manifest.metadata.annotations.insert(key, cidr.to_string());
        }
        let made =
            self.ipam.claim(&name.project, &manifest, IfExists::Change, Trial::Write, self.reference.now);
        finish(made).map(|outcome| {
            outcome_of(outcome, |it| IpClaimStatus::of(it).and_then(|status| status.allocated_cidr))
        })
    }

    pub(super) fn give_back_carve(&mut self, name: u8) {
        let name_of = named(name);
        let ended = if name % 2 == 1 {
            finish(self.ipam.release_claim(&name_of, self.reference.now)).map(drop)
        } else {
            finish(self.ipam.release_allocation(&name_of)).map(drop)
        };
        let was_there = self.reference.carved.remove(&name_of.name).is_some();
        match ended {
            Ok(()) => assert!(was_there),
            Err(CarveError::Missing) => assert!(!was_there || self.ipam.store_mut().loses_answers()),
            Err(other) => panic!("unexpected: {other}"),
        }
    }

    /// Whether nobody has any of a network: no block, and no one else.
    fn is_free_for_people(&self, network: Cidr) -> bool {
        self.before.blocks.keys().all(|block| !block.overlaps(network))
            && self.reference.carved.values().all(|carved| !carved.overlaps(network))
    }

    fn lowest_free(&self, range: Cidr, prefix: u8) -> Option<Cidr> {
        (0..range.subnet_count(prefix))
            .filter_map(|position| range.nth_subnet(prefix, position))
            .find(|network| self.is_free_for_people(*network))
    }
}

fn outcome_of<T>(outcome: Outcome<T>, cidr: impl Fn(&T) -> Option<Cidr>) -> Outcome<Cidr> {
    let of = |it: T| cidr(&it).expect("a CIDR");
    match outcome {
        Outcome::Created(it) => Outcome::Created(of(it)),
        Outcome::Configured(it) => Outcome::Configured(of(it)),
        Outcome::Unchanged(it) => Outcome::Unchanged(of(it)),
    }
}
