//! What becomes of a block when its last address is freed.

use super::draft::Draft;
use super::policy::Policy;
use super::{Error, Ipam, pools};
use crate::api::Affinity;
use crate::api::calico::Node;
use crate::datastore::{Answer, Datastore, Key, Want};
use crate::net::Cidr;

impl<D: Datastore> Ipam<D> {
    /// Gives up a block of the draft that has become empty, unless it is its host's last block of a pool that still
    /// serves that host: the next container there then needs no new claim.
    pub(super) async fn give_back(
        &mut self,
        policy: &Policy,
        draft: &mut Draft,
        cidr: Cidr,
    ) -> Result<(), Error> {
        let Some(owner) = draft.block(cidr).map(|block| block.affinity().cloned()) else {
            return Ok(());
        };
        let Some(owner) = owner else {
            draft.delete_block(cidr);
            return Ok(());
        };
        let affinities = self.store.read(&[Want::Affinities(owner.clone())]).await?.pop();
        let affinities = affinities.map(Answer::objects).unwrap_or_default();
        let pool = policy.pool_of(cidr);
        let in_pool = |key: &Key| {
            matches!((key, pool), (Key::Affinity(_, other), Some(pool))
            if *other != cidr && pool.spec.cidr.contains(*other) && !draft.is_given_up(*other))
        };
        if let Some(pool) = pool
            && pools::is_enabled(pool)
            && !affinities.iter().any(|entry| in_pool(&entry.key))
            && self.serves(policy, pool, &owner).await?
        {
            return Ok(());
        }
        draft.delete_block(cidr);
        let record = affinities.into_iter().find(|entry| entry.key == Key::Affinity(owner.clone(), cidr));
        if let Some(entry) = record {
            draft.drop_affinity(&owner, cidr, entry.revision);
        }
        Ok(())
    }

    /// Whether a pool selects the host that an affinity names.
    async fn serves(
        &mut self,
        policy: &Policy,
        pool: &crate::api::calico::IpPool,
        owner: &Affinity,
    ) -> Result<bool, Error> {
        let Affinity::Host(host) = owner else {
            return Ok(true);
        };
        if *host == policy.host {
            return Ok(pools::selects_host(pool, &policy.labels));
        }
        let node =
            self.store.read(&[Want::Object(Key::Node(host.clone()))]).await?.pop().and_then(Answer::object);
        let labels = node.map(|entry| entry.into::<Node>().metadata.labels).unwrap_or_default();
        Ok(pools::selects_host(pool, &labels))
    }
}
