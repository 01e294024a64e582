//! Counting a whole store block by block, in no more memory than the counts take. What is damaged is named, and the
//! rest counted all the same.

use super::usage::{Counter, carved_networks};
use super::{Error, Ipam, Usage};
use crate::clock::Timestamp;
use crate::datastore::{self, Answer, Collection, Inspect, Visit, Want};
use crate::net::Cidr;

/// The counts of a store, as far as it can be read.
#[derive(Debug, Default)]
pub struct Census {
    /// The counts. Exact, but for what is damaged: that counts as if it were not there.
    pub usage: Usage,
    /// What could not be read.
    pub damaged: Vec<Damage>,
}

/// A block that could not be read.
#[derive(Debug)]
pub struct Damage {
    /// Its range.
    pub block: Cidr,
    /// Why not, with the file.
    pub reason: datastore::Error,
}

impl<D: Inspect> Ipam<D> {
    /// Counts the whole store; `now` judges which addresses have cooled down. `watch` is told of each block, with how many there are.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn census(&mut self, now: Timestamp, watch: &mut dyn FnMut(usize)) -> Result<Census, Error> {
        let wants = [Want::Settings, Want::All(Collection::Carved)];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let carved = carved_networks(answers.next().map(Answer::objects).unwrap_or_default());
        let counter = Counter::new(&settings, now);
        let mut census = Census::default();
        let mut blocks = Vec::new();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            match block.map(|block| counter.count(block)) {
                Ok(Ok(usage)) => blocks.push(usage),
                Ok(Err(problem)) => {
                    let reason = datastore::Error::Damaged { path: cidr.to_string().into(), problem };
                    census.damaged.push(Damage { block: cidr, reason });
                }
                Err(reason) => census.damaged.push(Damage { block: cidr, reason }),
            }
        };
        self.store.each_block(&mut visit).await?;
        census.usage = counter.tally(&settings, blocks, &carved);
        Ok(census)
    }
}
