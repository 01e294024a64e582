//! State in etcd v3, in the keys and words of Calico, so that both can run beside each other.
//!
//! - One `read` is one transaction of ranges, so all of it stood together; one `commit` is one transaction with a compare
//!   for every key that it rests on. Reads are linearizable.
//! - A call begins with what every call needs, and with it come the host's affinities and, as a guess, its last blocks:
//!   so a call that finds room there makes two requests. A wrong guess costs one more, and nothing else.
//! - The endpoint that answered last is asked first, by the next call too.
//! - What was read serves one attempt. Whatever a commit was refused for is read anew.
//! - A commit whose answer is lost is *unknown*. The reading after it first closes the door behind it, in the same
//!   transaction: every commit compares that a key of its own does not exist, and that reading writes that key. So the
//!   lost commit was applied, which is seen, or never will be.

mod answer;
mod commit;
mod conflict;
mod cover;
mod fetch;
mod floor;
pub mod format;
mod gateway;
mod guard;
mod inspect;
mod memory;
mod options;
mod patience;
mod plan;
mod post;
mod refusal;
mod room;
mod tls;
mod turn;
mod upkeep;
mod view;
mod wire;

use std::time::Duration;

use super::{Answer, Batch, Commit, Datastore, Error, Isolation, Key, RoomOf, Want};
use crate::api::{Affinity, HostName};
use fetch::{Fetch, fetch};
use gateway::Gateway;
use memory::Memory;
use patience::random;
use turn::Turn;
use view::View;
use wire::{Operation, Put};

pub use options::{CALL_PATIENCE, EtcdOptions, Password, Patience, without_login};

/// The first pause before something is tried again that another was faster with, at most; it doubles with each.
const BACK_OFF: Duration = Duration::from_millis(4);
/// How often it doubles.
const BACK_OFF_DOUBLED_MAX: u32 = 6;
/// How long a lost commit is kept out, in seconds: longer than any server keeps a request.
const DOOR_SECONDS: u64 = 600;

/// A session with etcd.
#[derive(Debug)]
pub struct EtcdStore {
    gateway: Gateway,
    view: View,
    /// What was already answered with, and is read anew when it is asked for again.
    told: Vec<Fetch>,
    memory: Memory,
    /// Whose call it is, once a call has begun.
    host: Option<HostName>,
    /// The key that shuts a lost commit out.
    door: String,
    /// Whether a commit's answer was lost since anything was read.
    lost: bool,
    /// Held as long as the session lives.
    turn: Option<Turn>,
}

impl EtcdStore {
    /// Takes this host's turn, if there is one to take, and reads the certificates. Connects to nobody yet.
    ///
    /// # Errors
    /// [`Error::Remote`] with [`Fault::Options`](super::Fault::Options) when nothing can be reached with the options.
    pub fn open(options: &EtcdOptions) -> Result<Self, Error> {
        options.check()?;
        let turn = options.lock_file.as_deref().and_then(|path| Turn::take(path, options.lock_timeout));
        let memory = Memory::new(options.memory.clone(), &options.urls()?);
        let mut gateway = Gateway::new(options)?;
        gateway.begin_with(memory.endpoint());
        Ok(Self {
            gateway,
            view: View::default(),
            told: Vec::new(),
            memory,
            host: None,
            door: new_door(),
            lost: false,
            turn,
        })
    }

    /// Lets other processes of this host go on, when everything has been read.
    pub fn unlock(&mut self) {
        self.turn = None;
    }

    fn forget(&mut self) {
        self.view.clear();
        self.told.clear();
    }

    fn look(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        let mut guesses = Vec::new();
        if self.lost || wants.contains(&Want::Settings) {
            self.forget();
            guesses = self.guesses(wants);
        }
        let mut fresh: Vec<Fetch> = Vec::new();
        loop {
            let mut missing: Vec<Fetch> = Vec::new();
            for want in wants {
                for fetch in answer::needed(want, &self.view) {
                    let is_told = !answer::is_belief(want) && self.told.contains(&fetch);
                    let is_missing = !answer::is_known(&fetch, &self.view) || is_told;
                    if is_missing && !fresh.contains(&fetch) && !missing.contains(&fetch) {
                        missing.push(fetch);
                    }
                }
            }
            if missing.is_empty() {
                break;
            }
            let mut all = missing.clone();
            all.extend(std::mem::take(&mut guesses).into_iter().filter(|guess| !missing.contains(guess)));
            self.fetch(&all)?;
            fresh.extend(missing);
        }
        let mut answers = Vec::new();
        for want in wants {
            if !answer::is_belief(want) {
                self.told.extend(answer::needed(want, &self.view));
            }
            answers.push(match want {
                Want::Room { of, within, enough } if !matches!(of, RoomOf::Owner(_)) => {
                    Answer::Cidrs(room::of_others(&mut self.gateway, &mut self.view, of, within, *enough)?)
                }
                want => answer::answer(want, &self.view)?,
            });
        }
        Ok(answers)
    }

    /// Reads something; after a lost commit, with the door shut behind that in the same step.
    fn fetch(&mut self, fetches: &[Fetch]) -> Result<(), Error> {
        let shut = if self.lost { Some(self.shut_door()?) } else { None };
        fetch(&mut self.gateway, &mut self.view, fetches, shut.as_ref())?;
        if shut.is_some() {
            self.lost = false;
            self.door = new_door();
        }
        Ok(())
    }

    fn shut_door(&mut self) -> Result<Operation, Error> {
        let lease = wire::Number(self.gateway.lease(DOOR_SECONDS)?);
        Ok(Operation::Put(Put { key: (&self.door).into(), value: "".into(), lease }))
    }

    /// What a call that begins so will probably ask for next.
    fn guesses(&mut self, wants: &[Want]) -> Vec<Fetch> {
        let node = wants.iter().find_map(|want| match want {
            Want::Object(Key::Node(host)) => Some(host.clone()),
            _ => None,
        });
        let Some(host) = node else { return Vec::new() };
        let mut guesses = vec![Fetch::Prefix(format::affinities_of(&Affinity::Host(host.clone())))];
        for want in wants {
            if let Want::Held(id) = want {
                guesses.push(Fetch::Point(format::key_of(&Key::MachinesOf(id.clone()))));
            }
        }
        let last = self.memory.blocks_of(&host).into_iter().map(|cidr| format::key_of(&Key::Block(cidr)));
        guesses.extend(last.map(Fetch::Point));
        self.host = Some(host);
        guesses
    }
}

fn new_door() -> String {
    format!("{}{:016x}{:016x}", commit::DOORS, random(), random())
}

impl Datastore for EtcdStore {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, Error> {
        let answers = self.look(wants)?;
        self.memory.note_endpoint(self.gateway.endpoint());
        Ok(answers)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, Error> {
        let outcome = self.write(&batch)?;
        if outcome == Commit::Applied
            && let Some(host) = &self.host
        {
            self.memory.note(host, &batch.room);
        }
        self.lost |= outcome == Commit::Unknown;
        self.forget();
        Ok(outcome)
    }

    async fn back_off(&mut self, attempt: u32) {
        self.forget();
        let doubled = attempt.saturating_sub(1).min(BACK_OFF_DOUBLED_MAX);
        self.gateway.deadline().pause(BACK_OFF * (1 << doubled));
    }

    fn is_out_of_step(&self, key: &Key) -> bool {
        *key == Key::Configuration && self.homes_disagree()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Atomic
    }

    fn is_one_kernel(&self) -> bool {
        false
    }
}
