//! The kinds of `ipam.miloapis.com/v1alpha1`.

use super::{Field, Naming, Schema, Type};
use crate::api::milo::{API_VERSION, NAMESPACE};

const fn optional(name: &'static str, of: Type, default: &'static str, doc: &'static str) -> Field {
    Field { name, of, required: false, default, doc }
}

const fn required(name: &'static str, of: Type, doc: &'static str) -> Field {
    Field { name, of, required: true, default: "", doc }
}

const FAMILY: Type = Type::Words(&["IPv4", "IPv6"]);
/// 0 is refused, whatever the family.
const LENGTH: Type = Type::Whole { least: 1, most: 128 };
const BOUND: Type = Type::Whole { least: 0, most: 128 };
const COUNT: Type = Type::Whole { least: 0, most: u32::MAX };

const LOCAL_REF: &[Field] = &[required("name", Type::Text, "Its name, in the same project.")];
const PROJECT_REF: Field = optional(
    "projectRef",
    Type::Named("LocalRef", &[required("name", Type::Text, "The project's name.")]),
    "the caller's project, then pools of none",
    "The project that the pool belongs to. It serves others when its visibility is `shared`.",
);

/// Something carved.
pub static IP_ALLOCATION: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPAllocation",
    doc: "One CIDR carved out of an IPPool. Applying it carves at once. Its size: the annotation \
          `ipam.miloapis.com/prefix-length`, or `ipam.miloapis.com/requested-cidr` for one range; else the one length \
          that the pool gives; else the pool's block size. The blocks of hosts appear as allocations too, and cannot \
          be edited.",
    naming: Naming::DnsSubdomain,
    namespace: Some(NAMESPACE),
    spec: &[
        required("ipFamily", FAMILY, "The family of its addresses: the pool's. It cannot be changed."),
        required(
            "poolRef",
            Type::Named("LocalRef", LOCAL_REF),
            "The IPPool that the CIDR is carved out of. It cannot be changed.",
        ),
    ],
    status: &[
        optional("allocatedCIDR", Type::Cidr, "", "The CIDR that was carved. Read-only."),
        optional(
            "claimRef",
            Type::Named("LocalRef", LOCAL_REF),
            "",
            "The IPClaim that holds it. Absent: none does. Read-only.",
        ),
        CONDITIONS,
        optional(
            "phase",
            Type::Words(&["Pending", "Ready", "Exhausted", "Error"]),
            "",
            "Where it stands. Read-only.",
        ),
    ],
};

/// A request.
pub static IP_CLAIM: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPClaim",
    doc: "A request for a CIDR of some length, out of a pool that it names or selects. It is bound, and an IPAllocation \
          made, in the step that makes it, or it is refused. The annotation `ipam.miloapis.com/requested-cidr` asks for \
          one range.",
    naming: Naming::DnsSubdomain,
    namespace: Some(NAMESPACE),
    spec: &[
        required("ipFamily", FAMILY, "The family of its addresses: the pool's. It cannot be changed."),
        required(
            "prefixLength",
            LENGTH,
            "The prefix length of the CIDR: 1 to 32 for IPv4, 1 to 128 for IPv6. It cannot be changed.",
        ),
        optional(
            "poolRef",
            Type::Named("NamespacedRef", &[required("name", Type::Text, "The pool's name."), PROJECT_REF]),
            "",
            "The pool. Either this or poolSelector. It cannot be changed.",
        ),
        optional(
            "poolSelector",
            Type::Named("PoolSelector", POOL_SELECTOR),
            "",
            "Which pool, by its labels: the first that matches, by name. It cannot be changed.",
        ),
        optional(
            "reclaimPolicy",
            Type::Words(&["Delete", "Retain"]),
            "Delete",
            "What becomes of the allocation when the claim is deleted. Retain: it stays, and its addresses stay taken.",
        ),
        optional(
            "ownerRef",
            Type::Named("ObjectRef", OBJECT_REF),
            "",
            "Whom it is for. Kept, and not looked at.",
        ),
    ],
    status: &[
        optional("allocatedCIDR", Type::Cidr, "", "The CIDR that was carved. Read-only."),
        optional(
            "boundAllocationRef",
            Type::Named("LocalRef", LOCAL_REF),
            "",
            "The IPAllocation that records it. Read-only.",
        ),
        CONDITIONS,
        optional(
            "phase",
            Type::Words(&["Pending", "Bound", "Releasing", "Error"]),
            "",
            "Where it stands. Read-only.",
        ),
    ],
};

/// A pool.
pub static IP_POOL: Schema = Schema {
    api_version: API_VERSION,
    kind: "IPPool",
    doc: "A range that CIDRs are carved out of: the same pool as the IPPool of projectcalico.org/v3 of that name. A root \
          pool has cidr and ipFamily, a child pool parentPoolRef and prefixLength.",
    naming: Naming::DnsSubdomain,
    namespace: None,
    spec: &[
        optional(
            "cidr",
            Type::CidrMasked,
            "",
            "The range of a root pool. It cannot be changed, and must not overlap another's.",
        ),
        optional("ipFamily", FAMILY, "", "The family of a root pool: its cidr's. It cannot be changed."),
        optional(
            "parentPoolRef",
            Type::Named("LocalRef", LOCAL_REF),
            "",
            "The pool that a child pool is carved out of. It cannot be changed.",
        ),
        optional("prefixLength", LENGTH, "", "The prefix length of a child pool. It cannot be changed."),
        optional(
            "allocation",
            Type::Named("PoolAllocation", ALLOCATION),
            "",
            "How CIDRs are carved out of it. The blocks of hosts are not bound by it.",
        ),
        optional(
            "visibility",
            Type::Words(&["platform", "consumer", "shared"]),
            "its own project",
            "Who may use it besides the project that it belongs to; a pool of no project serves all.",
        ),
    ],
    status: POOL_STATUS,
};

const ALLOCATION: &[Field] = &[
    optional(
        "strategy",
        Type::Words(&["FirstFit", "BestFit", "LeastUtilized"]),
        "FirstFit",
        "Which free network is taken: the lowest; the one in the smallest free range; or, with one range to a pool, \
         again the lowest.",
    ),
    optional(
        "minPrefixLength",
        BOUND,
        "any",
        "The least prefix length, thus the largest CIDR. 0 means the default.",
    ),
    optional(
        "maxPrefixLength",
        BOUND,
        "any",
        "The greatest prefix length, thus the smallest CIDR. 0 means the default.",
    ),
];

const POOL_STATUS: &[Field] = &[
    optional("allocatedCIDR", Type::Cidr, "", "Its range. Read-only."),
    optional(
        "capacity",
        Type::Named(
            "PoolCapacity",
            &[
                optional("allocated", COUNT, "", "Carved out."),
                optional("available", COUNT, "", "What is left of total. Never use it for IPv6."),
                optional("total", COUNT, "", "All."),
            ],
        ),
        "",
        "Numbers of addresses, which stop at 9223372036854775807. Read-only.",
    ),
    CONDITIONS,
    optional(
        "exactCapacity",
        Type::Named(
            "ExactCapacity",
            &[
                optional("allocated", Type::Text, "", "Carved out."),
                optional("available", Type::Text, "", "The rest."),
                optional("total", Type::Text, "", "All."),
            ],
        ),
        "",
        "The same as decimal texts, exact at every size. Read-only.",
    ),
    optional("ipFamily", FAMILY, "", "Its family. Read-only."),
    optional(
        "largestFreePrefix",
        BOUND,
        "",
        "The prefix length of the largest free network; 0: none. Read-only.",
    ),
    optional(
        "phase",
        Type::Words(&["Pending", "Ready", "Exhausted", "Error"]),
        "",
        "Where it stands. Read-only.",
    ),
    optional(
        "slots",
        Type::Named(
            "PoolSlots",
            &[
                optional("broken", Type::Text, "", "Those that something smaller was carved out of."),
                optional("free", Type::Text, "", "Those that a host may take."),
                optional("prefixLength", BOUND, "", "The prefix length of a block."),
                optional("total", Type::Text, "", "All; 0: the pool is narrower than a block."),
            ],
        ),
        "",
        "What is left for the blocks of hosts, as decimal texts. Read-only.",
    ),
    optional(
        "utilizationPercent",
        Type::Whole { least: 0, most: 100 },
        "",
        "The part that is carved out, rounded down. Read-only.",
    ),
];

const POOL_SELECTOR: &[Field] = &[
    optional("matchLabels", Type::Texts, "", "Labels that the pool has, with these values."),
    optional(
        "matchExpressions",
        Type::List {
            of: &Type::Named(
                "LabelSelectorRequirement",
                &[
                    required("key", Type::Text, "The label."),
                    required(
                        "operator",
                        Type::Words(&["In", "NotIn", "Exists", "DoesNotExist"]),
                        "What is asked of it.",
                    ),
                    optional(
                        "values",
                        Type::List { of: &Type::Text, most: usize::MAX, unique: false },
                        "",
                        "For In and NotIn: which values.",
                    ),
                ],
            ),
            most: usize::MAX,
            unique: false,
        },
        "",
        "Conditions on labels, all of which must hold.",
    ),
    PROJECT_REF,
];

const OBJECT_REF: &[Field] = &[
    required("apiGroup", Type::Text, "The group of its kind."),
    required("kind", Type::Text, "Its kind."),
    required("name", Type::Text, "Its name."),
    optional("namespace", Type::Text, "", "Its namespace, if it is in one."),
];

const CONDITIONS: Field = optional(
    "conditions",
    Type::List { of: &Type::Named("Condition", CONDITION), most: usize::MAX, unique: false },
    "",
    "What is so of it. Read-only.",
);

const CONDITION: &[Field] = &[
    optional("lastTransitionTime", Type::Time, "", "Since when."),
    optional("message", Type::Text, "", "Why, for people."),
    optional("reason", Type::Text, "", "Why, in one word for programs."),
    required("status", Type::Words(&["True", "False", "Unknown"]), "Whether it is so."),
    required("type", Type::Text, "What it is about, such as Ready."),
];
