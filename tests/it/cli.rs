//! The command line, run as its users run it, on stores that the plugin's own calls have filled.

mod configure;
mod get;
mod grammar;
mod show;
mod store;
mod support;
