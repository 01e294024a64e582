//! What went wrong elsewhere.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use host_affine::api::calico::{AffinityState, BlockAffinity, IpamHandle};
use host_affine::datastore::{Error as StoreError, Key, run_in_place};
use host_affine::ipam::{
    Assign, Attachment, Claim, Error, Finding, HostLocalLease, HostLocalRecords, ImportSource, Look,
    NoOwnAddresses, Owner, Scan, Sharing,
};
use host_affine::net::Family;

use super::super::build::Bare as _;
use super::super::build::{
    Ask, affinity, any, at, cidr, configure, container, from, host, ip, pool, put_node, put_pool, strict,
};
use super::{Net, said};

/// Row 57.
#[test]
fn a_pending_claim_on_anothers_block_is_no_ownership_and_goes_with_the_next_claim() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 30)]);
    net.add("two", "x");
    let block = net.blocks().remove(0).cidr;
    let key = Key::Affinity(affinity("one"), block);
    net.store().plant(key.clone(), BlockAffinity::new(AffinityState::Pending));
    let given = net.add("one", "y");
    assert!(!block.contains_address(ip(&given)));
    assert_eq!(net.store().revision(&key), None);
    assert_eq!(net.audit(), []);
}

/// At the limit: a void claim takes nobody's place.
#[test]
fn a_void_claim_does_not_count_towards_the_limit() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 30)]);
    configure(net.store(), |spec| {
        (spec.strict_affinity, spec.max_blocks_per_host) = (Some(true), Some(1));
    });
    net.add("two", "x");
    let block = net.blocks().remove(0).cidr;
    net.store().plant(Key::Affinity(affinity("one"), block), BlockAffinity::new(AffinityState::Pending));
    net.add("one", "y");
    assert_eq!((net.blocks_of("one").len(), net.audit().len()), (1, 0));
}

/// 4.17 of the specification: what a crash between two writes leaves, the host's next claim heals
#[test]
fn half_done_claims_and_releases_are_healed_by_the_hosts_next_claim() {
    for state in [AffinityState::Pending, AffinityState::PendingDeletion] {
        let mut net = Net::with(&[("p", "10.0.0.0/28", 30)]);
        // A record without a block.
        net.store().plant(Key::Affinity(affinity("n"), cidr("10.0.0.8/30")), BlockAffinity::new(state));
        let finding = net.audit();
        assert!(matches!(finding.as_slice(), [Finding::StaleAffinity { .. }]), "{finding:?}");
        assert!(cidr("10.0.0.8/30").contains_address(ip(&net.add("n", "x"))), "the block is made after all");
        assert_eq!(net.audit(), []);
        // A record beside a block of the host's own, which is full.
        net.add_many("n", "c", 3);
        net.store().plant(Key::Affinity(affinity("n"), cidr("10.0.0.8/30")), BlockAffinity::new(state));
        let finding = net.audit();
        assert!(matches!(finding.as_slice(), [Finding::UnconfirmedAffinity { .. }]), "{finding:?}");
        assert!(finding[0].mends_itself());
        net.add("n", "y");
        assert_eq!(net.audit(), []);
    }
}

/// Row 80.
#[test]
fn a_damaged_block_is_named_and_the_others_go_on_working() {
    let mut net = Net::with(&[("p", "10.0.0.0/29", 30)]);
    net.add("a", "x");
    let mut damaged = net.blocks().remove(0);
    damaged.allocations[3] = Some(7);
    damaged.unallocated.retain(|ordinal| *ordinal != 3);
    net.store().plant(Key::Block(damaged.cidr), damaged.clone());
    let given = net.add_many("a", "c", 4);
    assert!(given.iter().all(|given| !damaged.cidr.contains_address(ip(given))), "{given:?}");
    let refusal = net.refused("a", "y").to_string();
    // A store that reads no such block tells of it itself.
    let mut found = net.store().unreadable_blocks();
    if found.is_empty() {
        found = net.audit().iter().map(ToString::to_string).collect();
    }
    let first = damaged.cidr.to_string().replace("/30", "");
    for named in [&refusal, &found[0]] {
        assert!(named.contains(&first) && named.contains("no attribute 7"), "{named}");
    }
}

#[test]
fn six_causes_of_a_refusal_are_told_apart() {
    let mut net = Net::with(&[]);
    let mut seen = Vec::new();
    seen.push((said(&net.refused("n", "q1")), vec!["there is no pool", "`n`"]));
    let mut disabled = pool("a", "10.65.0.0/30", 30);
    disabled.spec.disabled = true;
    put_pool(net.store(), disabled);
    seen.push((said(&net.refused("n", "q2")), vec!["`a` (10.65.0.0/30) is disabled"]));
    let mut elsewhere = pool("b", "10.65.0.4/30", 30);
    elsewhere.spec.node_selector = Some("zone == 'x'".into());
    put_pool(net.store(), elsewhere);
    put_node(net.store(), "n", &[("zone", "y")]);
    seen.push((said(&net.refused("n", "q3")), vec!["`b` (10.65.0.4/30) does not select this host"]));
    put_pool(net.store(), pool("c", "10.65.0.8/30", 30));
    net.add_many("n", "w", 4);
    seen.push((said(&net.refused("n", "q4")), vec!["no free IPv4 address", "`c` (10.65.0.8/30)"]));
    net.del("n", "w1");
    strict(net.store());
    seen.push((said(&net.refused("m", "q5")), vec!["strict affinity is on", "n (1)"]));
    net.add("n", "w5");
    put_pool(net.store(), pool("d", "10.65.0.16/28", 30));
    configure(net.store(), |spec| {
        (spec.strict_affinity, spec.max_blocks_per_host) = (Some(true), Some(1));
    });
    seen.push((said(&net.refused("n", "q6")), vec!["maxBlocksPerHost is 1"]));
    for (text, parts) in &seen {
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

#[test]
fn room_in_a_second_own_block_is_used_before_a_third_is_claimed() {
    let mut net = Net::with(&[("p", "10.0.0.0/26", 30)]);
    net.add_many("n", "s", 5);
    net.del("n", "s0");
    net.del("n", "s1");
    net.add_many("n", "t", 5);
    assert_eq!(net.blocks_of("n").len(), 2);
}

#[test]
fn a_pool_that_is_disabled_gives_nothing_more_and_loses_its_blocks() {
    let mut net = Net::with(&[("old", "10.66.0.0/28", 28)]);
    net.add("n", "e1");
    put_pool(net.store(), pool("new", "10.66.0.16/28", 28));
    let mut old = pool("old", "10.66.0.0/28", 28);
    old.spec.disabled = true;
    put_pool(net.store(), old);
    let new = cidr("10.66.0.16/28");
    assert!(new.contains_address(ip(&net.add("n", "e2"))));
    assert_eq!(net.del("n", "e1").len(), 1);
    assert!(new.contains_address(ip(&net.add("n", "e3"))));
    assert_eq!(net.blocks_of("n"), [new.to_string()]);
}

/// Row 65.
#[test]
fn what_a_deleted_pool_gave_is_released_and_takes_its_block_along() {
    let mut net = Net::with(&[("next", "10.66.1.16/28", 28)]);
    let asked = |id: &str| Ask {
        pools: vec![host_affine::ipam::PoolAsked {
            pool: pool("gone", "10.66.1.0/28", 28),
            name_given: true,
            block_size_given: true,
        }],
        wanted: vec![from(Family::V4, &["gone"])],
        ..Ask::new("n", id)
    };
    net.ask(&asked("u1")).expect("an address");
    net.store().remove(&Key::Pool("gone".into()));
    assert!(cidr("10.66.1.16/28").contains_address(ip(&net.add("n", "u2"))));
    assert_eq!(net.del("n", "u1").len(), 1);
    assert_eq!((net.blocks_of("n"), net.audit().len()), (vec!["10.66.1.16/28".to_owned()], 0));
}

#[test]
fn blocks_of_another_size_are_carved_around_those_that_exist() {
    let mut net = Net::with(&[("p", "10.66.2.0/25", 29)]);
    let mut given: Vec<_> = ["1", "2", "3", "4"].map(|host| net.add(host, &format!("v{host}"))).into();
    put_pool(net.store(), pool("p", "10.66.2.0/25", 27));
    for number in 0..60 {
        let ask = Ask::new(["x", "y", "z"][number % 3], &format!("w{number}"));
        match net.ask(&ask) {
            Ok(addresses) => given.extend(addresses),
            Err(error) => assert!(matches!(error, Error::Exhausted { .. }), "{error}"),
        }
    }
    assert!(given.len() > 36, "{}", given.len());
    let distinct: std::collections::BTreeSet<_> = given.iter().collect();
    assert_eq!(distinct.len(), given.len());
    assert_eq!(net.audit(), []);
}

#[test]
fn every_address_of_a_pool_counts() {
    for (range, block) in [
        ("10.0.0.0/30", 32),
        ("10.0.0.8/30", 31),
        ("fd67:1::/126", 128),
        ("ab::/126", 127),
        ("::7:0/126", 126),
    ] {
        let mut net = Net::with(&[("p", range, block)]);
        let family = cidr(range).family();
        let ask = |id: usize| Ask::new("n", &format!("c{id}")).wanting([any(family)]);
        let mut given: Vec<_> = (0..4).map(|id| ip(&net.ask(&ask(id)).expect(range).remove(0))).collect();
        given.sort();
        let expected: Vec<_> = (0..4).filter_map(|position| cidr(range).nth(position)).collect();
        assert_eq!(given, expected);
        assert!(net.ask(&ask(4)).is_err());
    }
}

#[test]
fn what_an_earlier_boot_left_makes_room_when_nothing_else_does() {
    let mut net = Net::with(&[("p", "10.70.0.0/29", 29)]);
    for boot in 0..3 {
        for container in 0..5 {
            let mut ask = Ask::new("n", &format!("b{boot}-{container}"));
            ask.host.boot = Some(format!("boot-{boot}"));
            net.ask(&ask).expect("an address");
        }
        assert_eq!(net.audit(), []);
    }
    let mut ask = Ask::new("n", "late");
    ask.host.boot = Some("boot-2".into());
    for number in 0..3 {
        ask.attachment.container_id = format!("late-{number}");
        net.now = 1_000_000;
        net.ask(&ask).expect("of the dead");
    }
    ask.attachment.container_id = "none".into();
    assert!(net.ask(&ask).is_err(), "the present boot's leases are safe, even if the clock jumps");
}

/// The limit of a batch: each lease of the dead may change a handle of its own
#[test]
fn a_batch_that_takes_back_from_the_dead_stays_within_its_limit() {
    let mut net = Net::with(&[("p4", "10.0.0.0/26", 26), ("p6", "fd00::/122", 122)]);
    for number in 0..64 {
        for (family, stem) in [(Family::V4, "four"), (Family::V6, "six")] {
            let ask = Ask::new("n", &format!("{stem}-{number}")).wanting([any(family)]);
            net.ask(&ask).expect("an address");
        }
    }
    let mut ask = Ask::new("n", "x").dual();
    ask.host.boot = Some("boot-2".into());
    net.ask(&ask).expect("of the dead");
    assert_eq!(net.audit(), []);
}

#[test]
fn a_handle_that_counts_too_much_is_corrected_and_not_trusted() {
    let mut net = Net::with(&[("p", "10.71.0.0/29", 29)]);
    net.add("n", "c1");
    let handle = Key::Handle(container("c2").handle().expect("a handle"));
    let block = [(cidr("10.71.0.0/29"), 1), (cidr("10.71.9.0/29"), 3)].into();
    net.store().plant(handle.clone(), IpamHandle { block, ..IpamHandle::default() });
    net.add("n", "c2");
    assert_eq!(net.del("n", "c2").len(), 1);
    assert_eq!((net.store().revision(&handle), net.audit().len()), (None, 0));
}

/// host-local's directory, in memory.
struct Records(RefCell<BTreeMap<IpAddr, HostLocalLease>>);

impl ImportSource for Records {
    fn directory(&self) -> String {
        "/var/lib/cni/networks/net".into()
    }

    fn look(&self) -> Result<Option<Look>, StoreError> {
        let is_unchanged = self.0.borrow().values().all(|lease| lease.is_marked);
        Ok(Some(Look { inode: 1, is_unchanged }))
    }

    fn scan(&self, scan: Scan, wanted: &dyn Fn(IpAddr) -> bool) -> Result<HostLocalRecords, StoreError> {
        let records = self.0.borrow();
        let leases = records.values().filter(|lease| wanted(lease.address));
        let leases = leases.filter(|lease| scan != Scan::Unmarked || !lease.is_marked).cloned().collect();
        Ok(HostLocalRecords { leases, ..HostLocalRecords::default() })
    }

    fn mark(&self, leases: &[HostLocalLease]) -> Result<(), StoreError> {
        for lease in leases {
            self.0.borrow_mut().get_mut(&lease.address).expect("a record").is_marked = true;
        }
        Ok(())
    }

    fn finish(&self, _: &HostLocalRecords) -> Result<(), StoreError> {
        Ok(())
    }

    fn claim(&self, address: IpAddr, attachment: &Attachment) -> Result<Claim, StoreError> {
        let mut records = self.0.borrow_mut();
        if records.get(&address).is_some_and(|lease| !lease.is_marked) {
            return Ok(Claim::Recorded);
        }
        let (container_id, ifname) = (attachment.container_id.clone(), attachment.ifname.clone());
        records.insert(address, HostLocalLease { address, container_id, ifname, is_marked: true });
        Ok(Claim::Held)
    }

    fn withdraw(&self, addresses: &[IpAddr], _: &Attachment) {
        self.0.borrow_mut().retain(|address, _| !addresses.contains(address));
    }
}

fn lease(number: u32) -> HostLocalLease {
    HostLocalLease {
        address: Family::V4.address(u128::from(0x0a00_0000 + number)),
        container_id: format!("old-{number}"),
        ifname: "eth0".into(),
        is_marked: false,
    }
}

fn add_beside(net: &mut Net, source: &Records, container_id: &str) -> Result<IpAddr, Error> {
    let asking = host("n");
    let owner = Owner { attachment: container(container_id), host: asking.clone(), netns: None, pod: None };
    let request = Assign {
        host: &asking,
        owner: &owner,
        sharing: Sharing::Attachment,
        wanted: &[any(Family::V4)],
        pools: &[],
        gateways: None,
        import: Some(source),
        own_addresses: &NoOwnAddresses,
        now: at(0),
    };
    run_in_place(net.ipam.assign(&request)).map(|assigned| assigned.addresses[0].address)
}

fn records(leases: impl Iterator<Item = HostLocalLease>) -> Records {
    Records(RefCell::new(leases.map(|lease| (lease.address, lease)).collect()))
}

#[test]
fn leases_of_host_local_are_not_given_again() {
    let mut net = Net::with(&[("p", "10.0.0.0/24", 26)]);
    let source = records((2..100).map(lease));
    for number in 0..158 {
        let given = add_beside(&mut net, &source, &format!("new-{number}")).expect("an address");
        assert!(!(2..100).any(|old| lease(old).address == given), "{given}");
    }
    assert_eq!(source.0.borrow().len(), 256, "host-local knows of all");
    add_beside(&mut net, &source, "x").expect_err("nothing is left");
    assert_eq!(source.0.borrow().len(), 256, "and of nothing else");
    assert_eq!(net.del("n", "old-7"), ["10.0.0.7"], "a container that host-local started can end");
    assert_eq!(net.audit(), []);
}

/// More batches than there are attempts at one.
#[test]
fn import_of_more_batches_than_attempts() {
    let mut net = Net::with(&[("p", "10.0.0.0/19", 29)]);
    let source = records((2..8_000).map(lease));
    let given = add_beside(&mut net, &source, "new").expect("an address");
    assert!(!source.0.borrow().contains_key(&given) || source.0.borrow()[&given].container_id == "new");
    assert_eq!(source.0.borrow().len(), 7_999);
    assert_eq!(net.audit(), []);
}
