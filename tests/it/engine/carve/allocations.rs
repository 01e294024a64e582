use host_affine::api::milo::IpAllocationStatus;
use host_affine::datastore::run_in_place;
use host_affine::ipam::carve::Clash;
use host_affine::ipam::{CarveError, Error, IfExists, Outcome, Trial};

use super::super::build::{Ask, Bare as _, addresses, at, configure, exactly, pool, put_pool};
use super::{PROJECT, apply, carve, carved, check, delete, engine, largest_free, manifest, named, net};

#[test]
fn an_allocation_is_carved_at_once_and_the_same_again_changes_nothing() {
    let mut ipam = engine();
    let asked = manifest("web", "pods", &[]);
    let Outcome::Created(made) = apply(&mut ipam, &asked).expect("made") else { panic!("not made") };
    let status = IpAllocationStatus::of(&made).expect("a status");
    assert_eq!(status.allocated_cidr, Some(net("10.0.0.0/26")), "the size of a block, from the low end");
    let Outcome::Unchanged(again) = apply(&mut ipam, &asked).expect("there") else { panic!("changed") };
    assert_eq!(IpAllocationStatus::of(&again), Some(status));
    assert_eq!(carved(&mut ipam), [net("10.0.0.0/26")]);
    let twice = run_in_place(ipam.allocate(PROJECT, &asked, IfExists::Refuse, Trial::Write, at(1)));
    assert!(matches!(twice, Err(CarveError::Exists)));
    check(&mut ipam);
}

#[test]
fn a_status_in_a_manifest_is_not_looked_at() {
    let mut ipam = engine();
    let mut asked = manifest("web", "pods", &[]);
    asked.status = Some(serde_json::json!({ "allocatedCIDR": "10.0.0.128/25", "phase": "Ready" }));
    let made = apply(&mut ipam, &asked).expect("made").into_inner();
    assert_eq!(IpAllocationStatus::of(&made).expect("a status").allocated_cidr, Some(net("10.0.0.0/26")));
}

#[test]
fn a_dry_run_shows_what_would_be_and_writes_nothing() {
    let mut ipam = engine();
    let asked = manifest("web", "pods", &[("prefix-length", "28")]);
    let would = run_in_place(ipam.allocate(PROJECT, &asked, IfExists::Change, Trial::DryRun, at(0)));
    let would = would.expect("it would be").into_inner();
    assert_eq!(IpAllocationStatus::of(&would).expect("a status").allocated_cidr, Some(net("10.0.0.0/28")));
    assert_eq!(carved(&mut ipam), []);
}

#[test]
fn what_was_carved_cannot_change() {
    let mut ipam = engine();
    apply(&mut ipam, &manifest("web", "pods", &[])).expect("made");
    put_pool(ipam.store_mut(), pool("other", "10.1.0.0/24", 26));
    for asked in [manifest("web", "other", &[]), manifest("web", "pods", &[("prefix-length", "27")])] {
        let refused = apply(&mut ipam, &asked).expect_err("another");
        let CarveError::Immutable(problems) = refused else { panic!("{refused}") };
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
    let mut labelled = manifest("web", "pods", &[]);
    labelled.metadata.labels.insert("tier".into(), "web".into());
    assert!(matches!(apply(&mut ipam, &labelled).expect("a label"), Outcome::Configured(_)));
    assert_eq!(carved(&mut ipam), [net("10.0.0.0/26")]);
}

#[test]
fn a_pool_that_cannot_serve_is_named_with_the_reason() {
    let mut ipam = engine();
    let text =
        |result: Result<_, CarveError>| result.map(|_: Outcome<_>| ()).expect_err("refused").to_string();
    assert_eq!(
        text(apply(&mut ipam, &manifest("a", "none", &[]))),
        "there is no pool `none` that serves this project"
    );
    let mut six = manifest("a", "six", &[]);
    six.spec.ip_family = host_affine::net::Family::V4;
    assert_eq!(text(apply(&mut ipam, &six)), "`spec.ipFamily` is IPv4, and pool `six` hands out IPv6");
    let mut off = pool("off", "10.9.0.0/24", 26);
    off.spec.disabled = true;
    put_pool(ipam.store_mut(), off);
    assert_eq!(text(apply(&mut ipam, &manifest("a", "off", &[]))), "pool `off` is disabled");
    assert_eq!(carved(&mut ipam), []);
}

#[test]
fn a_full_pool_says_what_is_left_and_serves_again_once_something_is_deleted() {
    let mut ipam = engine();
    carve(&mut ipam, "a", "pods", "25").expect("half");
    carve(&mut ipam, "b", "pods", "32").expect("one address");
    let full = carve(&mut ipam, "c", "pods", "25").expect_err("broken up");
    assert_eq!(
        full.to_string(),
        "pool `pods` is exhausted: no /25 is free in 10.0.0.0/24: 127 addresses are free, the largest network of them a /26"
    );
    assert_eq!(
        full.details(),
        ["10.0.0.128/25 would be free without 10.0.0.128/32 (IPAllocation `b` of project `default`)"]
    );
    delete(&mut ipam, "b").expect("deleted");
    assert_eq!(carve(&mut ipam, "c", "pods", "25").expect("the other half"), net("10.0.0.128/25"));
    for name in ["a", "c"] {
        delete(&mut ipam, name).expect("deleted");
    }
    assert_eq!(largest_free(&mut ipam, "pods"), Some(24));
    check(&mut ipam);
}

#[test]
fn a_cidr_that_was_asked_for_is_given_or_it_is_said_who_has_it() {
    let mut ipam = engine();
    let asked = |cidr: &str| manifest("x", "pods", &[("requested-cidr", cidr)]);
    run_in_place(Ask::new("node-1", "c").of(&mut ipam)).expect("a pod");
    let blocks: Vec<_> = run_in_place(ipam.shown_allocations()).expect("a list");
    let block =
        IpAllocationStatus::of(&blocks[0].1).and_then(|status| status.allocated_cidr).expect("a block");
    let taken = apply(&mut ipam, &asked(&block.to_string())).expect_err("a host has it");
    assert_eq!(
        taken.to_string(),
        format!("pool `pods`: {block} is taken: {block} (the block of host `node-1`)")
    );
    let outside = apply(&mut ipam, &asked("10.7.0.0/28")).expect_err("elsewhere");
    assert!(matches!(outside, CarveError::Clash { clash: Clash::Outside { .. }, .. }), "{outside}");
    let free = (0..4u128).filter_map(|n| net("10.0.0.0/24").nth_subnet(26, n)).find(|slot| *slot != block);
    let free = free.expect("three more");
    assert!(apply(&mut ipam, &asked(&free.to_string())).is_ok());
    check(&mut ipam);
}

#[test]
fn a_slot_that_is_broken_serves_no_pods_until_it_is_whole_again() {
    let mut ipam = engine();
    for (name, address) in [("a", "10.0.0.5"), ("b", "10.0.0.70"), ("c", "10.0.0.130"), ("d", "10.0.0.200")] {
        apply(&mut ipam, &manifest(name, "pods", &[("requested-cidr", address)])).expect("one address");
    }
    let refused = run_in_place(Ask::new("n", "1").of(&mut ipam)).expect_err("no whole slot");
    assert!(matches!(refused, Error::Exhausted { .. }), "{refused}");
    delete(&mut ipam, "c").expect("deleted");
    let given = run_in_place(Ask::new("n", "1").of(&mut ipam)).expect("a whole slot");
    assert!(net("10.0.0.128/26").contains_address(addresses(&given)[0]));
    check(&mut ipam);
}

#[test]
fn a_pod_cannot_ask_for_what_people_have_though_it_may_for_what_is_reserved() {
    let mut ipam = engine();
    apply(&mut ipam, &manifest("web", "pods", &[("requested-cidr", "10.0.0.64/28")])).expect("carved");
    for inside in ["10.0.0.65", "10.0.0.127"] {
        let refused = run_in_place(Ask::new("n", "1").wanting([exactly(inside)]).of(&mut ipam));
        assert_eq!(
            refused.expect_err("carved out").to_string(),
            format!(
                "{inside} cannot be given: 10.0.0.64/28 of its block 10.0.0.64/26 is carved out for IPAllocation `web`"
            )
        );
    }
    let reservation = host_affine::api::calico::IpReservation::new(
        "kept",
        serde_json::from_str(r#"{"reservedCIDRs":["10.0.0.128/26"]}"#).expect("a reservation"),
    );
    ipam.store_mut().plant(host_affine::datastore::Key::Reservation("kept".into()), reservation);
    run_in_place(Ask::new("n", "1").wanting([exactly("10.0.0.130")]).of(&mut ipam)).expect("asked for");
    check(&mut ipam);
}

#[test]
fn a_block_that_a_host_gives_up_is_free_for_people() {
    let mut ipam = engine();
    run_in_place(Ask::new("n", "1").of(&mut ipam)).expect("a pod");
    assert!(carve(&mut ipam, "all", "pods", "24").is_err());
    run_in_place(Ask::new("n", "1").end(&mut ipam)).expect("freed");
    run_in_place(ipam.give_up_blocks_of(&super::super::build::name("n"), at(1))).expect("given up");
    assert_eq!(carve(&mut ipam, "all", "pods", "24").expect("the whole pool"), net("10.0.0.0/24"));
    check(&mut ipam);
}

#[test]
fn two_projects_have_an_allocation_of_one_name_each() {
    let mut ipam = engine();
    let asked = manifest("web-tier-allocation", "pods", &[]);
    let of = |ipam: &mut _, project: &str| {
        let made =
            host_affine::ipam::Ipam::allocate(ipam, project, &asked, IfExists::Change, Trial::Write, at(0));
        IpAllocationStatus::of(&run_in_place(made).expect("made").into_inner())
            .expect("a status")
            .allocated_cidr
    };
    assert_ne!(of(&mut ipam, "a"), of(&mut ipam, "b"));
    assert!(matches!(delete(&mut ipam, "web-tier-allocation"), Err(CarveError::Missing)));
    check(&mut ipam);
}

#[test]
fn an_ipv6_pool_is_carved_into_subnets_and_blocks_without_looking_at_each() {
    let mut ipam = engine();
    assert_eq!(carve(&mut ipam, "a", "six", "64").expect("a subnet"), net("fd00::/64"));
    assert_eq!(carve(&mut ipam, "b", "six", "64").expect("a subnet"), net("fd00:0:0:1::/64"));
    let given = run_in_place(Ask::new("n", "1").dual().of(&mut ipam)).expect("a pod");
    assert!(!net("fd00::/63").contains_address(addresses(&given)[1]));
    check(&mut ipam);
}

#[test]
fn a_pool_narrower_than_a_block_serves_people_only() {
    let mut ipam = engine();
    put_pool(ipam.store_mut(), pool("narrow", "10.8.0.0/29", 26));
    let eight: Vec<_> =
        (0..8).map(|n| carve(&mut ipam, &format!("n{n}"), "narrow", "32").expect("an address")).collect();
    assert_eq!(eight[0], net("10.8.0.0/32"));
    assert!(matches!(carve(&mut ipam, "n9", "narrow", "32"), Err(CarveError::Exhausted { .. })));
    delete(&mut ipam, "n3").expect("deleted");
    assert_eq!(carve(&mut ipam, "n9", "narrow", "32").expect("the one that came free"), eight[3]);
    let refused = run_in_place(
        Ask::new("n", "1")
            .wanting([super::super::build::from(host_affine::net::Family::V4, &["narrow"])])
            .of(&mut ipam),
    );
    assert!(refused.expect_err("no block fits").to_string().contains("smaller than one block"));
    check(&mut ipam);
}

#[test]
fn the_limit_on_blocks_does_not_count_what_people_have() {
    let mut ipam = engine();
    configure(ipam.store_mut(), |spec| spec.max_blocks_per_host = Some(1));
    carve(&mut ipam, "a", "pods", "26").expect("carved");
    run_in_place(Ask::new("n", "1").of(&mut ipam)).expect("the one block");
    check(&mut ipam);
    assert!(delete(&mut ipam, "a").is_ok() && run_in_place(ipam.release_allocation(&named("a"))).is_err());
}
