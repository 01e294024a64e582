//! Everything that a store holds, as a check needs it: facts about each address, and what does not agree.

mod again;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Block, Config, Error, Finding, Ipam, audit, owner, pools};
use crate::api::calico::{Attribute, AttributeFields, IpamBlock};
use crate::api::{Affinity, HandleId, HostName};
use crate::clock::Timestamp;
use crate::datastore::{
    self, Answer, Collection, Derived, Entry, Inspect, Key, Object, Revision, Visit, Want,
};
use crate::net::Cidr;

/// An address that is not free.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressFact {
    /// The address.
    pub address: IpAddr,
    /// Its block.
    pub block: Cidr,
    /// Whom the block is kept for.
    pub affinity: Option<Affinity>,
    /// By what it is freed; `None`: by its address alone.
    pub handle: Option<String>,
    /// The block's number when it was assigned: it tells this assignment from a later one of the same address.
    pub sequence: u64,
    /// Who uses it.
    pub active: BTreeMap<String, String>,
    /// Who may take it over.
    pub alternate: BTreeMap<String, String>,
    /// Whether it was released and cools down.
    pub is_cooling: bool,
    /// Whether it is kept back for the host itself.
    pub is_host_reserved: bool,
}

impl AddressFact {
    /// A note about who uses it.
    #[must_use]
    pub fn noted(&self, key: &str) -> Option<&str> {
        self.active.get(key).map(String::as_str)
    }

    /// The pod that uses it, as `namespace/name`.
    #[must_use]
    pub fn pod(&self) -> Option<String> {
        let name = self.noted(owner::key::POD)?;
        Some(
            self.noted(owner::key::NAMESPACE)
                .map_or_else(|| name.to_owned(), |space| format!("{space}/{name}")),
        )
    }

    /// Whether a virtual machine has it, which outlives its pods.
    #[must_use]
    pub fn is_virtual_machine(&self) -> bool {
        owner::is_of_virtual_machine(self.handle.as_deref(), Some(&self.active), Some(&self.alternate))
    }

    /// Whether it is the same assignment, and not a later one of the same address.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.sequence, &self.handle) == (other.sequence, &other.handle)
    }

    pub(super) fn of(block: &Block, allocation: &super::Allocation<'_>) -> Self {
        let fields = &allocation.fields;
        Self {
            address: allocation.address,
            block: block.cidr(),
            affinity: block.affinity().cloned(),
            handle: fields.handle_id.as_deref().map(|handle| owner::sanitised(handle).to_owned()),
            sequence: block.sequence_of(allocation.ordinal),
            active: fields.active_owner.clone().unwrap_or_default(),
            alternate: fields.alternate_owner.clone().unwrap_or_default(),
            is_cooling: fields.released_at.is_some(),
            is_host_reserved: owner::is_host_reserved(fields),
        }
    }
}

/// A store, looked through.
#[derive(Debug, Default)]
pub struct Survey {
    /// Every pool: its name, its range, and whether anything new may come from it.
    pub pools: Vec<(String, Cidr, bool)>,
    /// Every block that is well-formed, and whom it is kept for.
    pub blocks: Vec<(Cidr, Option<Affinity>)>,
    /// Addresses that are not free: those that were wanted, and those in no pool.
    pub addresses: Vec<AddressFact>,
    /// How many addresses somebody has.
    pub held: usize,
    /// How many addresses cool down.
    pub cooling: usize,
    /// How many addresses each host uses.
    pub users: BTreeMap<String, usize>,
    /// Handles that name no block in which they have an address.
    pub leaked_handles: Vec<(HandleId, Revision)>,
    /// Hosts that a Node says something of.
    pub nodes: BTreeSet<HostName>,
    /// What does not agree between objects.
    pub findings: Vec<Finding>,
    /// What is derived from objects and does not agree with them.
    pub derived: Vec<Derived>,
    /// Objects that could not be read, as the store says it.
    pub damaged: Vec<String>,
    /// Blocks of which something could not be read: what others say of them cannot be judged.
    pub unread: BTreeSet<Cidr>,
    /// Whether something about networks carved out of pools could not be read: whose they are cannot be judged.
    pub is_carving_unread: bool,
}

impl<D: Inspect> Ipam<D> {
    /// Looks through the whole store. Of the addresses, those are kept that `keep` wants. `now` judges what still cools
    /// down; `watch` is told of each block, with how many there are. What is damaged is reported, and the rest looked at
    /// all the same.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn survey(
        &mut self,
        now: Timestamp,
        watch: &mut dyn FnMut(usize),
        keep: &mut dyn FnMut(&AddressFact) -> bool,
    ) -> Result<Survey, Error> {
        let settings =
            self.store.read(&[Want::Settings]).await?.pop().map(Answer::settings).unwrap_or_default();
        let config = Config::effective(settings.configuration.as_ref().map(|(_, stored)| stored));
        let mut survey = Survey::default();
        for (_, pool) in &settings.pools {
            survey.pools.push((pool.name().to_owned(), pool.spec.cidr, pools::is_enabled(pool)));
        }
        let nodes = self.all(Want::Nodes, &mut survey).await?.unwrap_or_default();
        survey.nodes.extend(nodes.into_iter().filter_map(|entry| match entry.key {
            Key::Node(name) => Some(name),
            _ => None,
        }));
        let counts_handles = self.store.counts_handles();
        let mut held: BTreeSet<(String, Cidr)> = BTreeSet::new();
        let mut blocks = BTreeMap::new();
        let mut visit = |Visit { cidr, total, block }: Visit| {
            watch(total);
            match block {
                Ok(block) => {
                    let slim = if counts_handles { without_owners(&block) } else { block.clone() };
                    let (block, facts) = facts_of(block, &config, now);
                    survey.blocks.extend(block);
                    if !counts_handles {
                        held.extend(facts.iter().filter_map(|fact| Some((fact.handle.clone()?, fact.block))));
                    }
                    survey.look_at(facts, keep);
                    blocks.insert(cidr, slim);
                }
                Err(error) => {
                    survey.damaged.push(error.to_string());
                    survey.unread.insert(cidr);
                }
            }
        };
        self.store.each_block(&mut visit).await?;
        let affinities = self.store.all_affinities().await?;
        for (cidr, error) in affinities.damaged {
            survey.damaged.push(error.to_string());
            survey.unread.insert(cidr);
        }
        let handles = if counts_handles {
            Vec::new()
        } else {
            self.all(Want::AllHandles, &mut survey).await?.unwrap_or_default()
        };
        survey.find_leaked(&handles, &held);
        let blocks =
            blocks.into_iter().map(|(cidr, block)| (Key::Block(cidr), Object::Block(Box::new(block))));
        let mut carved = Vec::new();
        for collection in [Collection::Carved, Collection::Allocations, Collection::Claims] {
            match self.all(Want::All(collection), &mut survey).await? {
                Some(entries) => carved.extend(entries),
                None => survey.is_carving_unread = true,
            }
        }
        let pools = settings.pools.into_iter();
        let pools = pools.map(|(_, pool)| (Key::Pool(pool.name().to_owned()), Object::from(pool)));
        let others = affinities
            .records
            .into_iter()
            .chain(handles)
            .chain(carved)
            .map(|entry| (entry.key, entry.object));
        let others = others.chain(pools);
        survey.findings = audit(blocks.chain(others));
        survey.drop_hearsay();
        let found = std::mem::take(&mut survey.findings);
        survey.findings = self.that_still_stand(found).await?;
        for error in self.store.unreadable().await? {
            survey.note_damage(error)?;
        }
        match self.store.derived().await {
            Ok(derived) => survey.derived = derived,
            Err(error) => survey.note_damage(error)?,
        }
        Ok(survey)
    }

    /// Everything of a kind; `None`: some of it is damaged.
    async fn all(&mut self, want: Want, survey: &mut Survey) -> Result<Option<Vec<Entry>>, Error> {
        match self.store.read(&[want]).await {
            Ok(mut answers) => Ok(answers.pop().map(Answer::objects)),
            Err(error) => survey.note_damage(error).map(|()| None),
        }
    }
}

impl Survey {
    /// Counts the addresses of a block, and keeps those that are wanted.
    fn look_at(&mut self, facts: Vec<AddressFact>, keep: &mut dyn FnMut(&AddressFact) -> bool) {
        for fact in facts {
            if fact.is_cooling {
                self.cooling += 1;
            } else {
                self.held += 1;
                match fact.noted(owner::key::NODE).map(|node| (node, self.users.get_mut(node))) {
                    Some((_, Some(count))) => *count += 1,
                    Some((node, None)) => drop(self.users.insert(node.to_owned(), 1)),
                    None => {}
                }
            }
            if keep(&fact) || !self.has_pool(fact.block) {
                self.addresses.push(fact);
            }
        }
    }

    /// Whether a block lies in a pool, whatever its state.
    #[must_use]
    pub fn has_pool(&self, block: Cidr) -> bool {
        self.pools.iter().any(|(_, cidr, _)| cidr.contains(block))
    }

    fn note_damage(&mut self, error: datastore::Error) -> Result<(), Error> {
        match error {
            datastore::Error::Damaged { .. } => {
                let text = error.to_string();
                if !self.damaged.contains(&text) {
                    self.damaged.push(text);
                }
                Ok(())
            }
            other => Err(other.into()),
        }
    }

    /// What refers to something that could not be read may be right.
    fn drop_hearsay(&mut self) {
        let (unread, is_carving_unread) = (&self.unread, self.is_carving_unread);
        self.findings.retain(|finding| match finding {
            Finding::Overcounted { block, .. }
            | Finding::StaleAffinity { block, .. }
            | Finding::UnrecordedAffinity { block, .. }
            | Finding::UnconfirmedAffinity { block, .. } => !unread.contains(block),
            Finding::DamagedBlock { .. }
            | Finding::OverlappingBlocks { .. }
            | Finding::UnindexedAddress { .. }
            | Finding::CarvedTwice { .. } => true,
            Finding::CarvedForNobody { .. } | Finding::NotCarved { .. } | Finding::UnboundClaim { .. } => {
                !is_carving_unread
            }
        });
    }

    /// Handles that name no block in which they have an address, nor one that could not be read.
    fn find_leaked(&mut self, handles: &[Entry], held: &BTreeSet<(String, Cidr)>) {
        for entry in handles {
            if let (Key::Handle(id), Object::Handle(handle)) = (&entry.key, &entry.object)
                && !handle
                    .block
                    .keys()
                    .any(|block| self.unread.contains(block) || held.contains(&(id.to_string(), *block)))
            {
                self.leaked_handles.push((id.clone(), entry.revision));
            }
        }
    }
}

/// A block and who has its addresses. What is not well-formed, the audit says.
pub(super) fn facts_of(
    wire: IpamBlock,
    config: &Config,
    now: Timestamp,
) -> (Option<(Cidr, Option<Affinity>)>, Vec<AddressFact>) {
    let Ok(mut block) = Block::from_wire(wire) else { return (None, Vec::new()) };
    block.collect(config.cooldown, now);
    let facts = block.allocations().map(|allocation| AddressFact::of(&block, &allocation)).collect();
    (Some((block.cidr(), block.affinity().cloned())), facts)
}

/// What of a block the audit looks at where handles cannot disagree with it. Most of a block says who has its addresses.
fn without_owners(block: &IpamBlock) -> IpamBlock {
    let is_any = block.allocations.iter().any(Option::is_some);
    IpamBlock {
        allocations: block.allocations.iter().map(|index| index.map(|_| 0)).collect(),
        attributes: is_any.then(|| Attribute::new(&AttributeFields::default())).into_iter().collect(),
        sequence_number_for_allocation: BTreeMap::new(),
        ..shallow(block)
    }
}

/// A block without its lists of addresses.
fn shallow(block: &IpamBlock) -> IpamBlock {
    IpamBlock {
        cidr: block.cidr,
        affinity: block.affinity.clone(),
        affinity_claim_time: block.affinity_claim_time,
        allocations: Vec::new(),
        unallocated: block.unallocated.clone(),
        attributes: Vec::new(),
        sequence_number: block.sequence_number,
        sequence_number_for_allocation: BTreeMap::new(),
        deleted: block.deleted,
        extra: block.extra.clone(),
    }
}
