//! What is kept beside objects for Calico's sake, and whether it is as it should be.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::EtcdStore;
use super::fetch::Fetch;
use super::format::configuration::is_in_step;
use super::format::{CARVED, POOLS, RESERVATIONS, homes_of, is_of_nobody, parse_key, shield};
use super::view::{View, readable};
use crate::api::calico::{IpPool, IpReservation};
use crate::datastore::{Batch, Commit, Datastore as _, Derived, Entry, Error, Key, Stored};
use crate::net::Cidr;

impl EtcdStore {
    /// Whether the homes of the configuration, as they were just read, say different things.
    pub(super) fn homes_disagree(&self) -> bool {
        let homes = homes_of(&Key::Configuration);
        let [allocator, edited] =
            [0, 1].map(|at| homes.get(at).and_then(|home| self.view.held(home)).map(|held| held.value));
        !is_in_step(allocator, edited)
    }

    /// Where carved networks and the reservations that keep Calico's allocator off them do not agree.
    pub(super) fn shields_amiss(&mut self) -> Result<Vec<Derived>, Error> {
        self.forget();
        self.fetch(&[CARVED, POOLS, RESERVATIONS].map(|prefix| Fetch::Prefix(prefix.to_owned())))?;
        let found = shield::amiss(
            &self.carved().into_iter().map(|(cidr, entry)| (cidr, entry.into())).collect(),
            &listed::<IpPool>(&self.view, POOLS).into_values().collect::<Vec<_>>(),
            &listed::<IpReservation>(&self.view, RESERVATIONS),
        );
        Ok(found)
    }

    /// Puts right what [`EtcdStore::shields_amiss`] finds. What somebody changes at the same time is left to the next.
    pub(super) async fn mend_shields(&mut self) -> Result<Vec<String>, Error> {
        let mut mended = Vec::new();
        for found in self.shields_amiss()? {
            let mut batch = Batch::default();
            self.shields_amiss()?;
            let done = match found {
                Derived::Unshielded { carved: cidr } => {
                    let Some(entry) = self.carved().remove(&cidr) else { continue };
                    // Whoever writes the record writes the reservation with it.
                    batch.update(entry.key, entry.revision, entry.object);
                    format!("IPReservation of carved network {cidr}")
                }
                Derived::StrayShield { name } => {
                    let key = Key::Reservation(name.clone());
                    let Some(entry) = self.view.entry(&key)? else { continue };
                    batch.delete(key, entry.revision);
                    format!("IPReservation `{}` of no carved network was deleted", name.escape_debug())
                }
                Derived::LostHandle { .. } | Derived::StrayHandle { .. } | Derived::Unusable { .. } => {
                    continue;
                }
            };
            if self.commit(batch).await? == Commit::Applied {
                mended.push(done);
            }
        }
        Ok(mended)
    }

    fn carved(&self) -> BTreeMap<Cidr, Entry> {
        let entries = readable(self.view.under(CARVED)).into_iter();
        let carved = entries.filter_map(|entry| match entry.key {
            Key::Carved(cidr) => Some((cidr, entry)),
            _ => None,
        });
        carved.collect()
    }
}

/// Everything of a list that can be read, by name.
fn listed<T: Stored>(view: &View, prefix: &str) -> BTreeMap<String, T> {
    let entries = readable(view.under(prefix)).into_iter();
    let named = entries.filter_map(|entry| match entry.key.clone() {
        Key::Pool(name) | Key::Reservation(name) => Some((name, entry.into())),
        _ => None,
    });
    named.collect()
}

/// Keys of a list under which nothing of its kind can stand: an error for each. Lists pass them over.
pub(super) fn strangers(view: &View, prefix: &str) -> Vec<Error> {
    let strange = |key: &&str| parse_key(key).is_none() && !is_of_nobody(key);
    let damaged = |key: &str| Error::Damaged {
        path: PathBuf::from(key),
        problem: "nothing that is kept there has such a key; it is passed over".to_owned(),
    };
    view.keys_under(prefix).filter(strange).map(damaged).collect()
}
