//! `get`: resources as they are now, with the journal laid over.

mod list;

use serde_json::Value;

use super::super::args::Get;
use super::super::error::Error;
use super::super::filter::Filter;
use super::super::kinds::{self, Kind, Look};
use super::super::render::{self, Format};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome};
use super::milo;
use crate::datastore::{
    self, Answer as Read, Datastore as _, Entry, Inspect as _, Key, Object, Visit, Want, run_in_place,
};
use crate::net::{Cidr, Family};
use list::List;

/// What was asked for: a kind, and which resources of it; without names, all.
pub(in crate::cli) struct Selection {
    pub(in crate::cli) kind: Kind,
    pub(in crate::cli) names: Vec<String>,
}

impl Selection {
    /// `KIND`, `KIND NAME…` or `KIND/NAME`.
    pub(in crate::cli) fn parse(kind: &str, names: &[String]) -> Result<Self, Error> {
        match kind.split_once('/') {
            Some((kind, name)) if names.is_empty() => {
                Ok(Self { kind: Kind::parse(kind)?, names: vec![name.to_owned()] })
            }
            _ => Ok(Self { kind: Kind::parse(kind)?, names: names.to_vec() }),
        }
    }
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Get) -> Result<Answer, Error> {
    let selection = Selection::parse(&args.kind, &args.names)?;
    let filter = Filter::parse(selection.kind, args.selector.as_deref(), args.field_selector.as_deref())?;
    let (mut ipam, note) = context.open_to_read()?;
    ipam.store_mut().pass_over_damage();
    let is_wide = context.format == Format::Wide;
    let look = Look { is_wide, with_project: args.all_projects, now: context.clock.now() };
    let (answer, mut damaged) = match selection.kind {
        Kind::Milo(kind) => {
            let view = milo::View::of(context, args)?;
            let (found, damaged) = milo::read(&mut ipam, kind, &selection.names, &view)?;
            (print_all(context, look, &selection, &filter, found, note)?, damaged)
        }
        kind if selection.names.is_empty() => {
            let mut list = List::new(kind, context.format, look, &mut *context.out);
            let mut take = |resource: Value| {
                if filter.matches(&resource) {
                    list.push(resource);
                }
            };
            let damaged = each(ipam.store_mut(), &selection, &mut take)?;
            let is_empty = list.finish()? == 0;
            (answer_to(&selection, &[], is_empty, &filter, note), damaged)
        }
        _ => {
            let (found, damaged) = read(ipam.store_mut(), &selection)?;
            (print_all(context, look, &selection, &filter, found, note)?, damaged)
        }
    };
    damaged.extend(ipam.store_mut().passed_over().iter().map(ToString::to_string));
    let warnings = damaged.iter().map(|damage| format!("warning: {damage}"));
    Ok(warnings.fold(answer, Answer::note))
}

/// What is said about what was asked for and not found.
pub(in crate::cli) fn answer_about(selection: &Selection, found: &[Value], note: Option<String>) -> Answer {
    let is_missing = |name: &&String| !found.iter().any(|one| is_named(one, name));
    let missing: Vec<String> = selection.names.iter().filter(is_missing).cloned().collect();
    answer_to(selection, &missing, found.is_empty(), &Filter::default(), note)
}

/// The notes and the outcome, without the data.
fn answer_to(
    selection: &Selection,
    missing: &[String],
    is_empty: bool,
    filter: &Filter,
    note: Option<String>,
) -> Answer {
    let mut answer = Answer::default();
    if let Some(note) = note {
        answer = Answer { outcome: Outcome::No, ..answer.note(note) };
    } else if !missing.is_empty() {
        let report = Error::Missing { kind: selection.kind, names: missing.to_vec() }.report();
        answer.notes.extend(report.lines().map(str::to_owned));
        answer.outcome = Outcome::No;
    } else if is_empty {
        let word = selection.kind.word();
        let note =
            if filter.is_empty() { format!("there are no {word}") } else { format!("no {word} match") };
        answer.notes.push(format!("note: {note}"));
        answer.outcome = Outcome::No;
    }
    answer
}

/// Prints resources that are in memory already.
fn print_all(
    context: &mut Context<'_>,
    look: Look,
    selection: &Selection,
    filter: &Filter,
    mut found: Vec<Value>,
    note: Option<String>,
) -> Result<Answer, Error> {
    found.retain(|resource| filter.matches(resource));
    let mut answer = answer_about(selection, &found, note);
    if found.is_empty() && !filter.is_empty() && answer.outcome == Outcome::No {
        answer.notes = vec![format!("note: no {} match", selection.kind.word())];
    }
    if selection.names.len() == 1 && matches!(context.format, Format::Json | Format::Yaml) {
        let to_text = if context.format == Format::Json { render::json } else { render::yaml };
        answer.data = found.pop().map(|one| to_text(&one)).unwrap_or_default();
        return Ok(answer);
    }
    let mut list = List::new(selection.kind, context.format, look, &mut *context.out);
    for resource in found {
        list.push(resource);
    }
    list.finish()?;
    Ok(answer)
}

/// The resources that were asked for and exist, in the order of their keys, and what could not be read of a long list.
/// The lock is given up before they are looked at.
pub(in crate::cli) fn read(
    store: &mut Store,
    selection: &Selection,
) -> Result<(Vec<Value>, Vec<String>), datastore::Error> {
    let mut found = Vec::new();
    let damaged = each(store, selection, &mut |resource| found.push(resource))?;
    Ok((found, damaged))
}

/// Visits the same resources one at a time. Blocks are read one at a time as well.
fn each(
    store: &mut Store,
    selection: &Selection,
    take: &mut dyn FnMut(Value),
) -> Result<Vec<String>, datastore::Error> {
    let (entries, damaged) = match selection.kind {
        Kind::IpamBlock if selection.names.is_empty() => return each_block(store, take),
        Kind::BlockAffinity => {
            let found = run_in_place(store.all_affinities())?;
            (found.records, found.damaged.into_iter().map(|(_, error)| error.to_string()).collect())
        }
        kind => {
            let wants = wants(store, selection)?;
            let answers = run_in_place(store.read(&wants))?;
            (answers.into_iter().flat_map(|answer| entries(answer, kind)).collect(), Vec::new())
        }
    };
    store.unlock();
    let is_meant = |resource: &Value| {
        selection.names.is_empty() || selection.names.iter().any(|name| is_named(resource, name))
    };
    entries.into_iter().filter_map(kinds::resource).filter(is_meant).for_each(take);
    Ok(damaged)
}

fn each_block(store: &mut Store, take: &mut dyn FnMut(Value)) -> Result<Vec<String>, datastore::Error> {
    let mut damaged = Vec::new();
    let mut visit = |Visit { cidr, block, .. }: Visit| match block {
        Ok(block) => {
            let revision = datastore::Revision(block.sequence_number);
            kinds::resource(entry(Key::Block(cidr), revision, block)).into_iter().for_each(&mut *take);
        }
        Err(error) => damaged.push(error.to_string()),
    };
    run_in_place(store.each_block(&mut visit))?;
    Ok(damaged)
}

/// What has to be read. Blocks are many: only those that are named are opened.
fn wants(store: &mut Store, selection: &Selection) -> Result<Vec<Want>, datastore::Error> {
    let names = &selection.names;
    let object = |name: &String| selection.kind.key(name).map(Want::Object);
    Ok(match selection.kind {
        Kind::IpamConfiguration | Kind::IpPool | Kind::IpReservation => vec![Want::Settings],
        Kind::Node if names.is_empty() => vec![Want::Nodes],
        Kind::IpamHandle if names.is_empty() => vec![Want::AllHandles],
        Kind::Node | Kind::IpamHandle => names.iter().filter_map(object).collect(),
        // These are looked through as a whole.
        Kind::BlockAffinity | Kind::Milo(_) => Vec::new(),
        Kind::IpamBlock => {
            let everything =
                Family::BOTH.into_iter().filter_map(|family| Cidr::containing(family.address(0), 0));
            let all: Vec<_> = everything.map(Want::BlockCidrs).collect();
            let cidrs = run_in_place(store.read(&all))?.into_iter().flat_map(Read::cidrs);
            let is_meant = |cidr: &Cidr| {
                names.iter().any(|name| *name == cidr.object_name() || name.parse() == Ok(*cidr))
            };
            cidrs.filter(is_meant).map(|cidr| Want::Object(Key::Block(cidr))).collect()
        }
    })
}

fn entries(answer: Read, kind: Kind) -> Vec<Entry> {
    match answer {
        Read::Object(entry) => entry.into_iter().collect(),
        Read::Objects(entries) => entries,
        Read::Settings(settings) => match kind {
            Kind::IpamConfiguration => {
                let stored = settings.configuration.into_iter();
                stored.map(|(at, stored)| entry(Key::Configuration, at, stored)).collect()
            }
            Kind::IpPool => {
                let stored = settings.pools.into_iter();
                stored.map(|(at, pool)| entry(Key::Pool(pool.name().to_owned()), at, pool)).collect()
            }
            _ => {
                let stored = settings.reservations.into_iter();
                stored.map(|(at, kept)| entry(Key::Reservation(kept.name().to_owned()), at, kept)).collect()
            }
        },
        Read::Held(..) | Read::Cidrs(_) => Vec::new(),
    }
}

fn entry(key: Key, revision: datastore::Revision, object: impl Into<Object>) -> Entry {
    Entry { key, revision, object: object.into() }
}

/// Whether a resource is the one of a name. What has one CIDR goes by that too.
pub(super) fn is_named(resource: &Value, name: &str) -> bool {
    if kinds::name(resource) == name {
        return true;
    }
    let kind = resource.get("kind").and_then(Value::as_str);
    let cidr = ["/status/allocatedCIDR", "/spec/cidr"].iter().find_map(|path| resource.pointer(path));
    let cidr = cidr.and_then(Value::as_str).and_then(|cidr| cidr.parse::<Cidr>().ok());
    matches!(kind, Some("IPPool" | "IPAMBlock" | "IPAllocation" | "IPClaim"))
        && cidr.is_some()
        && name.parse().ok() == cidr
}
