//! What a host would get if it asked now, pool by pool. Changes nothing.

use std::fmt;
use std::net::IpAddr;

use super::assign::Progress;
use super::policy::Policy;
use super::pools::Ineligible;
use super::{Assign, Attachment, Error, Host, Ipam, NoOwnAddresses, Owner, PoolChoice, Wanted};
use crate::api::Affinity;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Key, Want};
use crate::net::{Cidr, Family};

/// The address that would be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The address.
    pub address: IpAddr,
    /// Its pool.
    pub pool: String,
    /// Its block.
    pub block: Cidr,
    /// How the host comes by the block.
    pub source: Source,
}

/// How a host comes by a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is kept for the host already.
    Own,
    /// It would be made for the host.
    New,
    /// It would be made, and kept for nobody: the host has as many as it may.
    NewForNobody,
    /// It is kept for somebody else, or, without a name, for nobody.
    Borrowed(Option<Affinity>),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Own => f.write_str("a block of its own"),
            Source::New => f.write_str("a new block"),
            Source::NewForNobody => f.write_str("a new block that is kept for nobody"),
            Source::Borrowed(Some(owner)) => write!(f, "a block of `{}`", owner.name()),
            Source::Borrowed(None) => f.write_str("a block that is kept for nobody"),
        }
    }
}

/// What a pool would do.
#[derive(Debug)]
pub struct PoolVerdict {
    /// Its name.
    pub name: String,
    /// Its range.
    pub cidr: Cidr,
    /// What it would do.
    pub outcome: Outcome,
}

/// What a pool would do.
#[derive(Debug)]
pub enum Outcome {
    /// It would give an address, if it were asked.
    Gives(Preview),
    /// It is not asked.
    NotAsked(Ineligible),
    /// It has none to give.
    Refuses(Error),
}

impl<D: Datastore> Ipam<D> {
    /// What a container on a host would get of a family.
    ///
    /// # Errors
    /// What it would be refused with.
    pub async fn preview(
        &mut self,
        host: &Host,
        family: Family,
        choice: PoolChoice,
        now: Timestamp,
    ) -> Result<Preview, Error> {
        let wanted = [Wanted { family, choice, usable: None, address: None }];
        // A container that cannot exist holds nothing, so that a free address is looked for.
        let attachment = Attachment { network: "-".into(), container_id: "-".into(), ifname: "-".into() };
        let owner = Owner { attachment, host: host.clone(), netns: None, pod: None };
        let request = Assign {
            host,
            owner: &owner,
            sharing: super::Sharing::Attachment,
            wanted: &wanted,
            pools: &[],
            gateways: None,
            import: None,
            own_addresses: &NoOwnAddresses,
            now,
        };
        let (draft, policy, assigned) = self.plan(&request, &mut Progress::default()).await?.ready()?;
        let Some(found) = assigned.addresses.first() else {
            unreachable!("one address was asked for");
        };
        let Some(block) = draft.blocks().find(|block| block.cidr().contains_address(found.address)) else {
            unreachable!("the address was assigned in a block of the draft");
        };
        let is_own = block.affinity() == Some(&policy.affinity());
        let source = match (block.is_new(), is_own) {
            (true, true) => Source::New,
            (true, false) => Source::NewForNobody,
            (false, true) => Source::Own,
            (false, false) => Source::Borrowed(block.affinity().cloned()),
        };
        let pool = found.pool.as_ref().map(|pool| pool.name.clone()).unwrap_or_default();
        Ok(Preview { address: found.address, pool, block: block.cidr(), source })
    }

    /// What each pool of a family would do for a host, by name.
    ///
    /// # Errors
    /// When a pool's selector does not parse, or the store cannot be read.
    pub async fn pool_verdicts(
        &mut self,
        host: &Host,
        family: Family,
        now: Timestamp,
    ) -> Result<Vec<PoolVerdict>, Error> {
        let wants = [Want::Settings, Want::Object(Key::Node(host.name.clone()))];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let settings = answers.next().map(Answer::settings).unwrap_or_default();
        let node = answers.next().and_then(Answer::object);
        let policy = Policy::new(settings, node, &host.name, now);
        let Ok(choice) = policy.choose(family, &PoolChoice::Any) else {
            // Asking for an address says it better.
            return self.preview(host, family, PoolChoice::Any, now).await.map(|_| Vec::new());
        };
        let mut verdicts = Vec::new();
        for (pool, reason) in choice.refused {
            verdicts.push(PoolVerdict {
                name: pool.name,
                cidr: pool.cidr,
                outcome: Outcome::NotAsked(reason),
            });
        }
        for pool in choice.allowed {
            let only = PoolChoice::OfNetwork(vec![pool.cidr]);
            let outcome = match self.preview(host, family, only, now).await {
                Ok(preview) => Outcome::Gives(preview),
                Err(error @ Error::Datastore(_)) => return Err(error),
                Err(error) => Outcome::Refuses(error),
            };
            verdicts.push(PoolVerdict { name: pool.name, cidr: pool.cidr, outcome });
        }
        verdicts.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(verdicts)
    }

    /// The families of which there is a pool; IPv4 where there is none at all.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn families(&mut self) -> Result<Vec<Family>, Error> {
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let has = |family: &Family| settings.pools.iter().any(|(_, pool)| pool.spec.cidr.family() == *family);
        let found: Vec<_> = Family::BOTH.into_iter().filter(has).collect();
        Ok(if found.is_empty() { vec![Family::V4] } else { found })
    }
}
