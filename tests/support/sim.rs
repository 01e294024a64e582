//! A store that many clients share and that can be interrupted anywhere.
//!
//! Every operation suspends twice: before it is applied, and after it, before the client learns of it. Whoever polls
//! the clients thereby decides in which order their operations take effect; dropping a client's future is its process
//! dying there. A commit may also answer that its outcome is unknown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{
    Answer, BATCH_MAX, Batch, Change, Commit, Conflict, Datastore, Error, Isolation, Key, Revision, Want,
};

use super::choices::Choices;
use super::effect::{Effect, SingleWrite, object_of, single_writes};

/// How a store applies a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All or nothing, as a file store or one transaction does.
    Atomic,
    /// Interim values first, then operation by operation, up to the first that is refused.
    InOrder,
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct World {
    /// The stored state.
    pub(crate) state: Memory,
    /// The decisions of this run.
    pub(crate) choices: Choices,
    /// How many more crashes and lost answers this run may have.
    pub(crate) faults_left: usize,
    /// What each client is about to do, noted when it suspends before doing it.
    pub(crate) pending: BTreeMap<usize, Effect>,
    /// What took effect, if anybody wants to read it.
    pub(crate) trace: Option<Vec<String>>,
    /// Commits whose answer was lost and which are still on their way.
    late: BTreeMap<usize, Late>,
    /// The revisions that interim values got, by client.
    interim: BTreeMap<(usize, Key), Revision>,
    kind: Kind,
}

#[derive(Debug)]
enum Late {
    Batch(Batch),
    Writes(Vec<SingleWrite>),
}

impl World {
    /// A world around a prepared state.
    pub(crate) fn new(state: Memory, kind: Kind, choices: Choices, faults: usize) -> Self {
        Self {
            state,
            choices,
            faults_left: faults,
            pending: BTreeMap::new(),
            trace: None,
            late: BTreeMap::new(),
            interim: BTreeMap::new(),
            kind,
        }
    }

    /// Applies what is still on its way, and no answer is lost from now on.
    pub(crate) fn calm_down(&mut self) {
        self.faults_left = 0;
        for client in self.late.keys().copied().collect::<Vec<_>>() {
            self.deliver(client);
        }
    }

    /// Decides whether something out of the ordinary happens: 0 means no.
    pub(crate) fn fault(&mut self, among: usize) -> usize {
        if self.faults_left == 0 {
            return 0;
        }
        let decided = self.choices.pick_rarely(among);
        self.faults_left -= usize::from(decided > 0);
        decided
    }

    fn deliver(&mut self, client: usize) {
        match self.late.remove(&client) {
            None => {}
            Some(Late::Batch(batch)) => drop(self.state.apply(&batch)),
            Some(Late::Writes(writes)) => {
                let _ = writes.iter().try_for_each(|write| self.apply_one(client, write));
            }
        }
    }

    fn apply_one(&mut self, client: usize, write: &SingleWrite) -> Result<(), Vec<Conflict>> {
        let mut op = write.op.clone();
        if write.follows_interim {
            let at = self.interim.get(&(client, op.key.clone())).copied();
            let at = at.expect("an interim value was written first");
            op.change = match object_of(&op.change).cloned() {
                Some(object) => Change::Update(at, object),
                None => Change::Delete(at),
            };
        }
        let conflicts = self.state.conflicts(std::slice::from_ref(&op), &[]);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.state.write(&op);
        if write.is_interim {
            let at = self.state.revision(&op.key).expect("just written");
            self.interim.insert((client, op.key), at);
        }
        Ok(())
    }
}

/// One client's connection.
#[derive(Clone, Debug)]
pub(crate) struct Sim {
    world: Rc<RefCell<World>>,
    client: usize,
}

impl Sim {
    /// Connects a client.
    pub(crate) fn new(world: &Rc<RefCell<World>>, client: usize) -> Self {
        Self { world: Rc::clone(world), client }
    }

    async fn step<T>(&self, effect: Effect, apply: impl FnOnce(&mut World) -> T) -> T {
        self.world.borrow_mut().pending.insert(self.client, effect);
        // Dropped here: the request never arrived.
        suspend().await;
        let answer = {
            let mut world = self.world.borrow_mut();
            let effect = world.pending.remove(&self.client);
            let (client, faults) = (self.client, world.faults_left);
            let answer = apply(&mut world);
            let lost = if world.faults_left < faults { ", answer lost" } else { "" };
            if let (Some(trace), Some(effect)) = (&mut world.trace, effect) {
                trace.push(format!("client {client} {effect}{lost}"));
            }
            answer
        };
        // Dropped here: applied, but nobody was told.
        suspend().await;
        answer
    }

    async fn commit_at_once(&self, batch: Batch) -> Commit {
        let client = self.client;
        self.step(Effect::of_batch(&batch), |world| match world.fault(4) {
            0 => world.state.apply(&batch),
            1 => {
                let _ = world.state.apply(&batch);
                Commit::Unknown
            }
            2 => Commit::Unknown,
            _ => {
                world.late.insert(client, Late::Batch(batch));
                Commit::Unknown
            }
        })
        .await
    }

    async fn commit_in_order(&self, batch: Batch) -> Commit {
        let client = self.client;
        if !batch.guards.is_empty() {
            let effect = Effect::of_guards(&batch.guards);
            let conflicts = self.step(effect, |world| world.state.conflicts(&[], &batch.guards)).await;
            if !conflicts.is_empty() {
                return Commit::Refused(conflicts);
            }
        }
        let writes = single_writes(batch.ops);
        for (place, write) in writes.iter().enumerate() {
            let ended = self
                .step(Effect::of_op(&write.op), |world| match world.fault(if place == 0 { 4 } else { 3 }) {
                    0 => world.apply_one(client, write).err().map(Commit::Refused),
                    1 => {
                        let _ = world.apply_one(client, write);
                        Some(Commit::Unknown)
                    }
                    // Further on the same as a loss after the write before.
                    3 => Some(Commit::Unknown),
                    _ => {
                        world.late.insert(client, Late::Writes(writes[place..].to_vec()));
                        Some(Commit::Unknown)
                    }
                })
                .await;
            if let Some(ended) = ended {
                return ended;
            }
        }
        Commit::Applied
    }
}

impl Datastore for Sim {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        let client = self.client;
        let mut effect = Effect::of_read(wants);
        match self.world.borrow().late.get(&client) {
            None => {}
            Some(Late::Batch(batch)) => effect.extend(Effect::of_batch(batch)),
            Some(Late::Writes(writes)) => {
                for write in writes {
                    effect.extend(Effect::of_op(&write.op));
                }
            }
        }
        let answers = self
            .step(effect, |world| {
                let answers = wants.iter().map(|want| world.state.answer(want)).collect();
                // The worst moment for a lost commit to arrive: just after the client has looked for it.
                world.deliver(client);
                answers
            })
            .await;
        Ok(answers)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        assert!(batch.ops.len() <= BATCH_MAX, "a batch of {} operations", batch.ops.len());
        let keys: BTreeSet<&Key> = batch.ops.iter().map(|op| &op.key).collect();
        assert_eq!(keys.len(), batch.ops.len(), "a batch touches a key once: {:?}", batch.ops);
        let kind = self.world.borrow().kind;
        Ok(match kind {
            Kind::Atomic => self.commit_at_once(batch).await,
            Kind::InOrder => self.commit_in_order(batch).await,
        })
    }

    fn isolation(&self) -> Isolation {
        if self.world.borrow().kind == Kind::Atomic { Isolation::Atomic } else { Isolation::Stepwise }
    }

    fn is_one_kernel(&self) -> bool {
        false
    }
}

async fn suspend() {
    let mut first = true;
    poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}
