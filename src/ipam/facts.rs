//! The addresses that are not free, looked through block by block: in no more memory than those that are wanted take.

use std::collections::BTreeSet;

use super::survey::facts_of;
use super::{AddressFact, Config, Error, Ipam};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Inspect, Visit, Want};
use crate::net::Cidr;

/// Some of the addresses of a store that are not free.
#[derive(Debug, Default)]
pub struct Facts {
    /// Those that were wanted, ascending.
    pub addresses: Vec<AddressFact>,
    /// Blocks that could not be read, as the store says it.
    pub damaged: Vec<String>,
    /// Their ranges.
    pub unread: BTreeSet<Cidr>,
}

impl<D: Inspect> Ipam<D> {
    /// Every address that is not free and that `keep` wants. `now` judges what still cools down; `watch` is told of each
    /// block, with how many there are.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn facts(
        &mut self,
        now: Timestamp,
        watch: &mut dyn FnMut(usize),
        keep: &mut dyn FnMut(&AddressFact) -> bool,
    ) -> Result<Facts, Error> {
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        let mut facts = Facts::default();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            match block {
                Ok(block) => {
                    facts.addresses.extend(facts_of(block, &config, now).1.into_iter().filter(&mut *keep));
                }
                Err(error) => {
                    facts.damaged.push(error.to_string());
                    facts.unread.insert(cidr);
                }
            }
        };
        self.store.each_block(&mut visit).await?;
        facts.addresses.sort_by_key(|fact| fact.address);
        Ok(facts)
    }
}
