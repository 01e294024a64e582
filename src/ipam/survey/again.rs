//! Looking again at what did not agree: a survey reads one kind of object after the other while calls go on, so a block
//! may be older than the record of its affinity.

use crate::api::milo::{NAMESPACE, allocation_of_claim};
use crate::datastore::{self, Answer, CarvedFor, Datastore, Key, ProjectName, Want};
use crate::ipam::{Error, Finding, Ipam, audit};

impl<D: Datastore> Ipam<D> {
    /// Those of some findings that still stand when the objects which they are about are read at once.
    pub(super) async fn that_still_stand(&mut self, findings: Vec<Finding>) -> Result<Vec<Finding>, Error> {
        let mut standing = Vec::with_capacity(findings.len());
        for finding in findings {
            if self.still_stands(&finding).await? {
                standing.push(finding);
            }
        }
        Ok(standing)
    }

    async fn still_stands(&mut self, finding: &Finding) -> Result<bool, Error> {
        let wants: Vec<Want> = about(finding).into_iter().map(Want::Object).collect();
        if wants.is_empty() {
            return Ok(true);
        }
        match self.store.read(&wants).await {
            Ok(answers) => {
                let entries = answers.into_iter().filter_map(Answer::object);
                Ok(audit(entries.map(|entry| (entry.key, entry.object))).contains(finding))
            }
            // What is damaged is said elsewhere.
            Err(datastore::Error::Damaged { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// The objects that decide on a finding. None: it is about one object alone.
fn about(finding: &Finding) -> Vec<Key> {
    match finding {
        Finding::DamagedBlock { .. } => Vec::new(),
        Finding::OverlappingBlocks { one, other } => vec![Key::Block(*one), Key::Block(*other)],
        Finding::UnindexedAddress { handle, block, .. } => match crate::api::HandleId::new(handle.clone()) {
            Ok(handle) => vec![Key::Block(*block), Key::Handle(handle)],
            Err(_) => Vec::new(),
        },
        Finding::Overcounted { handle, block, .. } => {
            vec![Key::Block(*block), Key::Handle(handle.clone())]
        }
        Finding::UnrecordedAffinity { block, owner }
        | Finding::UnconfirmedAffinity { block, owner, .. }
        | Finding::StaleAffinity { block, owner, .. } => {
            vec![Key::Block(*block), Key::Affinity(owner.clone(), *block)]
        }
        Finding::CarvedTwice { one, other } => {
            [one, other].into_iter().flat_map(|cidr| [Key::Block(*cidr), Key::Carved(*cidr)]).collect()
        }
        Finding::CarvedForNobody { carved: cidr, by: owner } | Finding::NotCarved { owner, cidr, .. } => {
            let mut keys = vec![Key::Carved(*cidr)];
            match &**owner {
                CarvedFor::Allocation(name) => keys.push(Key::Allocation(name.clone())),
                CarvedFor::ChildPool(name) => keys.push(Key::Pool(name.clone())),
                CarvedFor::Claim(name) => {
                    let bound = allocation_of_claim(NAMESPACE, &name.name);
                    keys.push(Key::Claim(name.clone()));
                    keys.push(Key::Allocation(ProjectName { project: name.project.clone(), name: bound }));
                }
            }
            keys
        }
        Finding::UnboundClaim { claim, allocation } => {
            let bound = ProjectName { project: claim.project.clone(), name: allocation.clone() };
            vec![Key::Claim(claim.clone()), Key::Allocation(bound)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::calico::{BlockAffinity, IpamBlock};
    use crate::clock::Timestamp;
    use crate::datastore::memory::Memory;
    use crate::datastore::run_in_place;
    use crate::net::Cidr;

    #[test]
    fn what_was_only_read_at_two_moments_is_dropped_and_what_is_so_stays() {
        let cidr: Cidr = "10.0.0.0/30".parse().expect("a range");
        let owner: crate::api::Affinity = "host:n".parse().expect("an owner");
        let other: crate::api::Affinity = "host:m".parse().expect("an owner");
        let mut store = Memory::new();
        let block = IpamBlock::new(cidr, Some(owner.clone()), Timestamp::from_nanos(1), 0);
        store.plant(Key::Block(cidr), block);
        store.plant(Key::Affinity(owner.clone(), cidr), BlockAffinity::default());
        store.plant(Key::Affinity(other.clone(), cidr), BlockAffinity::default());
        let stale = |owner| Finding::StaleAffinity { block: cidr, owner, state: "confirmed" };
        let transient = [
            stale(owner.clone()),
            Finding::UnrecordedAffinity { block: cidr, owner },
            Finding::OverlappingBlocks { one: cidr, other: cidr },
        ];
        let so: Vec<Finding> = audit(store.entries().map(|entry| (entry.key, entry.object)));
        assert!(matches!(&so[..], [Finding::StaleAffinity { owner, .. }] if *owner == other), "{so:?}");
        let mut ipam = Ipam::new(store);
        let all: Vec<Finding> = transient.into_iter().chain(so.clone()).collect();
        assert_eq!(run_in_place(ipam.that_still_stand(all)).expect("looked again"), so);
    }
}
