//! `ipam why`: whether a host would get an address now, and why or why not, pool by pool. Changes nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::args::Why;
use super::super::error::Error;
use super::super::render::{self, Format, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome};
use super::check::whose;
use crate::api::HostName;
use crate::datastore::run_in_place;
use crate::ipam::{self, Host, Ipam, PoolChoice, PoolVerdict, Preview, PreviewOutcome};
use crate::net::Family;

/// What would become of a request of a family.
struct Verdict {
    family: Family,
    outcome: Result<Preview, ipam::Error>,
    pools: Vec<PoolVerdict>,
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Why) -> Result<Answer, Error> {
    let host = host(context, args)?;
    let (mut ipam, note) = context.open_to_read()?;
    let held = match args.pod.as_deref() {
        Some(pod) => held_by(context, &mut ipam, pod)?,
        None => Vec::new(),
    };
    let now = context.clock.now();
    let mut verdicts = Vec::new();
    for family in run_in_place(ipam.families())? {
        let outcome = run_in_place(ipam.preview(&host, family, PoolChoice::Any, now));
        let pools = run_in_place(ipam.pool_verdicts(&host, family, now)).unwrap_or_default();
        verdicts.push(Verdict { family, outcome, pools });
    }
    drop(ipam);
    let is_no = held.is_empty() && verdicts.iter().any(|verdict| verdict.outcome.is_err());
    let data = match context.format {
        Format::Json => render::json(&value(&host, &held, &verdicts)),
        Format::Yaml => render::yaml(&value(&host, &held, &verdicts)),
        _ => text(&host, args.pod.as_deref(), &held, &verdicts),
    };
    let outcome = if is_no { Outcome::No } else { Outcome::Done };
    Ok(Answer { data, notes: note.into_iter().collect(), outcome })
}

/// The host that is asked about.
fn host(context: &Context<'_>, args: &Why) -> Result<Host, Error> {
    let this = context.this_host()?;
    let named = args.node.as_ref().map(HostName::new).transpose().map_err(ipam::Error::from)?;
    match (named, this) {
        (Some(name), this) => Ok(this.filter(|this| this.name == name).unwrap_or_else(|| Host::named(name))),
        (None, Some(this)) => Ok(this),
        (None, None) => Err(Error::NothingToDo {
            verb: "ipam why",
            expected: "this host does not know its name; give `--node`",
        }),
    }
}

/// What a pod has already, a line each.
fn held_by(context: &mut Context<'_>, ipam: &mut Ipam<Store>, pod: &str) -> Result<Vec<String>, Error> {
    let mut is_of_pod = |fact: &ipam::AddressFact| !fact.is_cooling && fact.pod().as_deref() == Some(pod);
    let facts = context.facts(ipam, &mut is_of_pod)?;
    Ok(facts.addresses.iter().map(|fact| format!("{} ({})", fact.address, whose(fact))).collect())
}

fn text(host: &Host, pod: Option<&str>, held: &[String], verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    if let Some(pod) = pod {
        if held.is_empty() {
            let _ = writeln!(text, "pod {} holds no address", printable(pod));
        }
        for held in held {
            let _ = writeln!(text, "pod {} holds {held}", printable(pod));
        }
    }
    for Verdict { family, outcome, pools } in verdicts {
        match outcome {
            Ok(preview) => {
                let _ = writeln!(
                    text,
                    "host `{}` would get the {family} address {} of pool `{}`, in {}, {}",
                    host.name,
                    preview.address,
                    printable(&preview.pool),
                    preview.source,
                    preview.block
                );
            }
            Err(error) => {
                let _ = writeln!(text, "host `{}` would get no {family} address: {error}", host.name);
            }
        }
        for pool in pools {
            let _ = writeln!(text, "  pool `{}` ({}) {}", printable(&pool.name), pool.cidr, words(pool));
        }
        if let Err(error) = outcome {
            if pools.is_empty() {
                for detail in error.details() {
                    let _ = writeln!(text, "  {detail}");
                }
            }
            let _ = writeln!(text, "  way out: {}", error.hint());
        }
    }
    text
}

/// What a pool would do, as the end of a sentence.
fn words(pool: &PoolVerdict) -> String {
    match &pool.outcome {
        PreviewOutcome::Gives(preview) => {
            format!("would give {}, in {}, {}", preview.address, preview.source, preview.block)
        }
        PreviewOutcome::NotAsked(reason) => reason.to_string(),
        PreviewOutcome::Refuses(error) => match &*error.details() {
            [] => format!("has none: {error}"),
            details => {
                let start = format!("pool `{}` ({}): ", pool.name, pool.cidr);
                let bare = details.iter().map(|detail| detail.strip_prefix(&start).unwrap_or(detail));
                format!("has none: {}", bare.collect::<Vec<_>>().join("; "))
            }
        },
    }
}

fn value(host: &Host, held: &[String], verdicts: &[Verdict]) -> Value {
    let preview = |preview: &Preview| {
        json!({
            "ip": preview.address, "pool": preview.pool, "block": preview.block,
            "source": preview.source.to_string(),
        })
    };
    let pool = |pool: &PoolVerdict| {
        let (word, gives) = match &pool.outcome {
            PreviewOutcome::Gives(found) => ("gives", Some(preview(found))),
            PreviewOutcome::NotAsked(_) => ("notAsked", None),
            PreviewOutcome::Refuses(_) => ("refuses", None),
        };
        json!({ "name": pool.name, "cidr": pool.cidr, "outcome": word, "gives": gives, "reason": words(pool) })
    };
    let each = verdicts.iter().map(|Verdict { family, outcome, pools }| {
        let refused = outcome.as_ref().err();
        json!({
            "family": family.to_string(),
            "possible": outcome.is_ok(),
            "gives": outcome.as_ref().ok().map(preview),
            "reason": refused.map(ToString::to_string),
            "details": refused.map(ipam::Error::details).unwrap_or_default(),
            "hint": refused.map(ipam::Error::hint),
            "pools": pools.iter().map(pool).collect::<Vec<_>>(),
        })
    });
    json!({ "node": host.name, "holds": held, "verdicts": each.collect::<Vec<_>>() })
}
