//! Files of the store that were cut short, emptied, edited or removed: what can be made anew is, what cannot is named,
//! and nothing is guessed at.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::cni::{Call, Network};
use crate::support::store::{Lab, View, write_out};

/// A store with `held0` to `held4` in one block that is all of the pool, and everything in its file.
fn written_out(lab: &Lab) -> Network {
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.206.0.0/27", "blockSize": 27 }]));
    for n in 0..5 {
        network.add(&format!("held{n}")).succeeded();
    }
    write_out(&network, &lab.store());
    network
}

fn block_file(store: &Path) -> PathBuf {
    let blocks: Vec<_> = fs::read_dir(store.join("ipam/blocks")).expect("blocks").collect();
    assert_eq!(blocks.len(), 1, "{blocks:?}");
    blocks.into_iter().next().expect("one").expect("an entry").path()
}

fn edited(text: &[u8], edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(text).expect("an object's file is JSON");
    edit(&mut value);
    serde_json::to_vec_pretty(&value).expect("JSON")
}

#[test]
fn a_damaged_block_gives_nothing_and_frees_nothing_until_it_is_put_back() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    let file = block_file(&lab.store());
    let whole = fs::read(&file).expect("a block");
    let damaged: [(&str, Vec<u8>); 8] = [
        ("emptied", Vec::new()),
        ("cut short", whole[..whole.len() / 2].to_vec()),
        ("followed by more", [&whole[..], b"{}"].concat()),
        ("no JSON", b"\0\xff nonsense".to_vec()),
        ("another kind of thing", b"[1, 2, 3]\n".to_vec()),
        ("an address both free and taken", edited(&whole, |block| block["unallocated"][0] = 3.into())),
        (
            "too few addresses",
            edited(&whole, |block| drop(block["allocations"].as_array_mut().map(Vec::pop))),
        ),
        ("another range", edited(&whole, |block| block["cidr"] = "10.207.0.0/27".into())),
    ];
    let before = View::of(&lab.store()).sound().held;
    for (what, content) in damaged {
        fs::write(&file, &content).expect("ours");
        for n in 0..3 {
            let refusal = network.add(&format!("new{n}")).refused();
            assert_eq!(refusal.code, 110, "{what}: {refusal:?}");
            refusal.says(&["10.206.0.0"]);
        }
        // A DEL that answered with success would have lost the address for good.
        let refusal = network.del("held1").refused();
        assert_eq!(refusal.code, 110, "{what}: {refusal:?}");
        let refusal = network.add("held1").refused();
        assert_eq!(refusal.code, 110, "{what}: {refusal:?}");
        network.del("never-was").succeeded();
        assert_eq!(fs::read(&file).expect("it is there"), content, "{what}: what is damaged is not touched");
        fs::write(&file, &whole).expect("ours");
        assert_eq!(View::of(&lab.store()).sound().held, before, "{what}");
    }
    network.add("new").succeeded();
    network.del("held1").succeeded();
}

#[test]
fn beside_a_damaged_block_the_others_serve_on() {
    let lab = Lab::in_memory();
    let network = Network::new("pods", &lab.store(), &json!([{ "cidr": "10.206.1.0/24", "blockSize": 28 }]));
    let other = network.on("node-2");
    network.add("one").succeeded();
    other.add("two").succeeded();
    write_out(&other, &lab.store());
    let view = View::of(&lab.store()).sound();
    let held: IpAddr = view.of_container("one")[0];
    let block = view.blocks.iter().find(|block| block.cidr.contains_address(held)).expect("its block").cidr;
    let file = lab.store().join(format!("ipam/blocks/{}.json", block.to_string().replace('/', "-")));
    let whole = fs::read(&file).expect("a block");
    fs::write(&file, &whole[..10]).expect("ours");

    other.add("three").succeeded();
    other.del("two").succeeded();
    let elsewhere = network.add("four").address();
    assert!(!block.contains_address(elsewhere), "{elsewhere} is of the damaged block");
    network.del("one").refused().says(&[&file.display().to_string()]);
    network.del("four").succeeded();

    fs::write(&file, &whole).expect("ours");
    let view = View::of(&lab.store()).sound();
    assert_eq!(view.of_container("one"), [held]);
    network.del("one").succeeded();
    other.del("three").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
}

#[test]
fn a_block_that_is_gone_is_not_taken_for_an_empty_one() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    let file = block_file(&lab.store());
    let aside = lab.path().join("aside");
    fs::rename(&file, &aside).expect("it is there");
    for refusal in [network.add("new").refused(), network.del("held1").refused()] {
        assert_eq!(refusal.code, 110, "{refusal:?}");
        refusal.says(&["10.206.0.0"]);
    }
    fs::rename(&aside, &file).expect("the place is free");
    assert_eq!(View::of(&lab.store()).sound().held.len(), 5);
    network.del("held1").succeeded();
}

#[test]
fn what_can_be_made_anew_is_mended_and_never_believed() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    let before = View::of(&lab.store()).sound().held;
    let store = lab.store();
    let (state, index) = (store.join("state"), store.join("index"));
    let room = store.join("ipam/room/host%3Anode-1");
    let truncate = |path: &Path| {
        let bytes = fs::read(path).expect("it is there");
        fs::write(path, &bytes[..bytes.len() / 2]).expect("ours");
    };
    let scribble = |path: &Path| {
        let mut bytes = fs::read(path).expect("it is there");
        for byte in bytes.iter_mut().skip(7).step_by(11) {
            *byte ^= 0x15;
        }
        fs::write(path, &bytes).expect("ours");
    };
    let remove = |path: &Path| fs::remove_file(path).expect("it is there");
    let harms: [(&str, &dyn Fn()); 9] = [
        ("state removed", &|| remove(&state)),
        ("state truncated", &|| truncate(&state)),
        ("state scribbled over", &|| scribble(&state)),
        ("index removed", &|| remove(&index)),
        ("index truncated", &|| truncate(&index)),
        ("index scribbled over", &|| scribble(&index)),
        ("room removed", &|| fs::remove_dir_all(&room).expect("it is there")),
        ("room invented", &|| fs::write(room.join("10.206.9.0-27"), "").expect("ours")),
        ("format removed", &|| remove(&store.join("format"))),
    ];
    for (what, harm) in harms {
        harm();
        let new = network.add("new").address();
        assert!(!before.contains_key(&new), "{what}: {new} was given twice");
        for container in ["held0", "held4"] {
            assert_eq!(
                vec![network.add(container).address()],
                View::of(&store).of_container(container),
                "{what}"
            );
        }
        network.del("new").succeeded();
        network.del("held2").succeeded();
        let again = network.call("ADD", "held2").run().address();
        assert!(!before.iter().any(|(address, holder)| *address == again && holder.container != "held2"));
        let view = View::of(&store).sound();
        assert_eq!((view.held.len(), view.handles), (5, 5), "{what}");
        write_out(&network, &store);
        assert_eq!(View::of(&store).sound().held.len(), 5, "{what}");
    }
}

#[test]
fn settings_that_cannot_be_read_are_named() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    let pool = lab.store().join("projectcalico.org/ippools/10-206-0-0-27.json");
    let whole = fs::read(&pool).expect("a pool");
    fs::remove_file(lab.store().join("state")).expect("it is there");
    fs::write(&pool, "{").expect("ours");
    let refusal = network.add("new").refused();
    assert_eq!(refusal.code, 110, "{refusal:?}");
    refusal.says(&[&pool.display().to_string()]);
    fs::write(&pool, whole).expect("ours");
    network.add("new").succeeded();
    assert_eq!(View::of(&lab.store()).sound().held.len(), 6);
}

#[test]
fn a_journal_that_is_damaged_or_gone_is_named_and_no_shorter_one_is_believed() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    for n in 0..3 {
        network.add(&format!("late{n}")).succeeded();
    }
    let before = View::of(&lab.store()).sound().held;
    let journal = lab.store().join("journal");
    let whole = fs::read(&journal).expect("a journal");
    let first_record = whole.windows(5).position(|bytes| bytes == b"HA02 ").expect("a record");
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damaged = [
        ("a flipped bit in its header", flipped(20)),
        ("a flipped bit in its first record", flipped(first_record + 60)),
        ("a flipped bit in the head of its first record", flipped(first_record + 8)),
        ("zeros", vec![0; whole.len()]),
        ("emptied", Vec::new()),
        ("cut short", whole[..200].to_vec()),
    ];
    for (what, content) in damaged {
        fs::write(&journal, &content).expect("ours");
        for refusal in
            [network.add("new").refused(), network.del("late0").refused(), network.add("late1").refused()]
        {
            assert_eq!(refusal.code, 110, "{what}: {refusal:?}");
            refusal.says(&[&journal.display().to_string()]);
        }
        assert_eq!(network.call("STATUS", "").run().refused().code, 50, "{what}");
        assert_eq!(fs::read(&journal).expect("it is there"), content, "{what}: it is not touched");
    }
    fs::remove_file(&journal).expect("it is there");
    for refusal in [network.add("new").refused(), network.del("late0").refused()] {
        assert_eq!(refusal.code, 110, "gone: {refusal:?}");
        refusal.says(&[&journal.display().to_string()]);
    }
    assert!(!journal.exists(), "no empty one was made in its place");
    fs::write(&journal, &whole).expect("ours");
    assert_eq!(View::of(&lab.store()).sound().held, before);
    network.del("late0").succeeded();
}

/// Answered commits are dropped by a repair only if somebody agreed, and was told which.
#[test]
fn damaged_record_is_dropped_only_with_yes() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    let late: Vec<_> = (0..3).map(|n| network.add(&format!("late{n}")).addresses()).collect();
    let journal = lab.store().join("journal");
    let mut bytes = fs::read(&journal).expect("a journal");
    let first_record = bytes.windows(5).position(|bytes| bytes == b"HA02 ").expect("a record");
    bytes[first_record + 80] ^= 1;
    fs::write(&journal, &bytes).expect("ours");
    network.add("new").refused().says(&["ipam check --repair"]);
    let url = format!("file://{}", lab.store().display());
    let repair = |yes: &[&str]| {
        let words = [&["--datastore", &url, "ipam", "check", "--repair"], yes].concat();
        Call::typed(&words, "").run()
    };
    let refused = repair(&[]);
    assert!(!refused.is_success(), "{refused:?}");
    assert!(fs::read(&journal).expect("a journal") == bytes, "nobody agreed");
    let repaired = repair(&["--yes"]);
    for said in [format!("{refused:?}"), format!("{repaired:?}")] {
        assert!(said.contains("which cannot be read"), "{said}");
        for (n, address) in late.iter().enumerate().skip(1) {
            let address = address[0].to_string();
            let address = address.split('/').next().unwrap_or_default();
            assert!(said.contains(&format!("{address} assigned to pods.late{n}")), "{said}");
        }
    }
    network.add("new").succeeded();
    for n in 0..3 {
        network.del(&format!("late{n}")).succeeded();
    }
    View::of(&lab.store()).sound();
}

#[test]
fn a_journal_that_lost_its_header_is_given_it_back_by_a_repair() {
    let lab = Lab::in_memory();
    let network = written_out(&lab);
    network.add("late").succeeded();
    network.del("held1").succeeded();
    let before = View::of(&lab.store()).sound();
    let journal = lab.store().join("journal");
    let mut bytes = fs::read(&journal).expect("a journal");
    bytes[..128].fill(0);
    fs::write(&journal, &bytes).expect("ours");
    assert_eq!(network.add("new").refused().code, 110);
    let url = format!("file://{}", lab.store().display());
    let answer = Call::typed(&["--datastore", &url, "ipam", "check", "--repair", "--yes"], "").run();
    assert!(answer.is_success(), "{answer:?}");
    assert!(format!("{answer:?}").contains("its header back"), "{answer:?}");
    assert_eq!(View::of(&lab.store()).sound().held, before.held);
    assert_eq!(network.add("late").addresses(), before.of_container("late"));
    network.add("new").succeeded();
    for container in ["late", "new", "held0", "held2", "held3", "held4"] {
        network.del(container).succeeded();
    }
    assert_eq!(View::of(&lab.store()).sound().held.len(), 0);
}
