//! What a call costs in round trips, and what it does when the store answers less than all or not at all.

use std::io;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{Answer, Batch, Commit, Datastore, Error as StoreError, Verb, Want, run_in_place};
use host_affine::ipam::{Error, Ipam};
use host_affine::net::Family;

use super::super::build::{Ask, any, pool, put_pool};

/// A store that counts, and can be told to fail or to know less.
#[derive(Default)]
struct Counted {
    inner: Memory,
    reads: usize,
    commits: usize,
    /// Fails at this read.
    fails_at: Option<usize>,
    knows_no_room: bool,
}

impl Datastore for Counted {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, StoreError> {
        self.reads += 1;
        if self.fails_at == Some(self.reads) {
            let source = io::Error::other("a disk that is gone");
            return Err(StoreError::Io { verb: Verb::Read, path: "/store".into(), source });
        }
        let mut answers = self.inner.read(wants).await?;
        for (want, answer) in wants.iter().zip(&mut answers) {
            if self.knows_no_room && matches!(want, Want::Room { .. }) {
                *answer = Answer::Cidrs(Vec::new());
            }
        }
        Ok(answers)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, StoreError> {
        self.commits += 1;
        self.inner.commit(batch).await
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn is_one_machine(&self) -> bool {
        true
    }
}

fn with(name: &str, range: &str, block: u8) -> Ipam<Counted> {
    let mut store = Counted::default();
    put_pool(&mut store.inner, pool(name, range, block));
    Ipam::new(store)
}

/// Reads and commits of what was done.
fn cost(ipam: &mut Ipam<Counted>, act: impl FnOnce(&mut Ipam<Counted>)) -> (usize, usize) {
    let store = ipam.store_mut();
    (store.reads, store.commits) = (0, 0);
    act(ipam);
    let store = ipam.store_mut();
    (store.reads, store.commits)
}

fn cost_of_add(ipam: &mut Ipam<Counted>, ask: &Ask) -> (usize, usize) {
    cost(ipam, |ipam| drop(run_in_place(ask.of(ipam)).expect("an address")))
}

#[test]
fn a_pool_of_two_to_the_80_addresses_costs_no_more_than_a_small_one() {
    let mut costs = Vec::new();
    for (family, range, block) in [(Family::V4, "10.0.0.0/16", 26), (Family::V6, "fd00::/48", 122)] {
        let mut ipam = with("p", range, block);
        let ask = |id: &str| Ask::new("n", id).wanting([any(family)]);
        let mut cost = vec![cost_of_add(&mut ipam, &ask("x")), cost_of_add(&mut ipam, &ask("y"))];
        cost.push(cost_of_add(&mut ipam, &Ask::new("m", "z").wanting([any(family)])));
        costs.push(cost);
    }
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0][0].0 <= 5, "a first ADD takes {} reads", costs[0][0].0);
}

#[test]
fn a_steady_add_takes_three_reads_and_one_commit() {
    let mut ipam = with("p", "10.0.0.0/16", 26);
    cost_of_add(&mut ipam, &Ask::new("n", "x"));
    for number in 0..60 {
        let (reads, commits) = cost_of_add(&mut ipam, &Ask::new("n", &format!("c{number}")));
        assert!(reads <= 3 && commits == 1, "{reads} reads, {commits} commits");
    }
    let again = cost_of_add(&mut ipam, &Ask::new("n", "x"));
    assert_eq!(again, (1, 0), "a repeated ADD only looks");
    let del = cost(&mut ipam, |ipam| drop(run_in_place(Ask::new("n", "x").end(ipam)).expect("a DEL")));
    assert_eq!(del, (1, 1));
    let again = cost(&mut ipam, |ipam| drop(run_in_place(Ask::new("n", "x").end(ipam)).expect("a DEL")));
    assert_eq!(again, (1, 0));
}

/// F15
#[test]
fn full_blocks_of_other_hosts_cost_nothing() {
    let mut ipam = with("one", "10.65.64.0/24", 30);
    for host in 0..64 {
        cost_of_add(&mut ipam, &Ask::new(&format!("n{host}"), &format!("z{host}")));
    }
    put_pool(&mut ipam.store_mut().inner, pool("two", "10.65.96.0/22", 30));
    let (reads, commits) = cost_of_add(&mut ipam, &Ask::new("new", "znew"));
    assert!(reads <= 6 && commits == 1, "{reads} reads, {commits} commits");
}

/// 62
#[test]
fn a_store_that_fails_is_not_taken_for_a_full_one() {
    for fails_at in 1..12 {
        let mut ipam = with("p", "10.0.0.0/30", 30);
        for id in ["1", "2", "3", "4"] {
            cost_of_add(&mut ipam, &Ask::new("n", id));
        }
        let store = ipam.store_mut();
        (store.reads, store.fails_at) = (0, Some(fails_at));
        let answer = run_in_place(Ask::new("m", "x").of(&mut ipam));
        let reached = ipam.store_mut().reads >= fails_at;
        match answer {
            Err(Error::Datastore(StoreError::Io { .. })) => assert!(reached),
            Err(Error::Exhausted { .. }) => assert!(!reached, "the {fails_at}th read failed, and was not noticed"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_store_that_forgot_which_blocks_have_room_loses_no_address() {
    for boot in [Some("boot-1".to_owned()), None] {
        let mut ipam = with("p", "10.0.0.0/28", 30);
        ipam.store_mut().knows_no_room = true;
        let ask = |host: &str, id: usize| {
            let mut ask = Ask::new(host, &format!("c{id}"));
            ask.host.boot.clone_from(&boot);
            ask
        };
        for id in 0..16 {
            run_in_place(ask(["a", "b"][id % 2], id).of(&mut ipam)).expect("an address");
        }
        assert!(matches!(run_in_place(ask("c", 16).of(&mut ipam)), Err(Error::Exhausted { .. })));
        run_in_place(ask("a", 0).end(&mut ipam)).expect("a DEL");
        run_in_place(ask("c", 16).of(&mut ipam)).expect("the one that was freed");
    }
}
