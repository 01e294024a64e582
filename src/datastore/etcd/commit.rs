//! A batch as one transaction.

use std::collections::BTreeMap;

use super::fetch::Fetch;
use super::format::{Expect, Write, homes_of, key_of, needed_by, revision_of, writes_of};
use super::gateway::Delivery;
use super::guard::Grain;
use super::plan::Plan;
use super::view::View;
use super::wire::{Compare, Delete, Operation, Put, Range, TxnRequest};
use super::{EtcdStore, conflict, floor, guard};
use crate::datastore::{BATCH_MAX, Batch, Change, Commit, Conflict, Error, Fault, Guard, Key, Object, Op};

/// Where the keys stand that shut lost commits out.
pub(super) const DOORS: &str = "/host-affine/doors/";

impl EtcdStore {
    pub(super) fn write(&mut self, batch: &Batch) -> Result<Commit, Error> {
        assert!(batch.ops.len() <= BATCH_MAX, "a batch of {} operations", batch.ops.len());
        if batch.ops.is_empty() && batch.guards.is_empty() {
            return Ok(Commit::Applied);
        }
        let mut wanted = needed(batch, &self.view);
        wanted.dedup();
        if !wanted.is_empty() || self.lost {
            self.fetch(&wanted)?;
        }
        let mut plan = self.plan(batch, Grain::Fine)?;
        if plan.compare.len() >= BATCH_MAX {
            plan = self.plan(batch, Grain::Coarse)?;
        }
        if !plan.conflicts.is_empty() {
            return Ok(Commit::Refused(plan.conflicts));
        }
        plan.compare.push(Compare::at(&self.door, 0));
        let most = plan.compare.len().max(plan.success.len());
        if most > BATCH_MAX {
            let problem = format!("{most} keys are compared or changed at once; {BATCH_MAX} are allowed");
            return Err(Error::Remote { server: self.gateway.servers(), fault: Fault::TooLarge, problem });
        }
        plan.failure.truncate(BATCH_MAX);
        let request = TxnRequest { compare: plan.compare, success: plan.success, failure: plan.failure };
        Ok(match self.gateway.txn(&request, Delivery::Once)? {
            None => Commit::Unknown,
            Some(answer) if answer.succeeded => Commit::Applied,
            Some(answer) => Commit::Refused(conflict::found(batch, &answer)),
        })
    }
}

impl EtcdStore {
    fn plan(&self, batch: &Batch, grain: Grain) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        for op in &batch.ops {
            change(op, &self.view, &mut plan)?;
        }
        floors(batch, &self.view, &mut plan);
        for guard in &batch.guards {
            hold(guard, grain, &self.view, &mut plan);
        }
        Ok(plan)
    }
}

/// What must be known before a batch can be written.
fn needed(batch: &Batch, view: &View) -> Vec<Fetch> {
    let mut keys = Vec::new();
    let mut fetches = Vec::new();
    for op in &batch.ops {
        keys.extend(needed_by(op));
        match (&op.change, &op.key) {
            // What a value has besides stays in it.
            (Change::Update(..), key) => keys.extend(homes_of(key)),
            (Change::Delete(_), Key::Block(cidr)) => keys.extend([key_of(&op.key), floor::key_of(*cidr)]),
            (Change::Create(_), Key::Block(cidr)) => keys.push(floor::key_of(*cidr)),
            _ => {}
        }
    }
    for guard in &batch.guards {
        match guard {
            Guard::Unchanged(key, _) if homes_of(key).len() > 1 => keys.extend(homes_of(key)),
            Guard::Unchanged(..) => {}
            Guard::NothingNewIn(network, _) => fetches.extend(guard::needed(*network, view)),
        }
    }
    keys.sort();
    keys.dedup();
    fetches.extend(keys.into_iter().filter(|key| !view.knows(key)).map(Fetch::Point));
    fetches
}

/// What an operation compares and does.
fn change(op: &Op, view: &View, plan: &mut Plan) -> Result<(), Error> {
    let Some(writes) = writes_of(op, |key| view.held(key))? else {
        plan.conflicts.push(Conflict { key: op.key.clone(), found: view.entry(&op.key).ok().flatten() });
        return Ok(());
    };
    for Write { key, expect, put } in writes {
        let revision = match expect {
            Expect::Absent => 0,
            Expect::At(revision) => revision,
        };
        plan.compare.push(Compare::at(&key, revision));
        plan.failure.push(Operation::Range(Range::point(&key)));
        let key = (&key).into();
        plan.success.extend(match put {
            Some(value) => Some(Operation::Put(Put {
                key,
                value: super::wire::Bytes(value),
                lease: super::wire::Number(0),
            })),
            None if revision > 0 => Some(Operation::Delete(Delete { key })),
            None => None,
        });
    }
    Ok(())
}

/// A deleted block raises the floor; a new block rests on it.
fn floors(batch: &Batch, view: &View, plan: &mut Plan) {
    let mut floors: BTreeMap<String, u64> = BTreeMap::new();
    for op in &batch.ops {
        let Key::Block(cidr) = op.key else { continue };
        let key = floor::key_of(cidr);
        let least = match op.change {
            Change::Update(..) => continue,
            Change::Create(_) => 0,
            Change::Delete(_) => match view.entry(&op.key).ok().flatten().map(|entry| entry.object) {
                Some(Object::Block(block)) => block.sequence_number.saturating_add(1),
                _ => 0,
            },
        };
        let highest = floors.entry(key).or_default();
        *highest = least.max(*highest);
    }
    for (key, least) in floors {
        let stands = view.held(&key).map_or(0, |held| held.mod_revision);
        plan.compare.push(Compare::at(&key, stands));
        if least > floor::at(&key, view) {
            let value = super::wire::Bytes(least.to_string().into_bytes());
            plan.success.push(Operation::Put(Put {
                key: (&key).into(),
                value,
                lease: super::wire::Number(0),
            }));
        }
    }
}

/// What a guard compares.
fn hold(guard: &Guard, grain: Grain, view: &View, plan: &mut Plan) {
    match guard {
        Guard::Unchanged(key, expected) => {
            let homes = homes_of(key);
            let stands: Vec<_> = homes.iter().map(|home| view.held(home)).collect();
            if homes.len() > 1 && revision_of(&stands) != *expected {
                plan.conflicts.push(Conflict { key: key.clone(), found: view.entry(key).ok().flatten() });
                return;
            }
            for (home, stands) in homes.iter().zip(&stands) {
                let revision = match homes.len() {
                    1 => expected.map_or(0, |revision| revision.0),
                    _ => stands.map_or(0, |held| held.mod_revision),
                };
                plan.compare.push(Compare::at(home, revision));
                plan.failure.push(Operation::Range(Range::point(home)));
            }
        }
        Guard::NothingNewIn(network, seen) => guard::hold(*network, seen, grain, view, plan),
    }
}
