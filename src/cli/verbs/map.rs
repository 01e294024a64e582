//! `ipam map`: pools as pictures.

use super::super::args::Map as Args;
use super::super::error::Error;
use super::super::render::{self, Format, printable};
use super::super::{Answer, Context, map};
use super::show::warnings;
use crate::datastore::run_in_place;
use crate::ipam::Portrait;

/// How the map is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Text,
    Svg,
    Html,
    Document(Format),
}

impl Look {
    fn parse(word: Option<&str>) -> Result<Self, Error> {
        Ok(match word.unwrap_or("text") {
            "text" | "table" | "wide" => Look::Text,
            "svg" => Look::Svg,
            "html" => Look::Html,
            "json" => Look::Document(Format::Json),
            "yaml" | "yml" => Look::Document(Format::Yaml),
            other => {
                return Err(Error::Argument {
                    what: "`--output`".into(),
                    found: other.to_owned(),
                    expected: "`text`, `svg`, `html`, `json` or `yaml` for `ipam map`".into(),
                });
            }
        })
    }
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Args) -> Result<Answer, Error> {
    let look = Look::parse(context.global.output.as_deref())?;
    let (mut ipam, note) = context.open_to_read()?;
    let mut progress = context.progress("blocks");
    let read = run_in_place(ipam.portraits(map::ADDRESSES_MAX, &mut |total| progress.step(total)));
    drop(progress);
    let (portraits, damaged) = read?;
    drop(ipam);
    let pools = chosen(&portraits, args)?;
    let data = match look {
        Look::Text => map::text(&pools, context.wants_colour()),
        Look::Svg => match *pools {
            [pool] => map::svg(pool),
            _ => {
                return Err(Error::Argument {
                    what: "the choice of pools for SVG".into(),
                    found: names(&pools),
                    expected: "one of them: use `--pool`".into(),
                });
            }
        },
        Look::Html => {
            let store = context.place()?.to_string();
            map::html(&pools, &format!("{store}, {}", context.clock.now()))
        }
        Look::Document(Format::Yaml) => render::yaml(&map::value(&pools)),
        Look::Document(_) => render::json(&map::value(&pools)),
    };
    let nothing = pools.is_empty().then(|| "note: there are no pools".to_owned());
    let notes = note.or(nothing).into_iter().chain(warnings(&damaged));
    Ok(Answer::with_notes(data, notes))
}

/// The pools that are meant, by name or CIDR; without one, all.
fn chosen<'a>(portraits: &'a [Portrait], args: &Args) -> Result<Vec<&'a Portrait>, Error> {
    let Some(asked) = &args.pool else { return Ok(portraits.iter().collect()) };
    let is_meant = |pool: &&Portrait| pool.name == *asked || pool.cidr.to_string() == *asked;
    match portraits.iter().find(is_meant) {
        Some(pool) => Ok(vec![pool]),
        None => Err(Error::Missing { kind: super::super::kinds::Kind::IpPool, names: vec![asked.clone()] }),
    }
}

fn names(pools: &[&Portrait]) -> String {
    if pools.is_empty() {
        return "none".to_owned();
    }
    pools.iter().map(|pool| printable(&pool.name)).collect::<Vec<_>>().join(", ")
}
