//! `delete`: resources, and what depends on them.

use std::fmt::Write as _;

use super::super::args::Delete;
use super::super::error::{Error, held};
use super::super::kinds::Kind;
use super::super::render::{Format, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome, manifest};
use super::get::Selection;
use super::milo;
use super::write;
use crate::api::HostName;
use crate::datastore::run_in_place;
use crate::ipam::{Force, Ipam, RemoveError, Removed, Trial};

/// Serves it. Each resource is tried, whatever became of those before it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Delete) -> Result<Answer, Error> {
    let targets = targets(context, args)?;
    if let Some((kind, _)) = targets.iter().find(|(kind, _)| kind.schema().is_none()) {
        return Err(Error::ReadOnly(*kind));
    }
    let plan: Vec<_> = targets.iter().map(|(kind, name)| format!("{kind} `{}`", printable(name))).collect();
    let trial = args.dry_run.trial()?;
    let (mut ipam, note) = match trial {
        Trial::DryRun => context.open_to_rehearse()?,
        Trial::Write => {
            context.confirm(&format!("This deletes {}.", plan.join(", ")), args.yes)?;
            context.open_to_change()?
        }
    };
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    for (kind, name) in targets {
        match delete(context, &mut ipam, kind, &name, args) {
            Ok(removed) => report(context.format, trial, (kind, &name), removed, &mut answer),
            Err(Error::Missing { .. }) if args.ignore_not_found => {}
            Err(error) => {
                answer.notes.extend(error.report().lines().map(str::to_owned));
                answer.outcome = Outcome::Failed;
            }
        }
    }
    write::settle(&mut ipam);
    Ok(answer)
}

/// What is to be deleted: what the arguments name, or what files hold.
fn targets(context: &mut Context<'_>, args: &Delete) -> Result<Vec<(Kind, String)>, Error> {
    if !args.filename.is_empty() {
        let manifests = manifest::load(&args.filename, context.stdin)?;
        // The last that was made goes first.
        return Ok(manifests.into_iter().rev().map(|manifest| (manifest.kind, manifest.name)).collect());
    }
    let selection = match &args.kind {
        Some(kind) => Selection::parse(kind, &args.names)?,
        None => Selection { kind: Kind::IpPool, names: Vec::new() },
    };
    if selection.names.is_empty() {
        return Err(Error::NothingToDo { verb: "delete", expected: "give KIND and NAME, or -f FILE" });
    }
    Ok(selection.names.into_iter().map(|name| (selection.kind, name)).collect())
}

fn delete(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    kind: Kind,
    name: &str,
    args: &Delete,
) -> Result<Removed, Error> {
    let now = context.clock.now();
    let force = if args.force { Force::Yes } else { Force::No };
    let removed = match kind {
        Kind::Milo(kind) => return milo::remove(context, ipam, kind, name, force),
        Kind::IpPool => run_in_place(ipam.remove_pool(name, force, now)),
        Kind::Node => match HostName::new(name) {
            Ok(host) => run_in_place(ipam.remove_node(&host, now)),
            Err(_) => Err(RemoveError::Missing),
        },
        _ => match kind.key(name) {
            Some(key) => run_in_place(ipam.remove(&key)).map(|()| Removed::default()),
            None => Err(RemoveError::Missing),
        },
    };
    removed.map_err(|reason| milo::removal(kind, name, reason))
}

fn report(format: Format, trial: Trial, (kind, name): (Kind, &str), removed: Removed, answer: &mut Answer) {
    let word = if format == Format::Name { "" } else { " deleted" };
    let note = if trial == Trial::DryRun && format != Format::Name { " (dry run)" } else { "" };
    let _ = writeln!(answer.data, "{}{word}{note}", kind.full_name(name));
    let left = removed.left;
    if left.is_empty() {
        return;
    }
    let held = held(&left);
    answer.notes.push(match (kind, left.blocks) {
        (Kind::Node, _) => format!("note: left: {held}, kept for nobody now; what is empty goes"),
        (_, 0) => format!("note: left: {held}, without a pool; each keeps its range until it is deleted"),
        _ => format!("note: left: {held}, giving nothing more; what is empty goes"),
    });
}
