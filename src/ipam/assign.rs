//! Giving addresses to an attachment: all that it asks for, or none.

use std::net::IpAddr;

use super::attempt::{Attempts, Next};
use super::block::{Allocation, Block};
use super::draft::Draft;
use super::excess::{CORRECTIONS_MAX, Counts};
use super::held::Held;
use super::import::{self, Due, ImportSource};
use super::machine::{Guest, MachineIdentity, machine_handle};
use super::network::{self, PoolAsked};
use super::owner::{self, Owner};
use super::policy::Policy;
use super::pools::{Pool, PoolChoice};
use super::search::Search;
use super::{Error, Host, Ipam, Judge, OwnAddresses, Whose};
use crate::api::HandleId;
use crate::api::calico::IpamHandle;
use crate::clock::Timestamp;
use crate::datastore::{Datastore, Entry, Key, MachineRole, Want};
use crate::net::{AddrSet, Family};

/// A request for addresses.
#[derive(Clone, Copy)]
pub struct Assign<'a> {
    /// The host that asks.
    pub host: &'a Host,
    /// Whom the addresses are for.
    pub owner: &'a Owner,
    /// Who shares them.
    pub sharing: Sharing<'a>,
    /// What is wanted, one address each.
    pub wanted: &'a [Wanted],
    /// Pools of the network, created where no pool of their CIDR exists.
    pub pools: &'a [PoolAsked],
    /// In `subnet` addressing the gateways that the network names; `None` in `routed` addressing.
    pub gateways: Option<&'a [IpAddr]>,
    /// host-local's directory of the network, if it may have served it.
    pub import: Option<&'a dyn ImportSource>,
    /// The addresses of the host's own interfaces.
    pub own_addresses: &'a dyn OwnAddresses,
    /// The time.
    pub now: Timestamp,
}

/// Who shares the addresses of a request.
#[derive(Clone, Copy, Debug)]
pub enum Sharing<'a> {
    /// Nobody: they are the attachment's own, under its handle. It has what it wants once, however often it asks.
    Attachment,
    /// All that use a handle. Each request adds to what the handle has, up to a limit, and is given some of that beyond it.
    Handle {
        /// The handle.
        handle: &'a HandleId,
        /// The most addresses of one family that it may have. At least 1.
        most: u32,
    },
    /// The pods of a virtual machine, under the machine's handle: one address of each family, on whatever host. Where the
    /// configuration says that machines keep no addresses, a pod of one is a pod.
    Machine(&'a MachineIdentity),
}

/// One wanted address.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its family.
    pub family: Family,
    /// The pools that it may come from.
    pub choice: PoolChoice,
    /// The addresses that it may be, within those pools; `None`: all.
    pub usable: Option<AddrSet>,
    /// The one address that it must be; `None`: any.
    pub address: Option<IpAddr>,
}

/// What an attachment has after the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Assigned {
    /// One address for each that was wanted, in that order.
    pub addresses: Vec<AssignedAddress>,
    /// Whether the addresses are another pod's until this one takes them over: nothing must be sent to it yet.
    pub waits: bool,
    /// The boot ID of a second machine that uses this host's name, if a block of this request shows one.
    pub second_machine: Option<String>,
}

/// An address and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedAddress {
    /// The address.
    pub address: IpAddr,
    /// Its pool; `None` when it was deleted since.
    pub pool: Option<Pool>,
    /// Whether the attachment had it before the call.
    pub held_before: bool,
}

/// State of one call over its attempts.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Addresses that the attachment held before the call; `None`: no attempt has read them yet.
    held_at_first: Option<Vec<IpAddr>>,
    /// When host-local's directory has to be read.
    pub(super) import: Due,
    /// It was read because a claim failed.
    pub(super) imported_again: bool,
    /// Addresses that host-local has on record for others.
    pub(super) avoid: AddrSet,
    /// Addresses whose records in host-local's directory are the attachment's.
    pub(super) claimed: Vec<IpAddr>,
}

/// What an attempt would do.
pub(super) enum Plan {
    /// This.
    Ready(Box<(Draft, Policy, Assigned)>),
    /// Nothing yet: leases of host-local have to be imported first.
    ImportFirst,
    /// Nothing yet: the handle that is shared counts more than it has.
    Unsettled,
    /// Nothing: no address was found. The drafts write the present in place of times ahead of the clock, so that what
    /// cools down is free some day.
    Refused(Error, Vec<Draft>),
}

impl Plan {
    /// The plan of a request that shares no handle, which is always ready.
    pub(super) fn ready(self) -> Result<(Draft, Policy, Assigned), Error> {
        match self {
            Plan::Ready(plan) => Ok(*plan),
            Plan::ImportFirst | Plan::Unsettled => Err(Error::Contended { attempts: 1, applied: 0 }),
            Plan::Refused(error, _) => Err(error),
        }
    }
}

impl Assign<'_> {
    /// The handle that the addresses go by.
    fn handle(&self) -> Result<HandleId, Error> {
        Ok(match self.sharing {
            Sharing::Attachment => self.owner.attachment.handle()?,
            Sharing::Handle { handle, .. } => handle.clone(),
            Sharing::Machine(machine) => {
                machine_handle(&self.owner.attachment.network, &machine.namespace, &machine.name)?
            }
        })
    }
}

impl<D: Datastore> Ipam<D> {
    /// Gives an attachment every address that it wants, or none. What it holds already it keeps, renewed to the present
    /// boot and namespace.
    ///
    /// Order of search: blocks affine to the host; new blocks, up to `maxBlocksPerHost`; then, unless strict affinity is
    /// on, blocks of other hosts, and new blocks without affinity. `now` judges cooldown and the age of blocks.
    ///
    /// # Errors
    /// [`Error::Exhausted`] or [`Error::NoUsablePool`] when nothing can be given; another refusal for an address that was
    /// asked for; [`Error::Contended`] after [`CAS_ATTEMPTS_MAX`](super::CAS_ATTEMPTS_MAX) lost swaps;
    /// [`Error::Datastore`] when the store fails.
    ///
    /// # If dropped half-way
    /// The batch was applied or not. A repeated call finds what it holds; a DEL frees it.
    ///
    /// # Source
    /// design of Calico's IPAM, "`AutoAssign` and host affinity"; CNI 1.1.0, section 5, on repeated ADDs.
    pub async fn assign(&mut self, request: &Assign<'_>) -> Result<Assigned, Error> {
        let request = &Assign { sharing: self.settle_sharing(request).await?, ..*request };
        let mut progress = Progress::default();
        let outcome = self.assign_step_by_step(request, &mut progress).await;
        if let Some(source) = request.import {
            let is_given = |address: &IpAddr| {
                outcome
                    .as_ref()
                    .is_ok_and(|given| given.addresses.iter().any(|given| given.address == *address))
            };
            progress.claimed.retain(|claimed| !is_given(claimed));
            source.withdraw(&progress.claimed, &request.owner.attachment);
        }
        outcome
    }

    async fn assign_step_by_step(
        &mut self,
        request: &Assign<'_>,
        progress: &mut Progress,
    ) -> Result<Assigned, Error> {
        let mut attempts = Attempts::default();
        let mut looked_again = false;
        let mut unsettled = 0;
        loop {
            let planned = self.plan(request, progress).await;
            let (draft, policy, assigned) =
                match planned.unwrap_or_else(|error| Plan::Refused(error, Vec::new())) {
                    Plan::ImportFirst => {
                        if let Some(source) = request.import {
                            self.import(request, source).await?;
                        }
                        continue;
                    }
                    Plan::Unsettled => {
                        self.settle_shared(request, unsettled, &mut attempts).await?;
                        unsettled += 1;
                        continue;
                    }
                    // What was read step by step may never have stood together; and what stands in the way may be this
                    // very call's, by a commit whose answer was lost and which arrived in between.
                    Plan::Refused(
                        Error::Exhausted { .. }
                        | Error::Taken { .. }
                        | Error::NoNewBlock { .. }
                        | Error::OutsidePools { .. },
                        _,
                    ) if !looked_again && !self.is_alone() => {
                        looked_again = true;
                        continue;
                    }
                    Plan::Refused(error, at_present) => {
                        let is_own = matches!(request.sharing, Sharing::Attachment);
                        if attempts.so_far() > 0 && !self.store.is_atomic() && is_own {
                            self.undo(request, progress.held_at_first.as_deref().unwrap_or_default()).await?;
                        }
                        self.write_present(at_present).await;
                        return Err(error);
                    }
                    Plan::Ready(planned) => *planned,
                };
            if let Some(source) = request.import
                && !import::claim_records(request, source, &assigned, progress)?
            {
                continue;
            }
            let changes = draft.len() > 0;
            match self.write(draft, &policy.reserved, &mut attempts).await? {
                Next::StartOver => looked_again = false,
                Next::Done => {
                    if !changes {
                        self.store.make_durable().await?;
                    }
                    return Ok(assigned);
                }
            }
        }
    }

    /// Writes what a refused request found out about times ahead of the clock. The refusal is the answer, so a failure
    /// is left to the next request; whoever else wrote a block meanwhile has written its present as well.
    async fn write_present(&mut self, drafts: Vec<Draft>) {
        for draft in drafts {
            if self.write(draft, &AddrSet::new(), &mut Attempts::default()).await.is_err() {
                return;
            }
        }
    }

    /// A limit on what a handle may have is kept by what it counts: so that must be what it has. Where it counts more,
    /// another that shares it may be about to write. `before`: how often this call has tried to settle it; now and then it
    /// waits instead, for whoever is at work, and tries again, for whoever was may have died.
    async fn settle_shared(
        &mut self,
        request: &Assign<'_>,
        before: u32,
        attempts: &mut Attempts,
    ) -> Result<(), Error> {
        let handle = request.handle()?;
        let answers = self.store.read(&[Want::Settings, Want::Held(handle.clone())]).await?;
        let mut answers = answers.into_iter();
        let settings = answers.next().map(crate::datastore::Answer::settings).unwrap_or_default();
        let (stored, blocks) = answers.next().map(crate::datastore::Answer::held).unwrap_or_default();
        let policy = Policy::new(settings, None, &request.host.name, request.now);
        let counts = Counts::new(stored.as_ref(), false, before % (CORRECTIONS_MAX + 1));
        let mut draft = Draft::default();
        draft.load_handle(&handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        for entry in blocks {
            let (revision, block) = checked(entry, &policy)?;
            draft.load_block(revision, block);
        }
        if !counts.corrects() {
            return attempts.wait(&mut self.store).await;
        }
        let cidrs: Vec<_> = draft.blocks().map(Block::cidr).collect();
        for cidr in cidrs {
            counts.change(&mut draft, &handle, cidr, |_| ());
        }
        counts.forget_missing(&mut draft, &handle);
        self.write_without_progress(draft, &policy.reserved, attempts).await.map(drop)
    }

    /// Whether nobody else can change the store during a call: its lock is held, and nothing is half-written.
    pub(super) fn is_alone(&self) -> bool {
        self.store.is_exclusive()
    }

    /// Frees what an attempt that stopped half-way assigned, now that the rest cannot be had: all or none.
    async fn undo(&mut self, request: &Assign<'_>, held_at_first: &[IpAddr]) -> Result<(), Error> {
        let attachment = &request.owner.attachment;
        let judge = self.judge(request.host);
        let is_new = |allocation: &Allocation<'_>| {
            attachment.owns(&allocation.fields)
                && judge.whose_is(&allocation.fields) == Whose::Ours
                && !held_at_first.contains(&allocation.address)
        };
        self.release_where(&request.handle()?, request.host, request.now, is_new).await.map(drop)
    }

    /// Drafts what is to be written, and what is answered once it is.
    pub(super) async fn plan(
        &mut self,
        request: &Assign<'_>,
        progress: &mut Progress,
    ) -> Result<Plan, Error> {
        let handle = request.handle()?;
        let (mut policy, mut draft, held) = self.begin(request, &handle).await?;
        if import::is_due(&policy, request, progress)? {
            return Ok(Plan::ImportFirst);
        }
        policy.avoid.clone_from(&progress.avoid);
        let judge = self.judge(request.host);
        let mut mine = Held::new(request.sharing, &handle);
        for (revision, block) in held {
            mine.take_in(draft.load_block(revision, block), &handle, request, &judge);
        }
        let is_shared = !matches!(request.sharing, Sharing::Attachment);
        if is_shared && !self.is_alone() && draft.counts_more(&handle) {
            return Ok(Plan::Unsettled);
        }
        let held_at_first = progress.held_at_first.get_or_insert_with(|| mine.addresses());
        let guest = match request.sharing {
            Sharing::Machine(machine) => {
                if machine.role == MachineRole::Target && mine.addresses().is_empty() {
                    return Err(Error::MachineWithoutAddress { handle });
                }
                let container = request.owner.attachment.handle()?;
                let guest = Guest::of(&mut self.store, machine, &handle, container).await?;
                guest.admit(&draft, &handle, &request.owner.attachment.network)?;
                Some(guest)
            }
            Sharing::Attachment | Sharing::Handle { .. } => None,
        };
        // Who wants one particular address goes first, so that no other want is given it.
        let mut order: Vec<usize> = (0..request.wanted.len()).collect();
        order.sort_by_key(|&place| request.wanted[place].address.is_none());
        let mut found = Vec::new();
        for place in order {
            let wanted = &request.wanted[place];
            found.push((place, wanted, mine.answer(wanted, request.wanted, &policy)?));
        }
        // Who uses a machine's address is noted when all of them are known.
        let attribute = match request.sharing {
            Sharing::Machine(_) => owner::of_handle(&handle),
            Sharing::Attachment | Sharing::Handle { .. } => request.owner.attribute(&handle, request.now),
        };
        let mut addresses = Vec::new();
        for (place, wanted, held) in found {
            let is_new = held.is_none();
            let (address, block) = if let Some(mine) = held {
                (mine.address, mine.block)
            } else {
                let mut search =
                    Search { store: &mut self.store, policy: &policy, draft: &mut draft, request, judge };
                let (block, ordinal) = match search.find(wanted).await {
                    Ok(found) => found,
                    Err(error) => return Ok(Plan::Refused(error, draft.at_present())),
                };
                let address = draft.block(block).map(|found| found.assign(ordinal, &attribute));
                draft.count_at_least(&handle, block);
                (address.expect("the search took the block into the draft"), block)
            };
            let pool = policy.pool_of(block).map(Pool::of);
            if let Some(pool) = pool.as_ref().filter(|_| is_new) {
                // Another network may keep addresses of the pool back at this very moment.
                let (key, revision) = policy.subnet_reservation_of(&pool.name);
                draft.rest_on(key, revision);
            }
            // An earlier attempt of this call may have given it, and its answer may have been lost.
            let held_before = held_at_first.contains(&address);
            addresses.push((place, AssignedAddress { address, pool, held_before }));
        }
        addresses.sort_by_key(|(place, _)| *place);
        let addresses = addresses.into_iter().map(|(_, address)| address).collect();
        let waits = guest.is_some_and(|guest| guest.enter(&mut draft, &handle, request, &judge));
        let second_machine = if self.store.is_one_kernel() { None } else { second_machine(&draft, &judge) };
        Ok(Plan::Ready(Box::new((draft, policy, Assigned { addresses, waits, second_machine }))))
    }

    /// Reads what every attempt needs, and drafts the pools and reservations of the network.
    pub(super) async fn begin(
        &mut self,
        request: &Assign<'_>,
        handle: &HandleId,
    ) -> Result<(Policy, Draft, Vec<(crate::datastore::Revision, Block)>), Error> {
        let wants =
            [Want::Settings, Want::Object(Key::Node(request.host.name.clone())), Want::Held(handle.clone())];
        let mut answers = self.store.read(&wants).await?.into_iter();
        let mut next = || answers.next().expect("an answer for each want");
        let (settings, node, (stored, blocks)) = (next().settings(), next().object(), next().held());
        let mut policy = Policy::new(settings, node, &request.host.name, request.now);
        let mut draft = Draft::default();
        draft.load_handle(handle, stored.map(|entry| (entry.revision, entry.into::<IpamHandle>())));
        let blocks =
            blocks.into_iter().map(|entry| checked(entry, &policy)).collect::<Result<Vec<_>, _>>()?;
        network::ensure_pools(&mut policy, &mut draft, request.pools)?;
        if let Some(gateways) = request.gateways {
            self.ensure_subnets(&mut policy, &mut draft, request, handle, gateways).await?;
        }
        Ok((policy, draft, blocks))
    }
}

/// The boot ID of a machine, other than this one, that assigned an address under this host's name.
fn second_machine(draft: &Draft, judge: &Judge<'_>) -> Option<String> {
    draft.blocks().find_map(|block| {
        block.allocations().find_map(|allocation| judge.second_machine(&allocation.fields).map(str::to_owned))
    })
}

/// Takes a block from the store, with what has cooled down meanwhile freed.
pub(super) fn checked(entry: Entry, policy: &Policy) -> Result<(crate::datastore::Revision, Block), Error> {
    let revision = entry.revision;
    let wire = entry.into::<crate::api::calico::IpamBlock>();
    let cidr = wire.cidr;
    let mut block = Block::from_wire(wire).map_err(|problem| Error::DamagedBlock { block: cidr, problem })?;
    block.collect(policy.config.cooldown, policy.now);
    Ok((revision, block))
}
