//! A real etcd on loopback, and a proxy before it that counts, drops and delays.

mod certificates;
mod cluster;
mod proxy;
mod server;

pub(crate) use certificates::Certificates;
pub(crate) use cluster::Cluster;
pub(crate) use proxy::{Fate, Passed, Proxy};
pub(crate) use server::{Server, Start, ask, free_address, is_installed, put, try_ask};

/// Ends a test where there is no etcd.
macro_rules! need_etcd {
    () => {
        if !crate::support::etcd::is_installed() {
            return crate::support::cni::skip("there is no `etcd`");
        }
    };
}
pub(crate) use need_etcd;
