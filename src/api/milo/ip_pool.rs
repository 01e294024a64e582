use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Condition, LocalRef, Strategy, Visibility};
use crate::api::{Resource, Spec};
use crate::net::{Cidr, Family};

/// A range that CIDRs are carved out of: the other face of [`calico::IpPool`](crate::api::calico::IpPool).
pub type IpPool = Resource<IpPoolSpec>;

/// The specification of an [`IpPool`]. A root pool has a CIDR and its family, a child pool a parent and a length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// The range of a root pool. A manifest may have host bits in it; they are masked away here. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "masked")]
    pub cidr: Option<Cidr>,
    /// The family of a root pool. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_family: Option<Family>,
    /// The pool that a child pool is carved out of. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_pool_ref: Option<LocalRef>,
    /// The prefix length of a child pool. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_length: Option<u8>,
    /// How CIDRs are carved out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationRules>,
    /// Who may use it besides its owner. Absent: nobody, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn masked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cidr>, D::Error> {
    let text = Option::<std::borrow::Cow<str>>::deserialize(deserializer)?;
    text.map(|text| Cidr::parse_masking(&text)).transpose().map_err(serde::de::Error::custom)
}

impl Spec for IpPoolSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPPool";
    const PLURAL: &'static str = "ippools";
}

/// How CIDRs are carved out of a pool. The lengths bind allocations, claims and child pools, never the blocks of hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocationRules {
    /// Which free network is taken. Absent: the lowest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The least prefix length, thus the largest CIDR. Absent or 0: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_prefix_length: Option<u8>,
    /// The greatest prefix length, thus the smallest CIDR. Absent or 0: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_prefix_length: Option<u8>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A prefix length that a pool does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/{asked} is not carved out of it: its `spec.allocation` allows {}", allowed(*.least, *.most))]
pub struct OutOfBounds {
    /// What was asked for.
    pub asked: u8,
    /// The least length that it gives, if one is set.
    pub least: Option<u8>,
    /// The greatest.
    pub most: Option<u8>,
}

fn allowed(least: Option<u8>, most: Option<u8>) -> String {
    match (least, most) {
        (Some(least), Some(most)) if least == most => format!("/{least} alone"),
        (Some(least), Some(most)) => format!("/{least} to /{most}"),
        (Some(least), None) => format!("/{least} and longer"),
        (None, Some(most)) => format!("/{most} and shorter"),
        (None, None) => "any length".to_owned(),
    }
}

impl AllocationRules {
    /// The same with the strategy written out, as it is stored and shown.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        self.strategy.get_or_insert_default();
        self
    }

    /// The least length, where one is set.
    #[must_use]
    pub fn least(&self) -> Option<u8> {
        self.min_prefix_length.filter(|&length| length != 0)
    }

    /// The greatest length, where one is set.
    #[must_use]
    pub fn most(&self) -> Option<u8> {
        self.max_prefix_length.filter(|&length| length != 0)
    }

    /// The one length that it gives, if there is but one.
    #[must_use]
    pub fn only(&self) -> Option<u8> {
        self.least().filter(|_| self.least() == self.most())
    }

    /// Whether CIDRs of a length are carved out of the pool.
    ///
    /// # Errors
    /// When they are not.
    pub fn check(&self, asked: u8) -> Result<(), OutOfBounds> {
        let (least, most) = (self.least(), self.most());
        let is_allowed = least.is_none_or(|least| asked >= least) && most.is_none_or(|most| asked <= most);
        if is_allowed { Ok(()) } else { Err(OutOfBounds { asked, least, most }) }
    }
}

/// What the engine reports of an [`IpPool`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolStatus {
    /// Where it stands.
    pub phase: PoolPhase,
    /// Its range: of a root pool its own, of a child pool what was carved out of the parent.
    #[serde(rename = "allocatedCIDR")]
    pub allocated_cidr: Cidr,
    /// Its family.
    pub ip_family: Family,
    /// Addresses, as numbers of 64 bits: larger ones stop at 9223372036854775807, and `available` is the difference of
    /// what is left of the others. Kept for clients of that API.
    pub capacity: PoolCapacity,
    /// The same without limits, as decimal texts.
    pub exact_capacity: ExactCapacity,
    /// What is left for the blocks of hosts.
    pub slots: PoolSlots,
    /// The part that is carved out, in percent, rounded down.
    pub utilization_percent: u8,
    /// The prefix length of the largest free network; 0: none is free.
    pub largest_free_prefix: u8,
    /// What is so of it.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Where a pool stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolPhase {
    /// Not made yet.
    Pending,
    /// Made. A full or disabled pool is ready too; numbers and conditions tell.
    Ready,
    /// As `Pending`, nothing here ever says so.
    Exhausted,
    /// As `Pending`, nothing here ever says so.
    Error,
}

/// Numbers of addresses that stop at the largest of 64 bits with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolCapacity {
    /// All.
    pub total: i64,
    /// Carved out.
    pub allocated: i64,
    /// The rest.
    pub available: i64,
}

/// Numbers of addresses as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactCapacity {
    /// All.
    pub total: String,
    /// Carved out.
    pub allocated: String,
    /// The rest.
    pub available: String,
}

/// The slots of a pool's grid of blocks: how many, as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSlots {
    /// The prefix length of a block.
    pub prefix_length: u8,
    /// All; `0`: the pool is narrower than a block.
    pub total: String,
    /// Those that a host may take.
    pub free: String,
    /// Those that cannot be taken since something smaller was carved out of them.
    pub broken: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn host_bits_of_a_manifest_are_masked_away() {
        let spec: IpPoolSpec =
            serde_json::from_value(json!({ "cidr": "10.1.2.3/16", "ipFamily": "IPv4" })).expect("a pool");
        assert_eq!(
            serde_json::to_value(&spec).expect("JSON"),
            json!({ "cidr": "10.1.0.0/16", "ipFamily": "IPv4" })
        );
    }

    #[test]
    fn the_bounds_of_a_pool_are_inclusive_and_zero_is_none() {
        let rules = |min, max| AllocationRules {
            min_prefix_length: min,
            max_prefix_length: max,
            ..AllocationRules::default()
        };
        let allows = |min, max, asked| rules(min, max).check(asked).is_ok();
        assert!(allows(Some(24), Some(28), 24) && allows(Some(24), Some(28), 28));
        assert!(!allows(Some(24), Some(28), 23) && !allows(Some(24), Some(28), 29));
        assert!(allows(Some(0), Some(0), 1) && allows(None, Some(28), 1) && allows(Some(24), None, 32));
        assert_eq!((rules(Some(28), Some(28)).only(), rules(Some(0), Some(0)).only()), (Some(28), None));
        assert_eq!(
            rules(Some(24), Some(28)).check(29).expect_err("too small").to_string(),
            "/29 is not carved out of it: its `spec.allocation` allows /24 to /28"
        );
    }
}
