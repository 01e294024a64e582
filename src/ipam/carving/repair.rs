//! Making the records of what was carved agree with whom it was carved for.

use crate::api::milo::{IpAllocation, IpClaim};
use crate::datastore::{Batch, Carved, CarvedFor, Commit, Datastore, Guard, Key};
use crate::ipam::{Error, Ipam};
use crate::net::Cidr;

impl<D: Datastore> Ipam<D> {
    /// Gives back a network that is carved out for something that does not exist. False: somebody changed it meanwhile.
    pub(in crate::ipam) async fn give_back_carved(
        &mut self,
        cidr: Cidr,
        owner: &CarvedFor,
    ) -> Result<bool, Error> {
        let Some((revision, carved)) = self.stored::<Carved>(Key::Carved(cidr)).await? else {
            return Ok(false);
        };
        let guard = match owner {
            CarvedFor::Allocation(name) => Guard::Unchanged(Key::Allocation(name.clone()), None),
            CarvedFor::Claim(name) => Guard::Unchanged(Key::Claim(name.clone()), None),
            CarvedFor::ChildPool(name) => Guard::Unchanged(Key::Pool(name.clone()), None),
        };
        let mut batch = Batch::default();
        batch.delete(Key::Carved(cidr), revision);
        // One that names another network keeps it; only the record of this one goes.
        if let Some(guard) = Some(guard).filter(|_| carved.owner == *owner)
            && self.is_absent(owner).await?
        {
            batch.guards.push(guard);
        }
        Ok(self.store.commit(batch).await? == Commit::Applied)
    }

    async fn is_absent(&mut self, owner: &CarvedFor) -> Result<bool, Error> {
        Ok(match owner {
            CarvedFor::Allocation(name) => {
                self.stored::<IpAllocation>(Key::Allocation(name.clone())).await?.is_none()
            }
            CarvedFor::Claim(name) => self.stored::<IpClaim>(Key::Claim(name.clone())).await?.is_none(),
            CarvedFor::ChildPool(_) => true,
        })
    }

    /// Writes down again what was carved for something that exists, if nothing else lies there. False: something does.
    pub(in crate::ipam) async fn carve_again(
        &mut self,
        cidr: Cidr,
        owner: &CarvedFor,
        pool: &str,
    ) -> Result<bool, Error> {
        let mut batch = Batch::default();
        let carved = Carved { pool: pool.to_owned(), owner: owner.clone(), since: None };
        if let Some((revision, _)) = self.stored::<Carved>(Key::Carved(cidr)).await? {
            batch.update(Key::Carved(cidr), revision, carved);
        } else {
            batch.create(Key::Carved(cidr), carved);
            batch.guards.push(Guard::NothingNewIn(cidr, Vec::new()));
        }
        Ok(self.store.commit(batch).await? == Commit::Applied)
    }
}
