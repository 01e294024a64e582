//! `ipam gc`: frees what this host knows to be dead. What a runtime still lists is its own affair: it sends GC.

use std::fmt::Write as _;

use super::super::args::Gc;
use super::super::error::Error;
use super::super::liveness::{Life, Witness};
use super::super::render::counted;
use super::super::{Answer, Context, Outcome};
use super::check::whose;
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
    let (mut ipam, note) = context.open_to_change()?;
    let now = context.clock.now();
    let survey = context.survey(&mut ipam)?;
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    answer.notes.extend(survey.damaged.iter().map(|damage| format!("warning: {damage}")));
    let is_dead =
        |fact: &&crate::ipam::AddressFact| !fact.is_cooling && matches!(witness.life(fact), Life::Dead(_));
    let dead: Vec<_> = survey.addresses.iter().filter(is_dead).collect();
    if !args.dry_run && !dead.is_empty() {
        context
            .confirm(&format!("This releases {}.", counted(dead.len(), "address", "addresses")), args.yes)?;
    }
    let mut released = 0usize;
    for fact in dead {
        let Life::Dead(why) = witness.life(fact) else { continue };
        if args.dry_run {
            let _ = writeln!(answer.data, "Would release {}: {why} ({})", fact.address, whose(fact));
            continue;
        }
        let meant =
            Assignment { address: fact.address, sequence: Some(fact.sequence), handle: fact.handle.clone() };
        let judge = |fact: &_| if matches!(witness.life(fact), Life::Dead(_)) { Ok(()) } else { Err(Alive) };
        match run_in_place(ipam.release_address(&meant, now, judge)) {
            Ok(fact) => {
                released += 1;
                let _ = writeln!(answer.data, "Released {}: {why} ({})", fact.address, whose(&fact));
            }
            Err(ReleaseError::Engine(error)) => {
                answer.notes.extend(Error::Engine(error).report().lines().map(str::to_owned));
                answer.outcome = Outcome::Failed;
            }
            Err(_) => {}
        }
    }
    if !args.dry_run {
        let _ = writeln!(answer.data, "Released {}.", counted(released, "address", "addresses"));
    }
    write::settle(&mut ipam);
    Ok(answer)
}
