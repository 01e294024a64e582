use host_affine::api::calico::AssignmentMode;
use host_affine::api::milo::IpPool;
use host_affine::datastore::run_in_place;
use host_affine::ipam::{CarveError, Force, IfExists, Ipam, Outcome, RemoveError, Trial};
use host_affine::net::Family;
use serde_json::{Value, json};

use super::super::build::{Ask, addresses, at, from};
use super::super::either::Either;
use super::{carve, carved, check, delete, engine, largest_free, milo_pool, net};

fn put(ipam: &mut Ipam<Either>, name: &str, spec: Value) -> Result<Outcome<IpPool>, CarveError> {
    let mut manifest = json!({
        "apiVersion": "ipam.miloapis.com/v1alpha1", "kind": "IPPool", "metadata": { "name": name },
    });
    manifest["spec"] = spec;
    let manifest = milo_pool(manifest);
    run_in_place(ipam.put_pool(None, &manifest, IfExists::Change, Trial::Write, at(0)))
}

#[test]
fn a_write_on_one_face_of_a_pool_leaves_what_the_other_knows() {
    let mut ipam = engine();
    let root = |strategy: &str| json!({ "cidr": "10.0.0.0/24", "ipFamily": "IPv4", "allocation": { "strategy": strategy } });
    put(&mut ipam, "pods", root("BestFit")).expect("a face for a pool of Calico's");
    let pools = run_in_place(ipam.shown_pools()).expect("pools");
    let pods = &pools[0];
    assert_eq!(pods.record.calico.spec.block_size, Some(26), "this face does not know it");
    let shown = serde_json::to_value(pods.to_resource()).expect("JSON");
    assert_eq!(shown["spec"]["allocation"]["strategy"], "BestFit");
    assert_eq!(shown["status"]["capacity"], json!({ "total": 256, "allocated": 0, "available": 256 }));
    assert!(matches!(put(&mut ipam, "pods", root("BestFit")), Ok(Outcome::Unchanged(_))));
    let moved = put(&mut ipam, "pods", json!({ "cidr": "10.1.0.0/24", "ipFamily": "IPv4" }));
    assert!(matches!(moved, Err(CarveError::Immutable(_))));
}

#[test]
fn pools_of_both_groups_do_not_overlap() {
    let mut ipam = engine();
    let refused = put(&mut ipam, "mine", json!({ "cidr": "10.0.0.128/25", "ipFamily": "IPv4" }));
    assert_eq!(
        refused.map(|_| ()).expect_err("overlaps").to_string(),
        "its CIDR 10.0.0.128/25 overlaps pool `pods` (10.0.0.0/24)"
    );
}

#[test]
fn the_length_that_a_pool_gives_is_bounded() {
    let mut ipam = engine();
    let bounds = json!({ "minPrefixLength": 26, "maxPrefixLength": 28 });
    put(&mut ipam, "pods", json!({ "cidr": "10.0.0.0/24", "ipFamily": "IPv4", "allocation": bounds }))
        .expect("bounds");
    for length in ["25", "29"] {
        let refused = carve(&mut ipam, "x", "pods", length).expect_err("out of bounds");
        assert_eq!(
            refused.to_string(),
            format!(
                "pool `pods`: /{length} is not carved out of it: its `spec.allocation` allows /26 to /28"
            )
        );
    }
    carve(&mut ipam, "x", "pods", "28").expect("within");
    run_in_place(Ask::new("n", "1").of(&mut ipam)).expect("blocks are not bound by it");
}

#[test]
fn a_pool_that_something_is_carved_out_of_is_not_deleted() {
    let mut ipam = engine();
    carve(&mut ipam, "web", "pods", "28").expect("carved");
    let held = run_in_place(ipam.remove_pool("pods", Force::No, at(1))).expect_err("in use");
    let RemoveError::Holds(holdings) = held else { panic!("{held}") };
    assert_eq!((holdings.carved.allocations, holdings.carved.total()), (1, 1));
    delete(&mut ipam, "web").expect("deleted");
    run_in_place(ipam.remove_pool("pods", Force::No, at(1))).expect("deleted");
}

#[test]
fn a_child_pool_is_carved_out_of_its_parent_and_serves_pods_that_ask_for_it() {
    let mut ipam = engine();
    let child = |length: u8| json!({ "parentPoolRef": { "name": "pods" }, "prefixLength": length });
    put(&mut ipam, "child", child(25)).expect("half of it");
    assert_eq!(carved(&mut ipam), [net("10.0.0.0/25")]);
    let pools = run_in_place(ipam.shown_pools()).expect("pools");
    let shown = pools.iter().find(|shown| shown.record.calico.name() == "child").expect("the child");
    assert_eq!(shown.record.calico.spec.cidr, net("10.0.0.0/25"));
    assert_eq!(shown.record.calico.spec.assignment_mode, Some(AssignmentMode::Manual));
    assert_eq!(largest_free(&mut ipam, "child"), Some(25));
    assert_eq!(largest_free(&mut ipam, "pods"), Some(25));
    for id in ["1", "2"] {
        let given = run_in_place(Ask::new(id, id).of(&mut ipam)).expect("of the parent");
        assert!(net("10.0.0.128/25").contains_address(addresses(&given)[0]));
    }
    let asking = Ask::new("n", "3").wanting([from(Family::V4, &["child"])]);
    let given = run_in_place(asking.of(&mut ipam)).expect("of the child");
    assert!(net("10.0.0.0/25").contains_address(addresses(&given)[0]));
    assert_eq!(
        carve(&mut ipam, "web", "child", "28").map(|cidr| net("10.0.0.0/25").contains(cidr)).ok(),
        Some(true)
    );
    let used = run_in_place(ipam.remove_pool("child", Force::No, at(1)));
    assert!(matches!(used, Err(RemoveError::Holds(_))));
    run_in_place(asking.end(&mut ipam)).expect("freed");
    delete(&mut ipam, "web").expect("deleted");
    run_in_place(ipam.remove_pool("child", Force::No, at(1))).expect("deleted");
    assert_eq!(carved(&mut ipam), []);
    let none = put(&mut ipam, "child", child(16)).expect_err("larger than its parent");
    assert!(matches!(none, CarveError::Invalid(_)), "{none}");
    check(&mut ipam);
}
