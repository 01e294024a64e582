use super::{Field, Naming, Schema, Type};
use crate::api::calico::API_VERSION;
use crate::api::validate::{IP_COOLDOWN_SECONDS_MAX, MAX_BLOCKS_PER_HOST_MAX};

const fn field(name: &'static str, of: Type, default: &'static str, doc: &'static str) -> Field {
    Field { name, of, required: false, default, doc }
}

const TUNNEL_MODE: Type = Type::Words(&["Never", "Always", "CrossSubnet"]);

/// Global options.
pub static IPAM_CONFIGURATION: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPAMConfiguration",
    doc: "Global options of address management. There is one, named `default`; without it every option has its default.",
    naming: Naming::Singleton("default"),
    namespace: None,
    status: &[],
    spec: &[
        field(
            "strictAffinity",
            Type::Bool,
            "false",
            "True: a host takes addresses from its own blocks only; borrowing from another host's block is forbidden.",
        ),
        field(
            "maxBlocksPerHost",
            Type::Whole { least: 0, most: MAX_BLOCKS_PER_HOST_MAX },
            "20",
            "The most blocks of one family that may be affine to one host. 0 means the default.",
        ),
        field(
            "kubeVirtVMAddressPersistence",
            Type::Words(&["Enabled", "Disabled"]),
            "Disabled",
            "Whether KubeVirt virtual machines keep their addresses over restart and live migration. Needs KubeVirt.",
        ),
        field(
            "autoAllocateBlocks",
            Type::Bool,
            "true",
            "False: a host uses the blocks that it has and claims no further one; needs strictAffinity.",
        ),
        field(
            "ipCooldownSeconds",
            Type::Whole { least: 0, most: IP_COOLDOWN_SECONDS_MAX },
            "0",
            "The least time between the release and the reuse of an address, in seconds.",
        ),
    ],
};

/// A pool.
pub static IP_POOL: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPPool",
    doc: "A range that addresses come from, cut into blocks that are affine to hosts. Pools do not overlap.",
    naming: Naming::DnsSubdomain,
    namespace: None,
    status: &[],
    spec: &[
        Field {
            name: "cidr",
            of: Type::Cidr,
            required: true,
            default: "",
            doc: "The pool's range. It cannot be changed, and must not overlap another pool's or a link-local range.",
        },
        field(
            "blockSize",
            Type::Whole { least: 0, most: 128 },
            "26 for IPv4, 122 for IPv6",
            "The prefix length of a block: 20 to 32 for IPv4, 116 to 128 for IPv6. It cannot be changed.",
        ),
        field("disabled", Type::Bool, "false", "True: nothing new is assigned from it. Releasing works."),
        field(
            "nodeSelector",
            Type::Selector,
            "all()",
            "Which nodes may use it, by the labels of their Node.",
        ),
        field("namespaceSelector", Type::Selector, "any", "Which namespaces may use it, by their labels."),
        field(
            "allowedUses",
            Type::List { of: &Type::Words(&["Workload", "Tunnel", "LoadBalancer"]), most: 10, unique: true },
            "Workload, Tunnel",
            "What its addresses may serve. LoadBalancer stands alone.",
        ),
        field(
            "assignmentMode",
            Type::Words(&["Automatic", "Manual"]),
            "Automatic",
            "Manual: it is used only when it is asked for by name or CIDR.",
        ),
        field(
            "ipipMode",
            TUNNEL_MODE,
            "Never",
            "IP in IP encapsulation between nodes. Not together with VXLAN.",
        ),
        field(
            "vxlanMode",
            TUNNEL_MODE,
            "Never",
            "VXLAN encapsulation between nodes. Not together with IP in IP.",
        ),
        field("natOutgoing", Type::Bool, "false", "Whether traffic that leaves the pools is masqueraded."),
        field("disableBGPExport", Type::Bool, "false", "Whether its routes are kept out of BGP."),
    ],
};

/// A reservation.
pub static IP_RESERVATION: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPReservation",
    doc: "Addresses that are never handed out automatically. They can still be asked for, and allocations that exist stay.",
    naming: Naming::DnsSubdomain,
    namespace: None,
    status: &[],
    spec: &[field(
        "reservedCIDRs",
        Type::List { of: &Type::CidrOrAddress, most: usize::MAX, unique: true },
        "none",
        "The addresses. A single address is stored as a /32 or /128.",
    )],
};

/// A node.
pub static NODE: Schema = Schema {
    api_version: API_VERSION,
    kind: "Node",
    doc: "A host. Its labels decide which pools serve it; a host without a Node has no labels.",
    naming: Naming::Host,
    namespace: None,
    status: &[],
    spec: &[Field {
        name: "*",
        of: Type::Any,
        required: false,
        default: "",
        doc: "Whatever other programs keep there; allocation reads nothing of it.",
    }],
};

/// What every resource says of itself.
pub static METADATA: [Field; 14] = [
    Field {
        name: "name",
        of: Type::Text,
        required: true,
        default: "",
        doc: "Unique among the resources of its kind. It cannot be changed.",
    },
    field("labels", Type::Texts, "none", "What selectors match against."),
    field("annotations", Type::Texts, "none", "Notes of people and programs."),
    field(
        "resourceVersion",
        Type::Text,
        "any",
        "The state that this was read as: `replace` refuses when it has changed since.",
    ),
    field("creationTimestamp", Type::Time, "", "When it was made. Read-only."),
    field("deletionTimestamp", Type::Time, "", "When its deletion was asked for. Read-only."),
    field("deletionGracePeriodSeconds", Type::Any, "", "Kept for other programs."),
    field("uid", Type::Text, "", "Tells it from an earlier one of the same name. Read-only."),
    field("generation", Type::Any, "", "Kept for other programs."),
    field("finalizers", Type::Any, "", "Kept for other programs."),
    field("managedFields", Type::Any, "", "Kept for other programs."),
    field("ownerReferences", Type::Any, "", "Kept for other programs."),
    field("selfLink", Type::Any, "", "Kept for other programs."),
    field(
        "namespace",
        Type::Any,
        "",
        "For IPAllocation and IPClaim alone, which are in `default`; may be left out.",
    ),
];
