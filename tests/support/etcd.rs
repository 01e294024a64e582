//! A real etcd on loopback, and a proxy before it that counts, drops and delays.

mod certificates;
mod cluster;
mod proxy;
mod server;

pub(crate) use certificates::Certificates;
pub(crate) use cluster::Cluster;
pub(crate) use proxy::{Fate, Proxy};
pub(crate) use server::{Server, Start, is_installed};
