//! `ipam release`: addresses that no DEL will free any more.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::args::Release;
use super::super::error::Error;
use super::super::liveness::{self, Life, Witness};
use super::super::render::{counted, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome};
use super::check::whose;
use super::ledger::{Ledger, RELEASED, WOULD_RELEASE};
use super::report::{self, Report};
use super::write;
use crate::api::{HandleId, HostName};
use crate::datastore::{Revision, run_in_place};
use crate::ipam::{AddressFact, Assignment, Ipam, ReleaseError, owner_key};
use crate::net::parse_address;

/// Why an address that is held is left alone.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Kept {
    /// Its owner is alive.
    #[error("{address} is in use, and its owner is alive: {why}; {owner}")]
    Alive {
        /// The address.
        address: IpAddr,
        /// How that is known.
        why: String,
        /// Who has it.
        owner: String,
    },
    /// A virtual machine keeps it for as long as it exists.
    #[error("{address} belongs to a virtual machine; {owner}")]
    VirtualMachine {
        /// The address.
        address: IpAddr,
        /// Who has it.
        owner: String,
    },
    /// Nothing would be changed.
    #[error("a dry run")]
    DryRun(Box<AddressFact>),
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Release) -> Result<Answer, Error> {
    let selectors = [
        !args.ip.is_empty(),
        !args.from_report.is_empty(),
        args.handle.is_some(),
        args.vm.is_some(),
        args.node.is_some(),
    ];
    if selectors.iter().filter(|given| **given).count() != 1 {
        return Err(Error::NothingToDo {
            verb: "ipam release",
            expected: "give one of `--ip`, `--from-report`, `--handle`, `--vm` and `--node`",
        });
    }
    let witness = Witness::of(context, liveness::path(args.inventory.as_ref()))?;
    if let Some(machine) = &args.vm {
        return super::machines::release(context, args, &witness, machine);
    }
    if !args.from_report.is_empty() {
        return from_reports(context, args, &witness);
    }
    let given = args.ip.iter().map(|text| parse_address(text).ok_or_else(|| Error::Address(text.clone())));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    let (mut ipam, note) = context.open_to_read()?;
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    let meant = if given.is_empty() {
        let (meant, damaged) = chosen(context, &mut ipam, args)?;
        answer.notes.extend(damaged.into_iter().map(|damage| format!("warning: {damage}")));
        meant
    } else {
        let whatever = |address| Assignment { address, sequence: None, handle: None };
        given.into_iter().map(whatever).collect()
    };
    // Nobody waits while a person thinks.
    drop(ipam);
    if meant.is_empty() {
        answer.outcome = Outcome::No;
        answer.notes.push("note: nothing is held by it".to_owned());
    }
    let addresses: Vec<_> = meant.iter().map(|meant| meant.address.to_string()).collect();
    if !args.dry_run && !meant.is_empty() {
        context.confirm(&format!("This releases {}.", addresses.join(", ")), args.yes)?;
    }
    let (mut ipam, _) = open(context, args)?;
    let mut run = Run { witness: &witness, args, answer, ledger: Ledger::default() };
    for assignment in &meant {
        run.release(context, &mut ipam, assignment);
        ipam.store_mut().unlock();
    }
    if let Some(node) = args.node.as_deref()
        && !args.dry_run
        && run.answer.outcome != Outcome::Failed
    {
        run.give_up(context, &mut ipam, node)?;
    }
    if !args.dry_run {
        write::settle(&mut ipam);
    }
    run.answer.data = run.ledger.render(context.format);
    Ok(run.answer)
}

/// Opens the store to do it, or only to see what would be done.
fn open(context: &Context<'_>, args: &Release) -> Result<(Ipam<Store>, Option<String>), Error> {
    if args.dry_run { context.open_to_read() } else { context.open_to_change() }
}

/// What is held by a handle or a node; and what could not be read.
fn chosen(
    context: &mut Context<'_>,
    ipam: &mut Ipam<Store>,
    args: &Release,
) -> Result<(Vec<Assignment>, Vec<String>), Error> {
    let mut is_meant = |fact: &AddressFact| {
        let is_handle = args.handle.is_some() && fact.handle == args.handle;
        let is_node = args.node.is_some() && fact.noted(owner_key::NODE) == args.node.as_deref();
        !fact.is_cooling && !fact.is_host_reserved && (is_handle || is_node)
    };
    let assignment = |fact: &AddressFact| Assignment {
        address: fact.address,
        sequence: Some(fact.sequence),
        handle: fact.handle.clone(),
    };
    let facts = context.facts(ipam, &mut is_meant)?;
    Ok((facts.addresses.iter().map(assignment).collect(), facts.damaged))
}

/// One run over several addresses.
struct Run<'a> {
    witness: &'a Witness,
    args: &'a Release,
    answer: Answer,
    ledger: Ledger,
}

impl Run<'_> {
    /// A node whose addresses were freed keeps no block either.
    fn give_up(&mut self, context: &Context<'_>, ipam: &mut Ipam<Store>, node: &str) -> Result<(), Error> {
        let Ok(host) = HostName::new(node) else { return Ok(()) };
        let removed = run_in_place(ipam.give_up_blocks_of(&host, context.clock.now()))?;
        let blocks = removed.blocks + removed.left.blocks;
        if blocks > 0 {
            let blocks = counted(blocks, "block", "blocks");
            self.ledger.say(format!("Gave up {blocks} of node {}", printable(node)));
            self.answer.outcome = Outcome::Done;
        }
        Ok(())
    }

    fn judge(&self, fact: &AddressFact) -> Result<(), Kept> {
        let (address, owner) = (fact.address, whose(fact));
        if !self.args.force {
            if let Life::Alive(why) = self.witness.life(fact) {
                return Err(Kept::Alive { address, why, owner });
            }
            if fact.is_virtual_machine() {
                return Err(Kept::VirtualMachine { address, owner });
            }
        }
        if self.args.dry_run { Err(Kept::DryRun(Box::new(fact.clone()))) } else { Ok(()) }
    }

    fn release(&mut self, context: &Context<'_>, ipam: &mut Ipam<Store>, assignment: &Assignment) {
        let now = context.clock.now();
        match run_in_place(ipam.release_address(assignment, now, |fact| self.judge(fact))) {
            Ok(fact) => {
                self.ledger.released(RELEASED, None, &fact);
                self.warn_if_alive(&fact);
            }
            Err(ReleaseError::Declined(Kept::DryRun(fact))) => {
                self.ledger.released(WOULD_RELEASE, None, &fact);
            }
            Err(error) => {
                self.answer.notes.extend(Error::Release(error).report().lines().map(str::to_owned));
                self.answer.outcome = Outcome::Failed;
            }
        }
    }

    fn warn_if_alive(&mut self, fact: &AddressFact) {
        if let Life::Alive(why) = self.witness.life(fact) {
            let owner = whose(fact);
            let note = format!("warning: the owner of {} was alive: {why}; {owner}", fact.address);
            self.answer.notes.push(note);
        }
    }
}

/// Releases what nobody used in any of some reports, if it is still the same.
fn from_reports(context: &mut Context<'_>, args: &Release, witness: &Witness) -> Result<Answer, Error> {
    let store = context.place()?.to_string();
    let mut reports = Vec::new();
    for path in &args.from_report {
        let report = Report::load(path)?;
        let problem = |problem| Error::File { path: path.clone(), problem };
        if report.store != store {
            return Err(problem(format!("is about the store {}, not {store}", printable(&report.store))));
        }
        if report.version != report::VERSION && !args.force {
            let (found, own) = (printable(&report.version), report::VERSION);
            return Err(problem(format!(
                "was written by version {found}, and this is {own}; check again, or use `--force`"
            )));
        }
        reports.push(report);
    }
    let Some(last) = reports.last() else { return Ok(Answer::default()) };
    let mut meant: BTreeMap<IpAddr, Assignment> = BTreeMap::new();
    for (address, listed) in last.unused() {
        if reports.iter().all(|report| report.unused().contains_key(&address)) {
            let (sequence, handle) = (Some(listed.sequence_number), listed.handle.clone());
            meant.insert(address, Assignment { address, sequence, handle });
        }
    }
    let in_all = |handle: &&report::ListedHandle| {
        reports.iter().all(|report| report.leaked_handles().contains(handle))
    };
    let handles: Vec<_> = last.leaked_handles().iter().filter(in_all).cloned().collect();
    let is_anything = !meant.is_empty() || !handles.is_empty();
    if is_anything && !args.dry_run {
        let plan = counted(meant.len(), "address", "addresses");
        context.confirm(&format!("This releases {plan} and {} handles.", handles.len()), args.yes)?;
    }
    let (mut ipam, note) = open(context, args)?;
    let answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    // A report never overrides what is known now.
    let careful = Release { force: false, ..args.clone() };
    let mut run = Run { witness, args: &careful, answer, ledger: Ledger::default() };
    let (mut released, mut skipped, mut failed, mut planned) = (0usize, 0usize, 0usize, 0usize);
    for assignment in meant.values() {
        let now = context.clock.now();
        // Whoever waits comes in between.
        ipam.store_mut().unlock();
        match run_in_place(ipam.release_address(assignment, now, |fact| run.judge(fact))) {
            Ok(fact) => {
                released += 1;
                run.ledger.released(RELEASED, None, &fact);
            }
            Err(ReleaseError::Declined(Kept::DryRun(fact))) => {
                planned += 1;
                run.ledger.released(WOULD_RELEASE, None, &fact);
            }
            Err(ReleaseError::Engine(error)) => {
                failed += 1;
                run.answer.notes.extend(Error::Engine(error).report().lines().map(str::to_owned));
            }
            Err(changed) => {
                skipped += 1;
                run.ledger.skipped(assignment.address, &changed.to_string());
            }
        }
    }
    let mut gone = 0usize;
    for handle in handles.iter().filter(|_| !args.dry_run) {
        let id = HandleId::new(handle.id.clone()).ok();
        if let Some((id, revision)) = id.zip(handle.revision.parse().ok())
            && run_in_place(ipam.remove_handle(&id, Revision(revision)))?
        {
            gone += 1;
        }
    }
    let (word, number) = if args.dry_run { (WOULD_RELEASE, planned) } else { (RELEASED, released) };
    let addresses = counted(number, "address", "addresses");
    run.ledger.say(format!("{word} {addresses}; {skipped} skipped; {failed} errors."));
    if args.dry_run && !handles.is_empty() {
        run.ledger.say(format!("Would release {} handles.", handles.len()));
    } else if !handles.is_empty() {
        let handles = handles.len() - gone;
        run.ledger.say(format!("Released {gone} handles; {handles} skipped; 0 errors."));
    }
    if failed > 0 {
        run.answer.outcome = Outcome::Failed;
    }
    if !args.dry_run {
        write::settle(&mut ipam);
    }
    run.answer.data = run.ledger.render(context.format);
    Ok(run.answer)
}
