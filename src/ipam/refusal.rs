//! Why nothing could be given: what was considered, gathered only when a request is refused.

use super::assign::Wanted;
use super::error::{Holder, Limit, PoolReport};
use super::ledger::Ledger;
use super::owner::{self, noted};
use super::policy::Policy;
use super::pools::{Ineligible, Pool};
use super::search::{Area, Search};
use super::{Error, reservation};
use crate::api::Affinity;
use crate::api::calico::AttributeFields;
use crate::datastore::{self, Datastore, RoomOf, Want};
use crate::net::{AddrSet, Cidr};

/// No pool may serve the request.
pub(super) fn no_usable_pool(policy: &Policy, wanted: &Wanted, refused: &[(Pool, Ineligible)]) -> Error {
    Error::NoUsablePool { family: wanted.family, host: policy.host.clone(), refused: reasons(refused) }
}

fn reasons(refused: &[(Pool, Ineligible)]) -> Vec<(String, Cidr, Ineligible)> {
    refused.iter().map(|(pool, why)| (pool.name.clone(), pool.cidr, why.clone())).collect()
}

/// Pools may serve the request, and have nothing left for it.
pub(super) async fn exhausted<D: Datastore>(
    search: &mut Search<'_, D>,
    areas: &[Area],
    wanted: &Wanted,
    limit: Option<Limit>,
    refused: &[(Pool, Ineligible)],
) -> Result<Error, Error> {
    let me = search.policy.affinity();
    let mut pools = Vec::new();
    for area in areas {
        pools.push(report(search, area, &me).await?);
    }
    let limit = limit.filter(|limit| match limit {
        // Strict affinity is the reason only where it keeps something from the host.
        Limit::Strict => pools.iter().any(|pool| !pool.lent_out.is_empty()),
        Limit::MaxBlocks { .. } | Limit::AutoAllocateOff => true,
    });
    let (family, host, refused) = (wanted.family, search.policy.host.clone(), reasons(refused));
    Ok(Error::Exhausted { family, host, pools, refused, limit })
}

async fn report<D: Datastore>(
    search: &mut Search<'_, D>,
    area: &Area,
    me: &Affinity,
) -> Result<PoolReport, Error> {
    let cidr = area.pool.cidr;
    let others = Want::Room { of: RoomOf::AllBut(me.clone()), within: vec![cidr], enough: usize::MAX };
    let answers = search.store.read(&[Want::BlockCidrs(cidr), others]).await?;
    let mut answers = answers.into_iter().map(datastore::Answer::cidrs);
    let (blocks, others) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    let mut lent_out: Vec<(String, usize)> = Vec::new();
    let mut free_elsewhere = 0;
    for other in others {
        // A damaged block is somebody else's concern here.
        let Ok(Some(block)) = search.load(other).await else {
            continue;
        };
        let free = block.count_free(&area.unusable);
        if free == 0 {
            continue;
        }
        free_elsewhere += free;
        let owner = block.affinity().map_or_else(|| "nobody".to_owned(), |owner| owner.name().to_string());
        match lent_out.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, count)) => *count += 1,
            None => lent_out.push((owner, 1)),
        }
    }
    let cooling = search
        .draft
        .blocks()
        .filter(|block| cidr.contains(block.cidr()))
        .map(|block| block.allocations().filter(|allocation| allocation.fields.released_at.is_some()).count())
        .sum();
    let ledger = Ledger::of(search.store, cidr, cidr).await?;
    let mut carved = AddrSet::new();
    ledger.carved().iter().for_each(|network| carved.insert_cidr(*network));
    let slots = super::carve::slots(cidr, ledger.taken(), area.pool.block_prefix);
    Ok(PoolReport {
        name: area.pool.name.clone(),
        cidr,
        blocks: blocks.len(),
        blocks_max: cidr.subnet_count(area.pool.block_prefix),
        lent_out,
        free_elsewhere,
        unusable: area.unusable.count_in(cidr),
        cooling,
        carved: carved.count_in(cidr),
        obstacle: slots.obstacle(cidr),
    })
}

/// Who has an address, for a message.
pub(super) fn holder(fields: &AttributeFields<'_>) -> Holder {
    let pod = match (noted(fields, owner::key::NAMESPACE), noted(fields, owner::key::POD)) {
        (Some(namespace), Some(pod)) => Some(format!("{namespace}/{pod}")),
        _ => None,
    };
    Holder {
        handle: fields.handle_id.as_deref().map(str::to_owned),
        pod,
        node: noted(fields, owner::key::NODE).map(str::to_owned),
    }
}

/// The reservation that keeps an address for its subnet, if one does.
pub(super) fn subnet_reservation(policy: &Policy, address: std::net::IpAddr) -> Option<String> {
    let of_subnet = |name: &str| {
        policy.pools.iter().any(|pool| reservation::subnet_reservation_name(pool.name()) == name)
    };
    policy
        .reservations
        .iter()
        .map(|(_, stored)| stored)
        .find(|stored| of_subnet(stored.name()) && reservation::addresses(&stored.spec).contains(address))
        .map(|stored| stored.name().to_owned())
}
