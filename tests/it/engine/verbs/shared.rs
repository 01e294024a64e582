//! Handles that several attachments share, with a limit on their addresses: rows 52 to 54 of the reference's tables.

use host_affine::ipam::Error;
use host_affine::net::Family;

use super::super::build::{Ask, Bare as _, addresses, any, exactly, ip, pool, put_pool};
use super::{ask_shared, engine, handle};

#[test]
fn a_handle_with_one_address_of_each_family_is_given_the_same_again() {
    let mut ipam = engine(|store| {
        put_pool(store, pool("four", "10.0.0.0/26", 28));
        put_pool(store, pool("six", "fd00::/120", 124));
    });
    let vm = handle("net.vmi.prod.db");
    let first = ask_shared(&mut ipam, &Ask::new("a", "1").dual(), &vm, 1).expect("addresses");
    let second = ask_shared(&mut ipam, &Ask::new("b", "2").dual(), &vm, 1).expect("the same");
    assert_eq!(addresses(&first), addresses(&second));
    assert!(second.addresses.iter().all(|given| given.held_before));
}

#[test]
fn a_particular_address_is_given_to_the_handle_that_has_it_and_another_is_refused() {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/26", 28)));
    let vm = handle("net.vmi.prod.db");
    let ask = |address: &str| Ask::new("a", "1").wanting([exactly(address)]);
    ask_shared(&mut ipam, &ask("10.0.0.5"), &vm, 1).expect("free");
    let again = ask_shared(&mut ipam, &ask("10.0.0.5"), &vm, 1).expect("its own");
    assert_eq!(addresses(&again), [ip("10.0.0.5")]);
    let other = ask_shared(&mut ipam, &ask("10.0.0.6"), &vm, 1).expect_err("a second address");
    assert!(matches!(other, Error::HandleFull { .. }), "{other}");
    assert_eq!(
        other.to_string(),
        "10.0.0.6 refused: handle `net.vmi.prod.db` may have 1 of a family, and has 10.0.0.5"
    );
}

#[test]
fn beyond_its_limit_a_handle_is_given_what_it_has() {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/26", 28)));
    let vm = handle("net.vmi.prod.db");
    let mut ask = || addresses(&ask_shared(&mut ipam, &Ask::new("a", "1"), &vm, 2).expect("an address"))[0];
    let (first, second, third) = (ask(), ask(), ask());
    assert_ne!(first, second);
    assert!([first, second].contains(&third));
}

#[test]
fn one_request_does_not_go_beyond_the_limit_either() {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/26", 28)));
    let vm = handle("net.vmi.prod.db");
    let ask = Ask::new("a", "1").wanting([any(Family::V4), any(Family::V4)]);
    let refused = ask_shared(&mut ipam, &ask, &vm, 1).expect_err("two of one");
    assert!(matches!(refused, Error::HandleFull { asked: None, .. }), "{refused}");
}

#[test]
fn attachments_that_share_a_handle_get_its_one_address() {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/26", 28)));
    let vm = handle("net.vmi.prod.db");
    for number in 0..4 {
        let ask = Ask::new("a", &number.to_string());
        ask_shared(&mut ipam, &ask, &vm, 1).expect("the one address");
    }
    let all = ipam.store_mut().entries().into_iter().filter_map(|entry| match entry.object {
        host_affine::datastore::Object::Block(block) => {
            Some(block.allocations.iter().filter(|slot| slot.is_some()).count())
        }
        _ => None,
    });
    assert_eq!(all.sum::<usize>(), 1);
}
