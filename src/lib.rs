//! `host-affine`: a CNI IPAM plugin.

pub mod api;
pub mod cli;
pub mod clock;
pub mod cni;
pub mod datastore;
pub mod host;
pub mod host_local;
pub mod ipam;
pub mod logging;
pub mod net;
pub mod netlink;
pub mod panic;
