//! Mending what a check found, where other objects say what is right. Who has which address is never guessed at.

use super::draft::Draft;
use super::release::count;
use super::{Block, Error, Finding, Ipam};
use crate::api::calico::{BlockAffinity, IpamBlock, IpamHandle};
use crate::api::{Affinity, HandleId};
use crate::datastore::{Answer, Commit, Datastore, Entry, Guard, Key, Want};
use crate::net::{AddrSet, Cidr};

impl<D: Datastore> Ipam<D> {
    /// Mends a finding, if it still stands and other objects say what is right: a handle counts what its blocks say, and
    /// a record of an affinity says what its block says. True: it was mended.
    ///
    /// Where a store writes objects one by one, what mends itself may be another caller's work in progress, and is left.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn repair(&mut self, finding: &Finding) -> Result<bool, Error> {
        if finding.mends_itself() && !self.store.is_atomic() {
            return Ok(false);
        }
        match finding {
            Finding::Overcounted { handle, block, .. } => self.recount(handle, *block).await,
            Finding::UnindexedAddress { handle, block, .. } => match HandleId::new(handle.clone()) {
                Ok(handle) => self.recount(&handle, *block).await,
                Err(_) => Ok(false),
            },
            Finding::UnrecordedAffinity { block, owner }
            | Finding::UnconfirmedAffinity { block, owner, .. }
            | Finding::StaleAffinity { block, owner, .. } => self.record(owner, *block).await,
            Finding::CarvedForNobody { carved, by } => self.give_back_carved(*carved, by).await,
            Finding::NotCarved { owner, cidr, pool } => self.carve_again(*cidr, owner, pool).await,
            Finding::DamagedBlock { .. }
            | Finding::OverlappingBlocks { .. }
            | Finding::CarvedTwice { .. }
            | Finding::UnboundClaim { .. } => Ok(false),
        }
    }

    /// Makes a handle's count in a block what the block says.
    async fn recount(&mut self, handle: &HandleId, cidr: Cidr) -> Result<bool, Error> {
        let (block, stored) = self.block_and(cidr, Key::Handle(handle.clone())).await?;
        let held = match &block {
            Some(entry) => match Block::from_wire(entry.clone().into::<IpamBlock>()) {
                Ok(block) => count(&block, handle),
                Err(_) => return Ok(false),
            },
            None => 0,
        };
        let mut draft = Draft::default();
        draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        draft.set_count(handle, cidr, held);
        self.mend(draft, cidr, block.as_ref()).await
    }

    /// Makes the record of an affinity what the block says.
    async fn record(&mut self, owner: &Affinity, cidr: Cidr) -> Result<bool, Error> {
        let (block, stored) = self.block_and(cidr, Key::Affinity(owner.clone(), cidr)).await?;
        let is_own = block
            .as_ref()
            .is_some_and(|entry| entry.clone().into::<IpamBlock>().affinity.as_ref() == Some(owner));
        let mut draft = Draft::default();
        match stored {
            stored if is_own => {
                let stored = stored.map(|entry| (entry.revision, entry.into::<BlockAffinity>()));
                draft.confirm(owner, cidr, stored);
            }
            Some(entry) => draft.drop_affinity(owner, cidr, entry.revision),
            None => {}
        }
        self.mend(draft, cidr, block.as_ref()).await
    }

    async fn block_and(&mut self, cidr: Cidr, key: Key) -> Result<(Option<Entry>, Option<Entry>), Error> {
        let wants = [Want::Object(Key::Block(cidr)), Want::Object(key)];
        let mut answers = self.store.read(&wants).await?.into_iter().map(Answer::object);
        Ok((answers.next().flatten(), answers.next().flatten()))
    }

    /// Commits a draft, if the block that it follows is still the same.
    async fn mend(&mut self, draft: Draft, cidr: Cidr, block: Option<&Entry>) -> Result<bool, Error> {
        let mut batch = draft.into_batch(&AddrSet::new());
        if batch.is_empty() {
            return Ok(false);
        }
        batch.guards.push(Guard::Unchanged(Key::Block(cidr), block.map(|entry| entry.revision)));
        Ok(self.store.commit(batch).await? == Commit::Applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::calico::{AffinityState, Attribute, AttributeFields};
    use crate::clock::Timestamp;
    use crate::datastore::memory::Memory;
    use crate::datastore::run_in_place;
    use crate::ipam::audit;

    fn block(affinity: Option<&str>, handles: &[&str]) -> IpamBlock {
        let affinity = affinity.map(|text| text.parse().expect("an affinity"));
        let cidr = "10.0.0.0/30".parse().expect("cidr");
        let mut block = Block::new(cidr, affinity, Timestamp::from_nanos(1), 0);
        for handle in handles {
            let fields = AttributeFields { handle_id: Some((*handle).into()), ..AttributeFields::default() };
            let ordinal = block.next_free(&AddrSet::new()).expect("room");
            block.assign(ordinal, &Attribute::new(&fields));
        }
        block.wire().clone()
    }

    /// Plants objects, checks that something is found, mends it, and checks that nothing is left.
    fn mends(plant: impl Fn(&mut Memory, Cidr), found: usize, mended: usize) {
        let mut store = Memory::new();
        let cidr: Cidr = "10.0.0.0/30".parse().expect("cidr");
        plant(&mut store, cidr);
        let look = |store: &Memory| audit(store.entries().map(|entry| (entry.key, entry.object)));
        let findings = look(&store);
        assert_eq!(findings.len(), found, "{findings:?}");
        let mut ipam = Ipam::new(store);
        let done =
            findings.iter().filter(|finding| run_in_place(ipam.repair(finding)).expect("no failure")).count();
        assert_eq!(done, mended, "{findings:?}");
        let left = look(&ipam.into_store());
        assert_eq!(left.len(), found - mended, "{left:?}");
    }

    fn handle(counts: &[(&str, u32)]) -> IpamHandle {
        let block = counts.iter().map(|(cidr, count)| (cidr.parse().expect("cidr"), *count)).collect();
        IpamHandle { block, ..IpamHandle::default() }
    }

    fn id(name: &str) -> Key {
        Key::Handle(HandleId::new(name).expect("a handle"))
    }

    fn affinity(owner: &str, cidr: Cidr) -> Key {
        Key::Affinity(owner.parse().expect("an affinity"), cidr)
    }

    #[test]
    fn a_handle_counts_what_its_blocks_say() {
        mends(
            |store, cidr| {
                store.plant(Key::Block(cidr), block(None, &["a", "b", "b"]));
                store.plant(id("b"), handle(&[("10.0.0.0/30", 3), ("10.9.0.0/30", 1)]));
                store.plant(id("c"), handle(&[("10.0.0.0/30", 1)]));
            },
            4,
            4,
        );
    }

    #[test]
    fn a_record_says_what_its_block_says() {
        mends(
            |store, cidr| {
                store.plant(Key::Block(cidr), block(Some("host:n1"), &[]));
                store.plant(affinity("host:n2", cidr), BlockAffinity::default());
                store.plant(
                    affinity("host:n3", "10.7.0.0/30".parse().expect("cidr")),
                    BlockAffinity::default(),
                );
            },
            3,
            3,
        );
        mends(
            |store, cidr| {
                store.plant(Key::Block(cidr), block(Some("host:n1"), &[]));
                store.plant(affinity("host:n1", cidr), BlockAffinity::new(AffinityState::Pending));
            },
            1,
            1,
        );
    }

    #[test]
    fn what_a_damaged_block_held_is_not_guessed_at() {
        mends(
            |store, cidr| {
                let mut damaged = block(None, &["a"]);
                damaged.unallocated.clear();
                store.plant(Key::Block(cidr), damaged);
            },
            1,
            0,
        );
    }
}
