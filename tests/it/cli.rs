//! The command line, run as its users run it, on stores that the plugin's own calls have filled.

mod apply;
mod check;
mod configure;
mod delete;
mod describe;
mod explain;
mod faults;
mod get;
mod grammar;
mod help;
mod map;
mod migrate;
mod milo;
mod others;
mod patch;
mod release;
mod replace;
mod scale;
mod sessions;
mod show;
mod store;
pub(crate) mod support;
mod terminal;
