//! The command line, run as its users run it, on stores that the plugin's own calls have filled.

mod apply;
mod configure;
mod delete;
mod describe;
mod explain;
mod get;
mod grammar;
mod patch;
mod replace;
mod show;
mod store;
mod support;
