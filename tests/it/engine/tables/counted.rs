//! What a call costs, counted at the store and never measured in time, and what it does when the store answers less
//! than all or not at all.

use std::io;

use host_affine::datastore::memory::Memory;
use host_affine::datastore::{
    Answer, Batch, Commit, Datastore, Error as StoreError, Isolation, Verb, Want, run_in_place,
};
use host_affine::ipam::{Assignment, Error, Force, Ipam, ValidAttachments};
use host_affine::net::Family;

use super::super::build::{Ask, any, at, cidr, configure, exactly, host, name, pool, put_pool};

/// What a call asked of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    reads: usize,
    wants: usize,
    /// Objects and CIDRs that were answered.
    answered: usize,
    commits: usize,
    /// Keys that were written.
    written: usize,
    guards: usize,
    hints: usize,
}

/// A store that counts, and can be told to fail or to know less.
#[derive(Default)]
struct Counted {
    inner: Memory,
    cost: Cost,
    /// Fails at this read.
    fails_at: Option<usize>,
    knows_no_room: bool,
    many_machines: bool,
}

fn size(answer: &Answer) -> usize {
    match answer {
        Answer::Object(entry) => usize::from(entry.is_some()),
        Answer::Settings(settings) => {
            settings.pools.len()
                + settings.reservations.len()
                + settings.imports.len()
                + usize::from(settings.configuration.is_some())
        }
        Answer::Held(handle, blocks) => usize::from(handle.is_some()) + blocks.len(),
        Answer::Objects(entries) => entries.len(),
        Answer::Cidrs(cidrs) => cidrs.len(),
    }
}

impl Datastore for Counted {
    async fn read(&mut self, wants: &[Want]) -> Result<Vec<Answer>, StoreError> {
        self.cost.reads += 1;
        self.cost.wants += wants.len();
        if self.fails_at == Some(self.cost.reads) {
            let source = io::Error::other("a disk that is gone");
            return Err(StoreError::Io { verb: Verb::Read, path: "/store".into(), source });
        }
        let mut answers = self.inner.read(wants).await?;
        for (want, answer) in wants.iter().zip(&mut answers) {
            if self.knows_no_room && matches!(want, Want::Room { .. }) {
                *answer = Answer::Cidrs(Vec::new());
            }
            self.cost.answered += size(answer);
        }
        Ok(answers)
    }

    async fn commit(&mut self, batch: Batch) -> Result<Commit, StoreError> {
        self.cost.commits += 1;
        self.cost.written += batch.ops.len();
        self.cost.guards += batch.guards.len();
        self.cost.hints += batch.room.len();
        self.inner.commit(batch).await
    }

    fn isolation(&self) -> Isolation {
        if self.many_machines { Isolation::Atomic } else { Isolation::Exclusive }
    }

    fn is_one_kernel(&self) -> bool {
        !self.many_machines
    }
}

fn with(name: &str, range: &str, block: u8) -> Ipam<Counted> {
    let mut store = Counted::default();
    put_pool(&mut store.inner, pool(name, range, block));
    Ipam::new(store)
}

/// What something that was done cost.
fn cost(ipam: &mut Ipam<Counted>, act: impl FnOnce(&mut Ipam<Counted>)) -> Cost {
    ipam.store_mut().cost = Cost::default();
    act(ipam);
    ipam.store_mut().cost
}

fn cost_of_add(ipam: &mut Ipam<Counted>, ask: &Ask) -> Cost {
    cost(ipam, |ipam| drop(run_in_place(ask.of(ipam)).expect("an address")))
}

fn cost_of_del(ipam: &mut Ipam<Counted>, ask: &Ask) -> Cost {
    cost(ipam, |ipam| drop(run_in_place(ask.end(ipam)).expect("a DEL")))
}

fn cost_of_refusal(ipam: &mut Ipam<Counted>, ask: &Ask) -> Cost {
    cost(ipam, |ipam| drop(run_in_place(ask.of(ipam)).expect_err("to be refused")))
}

/// Calls of every kind, in a pool whose blocks have 64 addresses, and what each cost.
fn costs_of_all(family: Family, range: &str, block: u8) -> Vec<(&'static str, Cost)> {
    let mut ipam = with("p", range, block);
    let ask = |host: &str, id: &str| Ask::new(host, id).wanting([any(family)]);
    let mut costs = Vec::new();
    for other in 0..20 {
        cost_of_add(&mut ipam, &ask(&format!("other-{other}"), &format!("other-{other}")));
    }
    costs.push(("the first of a host", cost_of_add(&mut ipam, &ask("n", "x"))));
    costs.push(("a further one", cost_of_add(&mut ipam, &ask("n", "y"))));
    costs.push(("the same again", cost_of_add(&mut ipam, &ask("n", "y"))));
    for number in 2..64 {
        cost_of_add(&mut ipam, &ask("n", &format!("c{number}")));
    }
    costs.push(("a second block", cost_of_add(&mut ipam, &ask("n", "second"))));
    let last = cidr(range).nth(cidr(range).size() - 1).expect("an address");
    let last = Ask::new("n", "last").wanting([exactly(&last.to_string())]);
    costs.push(("one that was asked for, in a new block", cost_of_add(&mut ipam, &last)));
    costs.push(("its end, and that of its block", cost_of_del(&mut ipam, &last)));
    costs.push(("an end", cost_of_del(&mut ipam, &ask("n", "y"))));
    costs.push(("the same end again", cost_of_del(&mut ipam, &ask("n", "y"))));

    configure(&mut ipam.store_mut().inner, |spec| spec.max_blocks_per_host = Some(1));
    let fill = |ipam: &mut Ipam<Counted>, host: &str| {
        for number in 0..64 {
            cost_of_add(ipam, &ask(host, &format!("{host}-{number}")));
        }
    };
    fill(&mut ipam, "limited");
    costs.push(("beyond the limit, borrowed", cost_of_add(&mut ipam, &ask("limited", "borrowed"))));
    configure(&mut ipam.store_mut().inner, |spec| {
        (spec.strict_affinity, spec.max_blocks_per_host) = (Some(true), Some(1));
    });
    costs.push(("a refusal at the limit", cost_of_refusal(&mut ipam, &ask("limited", "refused"))));
    configure(&mut ipam.store_mut().inner, |spec| {
        (spec.strict_affinity, spec.auto_allocate_blocks) = (Some(true), Some(false));
    });
    costs.push(("a refusal without a block", cost_of_refusal(&mut ipam, &ask("nobody", "refused"))));

    costs.push(("counting", cost(&mut ipam, |ipam| drop(run_in_place(ipam.usage(at(0))).expect("counts")))));
    let held = run_in_place(ipam.held(&ask("n", "x").attachment, &host("n"))).expect("held").addresses[0];
    let meant = Assignment { address: held, sequence: None, handle: None };
    let by_address = cost(&mut ipam, |ipam| {
        let freed = run_in_place(ipam.release_address(&meant, at(0), |_| Ok::<_, std::fmt::Error>(())));
        freed.expect("released");
    });
    costs.push(("a release by address", by_address));
    let given_up = cost(&mut ipam, |ipam| {
        run_in_place(ipam.give_up_blocks_of(&name("n"), at(0))).expect("given up");
    });
    costs.push(("a host that is gone", given_up));
    let collected = cost(&mut ipam, |ipam| {
        let none = ValidAttachments::default();
        let others = (0..20).map(|other| format!("other-{other}"));
        for name in others.chain(["n".to_owned(), "limited".to_owned()]) {
            run_in_place(ipam.collect("net", &none, &host(&name), at(0))).expect("a GC");
        }
    });
    costs.push(("everything freed", collected));
    let removed = cost(&mut ipam, |ipam| {
        run_in_place(ipam.remove_pool("p", Force::No, at(0))).expect("removed");
    });
    costs.push(("the pool removed", removed));
    costs
}

#[test]
fn a_pool_of_two_to_the_80_addresses_costs_no_more_than_one_of_65536() {
    let small = costs_of_all(Family::V4, "10.0.0.0/16", 26);
    let large = costs_of_all(Family::V6, "fd00::/48", 122);
    for ((what, small), (_, large)) in small.iter().zip(&large) {
        assert_eq!(small, large, "{what}");
    }
    let of = |what: &str| small.iter().find(|(known, _)| *known == what).expect(what).1;
    assert!(of("the first of a host").reads <= 6, "{:?}", of("the first of a host"));
    assert!(
        small.iter().all(|(what, cost)| cost.commits <= 1
            || what.starts_with("everything")
            || what.starts_with("the pool")
            || what.starts_with("a host that")),
        "{small:?}"
    );
}

#[test]
fn a_steady_add_takes_three_reads_and_one_commit() {
    let mut ipam = with("p", "10.0.0.0/16", 26);
    cost_of_add(&mut ipam, &Ask::new("n", "x"));
    for number in 0..60 {
        let cost = cost_of_add(&mut ipam, &Ask::new("n", &format!("c{number}")));
        assert!(cost.reads <= 3 && cost.commits == 1, "{cost:?}");
        assert_eq!(
            (cost.written, cost.guards),
            (2, 1),
            "a block, a handle, and the reservation of its subnet"
        );
    }
    let calls = |cost: Cost| (cost.reads, cost.commits);
    assert_eq!(calls(cost_of_add(&mut ipam, &Ask::new("n", "x"))), (1, 0), "a repeated ADD only looks");
    assert_eq!(calls(cost_of_del(&mut ipam, &Ask::new("n", "x"))), (1, 1));
    assert_eq!(calls(cost_of_del(&mut ipam, &Ask::new("n", "x"))), (2, 0), "it may be a machine's");
}

#[test]
fn full_blocks_of_other_hosts_cost_nothing() {
    let mut costs = Vec::new();
    for hosts in [16, 64] {
        let mut ipam = with("one", if hosts == 16 { "10.65.64.0/26" } else { "10.65.64.0/24" }, 30);
        for number in 0..hosts * 4 {
            cost_of_add(&mut ipam, &Ask::new(&format!("n{}", number % hosts), &format!("z{number}")));
        }
        put_pool(&mut ipam.store_mut().inner, pool("two", "10.65.96.0/22", 30));
        let cost = cost_of_add(&mut ipam, &Ask::new("new", "znew"));
        // The names of the blocks of the first pool are read, and none of the blocks.
        costs.push(Cost { answered: cost.answered - hosts, ..cost });
    }
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].reads <= 7 && costs[0].commits == 1, "{:?}", costs[0]);
}

/// Row 15: nobody writes for that alone.
#[test]
fn an_address_that_has_cooled_is_free_with_the_next_write_of_its_block() {
    let mut ipam = with("p", "10.0.0.0/31", 31);
    configure(&mut ipam.store_mut().inner, |spec| spec.ip_cooldown_seconds = Some(30));
    for id in ["x", "y"] {
        cost_of_add(&mut ipam, &Ask::new("n", id));
    }
    cost_of_del(&mut ipam, &Ask::new("n", "x"));
    let before: Vec<_> = ipam.store_mut().inner.entries().collect();
    let late = |id: &str| Ask::new("n", id).after(31);
    assert_eq!(cost_of_add(&mut ipam, &late("y")).commits, 0);
    assert_eq!(cost_of_del(&mut ipam, &late("nobody")).commits, 0);
    cost(&mut ipam, |ipam| drop(run_in_place(ipam.usage(at(0))).expect("counts")));
    assert_eq!(ipam.store_mut().inner.entries().collect::<Vec<_>>(), before);
    let taken = cost_of_add(&mut ipam, &late("z"));
    assert_eq!((taken.commits, taken.written), (1, 2), "freed and given in one write of the block");
}

/// Row 62.
#[test]
fn a_store_that_fails_is_not_taken_for_a_full_one() {
    for fails_at in 1..12 {
        let mut ipam = with("p", "10.0.0.0/30", 30);
        for id in ["1", "2", "3", "4"] {
            cost_of_add(&mut ipam, &Ask::new("n", id));
        }
        let store = ipam.store_mut();
        (store.cost.reads, store.fails_at) = (0, Some(fails_at));
        let answer = run_in_place(Ask::new("m", "x").of(&mut ipam));
        let reached = ipam.store_mut().cost.reads >= fails_at;
        match answer {
            Err(Error::Datastore(StoreError::Io { .. })) => assert!(reached),
            Err(Error::Exhausted { .. }) => {
                assert!(!reached, "the {fails_at}th read failed, and was not noticed");
            }
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

#[test]
fn a_host_looks_at_its_own_blocks_before_it_believes_that_they_are_full() {
    let mut ipam = with("p", "10.0.0.0/30", 30);
    (ipam.store_mut().knows_no_room, ipam.store_mut().many_machines) = (true, true);
    for id in ["1", "2", "3", "4"] {
        run_in_place(Ask::new("a", id).of(&mut ipam)).expect("an address");
    }
    run_in_place(Ask::new("a", "2").end(&mut ipam)).expect("a DEL");
    run_in_place(Ask::new("a", "x").of(&mut ipam)).expect("the one that was freed");
}
