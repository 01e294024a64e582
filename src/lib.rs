//! `host-affine` is a CNI IPAM plugin: a short-lived executable that gives every container, pod or virtual machine an
//! address from a block of addresses that is kept for its host, and takes it back.
//!
//! # What happens in a call
//!
//! ```text
//! runtime ── main plugin (bridge, ptp, macvlan, calico) ── host-affine
//!                                                            │ variables, standard input        cni::{env, config}
//!                                                            │ what the network asks for        cni::plan
//!                                                            │ one reading of the store         datastore
//!                                                            │ which address, and what changes  ipam
//!                                                            │ one commit, one flush            datastore::file
//!                                                            ▼ result or error object           cni::{result, failure}
//! ```
//!
//! # Why blocks
//!
//! A pool is cut into blocks of 64 addresses or so. A block is the unit of compare-and-swap: whoever wants one of its
//! addresses writes the whole block, at the revision that was read. Keeping a block for one host means that hosts hardly
//! ever meet at one object, that one route per block reaches all its containers, and that a call's work depends on the
//! blocks of its own host, not on how many addresses the cluster holds.
//!
//! # Invariants
//!
//! Each is checked after every step of the model test and after every schedule of the simulation, in `tests/it`.
//!
//! 1. An address has at most one owner. The block says who; handles and affinities only help to find it.
//! 2. Blocks are disjoint, and each ordinal of a block is either allocated or in its free queue, exactly once.
//! 3. What was answered is stored: nothing is printed before its commit is durable.
//! 4. An attachment gets every address that it wants, or none.
//! 5. A handle names every block in which it has addresses, so a DEL finds them by network, container and interface
//!    alone. It may name too many after a crash, never too few.
//! 6. A batch can be cut short between any two operations, in a store that cannot apply it as a whole; what is left is
//!    mended by a retry, a DEL, or the next claim ([`ipam::Finding::mends_itself`]).
//! 7. Under strict affinity no host uses another's block; a limit on blocks binds new affinities, never addresses held.
//! 8. A reserved address is never chosen; a subnet's own addresses are not given even when asked for.
//! 9. An address that was freed waits behind all others of its block.
//! 10. Whatever is carved out of a pool, blocks and people's networks alike, is disjoint, and has an owner.
//! 11. A virtual machine has at most one address of a family on a network, and each has at most one active owner.
//! 12. A damaged object is named, never guessed at, and stops nobody who does not need it.
//!
//! # Dependencies point one way
//!
//! ```text
//! main ─ cni, cli ─ ipam ─ datastore (the trait) ─ api ─ net
//!          │  │ └─ store ─ file, etcd, memory ─┘        clock: a leaf
//!          │  └─ netlink, workload, host, host_local
//!          └─ logging
//! ```
//!
//! [`ipam`] does no I/O, reads no clock and no environment, and knows neither CNI nor files: it decides on values, and
//! time, labels and host facts are parameters. `tests/it/tidy.rs` holds these directions.
//!
//! # Reading order
//!
//! 1. [`api::calico::IpamBlock`]: what a block looks like; 2. [`ipam::Block`]: what can be done with one;
//! 3. [`datastore`]: the seam and its contract; 4. [`ipam::Ipam::assign`] and the search behind it;
//! 5. [`datastore::file`]: how a commit survives a power cut; 6. [`cni::run`]: a call from end to end.

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
pub mod store;
pub mod workload;
