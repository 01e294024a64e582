//! The oracle: compares the content of the store with the model.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::model::{Model, NOBODY, Record};

/// Handle of the virtual machine, which the attachments of some containers share.
pub(super) const VM_HANDLE: &str = "pods.vmi.prod.db";
/// Addresses that the pool can give: a /26 without network, gateway and broadcast.
pub(super) const CAPACITY: usize = 61;

/// Owner of an address, as the store notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    network: String,
    id: String,
    node: String,
    is_vm: bool,
}

/// Content of a store.
pub(super) type View = BTreeMap<IpAddr, Holder>;

/// Whether dead allocations may have been reclaimed since the last comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    MayBeGone,
    /// The last call must not free anything, dead or alive, that the model has not given up.
    Stay,
}

/// Reads the list of blocks that `get ipamblocks -o json` prints.
pub(super) fn view(printed: &str) -> View {
    let list: Value = serde_json::from_str(printed).unwrap_or_default();
    let blocks = list["items"].as_array().cloned().unwrap_or_default();
    blocks.iter().flat_map(|block| holders(&block["spec"])).collect()
}

fn holders(block: &Value) -> Vec<(IpAddr, Holder)> {
    let base = block["cidr"].as_str().and_then(|cidr| cidr.split('/').next()?.parse::<Ipv4Addr>().ok());
    let base = u32::from(base.expect("a block of the pool"));
    let allocations = block["allocations"].as_array().cloned().unwrap_or_default();
    let allocation = |(ordinal, index): (u32, Value)| {
        let attribute = &block["attributes"][usize::try_from(index.as_u64()?).ok()?];
        let owner = &attribute["secondary"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (network, handle) = (text(&owner["network"]), text(&attribute["handle_id"]));
        let id = handle.strip_prefix(&format!("{network}.")).unwrap_or(&handle).to_owned();
        // A virtual machine without a pod keeps its handle alone.
        let is_vm = owner["vmi-name"].is_string() || network.is_empty() && id == VM_HANDLE;
        let holder = Holder { network, id, node: text(&owner["node"]), is_vm };
        Some((IpAddr::from(Ipv4Addr::from(base + ordinal)), holder))
    };
    (0..).zip(allocations).filter_map(allocation).collect()
}

impl Model {
    /// Compares, and forgets what is dead and gone.
    ///
    /// # Errors
    /// The first difference that no right plugin can cause.
    pub(super) fn compare(&mut self, view: &View, dead: Dead) -> Result<(), String> {
        for record in &self.records {
            let holder = view.get(&record.address);
            if holder.is_some_and(|holder| is_holder(record, holder)) {
                continue;
            }
            if self.is_alive(record) {
                return Err(format!(
                    "a living container's address was freed, or is another's ({holder:?}): {record:?}"
                ));
            }
            if dead == Dead::Stay && record.serial != NOBODY || holder.is_some() {
                return Err(format!("the call freed what it must leave ({holder:?}): {record:?}"));
            }
        }
        let is_known = |address: &IpAddr| self.records.iter().any(|record| record.address == *address);
        for (address, holder) in view {
            if holder.is_vm != (self.vm == Some(*address)) || !holder.is_vm && !is_known(address) {
                let freed = self.freed.get(address);
                return Err(format!("{address} must be free, and is not: {holder:?}; it was {freed:?}"));
            }
        }
        if let Some(address) = self.vm.filter(|address| !view.contains_key(address)) {
            return Err(format!("{address} of the virtual machine was freed"));
        }
        self.records.retain(|record| view.contains_key(&record.address));
        Ok(())
    }

    /// Checks that an ADD was refused for lack of addresses.
    ///
    /// # Errors
    /// When some must be free.
    pub(super) fn is_exhausted(&self) -> Result<(), String> {
        let held = self.records.len() + usize::from(self.vm.is_some());
        if held >= CAPACITY {
            return Ok(());
        }
        Err(format!("an ADD was refused while at most {held} of {CAPACITY} addresses are held"))
    }
}

fn is_holder(record: &Record, holder: &Holder) -> bool {
    !holder.is_vm
        && holder.network == record.network
        && holder.id == record.id
        && holder.node == record.site.node
}
