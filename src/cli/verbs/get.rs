//! `get`: resources as they are now, with the journal laid over.

use serde_json::{Value, json};

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
pub(in crate::cli) fn run(context: &Context<'_>, args: &Get) -> Result<Answer, Error> {
    let selection = Selection::parse(&args.kind, &args.names)?;
    let filter = Filter::parse(selection.kind, args.selector.as_deref(), args.field_selector.as_deref())?;
    let (mut ipam, note) = context.open_to_read()?;
    ipam.store_mut().pass_over_damage();
    let (mut found, mut damaged) = match selection.kind {
        Kind::Milo(kind) => milo::read(&mut ipam, kind, &selection.names, &milo::View::of(context, args)?)?,
        _ => read(ipam.store_mut(), &selection)?,
    };
    damaged.extend(ipam.store_mut().passed_over().iter().map(ToString::to_string));
    found.retain(|resource| filter.matches(resource));
    let mut answer = answer_about(&selection, &found, note);
    if found.is_empty() && !filter.is_empty() && answer.outcome == Outcome::No {
        answer.notes = vec![format!("note: no {} match", selection.kind.word())];
    }
    answer.notes.extend(damaged.iter().map(|damage| format!("warning: {damage}")));
    let is_wide = context.format == Format::Wide;
    let look = Look { is_wide, with_project: args.all_projects, now: context.clock.now() };
    answer.data = print(context.format, look, &selection, found);
    Ok(answer)
}

/// What is said about what was asked for and not found.
pub(in crate::cli) fn answer_about(selection: &Selection, found: &[Value], note: Option<String>) -> Answer {
    let is_missing = |name: &&String| !found.iter().any(|one| is_named(one, name));
    let missing: Vec<String> = selection.names.iter().filter(is_missing).cloned().collect();
    let mut answer = Answer::default();
    if let Some(note) = note {
        answer = Answer { outcome: Outcome::No, ..answer.note(note) };
    } else if !missing.is_empty() {
        let report = Error::Missing { kind: selection.kind, names: missing }.report();
        answer.notes.extend(report.lines().map(str::to_owned));
        answer.outcome = Outcome::No;
    } else if found.is_empty() {
        answer.notes.push(format!("note: there are no {}", selection.kind.word()));
        answer.outcome = Outcome::No;
    }
    answer
}

/// The resources that were asked for and exist, in the order of their keys, and what could not be read of a long list.
/// The lock is given up before they are looked at.
pub(in crate::cli) fn read(
    store: &mut Store,
    selection: &Selection,
) -> Result<(Vec<Value>, Vec<String>), datastore::Error> {
    let (entries, damaged) = match selection.kind {
        Kind::IpamBlock if selection.names.is_empty() => every_block(store)?,
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
    let resources = entries.into_iter().filter_map(kinds::resource);
    let is_meant = |resource: &Value| {
        selection.names.is_empty() || selection.names.iter().any(|name| is_named(resource, name))
    };
    Ok((resources.filter(is_meant).collect(), damaged))
}

fn every_block(store: &mut Store) -> Result<(Vec<Entry>, Vec<String>), datastore::Error> {
    let (mut entries, mut damaged) = (Vec::new(), Vec::new());
    let mut visit = |Visit { cidr, block, .. }: Visit| match block {
        Ok(block) => entries.push(entry(Key::Block(cidr), datastore::Revision(block.sequence_number), block)),
        Err(error) => damaged.push(error.to_string()),
    };
    run_in_place(store.each_block(&mut visit))?;
    Ok((entries, damaged))
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

fn print(format: Format, look: Look, selection: &Selection, found: Vec<Value>) -> String {
    let kind = selection.kind;
    match format {
        Format::Table | Format::Wide if found.is_empty() => String::new(),
        Format::Table | Format::Wide => kind.table(&found, look).columns(),
        Format::Name => {
            let line = |one: &Value| format!("{}\n", kind.full_name(kinds::name(one)));
            found.iter().map(line).collect()
        }
        Format::Json => document(selection, found).map(|one| render::json(&one)).unwrap_or_default(),
        Format::Yaml => document(selection, found).map(|one| render::yaml(&one)).unwrap_or_default(),
    }
}

/// The resource itself where one was named, else a list. `None`: the one that was named does not exist.
fn document(selection: &Selection, mut found: Vec<Value>) -> Option<Value> {
    if selection.names.len() == 1 {
        return found.pop();
    }
    Some(json!({
        "apiVersion": selection.kind.api_version(),
        "kind": format!("{}List", selection.kind.info().name),
        "metadata": {},
        "items": found,
    }))
}
