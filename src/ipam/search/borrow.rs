//! Addresses in blocks that are not the host's: nobody's, and other hosts'.

use super::{Area, Found, Search};
use crate::api::Affinity;
use crate::datastore::{Datastore, RoomOf};
use crate::ipam::{Error, walk};
use crate::net::Cidr;

/// How many of nobody's blocks are asked for: nearly always the first has an address.
const ROOM_FIRST: usize = 16;

impl<D: Datastore> Search<'_, D> {
    /// A block of nobody's that has room. Such a block is a host's own in all but name: using it takes nothing from
    /// others, so it needs no second look at the host's blocks, and a host beyond its limit is served as fast as below.
    pub(super) async fn nobodys(
        &mut self,
        areas: &[Area],
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        for cidr in self.room(RoomOf::Nobody, areas, ROOM_FIRST).await? {
            if let Some(found) = self.usable(cidr, areas, damaged).await? {
                return Ok(Some(found));
            }
            self.correct_room(cidr);
        }
        Ok(None)
    }

    /// A free address in a block of another host, or of nobody. Hosts begin at different blocks, as with new ones.
    pub(super) async fn borrowed(
        &mut self,
        areas: &[Area],
        me: &Affinity,
        damaged: &mut Option<Error>,
    ) -> Result<Option<Found>, Error> {
        let mut candidates = self.room(RoomOf::AllBut(me.clone()), areas, usize::MAX).await?;
        candidates.sort_by_key(|cidr| self.distance(areas, *cidr));
        for cidr in candidates {
            if let Some(found) = self.usable(cidr, areas, damaged).await? {
                return Ok(Some(found));
            }
            self.correct_room(cidr);
        }
        Ok(None)
    }

    /// How late a block comes in this host's walk: by pool, then by distance from the start.
    pub(super) fn distance(&self, areas: &[Area], cidr: Cidr) -> (usize, u128) {
        let place = areas.iter().position(|area| area.pool.cidr.contains(cidr)).unwrap_or(usize::MAX);
        let steps = areas.get(place).map(|area| {
            let blocks = area.pool.cidr.subnet_count(area.pool.block_prefix);
            let start = walk::start(self.policy.host.as_str(), blocks);
            let position = area.pool.cidr.subnet_position(cidr).unwrap_or(0);
            if position >= start { position - start } else { blocks - start + position }
        });
        (place, steps.unwrap_or(0))
    }
}
