//! `host-affine`: a CNI IPAM plugin.

pub mod cni;
pub mod net;
