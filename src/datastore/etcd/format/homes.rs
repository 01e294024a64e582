//! From objects to all the keys that they are stored at, and back.

use super::codec::{decode, encode};
use super::keys::{ALLOCATOR_CONFIG, CONFIGURATION, POOLS, RESERVATIONS, key_of};
use super::{configuration, shield};
use crate::api::calico::{IpPool, IpReservation};
use crate::datastore::{Carved, Change, Entry, Error, Key, Object, Op, Revision, Stored};
use crate::net::Cidr;

/// What stands at a key of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The revision of its last change.
    pub mod_revision: u64,
}

/// What must stand at a key for a transaction to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// The value of this change.
    At(u64),
}

/// One key's part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// What must stand there.
    pub expect: Expect,
    /// What is put there; `None`: it is deleted, or, where it is expected to be absent, stays so.
    pub put: Option<Vec<u8>>,
}

/// The keys that an object is stored at: one, but for the configuration, which has two.
#[must_use]
pub fn homes_of(key: &Key) -> Vec<String> {
    match key {
        Key::Configuration => vec![ALLOCATOR_CONFIG.to_owned(), CONFIGURATION.to_owned()],
        key => vec![key_of(key)],
    }
}

/// The revision of an object by what stands at its homes, in their order. `None`: nothing does.
///
/// That of one key is etcd's. Of two, any change of either gives another: the first is turned into the upper half.
#[must_use]
pub fn revision_of(homes: &[Option<Held<'_>>]) -> Option<Revision> {
    match homes {
        [one] => one.map(|held| Revision(held.mod_revision)),
        _ if homes.iter().all(Option::is_none) => None,
        _ => Some(Revision(
            homes
                .iter()
                .fold(0, |all: u64, held| all.rotate_left(32) ^ held.map_or(0, |held| held.mod_revision)),
        )),
    }
}

/// The object whose homes hold this, in their order. `None`: there is none.
///
/// # Errors
/// As [`decode`].
pub fn assemble(key: &Key, homes: &[Option<Held<'_>>]) -> Result<Option<Entry>, Error> {
    let Some(revision) = revision_of(homes) else { return Ok(None) };
    let values: Vec<_> = homes.iter().map(|held| held.map(|held| held.value)).collect();
    let object = match *values {
        [Some(value)] => Some(decode(key, value, revision)?),
        [allocator, edited] => configuration::decode(allocator, edited, revision)?.map(Object::from),
        _ => None,
    };
    Ok(object.map(|object| Entry { key: key.clone(), revision, object }))
}

/// The keys of which [`writes_of`] must be told what stands there now. Most changes need none; reading what they need
/// and committing need not be one step, since every key that matters is compared.
#[must_use]
pub fn needed_by(op: &Op) -> Vec<String> {
    match (&op.key, &op.change) {
        (Key::Configuration, _) => homes_of(&Key::Configuration),
        (Key::Carved(cidr), change) => {
            let mut needed = vec![shield_key(*cidr)];
            if let Change::Create(Object::Carved(carved)) | Change::Update(_, Object::Carved(carved)) = change
            {
                needed.push(format!("{POOLS}{}", carved.pool));
            }
            needed
        }
        _ => Vec::new(),
    }
}

/// What an operation does to etcd's keys. `held`: what stands at a key, as far as is known; of the keys that
/// [`needed_by`] names, it must be known. Of others it is only used to keep what a value has besides.
/// `None`: the object does not stand at the revision that is expected.
///
/// # Errors
/// [`Error::NotStorable`] when the object may not be written so; see [`encode`] and [`shield`].
pub fn writes_of<'a>(op: &Op, held: impl Fn(&str) -> Option<Held<'a>>) -> Result<Option<Vec<Write>>, Error> {
    if op.key == Key::Configuration {
        return Ok(configuration_writes(op, homes_of(&op.key), held));
    }
    let key = key_of(&op.key);
    let (expect, object) = match &op.change {
        Change::Create(object) => (Expect::Absent, Some(object)),
        Change::Update(Revision(at), object) => (Expect::At(*at), Some(object)),
        Change::Delete(Revision(at)) => (Expect::At(*at), None),
    };
    let same = |held: &Held<'_>| expect == Expect::At(held.mod_revision);
    let stored = held(&key).filter(same).map(|held| held.value);
    let put = object.map(|object| encode(&op.key, object, stored)).transpose()?;
    let mut writes = vec![Write { key, expect, put }];
    if let Key::Carved(cidr) = op.key {
        let carved = object.and_then(|object| Carved::from_object(object.clone()));
        writes.extend(shield_write(cidr, carved.as_ref(), held)?);
    }
    Ok(Some(writes))
}

fn configuration_writes<'a>(
    op: &Op,
    homes: Vec<String>,
    held: impl Fn(&str) -> Option<Held<'a>>,
) -> Option<Vec<Write>> {
    let stored: Vec<_> = homes.iter().map(|home| held(home)).collect();
    let (expected, object) = match &op.change {
        Change::Create(object) => (None, Some(object)),
        Change::Update(revision, object) => (Some(*revision), Some(object)),
        Change::Delete(revision) => (Some(*revision), None),
    };
    if revision_of(&stored) != expected {
        return None;
    }
    let value = |at: usize| stored.get(at).copied().flatten().map(|held| held.value);
    let puts = match object {
        Some(Object::Configuration(new)) => configuration::encode(new, value(0), value(1)).map(Some),
        Some(other) => panic!("{other:?} is no configuration"),
        None => [None, None],
    };
    let parts = homes.into_iter().zip(&stored).zip(puts);
    let writes = parts.map(|((key, held), put)| {
        let expect = held.map_or(Expect::Absent, |held| Expect::At(held.mod_revision));
        Write { key, expect, put }
    });
    Some(writes.collect())
}

/// What happens to the reservation of a carved network.
fn shield_write<'a>(
    cidr: Cidr,
    carved: Option<&Carved>,
    held: impl Fn(&str) -> Option<Held<'a>>,
) -> Result<Option<Write>, Error> {
    let key = shield_key(cidr);
    let stands = held(&key);
    let expect = stands.map_or(Expect::Absent, |held| Expect::At(held.mod_revision));
    let of = Key::Reservation(shield::name_of(cidr));
    let stored = stands.map(|held| decode(&of, held.value, Revision(held.mod_revision))).transpose();
    let stored = stored.ok().flatten().and_then(IpReservation::from_object);
    let is_ours = stored.as_ref().is_some_and(shield::is_shield);
    match carved.filter(|carved| shield::is_needed(&carved.owner)) {
        Some(_) if stands.is_some() && !is_ours => Err(Error::NotStorable {
            what: Key::Carved(cidr).to_string(),
            problem: format!("{of} is somebody else's, and would be the one that keeps Calico off it"),
        }),
        Some(carved) => {
            let name = Key::Pool(carved.pool.clone());
            let pool = held(&key_of(&name));
            let pool = pool.and_then(|held| decode(&name, held.value, Revision(held.mod_revision)).ok());
            let block_prefix = pool.and_then(IpPool::from_object).map(|pool| pool.spec.block_prefix());
            let new = shield::reservation(cidr, carved, block_prefix);
            let put = super::codec::whole(&new, "");
            Ok(Some(Write { key, expect, put: Some(put.into_bytes()) }))
        }
        None => Ok(is_ours.then_some(Write { key, expect, put: None })),
    }
}

fn shield_key(cidr: Cidr) -> String {
    format!("{RESERVATIONS}{}", shield::name_of(cidr))
}
