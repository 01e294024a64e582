//! From what is wanted to what must be read for it, and from what was read to the answer.

use super::fetch::Fetch;
use super::floor;
use super::format::{
    AFFINITIES, BLOCKS, HANDLES, IMPORTS, NODES, POOLS, RESERVATIONS, affinities_of, blocks_of, collection,
    homes_of, shield,
};
use super::room;
use super::view::{Listed, View, readable};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::datastore::{Answer, Entry, Error, Key, Object, Revision, RoomOf, Settings, Stored, Want};

/// What must be read before a want can be answered, or before it is known what else must be.
pub(super) fn needed(want: &Want, view: &View) -> Vec<Fetch> {
    match want {
        Want::Object(key) => homes_of(key).into_iter().map(Fetch::Point).collect(),
        Want::Settings => settings(),
        Want::Held(id) => held(id, view),
        Want::Affinities(owner) | Want::AffinityCidrs(owner) => vec![Fetch::Prefix(affinities_of(owner))],
        Want::AllAffinities => AFFINITIES.iter().map(|prefix| Fetch::Prefix((*prefix).to_owned())).collect(),
        Want::BlockCidrs(network) => vec![Fetch::Names(Listed::Blocks, *network)],
        Want::CarvedCidrs(network) => vec![Fetch::Names(Listed::Carved, *network)],
        Want::All(of) => vec![Fetch::Prefix(collection(*of).to_owned())],
        Want::Blocks(network) => vec![Fetch::Blocks(*network)],
        Want::AllBlocks => vec![Fetch::Prefix(BLOCKS.to_owned())],
        Want::AllHandles => vec![Fetch::Prefix(HANDLES.to_owned())],
        Want::Nodes => vec![Fetch::Prefix(NODES.to_owned())],
        Want::Room { of: RoomOf::Owner(owner), within, .. } => room::own(owner, within, view),
        // Read page by page, with nothing kept that has no room.
        Want::Room { .. } => Vec::new(),
    }
}

/// Whether it has been read.
pub(super) fn is_known(fetch: &Fetch, view: &View) -> bool {
    match fetch {
        Fetch::Point(key) => view.knows(key),
        Fetch::Prefix(prefix) => view.knows_all(prefix),
        Fetch::Blocks(network) => view.knows_blocks(*network),
        Fetch::Names(listed, network) => view.listing(*listed, *network).is_some(),
    }
}

/// Whether a want asks for no more than what is believed, so that it may be told the same twice.
pub(super) const fn is_belief(want: &Want) -> bool {
    matches!(want, Want::Room { .. } | Want::AffinityCidrs(_))
}

fn settings() -> Vec<Fetch> {
    let points = homes_of(&Key::Configuration).into_iter().map(Fetch::Point);
    let prefixes = [POOLS, RESERVATIONS, IMPORTS, floor::PREFIX];
    points.chain(prefixes.into_iter().map(|prefix| Fetch::Prefix(prefix.to_owned()))).collect()
}

/// The handle; and once that is known, its blocks.
fn held(id: &HandleId, view: &View) -> Vec<Fetch> {
    let key = Key::Handle(id.clone());
    let mut fetches: Vec<_> = homes_of(&key).into_iter().map(Fetch::Point).collect();
    if let Ok(Some(entry)) = view.entry(&key) {
        fetches.extend(blocks_named_by(&entry).into_iter().flat_map(|key| homes_of(&key)).map(Fetch::Point));
    }
    fetches
}

fn blocks_named_by(handle: &Entry) -> Vec<Key> {
    match &handle.object {
        Object::Handle(IpamHandle { block, .. }) => block.keys().copied().map(Key::Block).collect(),
        _ => Vec::new(),
    }
}

/// The answer, when nothing is missing any more.
pub(super) fn answer(want: &Want, view: &View) -> Result<Answer, Error> {
    let objects = |prefix: &str| Answer::Objects(readable(view.under(prefix)));
    Ok(match want {
        Want::Object(key) => Answer::Object(view.entry(key)?),
        Want::Settings => Answer::Settings(Box::new(settings_of(view)?)),
        Want::Held(id) => {
            let handle = view.entry(&Key::Handle(id.clone()))?;
            let keys = handle.as_ref().map(blocks_named_by).unwrap_or_default();
            let blocks: Result<Vec<_>, _> = keys.iter().map(|key| view.entry(key)).collect();
            Answer::Held(handle, blocks?.into_iter().flatten().collect())
        }
        Want::Affinities(owner) => objects(&affinities_of(owner)),
        Want::AffinityCidrs(owner) => {
            let found = view.under(&affinities_of(owner));
            Answer::Cidrs(found.into_iter().filter_map(|(key, _)| room::block_of(&key)).collect())
        }
        Want::AllAffinities => {
            let found = AFFINITIES.iter().flat_map(|prefix| view.under(prefix)).collect();
            sorted(readable(found))
        }
        Want::BlockCidrs(network) => names(view, Listed::Blocks, *network),
        Want::CarvedCidrs(network) => names(view, Listed::Carved, *network),
        Want::All(of) => objects(collection(*of)),
        Want::Blocks(network) => {
            let mut found = view.under(&blocks_of(network.family()));
            found.retain(|(key, _)| matches!(key, Key::Block(cidr) if cidr.overlaps(*network)));
            Answer::Objects(readable(found))
        }
        Want::AllBlocks => objects(BLOCKS),
        Want::AllHandles => objects(HANDLES),
        Want::Nodes => objects(NODES),
        Want::Room { of: RoomOf::Owner(owner), within, enough } => {
            Answer::Cidrs(room::of_owner(owner, within, *enough, view))
        }
        Want::Room { .. } => Answer::Cidrs(Vec::new()),
    })
}

fn sorted(mut entries: Vec<Entry>) -> Answer {
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    Answer::Objects(entries)
}

fn names(view: &View, listed: Listed, network: crate::net::Cidr) -> Answer {
    let all = view.listing(listed, network).map(|listing| listing.cidrs.as_slice()).unwrap_or_default();
    Answer::Cidrs(all.iter().copied().filter(|cidr| cidr.overlaps(network)).collect())
}

fn settings_of(view: &View) -> Result<Settings, Error> {
    fn of<T: Stored>(entries: Vec<Entry>) -> Vec<(Revision, T)> {
        entries.into_iter().map(|entry| (entry.revision, entry.into())).collect()
    }
    let list = |prefix: &str| readable(view.under(prefix));
    let configuration = view.entry(&Key::Configuration)?;
    Ok(Settings {
        configuration: configuration.map(|entry| (entry.revision, entry.into())),
        pools: of(list(POOLS)),
        reservations: of(list(RESERVATIONS))
            .into_iter()
            .filter(|(_, kept)| !shield::is_shield(kept))
            .collect(),
        imports: of(list(IMPORTS)),
        sequence_floor: floor::highest(view),
    })
}
