//! `ipam why`: whether a host would get an address now, and if not, why not. Changes nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::args::Why;
use super::super::error::Error;
use super::super::render::{self, Format, printable};
use super::super::{Answer, Context, Outcome};
use super::check::whose;
use crate::api::HostName;
use crate::datastore::run_in_place;
use crate::ipam::{Assign, Attachment, Host, NoOwnAddresses, Owner, PoolChoice, Survey, Wanted};
use crate::net::Family;

/// What would become of a request.
struct Verdict {
    family: Family,
    refused: Option<crate::ipam::Error>,
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Why) -> Result<Answer, Error> {
    let this = context.this_host()?;
    let named = args.node.as_ref().map(HostName::new).transpose().map_err(crate::ipam::Error::from)?;
    let host = match (named, this) {
        (Some(name), this) => {
            Host { boot: this.filter(|this| this.name == name).and_then(|this| this.boot), name }
        }
        (None, Some(this)) => this,
        (None, None) => {
            return Err(Error::NothingToDo {
                verb: "ipam why",
                expected: "this host does not know its name; give `--node`",
            });
        }
    };
    let (mut ipam, note) = context.open_to_read()?;
    let now = context.clock.now();
    let survey = context.survey(&mut ipam)?;
    let held = args.pod.as_deref().map(|pod| held_by(&survey, pod)).unwrap_or_default();
    let mut verdicts = Vec::new();
    for family in Family::BOTH {
        let has_pools = survey.pools.iter().any(|(_, cidr, _)| cidr.family() == family);
        // Where there is no pool at all, that is the answer.
        let is_asked = has_pools || (survey.pools.is_empty() && family == Family::V4);
        if !is_asked {
            continue;
        }
        let wanted = [Wanted { family, choice: PoolChoice::Any, usable: None, address: None }];
        let attachment = Attachment { network: "-".into(), container_id: "-".into(), ifname: "-".into() };
        let owner =
            Owner { attachment, node: host.name.clone(), boot: host.boot.clone(), netns: None, pod: None };
        let request = Assign {
            host: &host,
            owner: &owner,
            wanted: &wanted,
            pools: &[],
            gateways: None,
            takeover: None,
            own_addresses: &NoOwnAddresses,
            now,
        };
        verdicts.push(Verdict { family, refused: run_in_place(ipam.could_assign(&request)).err() });
    }
    drop(ipam);
    let is_no = held.is_empty() && verdicts.iter().any(|verdict| verdict.refused.is_some());
    let data = match context.format {
        Format::Json => render::json(&value(&host, &held, &verdicts)),
        Format::Yaml => render::yaml(&value(&host, &held, &verdicts)),
        _ => text(&host, args.pod.as_deref(), &held, &verdicts),
    };
    let outcome = if is_no { Outcome::No } else { Outcome::Done };
    Ok(Answer { data, notes: note.into_iter().collect(), outcome })
}

/// What a pod has already, a line each.
fn held_by(survey: &Survey, pod: &str) -> Vec<String> {
    let of_pod =
        survey.addresses.iter().filter(|fact| !fact.is_cooling && fact.pod().as_deref() == Some(pod));
    of_pod.map(|fact| format!("{} ({})", fact.address, whose(fact))).collect()
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
    for Verdict { family, refused } in verdicts {
        match refused {
            None => {
                let _ = writeln!(text, "host `{}` would get an {family} address", host.name);
            }
            Some(error) => {
                let _ = writeln!(text, "host `{}` would get no {family} address: {error}", host.name);
                for detail in error.details() {
                    let _ = writeln!(text, "  {detail}");
                }
                let _ = writeln!(text, "  way out: {}", error.hint());
            }
        }
    }
    text
}

fn value(host: &Host, held: &[String], verdicts: &[Verdict]) -> Value {
    let each = verdicts.iter().map(|Verdict { family, refused }| {
        json!({
            "family": family.to_string(),
            "possible": refused.is_none(),
            "reason": refused.as_ref().map(ToString::to_string),
            "details": refused.as_ref().map(crate::ipam::Error::details).unwrap_or_default(),
            "hint": refused.as_ref().map(crate::ipam::Error::hint),
        })
    });
    json!({ "node": host.name, "holds": held, "verdicts": each.collect::<Vec<_>>() })
}
