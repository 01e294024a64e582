//! The verbs, a file each: what is asked of the engine, and what is made of its answer.

pub(super) mod apply;
pub(super) mod configure;
pub(super) mod create;
pub(super) mod delete;
pub(super) mod describe;
pub(super) mod explain;
pub(super) mod get;
pub(super) mod patch;
pub(super) mod replace;
pub(super) mod show;
pub(super) mod write;
