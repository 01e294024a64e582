//! `create`: resources that do not exist yet.

use super::super::args::Write;
use super::super::error::Error;
use super::super::kinds::Kind;
use super::super::{Answer, Context, manifest};
use super::milo;
use super::write::{self, Declined, Tally};

/// Serves it. Each resource is tried, whatever became of those before it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Write) -> Result<Answer, Error> {
    let manifests = manifest::load(&args.filename, context.stdin)?;
    let trial = args.dry_run.trial()?;
    let mut ipam = context.open_to_write(trial)?;
    let mut tally = Tally::new(trial);
    for manifest in &manifests {
        if let Kind::Milo(kind) = manifest.kind {
            milo::create(context, &mut ipam, &mut tally, kind, manifest);
            continue;
        }
        tally.edit(&mut ipam, manifest.kind, &manifest.name, |stored| {
            if stored.is_some() {
                return Err(Declined::Exists);
            }
            let resource = write::fresh(context, write::essence(&manifest.object));
            Ok(("created", Some(write::object(manifest.kind, resource)?)))
        });
    }
    write::settle(&mut ipam);
    drop(ipam);
    Ok(tally.answer(context))
}
