//! Hosts that share nothing but an etcd: a real one, started by the test, with the built plugin on each.

mod field;
mod hosts;
mod limit;
mod load;
mod machines;
mod members;
