//! Given, when, then: what the reference engine's tests prove, in so far as it concerns this engine, and what it does
//! otherwise on purpose; then what went wrong elsewhere.
//!
//! Rows are those of the table of behaviours in the specification of the reference engine, deviations those that it
//! recommends. `rows.rs` says of each row where it is tested, or why it does not apply.

mod affinities;
mod by_address;
mod counted;
mod dual;
mod field;
mod limits;
mod pools;
mod release;
mod reservations;
mod rows;

use host_affine::api::calico::IpamBlock;
use host_affine::datastore::{Object, run_in_place};
use host_affine::ipam::{Error, Finding, Ipam, audit};
use host_affine::net::Cidr;

use super::build::{Ask, Bare as _, addresses, at, pool, put_pool};
use super::either::{Either, again_on_etcd};

#[test]
fn the_tables_hold_on_etcd_too() {
    again_on_etcd(&["engine::tables::"], 60);
}

/// Hosts and containers of one store, by name.
struct Net {
    ipam: Ipam<Either>,
    /// Seconds since the start.
    now: u64,
}

impl Net {
    /// A store with pools: name, range, block prefix.
    fn with(pools: &[(&str, &str, u8)]) -> Self {
        let mut net = Self { ipam: Ipam::new(Either::new()), now: 0 };
        for (name, range, block) in pools {
            put_pool(net.store(), pool(name, range, *block));
        }
        net
    }

    fn store(&mut self) -> &mut Either {
        self.ipam.store_mut()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Vec<String>, Error> {
        let ask = Ask { now: at(self.now), ..ask.clone() };
        let assigned = run_in_place(ask.of(&mut self.ipam))?;
        Ok(addresses(&assigned).iter().map(ToString::to_string).collect())
    }

    /// One IPv4 address for a container, which must be had.
    fn add(&mut self, host: &str, id: &str) -> String {
        match self.ask(&Ask::new(host, id)) {
            Ok(mut addresses) => addresses.remove(0),
            Err(error) => panic!("{id} on {host}: {error}; {:?}", error.details()),
        }
    }

    /// So many containers, named after a stem, each with an address.
    fn add_many(&mut self, host: &str, stem: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| self.add(host, &format!("{stem}{number}"))).collect()
    }

    /// The refusal of one IPv4 address.
    fn refused(&mut self, host: &str, id: &str) -> Error {
        self.ask(&Ask::new(host, id)).expect_err("to be refused")
    }

    fn del(&mut self, host: &str, id: &str) -> Vec<String> {
        let ask = Ask::new(host, id).after(self.now);
        let released = run_in_place(ask.end(&mut self.ipam)).expect("a DEL succeeds");
        released.addresses.iter().map(ToString::to_string).collect()
    }

    /// Every block.
    fn blocks(&mut self) -> Vec<IpamBlock> {
        let blocks = |object| match object {
            Object::Block(block) => Some(*block),
            _ => None,
        };
        self.store().entries().into_iter().filter_map(|entry| blocks(entry.object)).collect()
    }

    /// The ranges of the blocks that are kept for a host.
    fn blocks_of(&mut self, host: &str) -> Vec<String> {
        let owner = Some(super::build::affinity(host));
        self.blocks()
            .into_iter()
            .filter(|block| block.affinity == owner)
            .map(|b| b.cidr.to_string())
            .collect()
    }

    fn block(&mut self, cidr: Cidr) -> Option<IpamBlock> {
        self.blocks().into_iter().find(|block| block.cidr == cidr)
    }

    fn audit(&mut self) -> Vec<Finding> {
        audit(self.store().entries().into_iter().map(|entry| (entry.key, entry.object)))
    }
}

/// What a refusal says in all: message, details and hint.
fn said(error: &Error) -> String {
    format!("{error}\n{}\n{}", error.details().join("\n"), error.hint())
}
