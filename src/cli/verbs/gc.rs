//! `ipam gc`: frees what this host knows to be dead. What a runtime still lists is its own affair: it sends GC.

use super::super::args::Gc;
use super::super::error::Error;
use super::super::liveness::{Life, Witness};
use super::super::render::counted;
use super::super::{Answer, Context, Outcome};
use super::ledger::{Ledger, RELEASED, WOULD_RELEASE};
use super::write;
use crate::datastore::run_in_place;
use crate::ipam::{Assignment, ReleaseError};

/// It came to life in the moment between look and release.
#[derive(Debug, thiserror::Error)]
#[error("it is alive after all")]
struct Alive;

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Gc) -> Result<Answer, Error> {
    let witness = Witness::of(context, None)?;
    let (mut ipam, note) = context.open_to_read()?;
    let now = context.clock.now();
    let mut is_dead =
        |fact: &crate::ipam::AddressFact| !fact.is_cooling && matches!(witness.life(fact), Life::Dead(_));
    let facts = context.facts(&mut ipam, &mut is_dead)?;
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    answer.notes.extend(facts.damaged.iter().map(|damage| format!("warning: {damage}")));
    // Nobody waits while a person thinks.
    drop(ipam);
    let dead = &facts.addresses;
    if !args.dry_run && !dead.is_empty() {
        context
            .confirm(&format!("This releases {}.", counted(dead.len(), "address", "addresses")), args.yes)?;
    }
    let mut ledger = Ledger::default();
    if args.dry_run {
        for fact in dead {
            if let Life::Dead(why) = witness.life(fact) {
                ledger.released(WOULD_RELEASE, Some(&why), fact);
            }
        }
        return Ok(Answer { data: ledger.render(context.format), ..answer });
    }
    let (mut ipam, _) = context.open_to_change()?;
    let mut released = 0usize;
    for fact in dead {
        let Life::Dead(why) = witness.life(fact) else { continue };
        // Whoever waits comes in between.
        ipam.store_mut().unlock();
        let meant =
            Assignment { address: fact.address, sequence: Some(fact.sequence), handle: fact.handle.clone() };
        let judge = |fact: &_| if matches!(witness.life(fact), Life::Dead(_)) { Ok(()) } else { Err(Alive) };
        match run_in_place(ipam.release_address(&meant, now, judge)) {
            Ok(fact) => {
                released += 1;
                ledger.released(RELEASED, Some(&why), &fact);
            }
            Err(ReleaseError::Engine(error)) => {
                answer.notes.extend(Error::Engine(error).report().lines().map(str::to_owned));
                answer.outcome = Outcome::Failed;
            }
            Err(_) => {}
        }
    }
    ledger.say(format!("Released {}.", counted(released, "address", "addresses")));
    write::settle(&mut ipam);
    answer.data = ledger.render(context.format);
    Ok(answer)
}
