//! What is collected or released by address while containers come and go.

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Answer, Key, Want};
use host_affine::net::Cidr;

use super::super::act::Act;
use super::super::build::{Ask, ip};
use super::{Scenario, add, after, del, scenario, with_pool};

/// Collections and releases by address.
pub(crate) fn of_collections() -> Vec<Scenario> {
    let one = || after(with_pool("10.0.0.0/28", 30), &[add("a", "1")]);
    let gc = |keep: &[&'static str]| Act::Gc { host: "a", keep: keep.to_vec() };
    let single = after(with_pool("10.0.0.0/32", 32), &[add("a", "x")]);
    let read = as_read(&single, "10.0.0.0", "net.x");
    let all = [
        scenario(
            "what is gone is collected while a container starts",
            one(),
            &[&[add("a", "x")], &[gc(&["x"])]],
        ),
        scenario(
            "a container that starts is unknown to a collection",
            one(),
            &[&[add("a", "x")], &[gc(&[])]],
        ),
        scenario("a container starts again while it is collected", one(), &[&[add("a", "1")], &[gc(&[])]]),
        scenario("a container ends while it is collected", one(), &[&[del("a", "1")], &[gc(&[])]]),
        scenario("two collections meet", one(), &[&[gc(&[])], &[gc(&[])]]),
    ];
    let mut all: Vec<_> = all.into_iter().map(|scenario| Scenario { stale: vec!["1"], ..scenario }).collect();
    all.push(
        scenario(
            "an address changes hands while it is released as it was read",
            single.clone(),
            &[&[read.clone()], &[del("a", "x"), add("a", "y")]],
        )
        .ruled(),
    );
    all.push(
        scenario(
            "an address is released as it was read while its container starts again",
            single,
            &[&[read], &[Act::Del(Ask::new("a", "x")), Act::Add(Ask::new("a", "x"))]],
        )
        .ruled(),
    );
    all
}

/// The release of an address as it stands in a store.
fn as_read(state: &Memory, address: &str, handle: &str) -> Act {
    let address = ip(address);
    let block = state.answer(&Want::Blocks(Cidr::single(address)));
    let block = Answer::objects(block).remove(0);
    assert!(matches!(block.key, Key::Block(_)));
    let block: host_affine::api::calico::IpamBlock = block.into();
    let ordinal = u16::try_from(block.cidr.position(address).expect("within")).expect("small");
    let sequence = block.sequence_number_for_allocation[&ordinal];
    Act::Free { address, sequence, handle: handle.to_owned() }
}
