//! `host-affine`: a CNI IPAM plugin.

pub mod net;
