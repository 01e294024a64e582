//! `ipam split`: a pool becomes several, and nobody's address changes.

use std::fmt::Write as _;

use super::super::args::Split;
use super::super::error::Error;
use super::super::render::printable;
use super::super::{Answer, Context};
use super::write;
use crate::datastore::run_in_place;

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Split) -> Result<Answer, Error> {
    let parts: u32 = args.parts.parse().map_err(|_| Error::Argument {
        what: "the number of parts".into(),
        found: args.parts.clone(),
        expected: "a power of 2 from 2 to 64".into(),
    })?;
    let Some(asked) = args.pool.as_deref().or(args.cidr.as_deref()) else {
        return Err(Error::NothingToDo { verb: "ipam split", expected: "give `--pool` or `--cidr`" });
    };
    context.confirm(&format!("This splits pool `{}` into {parts}.", printable(asked)), args.yes)?;
    let (mut ipam, note) = context.open_to_change()?;
    let (pool, children) = run_in_place(ipam.split_pool(asked, parts))?;
    write::settle(&mut ipam);
    let mut data = format!("Successfully split IP pool {} ({})\n", printable(pool.name()), pool.spec.cidr);
    for child in children {
        let _ = writeln!(data, "Created {} ({})", printable(child.name()), child.spec.cidr);
    }
    Ok(Answer { data, notes: note.into_iter().collect(), ..Answer::default() })
}
