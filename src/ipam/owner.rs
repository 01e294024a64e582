//! Who has an address: an attachment in the words of the attributes that a block keeps.

use std::collections::{BTreeMap, BTreeSet};

use super::Host;
use super::provenance::{self, Netns};
use crate::api::calico::{Attribute, AttributeFields};
use crate::api::{HandleId, HostName, InvalidName};
use crate::clock::Timestamp;

/// The handle of addresses that a host's own interfaces have. They never leave their block, and do not keep it.
pub const HOST_ADDRESS_HANDLE: &str = "host-affine-host-address";
/// The handle under which Calico keeps back the addresses that Windows hosts need.
const WINDOWS_RESERVED_HANDLE: &str = "windows-reserved-ipam-handle";

/// Keys of the attributes. The first four are Calico's; Calico ignores the others.
pub mod key {
    /// The host that uses the address.
    pub const NODE: &str = "node";
    /// The pod's name.
    pub const POD: &str = "pod";
    /// The pod's namespace.
    pub const NAMESPACE: &str = "namespace";
    /// When it was assigned, as Go prints times.
    pub const TIMESTAMP: &str = "timestamp";
    /// The network's name.
    pub const NETWORK: &str = "network";
    /// The interface's name in the container.
    pub const IFNAME: &str = "ifname";
    /// The path of the network namespace.
    pub const NETNS: &str = "netns";
    /// The boot of the host that the attachment belongs to.
    pub const BOOT: &str = "boot";
    /// The beginning of that boot, in seconds since 1970.
    pub const BOOTED: &str = "booted";
    /// The network namespace in which the plugin ran: the host's, in CNI's sense.
    pub const HOST_NETNS: &str = "host-netns";
    /// The container's network namespace, by device and inode.
    pub const NETNS_ID: &str = "netns-id";
    /// The directory that holds the path of the network namespace, by device, inode and time of birth.
    pub const NETNS_DIR: &str = "netns-dir";
    /// The process of a path `/proc/PID/…`, by start time and PID namespace.
    pub const NETNS_PROCESS: &str = "netns-process";
    /// The virtual machine that has the address.
    pub const VMI_NAME: &str = "vmi-name";
    /// The instance of a virtual machine, by its UID.
    pub const VMI_UID: &str = "vmi-uid";
    /// The virtual machine that owns the instance, by its UID.
    pub const VM_UID: &str = "vm-uid";
    /// The migration that a pod is the target of, by its UID. Stays when the migration is over.
    pub const MIGRATION_UID: &str = "vmim-uid";
    /// What the address serves, when it is no pod or container.
    pub const TYPE: &str = "type";
}

/// A container's interface on a network: what CNI frees by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The network's name.
    pub network: String,
    /// The container.
    pub container_id: String,
    /// The interface's name in the container.
    pub ifname: String,
}

impl Attachment {
    /// Calico's handle of an attachment, `<network>.<container ID>`. It does not name the interface, and both parts
    /// may hold dots: [`Attachment::owns`] tells whether an address under it is really this attachment's.
    ///
    /// # Errors
    /// When a part holds what no key may.
    pub fn handle(&self) -> Result<HandleId, InvalidName> {
        HandleId::new(format!("{}.{}", self.network, self.container_id))
    }

    /// Is an address under this attachment's handle its own, on whichever host? Network and interface must agree where
    /// they are noted; Calico notes neither. A virtual machine's address is nobody else's, although a container may be
    /// called like its handle.
    #[must_use]
    pub fn owns(&self, attribute: &AttributeFields<'_>) -> bool {
        let agrees = |key: &str, value: &str| noted(attribute, key).is_none_or(|noted| noted == value);
        agrees(key::NETWORK, &self.network)
            && agrees(key::IFNAME, &self.ifname)
            && !is_virtual_machine(attribute)
    }
}

/// What is written down about an attachment beside its handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The attachment.
    pub attachment: Attachment,
    /// The host.
    pub host: Host,
    /// The network namespace of the container, where there is one.
    pub netns: Option<Netns>,
    /// The pod's namespace and name, where the runtime told both.
    pub pod: Option<(String, String)>,
}

impl Owner {
    /// The attribute of an address assigned now.
    #[must_use]
    pub fn attribute(&self, handle: &HandleId, now: Timestamp) -> Attribute {
        self.attribute_since(handle, &now.to_go_string())
    }

    /// The attribute of an address that this owner has had since the time that `old` notes.
    #[must_use]
    pub fn renewed(&self, handle: &HandleId, old: &AttributeFields<'_>, now: Timestamp) -> Attribute {
        let since = noted(old, key::TIMESTAMP).map_or_else(|| now.to_go_string(), str::to_owned);
        self.attribute_since(handle, &since)
    }

    /// The notes about the place and time of the ADD.
    #[must_use]
    pub(super) fn provenance(&self) -> BTreeMap<String, String> {
        let mut notes = BTreeMap::new();
        provenance::note(&mut notes, &self.host, self.netns.as_ref());
        notes
    }

    /// Does an attribute note the present boot and network namespaces? The beginning of a boot is left out, since the
    /// clock that it is reckoned from may be set.
    #[must_use]
    pub(super) fn is_noted_in(&self, attribute: &AttributeFields<'_>) -> bool {
        let present = self.provenance();
        let compared = provenance::KEYS.iter().filter(|key| **key != key::BOOTED);
        compared.into_iter().all(|key| noted(attribute, key) == present.get(*key).map(String::as_str))
    }

    fn attribute_since(&self, handle: &HandleId, timestamp: &str) -> Attribute {
        let mut owner = BTreeMap::new();
        let mut note = |key: &str, value: &str| owner.insert(key.to_owned(), value.to_owned());
        note(key::NETWORK, &self.attachment.network);
        note(key::IFNAME, &self.attachment.ifname);
        note(key::NODE, self.host.name.as_str());
        note(key::TIMESTAMP, timestamp);
        if let Some((namespace, name)) = &self.pod {
            note(key::NAMESPACE, namespace);
            note(key::POD, name);
        }
        provenance::note(&mut owner, &self.host, self.netns.as_ref());
        Attribute::new(&AttributeFields {
            handle_id: Some(handle.as_str().into()),
            active_owner: Some(owner),
            ..AttributeFields::default()
        })
    }
}

/// The attribute of an address of a handle that nobody uses.
#[must_use]
pub(super) fn of_handle(handle: &HandleId) -> Attribute {
    Attribute::new(&AttributeFields { handle_id: Some(handle.as_str().into()), ..AttributeFields::default() })
}

/// The attribute of an address that an interface of `host` itself has.
#[must_use]
pub(super) fn host_address(host: &HostName) -> Attribute {
    let owner = [(key::NODE, host.as_str()), (key::TYPE, "hostAddress")];
    Attribute::new(&AttributeFields {
        handle_id: Some(HOST_ADDRESS_HANDLE.into()),
        active_owner: Some(owner.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        ..AttributeFields::default()
    })
}

/// Whether an attribute keeps an address back for the host itself: such addresses do not keep a block from being
/// given up. Source: the reference engine's rule for Windows hosts.
#[must_use]
pub(super) fn is_host_reserved(attribute: &AttributeFields<'_>) -> bool {
    attribute.handle_id.as_deref().is_some_and(|handle| {
        handle == HOST_ADDRESS_HANDLE || handle.eq_ignore_ascii_case(WINDOWS_RESERVED_HANDLE)
    })
}

/// A note about the active owner.
#[must_use]
pub fn noted<'a>(attribute: &'a AttributeFields<'_>, key: &str) -> Option<&'a str> {
    attribute.active_owner.as_ref()?.get(key).map(String::as_str)
}

/// A stored handle without what follows a carriage return: an old writer left that there.
#[must_use]
pub(super) fn sanitised(handle: &str) -> &str {
    handle.split_once('\r').map_or(handle, |(handle, _)| handle)
}

/// Does an address belong to a virtual machine, which outlives its pods and its host's boots?
#[must_use]
pub(super) fn is_virtual_machine(attribute: &AttributeFields<'_>) -> bool {
    let AttributeFields { handle_id, active_owner, alternate_owner, .. } = attribute;
    is_of_virtual_machine(handle_id.as_deref(), active_owner.as_ref(), alternate_owner.as_ref())
}

/// As [`is_virtual_machine`]. The owners decide, since a container may be called like a virtual machine's handle; while
/// the machine has no pod nothing is noted but that handle.
#[must_use]
pub(super) fn is_of_virtual_machine(
    handle: Option<&str>,
    active: Option<&BTreeMap<String, String>>,
    alternate: Option<&BTreeMap<String, String>>,
) -> bool {
    match [active, alternate].into_iter().flatten().find(|owner| !owner.is_empty()) {
        Some(owner) => owner.contains_key(key::VMI_NAME),
        None => handle.is_some_and(|handle| handle.contains(".vmi.")),
    }
}

/// The attachments that a runtime declares valid; see CNI 1.1.0, *GC*.
pub type ValidAttachments = BTreeSet<(String, String)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(network: &str, container_id: &str, ifname: &str) -> Attachment {
        Attachment { network: network.into(), container_id: container_id.into(), ifname: ifname.into() }
    }

    fn owner(attachment: Attachment) -> Owner {
        let name = HostName::new("node-1").expect("name");
        let host = Host { boot: Some("b1".into()), ..Host::named(name) };
        Owner { attachment, host, netns: None, pod: None }
    }

    #[test]
    fn container_b_c_on_network_a_is_not_container_c_on_network_a_b() {
        let one = attachment("a", "b.c", "eth0");
        let other = attachment("a.b", "c", "eth0");
        assert_eq!(one.handle(), other.handle());
        let attribute = owner(one.clone()).attribute(&one.handle().expect("handle"), Timestamp::default());
        assert!(one.owns(&attribute.fields()));
        assert!(!other.owns(&attribute.fields()));
        assert!(!attachment("a", "b.c", "eth1").owns(&attribute.fields()));
    }

    #[test]
    fn what_calico_assigned_belongs_to_the_handle_alone() {
        let attribute =
            Attribute::from_json(r#"{"handle_id":"a.b","secondary":{"node":"n"}}"#).expect("json");
        assert!(attachment("a", "b", "eth7").owns(&attribute.fields()));
    }
}
