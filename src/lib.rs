//! `host-affine`: a CNI IPAM plugin.

pub mod ipam;
pub mod net;
pub mod netlink;
