//! Release, cooldown, and blocks that are given back.

use std::collections::BTreeSet;

use host_affine::api::calico::IpamHandle;
use host_affine::datastore::memory::Memory;
use host_affine::datastore::{
    Answer, Batch, Commit, Datastore, Error as StoreError, Isolation, Key, Object, Want, run_in_place,
};
use host_affine::ipam::Ipam;
use host_affine::net::Family;

use super::super::build::{
    Ask, addresses, any, at, cidr, configure, container, exactly, host, ip, pool, put_node, put_pool, reserve,
};
use super::Net;

/// Row 1.
#[test]
fn addresses_come_round_in_the_order_of_their_release() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
    let mut seen = Vec::new();
    for number in 0..5 {
        let id = format!("c{number}");
        seen.push(net.add("a", &id));
        net.del("a", &id);
    }
    assert_eq!(seen, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.0"]);
}

/// Row 3.
#[test]
fn a_block_that_is_made_anew_repeats_no_number_though_the_clock_was_set_back() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30), ("q", "10.0.1.0/30", 30)]);
    net.now = 1000;
    net.add("a", "1");
    let numbered = net.blocks()[0].sequence_number;
    let mut pool = super::pool("p", "10.0.0.0/30", 30);
    pool.spec.disabled = true;
    super::put_pool(net.store(), pool.clone());
    net.del("a", "1");
    assert_eq!(net.blocks().len(), 0, "a disabled pool keeps no empty block");
    pool.spec.disabled = false;
    super::put_pool(net.store(), pool);
    net.now = 0;
    net.add("a", "2");
    let block = &net.blocks()[0];
    assert!(block.sequence_number_for_allocation.values().all(|number| *number > numbered), "{block:?}");
}

/// Row 8.
#[test]
fn what_a_disabled_pool_gave_is_released_all_the_same() {
    let mut net = Net::with(&[("p", "10.0.0.0/24", 28)]);
    net.add_many("a", "c", 100);
    let mut pool = super::pool("p", "10.0.0.0/24", 28);
    pool.spec.disabled = true;
    super::put_pool(net.store(), pool);
    for number in 0..100 {
        assert_eq!(net.del("a", &format!("c{number}")).len(), 1);
    }
    assert_eq!((net.blocks().len(), net.audit().len()), (0, 0));
}

/// Rows 9, 50, 51.
#[test]
fn an_address_can_be_asked_for_once() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 26)]);
    net.add_many("a", "c", 64);
    let freed = net.del("a", "c7").remove(0);
    let ask = |id: &str| Ask::new("a", id).wanting([exactly(&freed)]);
    assert_eq!(net.ask(&ask("x")).expect("free"), std::slice::from_ref(&freed));
    assert_eq!(net.ask(&ask("x")).expect("its own"), std::slice::from_ref(&freed));
    let taken = net.ask(&ask("y")).expect_err("taken").to_string();
    assert!(taken.contains("net.x") && taken.contains(&freed), "{taken}");
    let outside = net.ask(&Ask::new("a", "z").wanting([exactly("10.9.0.1")])).expect_err("outside");
    assert!(super::said(&outside).contains("`p` (10.0.0.0/26)"), "{outside}");
    net.refused("a", "y");
}

/// Row 11.
#[test]
fn a_handle_with_three_addresses_gives_all_back_at_once() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 30)]);
    let three = [any(Family::V4), any(Family::V4), any(Family::V4)];
    net.ask(&Ask::new("a", "x").wanting(three)).expect("three");
    assert_eq!(net.audit(), []);
    assert_eq!(net.del("a", "x").len(), 3);
    assert_eq!(net.del("a", "x"), Vec::<String>::new(), "a second DEL succeeds");
    assert_eq!(net.audit(), []);
    let handle = Key::Handle(container("x").handle().expect("a handle"));
    assert_eq!(net.store().revision(&handle), None);
}

/// Row 14; and the time set back.
#[test]
fn an_address_cools_from_its_release_or_from_the_moment_that_a_later_one_is_met() {
    let mut net = Net::with(&[("p", "10.0.0.0/31", 31)]);
    configure(net.store(), |spec| spec.ip_cooldown_seconds = Some(30));
    net.now = 1000;
    net.add_many("a", "c", 2);
    net.del("a", "c0");
    net.now = 1030;
    net.refused("a", "x");
    net.now = 1031;
    assert_eq!(net.add("a", "x"), "10.0.0.0");
    net.now = 100_000;
    net.del("a", "c1");
    // The clock is set back: a release that lies ahead counts as now, once somebody writes the block.
    net.now = 2000;
    net.del("a", "x");
    net.now = 2031;
    let given: BTreeSet<_> = [net.add("a", "y"), net.add("a", "z")].into();
    assert_eq!(given.len(), 2);
}

/// A refused ADD writes the present in place of a release that lies ahead of the clock, also if clocks differ.
#[test]
fn cooldown_ends_after_the_clock_is_set_back() {
    let mut net = Net::with(&[("p", "10.0.0.0/32", 32)]);
    configure(net.store(), |spec| spec.ip_cooldown_seconds = Some(30));
    net.now = 1_000_000;
    net.add("a", "c");
    net.del("a", "c");
    // Each refusal is one of a host that lies further behind; none of them starts the cooldown again.
    for now in [1004, 1000, 1010, 1002, 1030] {
        net.now = now;
        net.refused("a", "x");
    }
    net.now = 1031;
    assert_eq!(net.add("a", "x"), "10.0.0.0", "30 s after the earliest present that was written");
    // An address that is asked for by name, and a small skew.
    net.del("a", "x");
    net.now = 1029;
    net.refused("a", "y");
    net.now = 1060;
    assert_eq!(net.add("a", "y"), "10.0.0.0");
}

/// Rows 19, 20.
#[test]
fn a_block_of_a_pool_that_no_longer_selects_its_host_goes_with_the_last_address() {
    let mut net = Net::with(&[]);
    let mut pool = super::pool("p", "10.0.0.0/28", 30);
    pool.spec.node_selector = Some("zone == 'x'".into());
    super::put_pool(net.store(), pool);
    put_node(net.store(), "a", &[("zone", "x")]);
    net.add_many("a", "c", 2);
    put_node(net.store(), "a", &[("zone", "y")]);
    net.del("a", "c0");
    assert_eq!(net.blocks_of("a").len(), 1);
    net.del("a", "c1");
    assert_eq!((net.blocks().len(), net.audit().len()), (0, 0));
}

/// Deviation 17
#[test]
fn the_last_block_of_a_host_stays_with_it_and_others_are_given_back() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 30)]);
    net.add_many("a", "c", 9);
    assert_eq!(net.blocks_of("a").len(), 3);
    for number in 0..9 {
        net.del("a", &format!("c{number}"));
    }
    assert_eq!(net.blocks_of("a").len(), 1);
    assert_eq!(net.audit(), []);
}

/// Deviation 17, for a lender
#[test]
fn a_borrower_that_frees_the_last_address_leaves_the_lender_its_last_block() {
    let mut net = Net::with(&[("p", "10.0.0.0/30", 30)]);
    net.add("a", "own");
    net.add("b", "lent");
    net.del("a", "own");
    net.del("b", "lent");
    assert_eq!(net.blocks_of("a"), ["10.0.0.0/30"]);
}

/// Only its own.
#[test]
fn a_del_frees_its_own_interface_and_network_only() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    let first = net.add("a", "x");
    let second = net.ask(&Ask::new("a", "x").on("eth1")).expect("a second interface");
    let mut other = Ask::new("a", "b.x");
    (other.attachment.network, other.attachment.container_id) = ("net.b".into(), "x".into());
    let mut same_handle = Ask::new("a", "b.x");
    same_handle.attachment.network = "net".into();
    let third = net.ask(&other).expect("another network");
    let fourth = net.ask(&same_handle).expect("the same handle");
    assert_eq!(other.attachment.handle(), same_handle.attachment.handle());
    assert_ne!(third, fourth);
    assert_eq!(net.del("a", "x"), [first]);
    let released = run_in_place(same_handle.end(&mut net.ipam)).expect("released").addresses;
    assert_eq!(released.iter().map(ToString::to_string).collect::<Vec<_>>(), fourth);
    let held = run_in_place(net.ipam.held(&other.attachment, &other.host)).expect("held").addresses;
    assert_eq!(held.iter().map(ToString::to_string).collect::<Vec<_>>(), third);
    let held = run_in_place(net.ipam.held(&Ask::new("a", "x").on("eth1").attachment, &host("a")))
        .expect("held")
        .addresses;
    assert_eq!(held.iter().map(ToString::to_string).collect::<Vec<_>>(), second);
}

#[test]
fn a_gc_frees_what_the_runtime_no_longer_knows_and_nothing_else() {
    let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
    net.add("a", "x");
    net.add("a", "y");
    let mut elsewhere = Ask::new("a", "z");
    elsewhere.attachment.network = "other".into();
    net.ask(&elsewhere).expect("an address");
    let valid = BTreeSet::from([("x".to_owned(), "eth0".to_owned())]);
    let at = super::at(0);
    let freed = run_in_place(net.ipam.collect("net", &valid, &host("a"), at)).expect("a GC").addresses;
    assert_eq!(freed.len(), 1);
    assert_eq!(net.del("a", "x").len(), 1);
    assert_eq!(net.del("a", "y").len(), 0);
    assert_eq!(run_in_place(elsewhere.end(&mut net.ipam)).expect("a DEL").addresses.len(), 1);
}

#[test]
fn an_address_reserved_after_it_was_given_stays_and_is_not_given_again() {
    let mut net = Net::with(&[("p", "10.0.0.0/31", 31)]);
    let address = net.add("a", "x");
    reserve(net.store(), "r", &[&address]);
    assert_eq!(net.add("a", "x"), address);
    net.del("a", "x");
    assert_ne!(net.add("a", "y"), address);
    net.refused("a", "z");
    assert!(net.block(cidr("10.0.0.0/31")).is_some());
}

/// Others write to a store of many machines too, and may have lost a handle.
#[test]
fn a_del_frees_an_address_whose_handle_is_gone_or_does_not_name_its_block() {
    let mut ipam = Ipam::new(OfMany(Memory::new()));
    put_pool(&mut ipam.store_mut().0, pool("p", "10.0.0.0/29", 29));
    let add = |ipam: &mut Ipam<OfMany>, host: &str, id: &str| {
        addresses(&run_in_place(Ask::new(host, id).of(ipam)).expect("an address"))[0].to_string()
    };
    let del = |ipam: &mut Ipam<OfMany>, id: &str| {
        run_in_place(Ask::new("a", id).end(ipam)).expect("a DEL succeeds").addresses
    };
    let x = add(&mut ipam, "a", "x");
    assert_eq!(add(&mut ipam, "b", "y"), "10.0.0.1");
    let key = Key::Handle(container("x").handle().expect("a handle"));
    let mut batch = Batch::default();
    batch.delete(key.clone(), ipam.store_mut().0.revision(&key).expect("it has one"));
    assert_eq!(ipam.store_mut().0.apply(&batch), Commit::Applied);
    assert!(del(&mut ipam, "y").is_empty(), "another host's");
    assert_eq!(del(&mut ipam, "x"), [ip(&x)]);
    assert!(del(&mut ipam, "x").is_empty());

    let z = add(&mut ipam, "a", "z");
    let key = Key::Handle(container("z").handle().expect("a handle"));
    ipam.store_mut().0.plant(key.clone(), IpamHandle::default());
    assert_eq!(del(&mut ipam, "z"), [ip(&z)]);
    let blocks = ipam.store_mut().0.entries().filter_map(|entry| match entry.object {
        Object::Block(block) => Some(block.attributes.len()),
        _ => None,
    });
    assert_eq!(blocks.collect::<Vec<_>>(), [1], "nobody else's");
}

/// A store that many machines share.
pub(super) struct OfMany(pub(super) Memory);

impl Datastore for OfMany {
    fn read(&mut self, wants: &[Want]) -> impl Future<Output = Result<Vec<Answer>, StoreError>> {
        self.0.read(wants)
    }

    fn commit(&mut self, batch: Batch) -> impl Future<Output = Result<Commit, StoreError>> {
        self.0.commit(batch)
    }

    fn isolation(&self) -> Isolation {
        Isolation::Atomic
    }

    fn is_one_kernel(&self) -> bool {
        false
    }
}

/// More than one batch has room for.
#[test]
fn a_handle_in_three_hundred_blocks_is_released_batch_by_batch() {
    let mut net = Net::with(&[("p", "10.0.0.0/22", 32)]);
    configure(net.store(), |spec| spec.max_blocks_per_host = Some(300));
    let handle = container("x").handle().expect("a handle");
    for number in 0..300 {
        let given = net.ask(&Ask::new("a", "x").on(&format!("eth{number}"))).expect("an address");
        assert_eq!(given.len(), 1);
    }
    let released = run_in_place(net.ipam.release_handle(&handle, &host("a"), at(9))).expect("it is released");
    assert_eq!(released.addresses.len(), 300);
    let left = net.blocks().len();
    assert_eq!((left, net.store().revision(&Key::Handle(handle))), (1, None), "a host keeps its last block");
    assert_eq!(net.audit(), []);
}
