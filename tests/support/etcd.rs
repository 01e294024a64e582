//! A real etcd on loopback, and a proxy before it that counts, drops and delays.

mod certificates;
mod cluster;
mod proxy;
mod server;

pub(crate) use certificates::Certificates;
pub(crate) use cluster::Cluster;
pub(crate) use proxy::{Fate, Passed, Proxy};
pub(crate) use server::{Server, Start, ask, free_address, is_installed, put, try_ask};
