//! Allocations that people apply: each is carved at once.

use super::put::{Carvable, IfExists, Outcome, born};
use super::{CarveError, check_source, guarded, length, serving};
use crate::api::milo::{IpAllocation, IpAllocationSpec, IpAllocationStatus, SizeAsked};
use crate::api::validate::Problem;
use crate::api::validate::milo::check_allocation_change;
use crate::clock::Timestamp;
use crate::datastore::{Batch, Carved, CarvedFor, Datastore, Key, ProjectName};
use crate::ipam::{Ipam, Trial};
use crate::net::Family;

impl<D: Datastore> Ipam<D> {
    /// Makes an allocation, and carves its network; or changes what may change of one that is there. Whatever the manifest
    /// says of its status is not looked at.
    ///
    /// # Errors
    /// When the pool is missing, closed, of another family or exhausted, the CIDR asked for is taken, or the
    /// specification differs from that of the allocation of this name. Nothing was changed.
    pub async fn allocate(
        &mut self,
        project: &str,
        manifest: &IpAllocation,
        if_exists: IfExists,
        trial: Trial,
        now: Timestamp,
    ) -> Result<Outcome<IpAllocation>, CarveError> {
        self.put(project, manifest, if_exists, trial, now).await
    }
}

impl Carvable for IpAllocationSpec {
    fn key(name: ProjectName) -> Key {
        Key::Allocation(name)
    }

    fn family(&self) -> Family {
        self.ip_family
    }

    fn problems(stored: &IpAllocation, manifest: &IpAllocation) -> Vec<Problem> {
        check_allocation_change(stored, manifest)
    }

    /// Nothing may.
    fn change(&mut self, _manifest: &Self) {}

    async fn draft<D: Datastore>(
        ipam: &mut Ipam<D>,
        name: &ProjectName,
        manifest: &IpAllocation,
        size: &SizeAsked,
        now: Timestamp,
    ) -> Result<(IpAllocation, Batch), CarveError> {
        let sources = ipam.pool_records().await?;
        let source = serving(&sources, &manifest.spec.pool_ref.name, None, &name.project)?;
        check_source(source, manifest.spec.ip_family)?;
        let prefix = length(source, size, None)?;
        let (cidr, guards) = ipam.choose(source, prefix, size.cidr).await?;
        let mut made = manifest.clone();
        born(&mut made.metadata, now);
        made.status = IpAllocationStatus::carved(cidr, source.name(), now).into_value();
        let carved = Carved {
            pool: source.name().to_owned(),
            owner: CarvedFor::Allocation(name.clone()),
            since: Some(now),
        };
        let mut batch = Batch::default();
        batch.create(Key::Carved(cidr), carved);
        batch.create(Key::Allocation(name.clone()), made.clone());
        Ok((made, guarded(batch, guards)))
    }
}
