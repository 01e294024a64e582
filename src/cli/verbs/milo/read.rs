//! Which resources there are, as they are shown.

use serde::Serialize;
use serde_json::Value;

use super::super::super::Context;
use super::super::super::args::Get;
use super::super::super::error::Error;
use super::super::super::kinds::{Milo, name};
use super::super::super::store::Store;
use super::super::get::is_named;
use crate::api::DEFAULT_PROJECT;
use crate::api::milo::{ALL_PROJECTS_ANNOTATION, block_of_name};
use crate::datastore::{ProjectName, run_in_place};
use crate::ipam::{Ipam, PoolShown};
use crate::net::Cidr;

/// What of a store is looked at.
pub(in crate::cli::verbs) struct View {
    /// The project whose allocations and claims are meant.
    project: String,
    /// The project whose pools, and those that serve it, are meant. `None`: all.
    pools_of: Option<String>,
    /// Whether those of every project are meant, each with its project.
    all: bool,
}

impl View {
    /// What one project sees. The default project sees the blocks of hosts too, which belong to none.
    pub(super) fn of_project(context: &Context<'_>) -> Result<Self, Error> {
        let pools_of = context.given_project()?.map(str::to_owned);
        Ok(Self { project: context.project()?, pools_of, all: false })
    }

    /// What `get` is asked for.
    pub(in crate::cli::verbs) fn of(context: &Context<'_>, args: &Get) -> Result<Self, Error> {
        if let Some(project) = context.given_project()?.filter(|_| args.all_projects) {
            return Err(Error::Argument {
                what: "`--project` beside `--all-projects`".into(),
                found: project.to_owned(),
                expected: "one of the two".into(),
            });
        }
        Ok(Self { all: args.all_projects, ..Self::of_project(context)? })
    }

    fn named(&self, name: &str) -> ProjectName {
        ProjectName { project: self.project.clone(), name: name.to_owned() }
    }

    fn sees_blocks(&self) -> bool {
        self.all || self.project == DEFAULT_PROJECT
    }

    fn sees(&self, project: &str) -> bool {
        self.all || self.project == project
    }

    /// A resource, with its project where those of several are shown.
    fn value(&self, project: &str, resource: &impl Serialize) -> Value {
        // Maps with text keys cannot fail to become JSON.
        let mut value = serde_json::to_value(resource).unwrap_or_default();
        if self.all && !project.is_empty() {
            value["metadata"]["annotations"][ALL_PROJECTS_ANNOTATION] = project.into();
        }
        value
    }
}

/// The resources of some names, or all, by name, and what could not be read. What has a CIDR goes by that too.
pub(in crate::cli::verbs) fn read(
    ipam: &mut Ipam<Store>,
    kind: Milo,
    names: &[String],
    view: &View,
) -> Result<(Vec<Value>, Vec<String>), Error> {
    let mut damaged = Vec::new();
    let mut found = match kind {
        Milo::Pool => {
            let pools = run_in_place(ipam.shown_pools())?;
            pools.iter().filter(|pool| serves(pool, view)).map(|pool| pool_value(pool, view)).collect()
        }
        Milo::Allocation => allocations(ipam, names, view, &mut damaged)?,
        Milo::Claim => {
            let claims = run_in_place(ipam.shown_claims())?;
            let seen = claims.iter().filter(|(name, _)| view.sees(&name.project));
            seen.map(|(name, claim)| view.value(&name.project, claim)).collect()
        }
    };
    ipam.store_mut().unlock();
    found.retain(|resource| names.is_empty() || names.iter().any(|name| is_named(resource, name)));
    found.sort_by(|one, other| name(one).cmp(name(other)));
    Ok((found, damaged))
}

/// One resource as it stands now, to be changed.
pub(super) fn one(ipam: &mut Ipam<Store>, kind: Milo, name: &ProjectName) -> Result<Option<Value>, Error> {
    fn value<T: Serialize>(resource: T) -> Value {
        serde_json::to_value(resource).unwrap_or_default()
    }
    Ok(match kind {
        Milo::Pool => pool(ipam, &name.name)?.map(|pool| value(pool.to_resource())),
        Milo::Allocation => run_in_place(ipam.shown_allocation(name))?.map(value),
        Milo::Claim => {
            let mut claims = run_in_place(ipam.shown_claims())?.into_iter();
            claims.find(|(of, _)| of == name).map(|(_, claim)| value(claim))
        }
    })
}

/// A pool, by its name.
pub(super) fn pool(ipam: &mut Ipam<Store>, name: &str) -> Result<Option<PoolShown>, Error> {
    let pools = run_in_place(ipam.shown_pools())?;
    Ok(pools.into_iter().find(|pool| pool.record.calico.name() == name))
}

/// Whether a project may carve out of a pool, or all pools are meant.
fn serves(pool: &PoolShown, view: &View) -> bool {
    view.all || view.pools_of.as_deref().is_none_or(|project| pool.record.extras.serves(Some(project)))
}

fn pool_value(pool: &PoolShown, view: &View) -> Value {
    view.value(pool.record.extras.project.as_deref().unwrap_or_default(), &pool.to_resource())
}

/// Blocks are many: they are looked at only where one may be meant.
fn allocations(
    ipam: &mut Ipam<Store>,
    names: &[String],
    view: &View,
    damaged: &mut Vec<String>,
) -> Result<Vec<Value>, Error> {
    let is_name = |name: &String| name.parse::<Cidr>().is_err();
    if !view.all && !names.is_empty() && names.iter().all(is_name) {
        let mut found = Vec::new();
        for name in names {
            let one = match block_of_name(name).filter(|_| view.sees_blocks()) {
                Some(block) => run_in_place(ipam.shown_block(block))?,
                None => run_in_place(ipam.shown_allocation(&view.named(name)))?,
            };
            found.extend(one.map(|one| view.value(&view.project, &one)));
        }
        return Ok(found);
    }
    let stored = run_in_place(ipam.stored_allocations())?;
    let seen = stored.iter().filter(|(name, _)| view.sees(&name.project));
    let mut found: Vec<_> = seen.map(|(name, one)| view.value(&name.project, one)).collect();
    if view.sees_blocks() {
        let (blocks, unread) = run_in_place(ipam.shown_blocks())?;
        found.extend(blocks.iter().map(|block| view.value("", block)));
        damaged.extend(unread);
    }
    Ok(found)
}
