//! Random batches, on the file store and on the reference: every answer must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use host_affine::api::calico::{IpamBlock, IpamHandle};
use host_affine::datastore::file::{Access, FileStore};
use host_affine::datastore::memory::Memory;
use proptest::prelude::*;

use super::backends::{Backend as _, Between, InFiles};
use super::*;

const BLOCKS: [&str; 6] =
    ["10.0.0.0/29", "10.0.0.8/29", "10.0.1.0/29", "10.1.0.0/30", "fd00::/125", "fd00::8/125"];
const OWNERS: [Option<&str>; 3] = [Some("n1"), Some("N1"), None];
const HANDLES: [&str; 5] = ["net.a", "net.b", "net.A", "n.et.a", "net.a/../b"];

/// One step of a history. Numbers choose among what there is, modulo how much there is.
#[derive(Clone, Debug)]
enum Step {
    /// Makes a block, or gives it to another owner.
    Claim { block: usize, owner: usize, clock: u64 },
    /// Gives some ordinals of a block to a handle.
    Assign { block: usize, handle: usize, count: usize },
    /// Takes an ordinal of a block from whoever has it.
    Release { block: usize, ordinal: usize },
    /// Takes everything from a handle.
    ReleaseAll { handle: usize },
    /// Removes a block with all that is in it.
    Delete { block: usize },
    /// Writes or removes a resource.
    Resource { kind: usize, name: usize, present: bool },
    /// Says that a block has room, or none.
    Hint { block: usize, has_room: bool },
    /// Expects what does not stand there.
    Stale { block: usize },
    /// Ends the session.
    Reopen,
    /// Has the journal written out.
    WriteOut,
    /// Removes or overwrites a derived file.
    Spoil { file: usize, content: Option<u8> },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6usize, 0..3usize, 0..3000u64)
            .prop_map(|(block, owner, clock)| Step::Claim { block, owner, clock }),
        8 => (0..6usize, 0..5usize, 1..4usize)
            .prop_map(|(block, handle, count)| Step::Assign { block, handle, count }),
        4 => (0..6usize, 0..8usize).prop_map(|(block, ordinal)| Step::Release { block, ordinal }),
        2 => (0..5usize).prop_map(|handle| Step::ReleaseAll { handle }),
        1 => (0..6usize).prop_map(|block| Step::Delete { block }),
        3 => (0..7usize, 0..3usize, any::<bool>())
            .prop_map(|(kind, name, present)| Step::Resource { kind, name, present }),
        1 => (0..6usize, any::<bool>()).prop_map(|(block, has_room)| Step::Hint { block, has_room }),
        1 => (0..6usize).prop_map(|block| Step::Stale { block }),
        2 => Just(Step::Reopen),
        2 => Just(Step::WriteOut),
        1 => (0..2usize, any::<Option<u8>>()).prop_map(|(file, content)| Step::Spoil { file, content }),
    ]
}

/// What a step writes: `None` deletes.
type Writes = BTreeMap<Key, Option<Object>>;

fn planned(step: &Step, memory: &Memory) -> Writes {
    match step {
        Step::Claim { block, owner, clock } => claim(cidr(BLOCKS[*block]), OWNERS[*owner], *clock, memory),
        Step::Assign { block, handle, count } => {
            let id = HANDLES[*handle].replace('/', "_");
            assign(cidr(BLOCKS[*block]), &id, *count, memory)
        }
        Step::Release { block, ordinal } => {
            release(memory, |cidr_, place, _| cidr_ == cidr(BLOCKS[*block]) && place == *ordinal)
        }
        Step::ReleaseAll { handle } => {
            let id = HANDLES[*handle].replace('/', "_");
            release(memory, |_, _, of| of == id)
        }
        Step::Delete { block } => {
            let range = cidr(BLOCKS[*block]);
            let mut writes = release(memory, |cidr, _, _| cidr == range);
            if let Some(block) = block_in(memory, range) {
                if let Some(owner) = block.affinity {
                    writes.insert(Key::Affinity(owner, range), None);
                }
                writes.insert(Key::Block(range), None);
            }
            writes
        }
        Step::Resource { kind, name, present } => {
            resource(*kind, ["a", "b c", "ü/."][*name], *present, memory)
        }
        Step::Hint { .. } | Step::Stale { .. } | Step::Reopen | Step::WriteOut | Step::Spoil { .. } => {
            Writes::new()
        }
    }
}

fn block_in(memory: &Memory, cidr: Cidr) -> Option<IpamBlock> {
    let entry = memory.answer(&Want::Object(Key::Block(cidr))).object()?;
    Some(entry.into())
}

fn claim(range: Cidr, of: Option<&str>, clock: u64, memory: &Memory) -> Writes {
    let mut writes = Writes::new();
    let new_owner = of.map(owner);
    let floor = memory.answer(&Want::Settings).settings().sequence_floor;
    let block = match block_in(memory, range) {
        Some(mut block) => {
            if let Some(old) = block.affinity.take() {
                writes.insert(Key::Affinity(old, range), None);
            }
            block.affinity.clone_from(&new_owner);
            block.sequence_number += 1;
            block
        }
        None => IpamBlock::new(range, new_owner.clone(), Timestamp::default(), floor.max(clock)),
    };
    if let Some(owner) = new_owner {
        let affinity = BlockAffinity::new(AffinityState::Confirmed);
        writes.insert(Key::Affinity(owner, range), Some(affinity.into()));
    }
    writes.insert(Key::Block(range), Some(block.into()));
    writes
}

fn assign(range: Cidr, id: &str, count: usize, memory: &Memory) -> Writes {
    let Some(mut block) = block_in(memory, range) else {
        return Writes::new();
    };
    let sequence = block.sequence_number + 1;
    let ordinals: Vec<u16> = block.unallocated.iter().copied().take(count).collect();
    for ordinal in &ordinals {
        let pod = format!("pod {}", sequence % 3);
        assert!(block.set(*ordinal, &attribute(id, &pod), sequence));
    }
    if ordinals.is_empty() {
        return Writes::new();
    }
    let key = Key::Handle(handle(id));
    let entry = memory.answer(&Want::Object(key.clone())).object();
    let mut held: IpamHandle = entry.map(Entry::into).unwrap_or_default();
    *held.block.entry(range).or_default() += u32::try_from(ordinals.len()).expect("few");
    Writes::from([(key, Some(held.into())), (Key::Block(range), Some(block.into()))])
}

/// Takes all ordinals of which `wanted(block, ordinal, handle)` holds.
fn release(memory: &Memory, wanted: impl Fn(Cidr, usize, &str) -> bool) -> Writes {
    let mut writes = Writes::new();
    let mut lost: BTreeMap<HandleId, BTreeMap<Cidr, u32>> = BTreeMap::new();
    for entry in memory.answer(&Want::AllBlocks).objects() {
        let mut block: IpamBlock = entry.into();
        let sequence = block.sequence_number + 1;
        for (place, allocation) in block.allocations.clone().into_iter().enumerate() {
            let Some(_) = allocation else { continue };
            let now = block.allocations[place].expect("releasing one leaves the others");
            let attribute = &block.attributes[usize::from(now)];
            let of = attribute.fields().handle_id.expect("each has a handle").into_owned();
            if wanted(block.cidr, place, &of) {
                *lost.entry(handle(&of)).or_default().entry(block.cidr).or_default() += 1;
                assert!(block.clear(u16::try_from(place).expect("small"), sequence));
            }
        }
        if block.sequence_number == sequence {
            writes.insert(Key::Block(block.cidr), Some(block.into()));
        }
    }
    for (id, blocks) in lost {
        let key = Key::Handle(id);
        let entry = memory.answer(&Want::Object(key.clone())).object();
        let mut held: IpamHandle = entry.expect("it held something").into();
        for (cidr, count) in blocks {
            *held.block.get_mut(&cidr).expect("counted") -= count;
        }
        held.block.retain(|_, count| *count > 0);
        let left = (!held.block.is_empty()).then(|| held.into());
        writes.insert(key, left);
    }
    writes
}

fn resource(kind: usize, name: &str, present: bool, memory: &Memory) -> Writes {
    let number = memory.entries().count();
    let reservation =
        IpReservationSpec { reserved_cidrs: vec![number.to_string()], ..IpReservationSpec::default() };
    let (key, object): (Key, Object) = match kind {
        0 => (Key::Configuration, IpamConfiguration::new("default", IpamConfigurationSpec::default()).into()),
        1 => (pool_key(name), pool(name, "10.0.0.0/8").into()),
        2 => (Key::Reservation(name.to_owned()), IpReservation::new(name, reservation).into()),
        3 => {
            let name = name.replace(['/', ' '], "_");
            (Key::Node(host(&name)), Node::new(name, NodeSpec::default()).into())
        }
        4 => {
            let range = [cidr("10.5.0.0/24"), cidr("10.6.0.0/16"), cidr("fd05::/64")][name.len() % 3];
            (Key::Carved(range), carved(&format!("{name}{number}")).into())
        }
        5 => (Key::Machine(handle(&name.replace(['/', ' '], "_"))), machine(&format!("{number}")).into()),
        _ => (Key::Import(name.to_owned()), Import { network: name.to_owned(), ..Import::default() }.into()),
    };
    let exists = memory.revision(&key).is_some();
    if !present && !exists {
        return Writes::new();
    }
    Writes::from([(key, present.then_some(object))])
}

/// The same writes, with the revisions of one store.
fn batch_for<D: Datastore>(store: &mut D, writes: &Writes) -> Batch {
    let mut batch = Batch::default();
    for (key, object) in writes {
        let old = get(store, key).map(|entry| entry.revision);
        match (old, object) {
            (None, Some(object)) => batch.create(key.clone(), object.clone()),
            (Some(old), Some(object)) => batch.update(key.clone(), old, object.clone()),
            (Some(old), None) => batch.delete(key.clone(), old),
            (None, None) => {}
        }
    }
    batch
}

/// Everything that can be asked and has one right answer.
fn wants() -> Vec<Want> {
    let mut wants = vec![
        Want::AllBlocks,
        Want::AllAffinities,
        Want::AllHandles,
        Want::Nodes,
        Want::Settings,
        Want::BlockCidrs(cidr("10.0.0.0/16")),
        Want::Blocks(cidr("fd00::/64")),
        Want::All(Collection::Carved),
        Want::All(Collection::Machines),
        Want::CarvedCidrs(cidr("10.0.0.0/8")),
    ];
    for id in HANDLES {
        wants.push(Want::Held(handle(&id.replace('/', "_"))));
    }
    for of in OWNERS.iter().flatten() {
        wants.push(Want::Affinities(owner(of)));
        wants.push(Want::AffinityCidrs(owner(of)));
    }
    for range in BLOCKS {
        wants.push(Want::Object(Key::Block(cidr(range))));
    }
    wants.push(Want::Object(pool_key("b c")));
    wants
}

fn comparable(answer: Answer) -> Answer {
    match answer {
        Answer::Object(entry) => Answer::Object(entry.map(plain)),
        Answer::Objects(entries) => Answer::Objects(entries.into_iter().map(plain).collect()),
        Answer::Held(entry, blocks) => {
            Answer::Held(entry.map(plain), blocks.into_iter().map(plain).collect())
        }
        Answer::Settings(mut settings) => {
            let stripped = |(_, mut metadata): (Revision, ObjectMeta)| {
                metadata.resource_version = None;
                (Revision(0), metadata)
            };
            for (revision, pool) in &mut settings.pools {
                (*revision, pool.metadata) = stripped((*revision, pool.metadata.clone()));
            }
            for (revision, object) in &mut settings.reservations {
                (*revision, object.metadata) = stripped((*revision, object.metadata.clone()));
            }
            if let Some((revision, object)) = &mut settings.configuration {
                (*revision, object.metadata) = stripped((*revision, object.metadata.clone()));
            }
            for (revision, _) in &mut settings.imports {
                *revision = Revision(0);
            }
            Answer::Settings(settings)
        }
        Answer::Cidrs(cidrs) => Answer::Cidrs(cidrs),
    }
}

fn compare(store: &mut FileStore, memory: &Memory, hinted: &BTreeSet<Cidr>) {
    for want in wants() {
        let expected = comparable(memory.answer(&want));
        assert_eq!(comparable(ask(store, want.clone())), expected, "{want:?}");
    }
    let everywhere = vec![cidr("0.0.0.0/0"), cidr("::/0")];
    for of in [RoomOf::Owner(owner("n1")), RoomOf::AllBut(owner("n1")), RoomOf::Nobody] {
        let want = Want::Room { of, within: everywhere.clone(), enough: usize::MAX };
        let found = ask(store, want.clone()).cidrs();
        assert!(found.is_sorted());
        let without_hinted = |cidrs: Vec<Cidr>| -> Vec<Cidr> {
            cidrs.into_iter().filter(|cidr| !hinted.contains(cidr)).collect()
        };
        let expected = without_hinted(memory.answer(&want).cidrs());
        assert_eq!(without_hinted(found), expected, "{want:?}");
    }
}

fn run(steps: &[Step]) {
    let mut memory = Memory::new();
    let mut files = InFiles::new(Between::Nothing);
    // Blocks of which something was said that does not follow from their content.
    let mut hinted = BTreeSet::new();
    for step in steps {
        let writes = planned(step, &memory);
        match step {
            Step::Hint { block, has_room } => {
                if let Some(block) = block_in(&memory, cidr(BLOCKS[*block])) {
                    hinted.insert(block.cidr);
                    apply(files.store(), |batch| {
                        batch.room.push(RoomHint {
                            block: block.cidr,
                            owner: block.affinity.clone(),
                            has_room: *has_room,
                        });
                    });
                }
            }
            Step::Stale { block } => {
                let key = Key::Block(cidr(BLOCKS[*block]));
                let keys = refused(files.store(), |batch| {
                    batch.create(Key::Node(host("stale")), Node::new("stale", NodeSpec::default()));
                    batch.delete(key.clone(), Revision(u64::MAX));
                });
                assert_eq!(keys, [key]);
            }
            Step::Reopen => files.reopen(),
            Step::WriteOut => files.store().write_out().expect("written out"),
            Step::Spoil { file, content } => {
                files.reopen();
                let path = files.path().join(["index", "state"][*file]);
                match content {
                    Some(byte) if path.exists() => {
                        fs::write(path, [*byte; 8192]).expect("overwritten");
                    }
                    _ => {
                        let _ = fs::remove_file(path);
                    }
                }
            }
            _ => {
                let batch = batch_for(&mut memory, &writes);
                assert_eq!(memory.apply(&batch), Commit::Applied);
                let store = files.store();
                let batch = batch_for(store, &writes);
                assert_eq!(commit(store, batch), Commit::Applied);
                hinted.retain(|cidr| !writes.contains_key(&Key::Block(*cidr)));
            }
        }
        compare(files.store(), &memory, &hinted);
    }
    files.reopen();
    compare(&mut files.open(Access::Read), &memory, &hinted);
    files.store().write_out().expect("written out");
    files.reopen();
    compare(&mut files.open(Access::Read), &memory, &hinted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_file_store_answers_as_the_reference_does(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}
