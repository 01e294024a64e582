//! A real etcd, and Calico beside us in it.

mod cli;
mod objects;
