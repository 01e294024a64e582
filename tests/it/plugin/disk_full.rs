//! Disks that are full, to the last byte or the last inode: an ADD is refused in time and changes nothing, every DEL
//! works, and with room again everything does. That a tmpfs is full to the last byte is tested among the faults.

use std::path::Path;

use serde_json::json;

use crate::support::cni::{Answer, Network, skip};
use crate::support::disk::{Ballast, Disk, Kind};
use crate::support::store::{Lab, View};

fn network(store: &Path) -> Network {
    Network::new("pods", store, &json!([{ "cidr": "10.212.0.0/24", "blockSize": 29 }]))
}

/// Fills a disk below a store, and goes on until no ADD is served; then deletes, makes room, and begins again.
fn is_refused_in_time(disk: &Disk, fill: impl FnOnce(&Disk) -> Ballast) {
    let network = network(&disk.store());
    let add = |n: usize| network.add(&format!("c{n}"));
    add(0).succeeded();
    let ballast = fill(disk);
    let mut given = 1;
    let refusal = loop {
        let answer = add(given);
        if !answer.is_success() {
            break answer.refused();
        }
        given += 1;
        assert!(given < 250, "it was never full");
    };
    assert!(given > 20, "only {given} were served");
    assert_eq!(refusal.code, 100, "{refusal:?}");
    // What waits to be written out, in bytes, and where room is needed.
    refusal.says(&[&disk.store().display().to_string(), "bytes wait", "free space"]);
    let before = View::of(&disk.store()).sound().held;
    assert_eq!(before.len(), given, "what was refused changed nothing");
    for n in 0..3 {
        network.add(&format!("late{n}")).refused();
        assert_eq!(add(n).addresses(), View::of(&disk.store()).of_container(&format!("c{n}")));
        network.del("never-was").succeeded();
    }
    assert_eq!(View::of(&disk.store()).sound().held, before);
    network.call("STATUS", "").run().succeeded();

    for n in (0..given).step_by(2) {
        network.del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&disk.store()).sound().held.len(), given / 2);
    ballast.remove();
    let again: Vec<Answer> = (0..given).map(add).collect();
    again.into_iter().for_each(|answer| drop(answer.succeeded()));
    let view = View::of(&disk.store()).sound();
    assert_eq!((view.held.len(), view.handles), (given, given));
    for n in 0..given {
        network.del(&format!("c{n}")).succeeded();
    }
    assert_eq!(View::of(&disk.store()).sound().held.len(), 0);
}

/// Where there is no room for a store, none is made, not even in part; with room it is.
fn is_not_begun(disk: &Disk, fill: impl FnOnce(&Disk) -> Ballast) {
    let network = network(&disk.store());
    let ballast = fill(disk);
    for _ in 0..2 {
        let refusal = network.add("c").refused();
        assert_eq!(refusal.code, 100, "{refusal:?}");
        refusal.says(&[&disk.path().display().to_string(), "hint:"]);
        network.del("c").succeeded();
    }
    ballast.remove();
    let given = network.add("c").addresses();
    assert_eq!(View::of(&disk.store()).sound().of_container("c"), given);
}

fn on(kind: Kind, test: impl FnOnce(&Disk)) {
    let lab = Lab::in_memory();
    match Disk::mount(kind, lab.path()) {
        Ok(disk) => test(&disk),
        Err(reason) => skip(&reason),
    }
}

#[test]
fn an_ext4_without_a_free_byte() {
    on(Kind::Ext4(8), |disk| is_refused_in_time(disk, Disk::fill));
}

#[test]
fn an_ext4_without_a_free_inode() {
    on(Kind::Ext4(8), |disk| is_refused_in_time(disk, Disk::use_up_inodes));
}

#[test]
fn a_tmpfs_without_a_free_inode() {
    on(Kind::Tmpfs("size=4m,nr_inodes=400"), |disk| is_refused_in_time(disk, Disk::use_up_inodes));
}

#[test]
fn no_store_is_begun_on_a_full_ext4() {
    on(Kind::Ext4(8), |disk| is_not_begun(disk, Disk::fill));
    on(Kind::Ext4(8), |disk| is_not_begun(disk, Disk::use_up_inodes));
}

#[test]
fn no_store_is_begun_on_a_full_tmpfs() {
    on(Kind::Tmpfs("size=256k"), |disk| is_not_begun(disk, Disk::fill));
    on(Kind::Tmpfs("size=4m,nr_inodes=64"), |disk| is_not_begun(disk, Disk::use_up_inodes));
}
