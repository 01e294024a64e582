//! The kinds of `ipam.miloapis.com`, for the verbs of every kind: pools' other face, and what people carve out of pools.
//! What they do, the engine does; here it is found out what is meant, and said what came of it.

mod describe;
mod put;
mod read;
mod remove;

pub(super) use describe::describe;
pub(super) use put::{apply, create, patch, replace};
pub(super) use read::{View, read};
pub(super) use remove::{removal, remove};

use super::super::error::Error;
use super::super::kinds::{Kind, Milo};
use crate::ipam::CarveError;

/// An error of the engine about a resource.
fn failure(kind: Milo, name: &str, error: CarveError) -> Error {
    let (kind, name) = (Kind::Milo(kind), name.to_owned());
    match error {
        CarveError::Engine(error) => Error::Engine(error),
        CarveError::Missing => Error::Missing { kind, names: vec![name] },
        error => Error::Carve { kind, name, error: Box::new(error) },
    }
}
