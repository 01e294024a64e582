//! `delete`: resources, and what depends on them.

use std::fmt::Write as _;

use super::super::args::Delete;
use super::super::error::{Error, held};
use super::super::kinds::Kind;
use super::super::render::{Format, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome, manifest};
use super::get::Selection;
use super::write;
use crate::api::HostName;
use crate::datastore::run_in_place;
use crate::ipam::{Force, Ipam, RemoveError, Removed};

/// Serves it. Each resource is tried, whatever became of those before it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Delete) -> Result<Answer, Error> {
    let targets = targets(context, args)?;
    if let Some((kind, _)) = targets.iter().find(|(kind, _)| kind.schema().is_none()) {
        return Err(Error::ReadOnly(*kind));
    }
    let plan: Vec<_> = targets.iter().map(|(kind, name)| format!("{kind} `{}`", printable(name))).collect();
    context.confirm(&format!("This deletes {}.", plan.join(", ")), args.yes)?;
    let (mut ipam, note) = context.open_to_change()?;
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    for (kind, name) in targets {
        match delete(context, &mut ipam, kind, &name, args) {
            Ok(removed) => report(context.format, kind, &name, removed, &mut answer),
            Err(RemoveError::Missing) if args.ignore_not_found => {}
            Err(reason) => {
                let error = match reason {
                    RemoveError::Missing => Error::Missing { kind, names: vec![name] },
                    RemoveError::Engine(error) => Error::Engine(error),
                    RemoveError::Holds(holdings) => Error::Holds { kind, name, holdings },
                };
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
) -> Result<Removed, RemoveError> {
    let now = context.clock.now();
    match kind {
        Kind::IpPool => {
            let force = if args.force { Force::Yes } else { Force::No };
            run_in_place(ipam.remove_pool(name, force, now))
        }
        Kind::Node => {
            let host = HostName::new(name).map_err(|_| RemoveError::Missing)?;
            run_in_place(ipam.remove_node(&host, now))
        }
        _ => {
            let key = kind.key(name).ok_or(RemoveError::Missing)?;
            run_in_place(ipam.remove(&key)).map(|()| Removed::default())
        }
    }
}

fn report(format: Format, kind: Kind, name: &str, removed: Removed, answer: &mut Answer) {
    let full = format!("{}.projectcalico.org/{}", kind.info().singular, printable(name));
    let word = if format == Format::Name { "" } else { " deleted" };
    let _ = writeln!(answer.data, "{full}{word}");
    let left = removed.left;
    if left.is_empty() {
        return;
    }
    let (held, what) =
        (held(&left), if kind == Kind::Node { "kept for nobody now" } else { "giving nothing more" });
    answer.notes.push(format!("note: left: {held}, {what}; what is empty goes"));
}
