//! The verbs, a file each: what is asked of the engine, and what is made of its answer.

pub(super) mod configure;
pub(super) mod get;
pub(super) mod show;
