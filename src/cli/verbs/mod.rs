//! The verbs, a file each: what is asked of the engine, and what is made of its answer.

pub(super) mod apply;
pub(super) mod check;
pub(super) mod completion;
pub(super) mod configure;
pub(super) mod create;
pub(super) mod delete;
pub(super) mod describe;
pub(super) mod explain;
pub(super) mod gc;
pub(super) mod get;
mod ledger;
mod machines;
pub(super) mod map;
pub(super) mod metrics;
pub(super) mod migrate;
mod milo;
pub(super) mod patch;
pub(super) mod release;
pub(super) mod replace;
mod report;
pub(super) mod show;
pub(super) mod split;
pub(super) mod why;
pub(super) mod write;
