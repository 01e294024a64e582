//! Deleting: what was carved out comes free, unless a claim's policy keeps it.

use super::super::super::Context;
use super::super::super::error::Error;
use super::super::super::kinds::{Kind, Milo};
use super::super::super::store::Store;
use super::{failure, read};
use crate::api::milo::{block_of_name, view};
use crate::datastore::{ProjectName, run_in_place};
use crate::ipam::{CarveError, Force, Ipam, RemoveError, Removed};

/// Deletes a resource.
pub(in crate::cli::verbs) fn remove(
    context: &Context<'_>,
    ipam: &mut Ipam<Store>,
    kind: Milo,
    name: &str,
    force: Force,
) -> Result<Removed, Error> {
    let missing = || Error::Missing { kind: Kind::Milo(kind), names: vec![name.to_owned()] };
    refuse_block(ipam, kind, name, missing)?;
    let of_project = ProjectName { project: context.project()?, name: name.to_owned() };
    let now = context.clock.now();
    let failed = |error| failure(kind, name, error);
    match kind {
        Milo::Pool => {
            refuse_others(context, ipam, name)?;
            run_in_place(ipam.remove_pool(name, force, now))
                .map_err(|error| removal(Kind::Milo(kind), name, error))
        }
        Milo::Allocation => {
            run_in_place(ipam.release_allocation(&of_project)).map_err(failed)?;
            Ok(Removed::default())
        }
        Milo::Claim => {
            run_in_place(ipam.release_claim(&of_project, now)).map_err(failed)?;
            Ok(Removed::default())
        }
    }
}

/// An error of the engine about what was to be deleted.
pub(in crate::cli::verbs) fn removal(kind: Kind, name: &str, error: RemoveError) -> Error {
    let name = name.to_owned();
    match error {
        RemoveError::Missing => Error::Missing { kind, names: vec![name] },
        RemoveError::Engine(error) => Error::Engine(error),
        RemoveError::Holds(holdings) => Error::Holds { kind, name, holdings },
    }
}

/// A block shows as an allocation, and is none that people may touch. `absent`: what is said where there is no such block.
pub(super) fn refuse_block(
    ipam: &mut Ipam<Store>,
    kind: Milo,
    name: &str,
    absent: impl FnOnce() -> Error,
) -> Result<(), Error> {
    let Some(block) = block_of_name(name).filter(|_| kind == Milo::Allocation) else { return Ok(()) };
    Err(match run_in_place(ipam.shown_block(block))? {
        Some(shown) => Error::Projection { name: name.to_owned(), owner: view::owner(&shown) },
        None => absent(),
    })
}

/// A project deletes its own pools alone.
fn refuse_others(context: &Context<'_>, ipam: &mut Ipam<Store>, name: &str) -> Result<(), Error> {
    let Some(project) = context.given_project()? else { return Ok(()) };
    let owner = read::pool(ipam, name)?.map(|pool| pool.record.extras.project);
    match owner {
        Some(owner) if owner.as_deref() != Some(project) => {
            Err(failure(Milo::Pool, name, CarveError::OthersPool { owner }))
        }
        _ => Ok(()),
    }
}
