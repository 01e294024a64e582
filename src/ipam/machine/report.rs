//! Which machines have addresses, who owns them, and since when nobody does.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{held_by_machine, owners_in, parse_machine_handle};
use crate::api::HandleId;
use crate::api::calico::IpamBlock;
use crate::clock::Timestamp;
use crate::datastore::{Answer, Collection, Datastore, Key, Machine, MachineAttachment, Want};
use crate::ipam::owners::OwnerNotes;
use crate::ipam::{Block, Error, Ipam};

/// A machine on a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineReport {
    /// The network, as far as the handle or the record tells.
    pub network: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name; of a handle that only has a hash of it, and no record, that handle.
    pub name: String,
    /// Its addresses, ascending.
    pub addresses: Vec<IpAddr>,
    /// The pod that it runs in.
    pub active: OwnerNotes,
    /// The pod that it migrates to.
    pub alternate: OwnerNotes,
    /// The attachments on record.
    pub attachments: Vec<MachineAttachment>,
    /// Since when it has no pod.
    pub ownerless_since: Option<Timestamp>,
}

impl<D: Datastore> Ipam<D> {
    /// Every machine with an address or a record, by handle.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn machines(&mut self) -> Result<BTreeMap<HandleId, MachineReport>, Error> {
        let wants = [Want::All(Collection::Machines), Want::AllBlocks];
        let mut answers = self.store.read(&wants).await?.into_iter().map(Answer::objects);
        let (records, blocks) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
        let mut machines: BTreeMap<HandleId, MachineReport> = BTreeMap::new();
        for entry in records {
            let Key::Machine(handle) = entry.key.clone() else { continue };
            let record = entry.into::<Machine>();
            let report = MachineReport {
                network: record.network,
                namespace: record.namespace,
                name: record.name,
                attachments: record.attachments,
                ownerless_since: record.ownerless_since,
                ..MachineReport::default()
            };
            machines.insert(handle, report);
        }
        for entry in blocks {
            let wire: IpamBlock = entry.into();
            // A damaged block is named by `check`.
            let Ok(block) = Block::from_wire(wire) else { continue };
            take_in(&block, &mut machines);
        }
        Ok(machines)
    }
}

fn take_in(block: &Block, machines: &mut BTreeMap<HandleId, MachineReport>) {
    let handles: std::collections::BTreeSet<HandleId> = block
        .allocations()
        .filter_map(|allocation| HandleId::new(allocation.fields.handle_id?.into_owned()).ok())
        .filter(|handle| held_by_machine(block, handle).next().is_some())
        .collect();
    for handle in handles {
        let report = machines.entry(handle.clone()).or_insert_with(|| {
            let (network, namespace, name) =
                parse_machine_handle(handle.as_str()).unwrap_or(("", "", handle.as_str()));
            MachineReport {
                network: network.into(),
                namespace: namespace.into(),
                name: name.into(),
                ..MachineReport::default()
            }
        });
        for (ordinal, (active, alternate)) in owners_in(block, &handle) {
            report.addresses.push(block.address_of(ordinal));
            if report.active.is_empty() {
                report.active = active;
            }
            if report.alternate.is_empty() {
                report.alternate = alternate;
            }
        }
        report.addresses.sort_unstable();
    }
}
