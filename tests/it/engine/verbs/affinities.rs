//! Blocks given up: rows 60 and 63 to 66 of the reference's tables.

use host_affine::api::Affinity;
use host_affine::datastore::{Object, run_in_place};
use host_affine::ipam::{Emptiness, Ipam, ReleaseAffinityError, Removed, audit};
use host_affine::net::{Cidr, Family};

use super::super::build::{Ask, Bare as _, any, at, cidr, configure, name, pool, put_pool};
use super::super::either::Either;
use super::engine;

/// Blocks, and whom they are kept for.
fn blocks(ipam: &mut Ipam<Either>) -> Vec<(Cidr, Option<String>)> {
    let of = |object| match object {
        Object::Block(block) => Some((block.cidr, block.affinity.map(|owner| owner.to_string()))),
        _ => None,
    };
    ipam.store_mut().entries().into_iter().filter_map(|entry| of(entry.object)).collect()
}

fn findings(ipam: &mut Ipam<Either>) -> usize {
    audit(ipam.store_mut().entries().into_iter().map(|entry| (entry.key, entry.object))).len()
}

/// Host `a` with three blocks of four addresses; container `keeper` has one of the last.
fn with_three() -> Ipam<Either> {
    let mut ipam = engine(|store| {
        put_pool(store, pool("four", "10.0.0.0/28", 30));
        // The last block of a pool stays with its host: so each is emptied but not given up.
        configure(store, |spec| spec.strict_affinity = Some(true));
    });
    let nine = Ask::new("a", "full").wanting(vec![any(Family::V4); 8]);
    run_in_place(nine.of(&mut ipam)).expect("two blocks");
    run_in_place(Ask::new("a", "keeper").of(&mut ipam)).expect("a third");
    assert_eq!(blocks(&mut ipam).len(), 3);
    ipam
}

#[test]
fn a_block_that_holds_something_is_not_given_up_where_it_must_be_empty() {
    let mut ipam = with_three();
    let before = blocks(&mut ipam);
    let (block, _) = before[0].clone();
    let refused = run_in_place(ipam.release_block_affinity(block, Emptiness::Required, None, at(1)));
    let refused = refused.expect_err("in use");
    assert!(matches!(refused, ReleaseAffinityError::NotEmpty { .. }), "{refused}");
    assert_eq!(refused.to_string(), format!("block {block} not released: 4 in use"));
    assert_eq!(blocks(&mut ipam), before);
}

#[test]
fn a_block_that_holds_something_is_kept_for_nobody_and_goes_with_its_last_address() {
    let mut ipam = with_three();
    let (block, _) = blocks(&mut ipam)[0].clone();
    let removed = run_in_place(ipam.release_block_affinity(block, Emptiness::NotRequired, None, at(1)));
    assert_eq!(removed.expect("given up").left.addresses, 4);
    assert!(blocks(&mut ipam).contains(&(block, None)));
    assert_eq!(findings(&mut ipam), 0);
    run_in_place(Ask::new("a", "full").end(&mut ipam)).expect("freed");
    assert!(blocks(&mut ipam).iter().all(|(cidr, _)| *cidr != block), "{:?}", blocks(&mut ipam));
    assert_eq!(findings(&mut ipam), 0);
}

#[test]
fn a_block_that_was_written_since_it_was_read_is_left_alone() {
    let mut ipam = with_three();
    let (block, _) = blocks(&mut ipam)[0].clone();
    let number = |ipam: &mut Ipam<Either>| {
        let of = |object| match object {
            Object::Block(found) if found.cidr == block => Some(found.sequence_number),
            _ => None,
        };
        let found = ipam.store_mut().entries().into_iter().find_map(|entry| of(entry.object));
        found.expect("the block")
    };
    let now = number(&mut ipam);
    let release = |ipam: &mut Ipam<Either>, read| {
        run_in_place(ipam.release_block_affinity(block, Emptiness::NotRequired, Some(read), at(1)))
    };
    let stale = release(&mut ipam, now - 1).expect_err("written since");
    assert_eq!(
        stale.to_string(),
        format!(
            "block {block} not released: it was written since it was read (sequence {}, now {now})",
            now - 1
        )
    );
    release(&mut ipam, now).expect("as it was read");
    let missing =
        run_in_place(ipam.release_block_affinity(cidr("10.9.0.0/30"), Emptiness::NotRequired, None, at(1)));
    assert!(matches!(missing, Err(ReleaseAffinityError::Missing(_))));
}

#[test]
fn of_a_hosts_blocks_those_that_are_empty_go_and_the_others_are_named() {
    let mut ipam = with_three();
    // Two addresses of three blocks are left; the reference leaves the empty ones with their host.
    let owner: Affinity = name("a").into();
    let refused = run_in_place(ipam.release_affinities_of(&owner, Emptiness::Required, at(1)));
    let Err(ReleaseAffinityError::NotEmpty { blocks: held, holdings }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((held.len(), holdings.addresses), (3, 9));
    let removed = run_in_place(ipam.release_affinities_of(&owner, Emptiness::NotRequired, at(1)));
    assert_eq!(removed.expect("given up").left.blocks, 3);
    assert!(blocks(&mut ipam).iter().all(|(_, owner)| owner.is_none()));
    assert_eq!(findings(&mut ipam), 0);
    for id in ["full", "keeper"] {
        run_in_place(Ask::new("a", id).end(&mut ipam)).expect("freed");
    }
    assert_eq!(blocks(&mut ipam), []);
}

#[test]
fn an_empty_block_goes_with_its_record() {
    let mut ipam = engine(|store| put_pool(store, pool("four", "10.0.0.0/28", 30)));
    for host in ["a", "b"] {
        run_in_place(Ask::new(host, host).of(&mut ipam)).expect("an address");
        run_in_place(Ask::new(host, host).end(&mut ipam)).expect("freed");
    }
    assert_eq!(blocks(&mut ipam).len(), 2, "each keeps its last block");
    let owner: Affinity = name("a").into();
    let removed = run_in_place(ipam.release_affinities_of(&owner, Emptiness::Required, at(1)));
    assert_eq!(removed.expect("given up"), Removed { blocks: 1, ..Removed::default() });
    assert_eq!(blocks(&mut ipam).len(), 1);
    assert_eq!(findings(&mut ipam), 0);
    let rest = run_in_place(ipam.release_pool_affinities(cidr("10.0.0.0/28"), Emptiness::NotRequired, at(1)));
    assert_eq!(rest.expect("given up").blocks, 1);
    assert_eq!((blocks(&mut ipam), findings(&mut ipam)), (Vec::new(), 0));
}
