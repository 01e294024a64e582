//! `ipam split`: a pool becomes several, and nobody's address changes.

use std::fmt::Write as _;

use serde_json::json;

use super::super::args::Split;
use super::super::error::Error;
use super::super::render::{self, Format, printable};
use super::super::{Answer, Context};
use super::write;
use crate::api::calico::IpPool;
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
    let document = || {
        let part = |pool: &IpPool| json!({ "name": pool.name(), "cidr": pool.spec.cidr });
        json!({ "split": part(&pool), "created": children.iter().map(part).collect::<Vec<_>>() })
    };
    let data = match context.format {
        Format::Json => render::json(&document()),
        Format::Yaml => render::yaml(&document()),
        _ => {
            let (name, cidr) = (printable(pool.name()), pool.spec.cidr);
            let mut text = format!("Successfully split IP pool {name} ({cidr})\n");
            for child in &children {
                let _ = writeln!(text, "Created {} ({})", printable(child.name()), child.spec.cidr);
            }
            text
        }
    };
    Ok(Answer { data, notes: note.into_iter().collect(), ..Answer::default() })
}
