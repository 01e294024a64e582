//! What people carved out of pools, among the blocks of hosts.

use serde_json::{Value, json};

use super::super::super::error::Error;
use super::super::super::render::{count, printable};
use super::super::super::store::Store;
use crate::datastore::{
    Answer, Carved, CarvedFor, Collection, Datastore as _, Entry, Key, Want, run_in_place,
};
use crate::ipam::{Census, Ipam, PoolUsage, Usage};
use crate::net::Cidr;

/// A network, and what it was carved out for.
pub(super) type Carving = (Cidr, CarvedFor);

/// Everything that was carved out for something other than blocks.
pub(super) fn read(ipam: &mut Ipam<Store>) -> Result<Vec<Carving>, Error> {
    let read = run_in_place(ipam.store_mut().read(&[Want::All(Collection::Carved)]))?.pop();
    let carving = |entry: Entry| match entry.key {
        Key::Carved(cidr) => Some((cidr, entry.into::<Carved>().owner)),
        _ => None,
    };
    Ok(read.map(Answer::objects).unwrap_or_default().into_iter().filter_map(carving).collect())
}

/// Which pools have free addresses and no place for a block, a line each.
pub(super) fn obstacles(census: &Census) -> Vec<String> {
    let obstacle = |pool: &PoolUsage| {
        let obstacle = pool.slots.obstacle(pool.cidr).filter(|_| !pool.disabled)?;
        Some(format!("note: pool `{}` has no place for a further block: {obstacle}", printable(&pool.name)))
    };
    census.usage.pools.iter().filter_map(obstacle).collect()
}

/// The rows of a pool's carved networks, each with its range.
pub(super) fn rows(usage: &Usage, pool: &PoolUsage, carved: &[Carving]) -> Vec<(Cidr, Vec<String>)> {
    let row = |(cidr, owner): &Carving| {
        let (size, none) = (cidr.size().to_string(), String::new);
        let cells = ["Carved".into(), cidr.to_string(), size.clone(), none(), none(), size, none()];
        (*cidr, cells.into_iter().chain([owner.to_string(), none(), none()]).collect())
    };
    inside(usage, pool, carved).map(row).collect()
}

/// The same for programs.
pub(super) fn values(usage: &Usage, pool: &PoolUsage, carved: &[Carving]) -> Value {
    inside(usage, pool, carved).map(value).collect()
}

/// One of them.
pub(super) fn value((cidr, owner): &Carving) -> Value {
    json!({ "cidr": cidr, "for": owner.to_string() })
}

/// What is left of a pool for blocks.
pub(super) fn slots(pool: &PoolUsage) -> Value {
    let slots = &pool.slots;
    let mut value = json!({
        "prefixLength": slots.prefix,
        "total": count(slots.total),
        "free": count(slots.free),
        "broken": count(slots.broken),
    });
    if let Some(obstacle) = slots.obstacle(pool.cidr) {
        value["obstacle"] = obstacle.into();
    }
    value
}

/// What was carved out of a pool. What lies in a child of it is the child's.
fn inside<'a>(
    usage: &'a Usage,
    pool: &'a PoolUsage,
    carved: &'a [Carving],
) -> impl Iterator<Item = &'a Carving> {
    carved.iter().filter(move |(cidr, owner)| {
        let is_around = |other: &&PoolUsage| {
            other.cidr.contains(*cidr) && *owner != CarvedFor::ChildPool(other.name.clone())
        };
        let innermost = usage.pools.iter().filter(is_around).max_by_key(|other| other.cidr.prefix());
        innermost.is_some_and(|innermost| innermost.name == pool.name)
    })
}
