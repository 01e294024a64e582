//! `host-affine`: a CNI IPAM plugin.

pub mod api;
pub mod clock;
pub mod cni;
pub mod datastore;
pub mod ipam;
pub mod net;
pub mod netlink;
