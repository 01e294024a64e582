//! Ending what is kept for a host, without a container that ends.

use host_affine::datastore::run_in_place;
use host_affine::ipam::{Force, RemoveError, Removed};

use super::super::build::{at, name};
use super::Net;

/// Row 65.
#[test]
fn blocks_of_a_deleted_pool_that_are_given_up_go_with_their_addresses() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add_many("a", "c", 9);
    assert_eq!(net.blocks_of("a").len(), 3);
    run_in_place(net.ipam.remove_pool("p", Force::Yes, at(0))).expect("forced");
    let removed = run_in_place(net.ipam.give_up_blocks_of(&name("a"), at(0))).expect("given up");
    assert_eq!((removed.blocks, removed.left.blocks, removed.left.addresses), (0, 3, 9));
    assert_eq!((net.blocks().len(), net.blocks_of("a").len(), net.audit().len()), (3, 0, 0));
    for number in 0..9 {
        assert_eq!(net.del("a", &format!("c{number}")).len(), 1);
    }
    assert_eq!((net.blocks().len(), net.audit().len()), (0, 0));
}

/// Row 69.
#[test]
fn nothing_is_kept_for_a_host_that_nobody_knows() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    let removed = run_in_place(net.ipam.give_up_blocks_of(&name("b"), at(0))).expect("no error");
    assert_eq!(removed, Removed::default());
    let removed = run_in_place(net.ipam.remove_node(&name("b"), at(0)));
    assert!(matches!(removed, Err(RemoveError::Missing)), "it is said: {removed:?}");
    assert_eq!(net.blocks_of("a").len(), 1);
}
