//! The reservations that keep Calico's allocator off carved networks.

use std::collections::BTreeMap;

use super::*;
use crate::api::calico::{IpPool, IpPoolSpec, IpReservation, IpReservationSpec};
use crate::datastore::{Carved, CarvedFor, Change, Derived, Op, ProjectName};
use crate::net::Cidr;

const SHIELD: &str = "/calico/resources/v3/projectcalico.org/ipreservations/host-affine-carved-10-9-0-16-28";
const POOL: &str = "/calico/resources/v3/projectcalico.org/ippools/pods";

fn cidr() -> Cidr {
    "10.9.0.16/28".parse().expect("cidr")
}

fn carved(owner: CarvedFor) -> Object {
    Carved { pool: "pods".into(), owner, since: None }.into()
}

fn allocation() -> CarvedFor {
    CarvedFor::Allocation(ProjectName { project: "default".into(), name: "lab".into() })
}

fn writes(change: Change, stands: &[(&str, &str)]) -> Result<Vec<Write>, Error> {
    let stands: BTreeMap<_, _> = stands.iter().copied().collect();
    let op = Op { key: Key::Carved(cidr()), change, interim: None };
    let held = |key: &str| stands.get(key).map(|value| Held { value: value.as_bytes(), mod_revision: 9 });
    writes_of(&op, held).map(|writes| writes.expect("nothing else is in the way"))
}

fn reservation(text: &[u8]) -> IpReservation {
    serde_json::from_slice(text).expect("a reservation")
}

#[test]
fn a_carved_network_comes_and_goes_with_a_reservation_of_its_blocks() {
    let op = Op { key: Key::Carved(cidr()), change: Change::Create(carved(allocation())), interim: None };
    assert_eq!(needed_by(&op), [SHIELD, POOL]);
    let pool = r#"{"metadata":{"name":"pods"},"spec":{"cidr":"10.9.0.0/16"}}"#;
    let created = writes(Change::Create(carved(allocation())), &[(POOL, pool)]).expect("it may be stored");
    let [record, shield] = created.as_slice() else { panic!("{created:?}") };
    assert_eq!(
        (record.key.as_str(), record.expect),
        ("/host-affine/carved/ipv4/10.9.0.16-28", Expect::Absent)
    );
    assert_eq!((shield.key.as_str(), shield.expect), (SHIELD, Expect::Absent));
    let text = shield.put.as_deref().expect("it is put");
    let kept = reservation(text);
    assert!(shield::is_shield(&kept), "{kept:?}");
    assert_eq!(kept.spec.reserved_cidrs, ["10.9.0.0/26"], "the whole block, or Calico would make it");
    assert_eq!(
        kept.metadata.annotations[shield::ANNOTATION],
        "10.9.0.16/28 is carved out of pool `pods` for IPAllocation `lab`; this goes with it"
    );
    let stands = [(SHIELD, std::str::from_utf8(text).expect("text"))];
    let deleted = writes(Change::Delete(Revision(3)), &stands).expect("it may be deleted");
    let shield = Write { key: SHIELD.into(), expect: Expect::At(9), put: None };
    assert_eq!((deleted[0].expect, &deleted[1]), (Expect::At(3), &shield));
    let updated =
        writes(Change::Update(Revision(3), carved(allocation())), &stands).expect("it may be stored");
    assert_eq!((updated[1].expect, updated[1].put.is_some()), (Expect::At(9), true));
}

#[test]
fn a_network_wider_than_a_block_is_reserved_as_it_is() {
    let wide: Cidr = "10.9.0.0/24".parse().expect("cidr");
    let record = Carved { pool: "pods".into(), owner: allocation(), since: None };
    assert_eq!(shield::reservation(wide, &record, Some(26)).spec.reserved_cidrs, ["10.9.0.0/24"]);
    assert_eq!(shield::reservation(cidr(), &record, None).spec.reserved_cidrs, ["10.9.0.16/28"]);
}

#[test]
fn a_child_pools_addresses_are_for_pods() {
    let child = CarvedFor::ChildPool("lab".into());
    let created = writes(Change::Create(carved(child)), &[]).expect("it may be stored");
    assert_eq!(created.len(), 1, "{created:?}");
    assert_eq!(writes(Change::Delete(Revision(3)), &[]).expect("it may be deleted").len(), 1);
}

#[test]
fn a_reservation_of_somebody_else_is_left_alone() {
    let theirs =
        r#"{"metadata":{"name":"host-affine-carved-10-9-0-16-28"},"spec":{"reservedCIDRs":["10.9.0.1"]}}"#;
    let error = writes(Change::Create(carved(allocation())), &[(SHIELD, theirs)]).expect_err("in the way");
    assert!(error.to_string().contains("somebody else's"), "{error}");
    let deleted = writes(Change::Delete(Revision(3)), &[(SHIELD, theirs)]).expect("it may be deleted");
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    let name = shield::name_of(cidr());
    let new = IpReservation::new(name.clone(), IpReservationSpec::default());
    let error = encode(&Key::Reservation(name), &new.into(), None).expect_err("the name is ours");
    assert!(error.to_string().contains("those of carved networks"), "{error}");
}

#[test]
fn what_is_missing_or_left_over_is_found() {
    let record = Carved { pool: "pods".into(), owner: allocation(), since: None };
    let pool = IpPool::new("pods", IpPoolSpec::new("10.9.0.0/16".parse().expect("cidr")));
    let look = |carved: Option<&Carved>, stands: Option<IpReservation>| {
        let carved = carved.map(|carved| (cidr(), carved.clone())).into_iter().collect();
        let stands = stands.map(|stands| (stands.name().to_owned(), stands)).into_iter().collect();
        shield::amiss(&carved, std::slice::from_ref(&pool), &stands)
    };
    let unshielded = [Derived::Unshielded { carved: cidr() }];
    assert_eq!(look(None, None), []);
    assert_eq!(look(Some(&record), None), unshielded);
    assert_eq!(look(Some(&record), Some(shield::reservation(cidr(), &record, Some(26)))), []);
    assert_eq!(
        look(Some(&record), Some(shield::reservation(cidr(), &record, None))),
        unshielded,
        "too little"
    );
    let mut unlabelled = shield::reservation(cidr(), &record, Some(26));
    unlabelled.metadata.labels.clear();
    assert_eq!(look(Some(&record), Some(unlabelled)), unshielded, "somebody may take it away");
    let left = shield::reservation(cidr(), &record, Some(26));
    assert_eq!(look(None, Some(left.clone())), [Derived::StrayShield { name: left.name().to_owned() }]);
    let child = Carved { owner: CarvedFor::ChildPool("lab".into()), ..record };
    assert_eq!(look(Some(&child), None), []);
}
