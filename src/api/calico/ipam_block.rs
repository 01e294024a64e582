use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::api::Affinity;
use crate::clock::Timestamp;
use crate::net::Cidr;

/// An aligned slice of a pool, and who has which of its addresses. The unit of compare-and-swap.
///
/// Field names are those of Calico's etcd store. Invariants of a well-formed block: [`IpamBlock::problem`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpamBlock {
    /// Its range.
    pub cidr: Cidr,
    /// Whom it is kept for; `None`: nobody, it goes with its last address.
    pub affinity: Option<Affinity>,
    /// When the affinity was claimed. Absent: long ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_claim_time: Option<Timestamp>,
    /// Per ordinal: `None` when free, else the index of its attribute.
    pub allocations: Vec<Option<u16>>,
    /// The free ordinals, first in first out: taken from the front, put back at the end.
    pub unallocated: Vec<u16>,
    /// What allocated ordinals point to; equal ones are shared.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub attributes: Vec<Attribute>,
    /// Counts the writes of this block. Starts at the clock's nanoseconds, so that a block made anew never repeats one.
    #[serde(rename = "sequenceNumber", default)]
    pub sequence_number: u64,
    /// Per allocated ordinal, the block's number before the write that assigned it. Absent: 0.
    #[serde(rename = "sequenceNumberForAllocation", default, deserialize_with = "null_is_empty")]
    pub sequence_number_for_allocation: BTreeMap<u16, u64>,
    /// The soft deletion of Kubernetes stores. Always false elsewhere.
    #[serde(default)]
    pub deleted: bool,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

impl IpamBlock {
    /// A block with every address free.
    ///
    /// # Panics
    /// When `cidr` has more than 65,536 addresses, which the validation of a pool's block size excludes.
    #[must_use]
    pub fn new(cidr: Cidr, affinity: Option<Affinity>, claimed: Timestamp, sequence_number: u64) -> Self {
        let size = u16::try_from(cidr.size()).expect("a block size is validated to at most 4,096 addresses");
        Self {
            cidr,
            affinity_claim_time: affinity.is_some().then_some(claimed),
            affinity,
            allocations: vec![None; usize::from(size)],
            unallocated: (0..size).collect(),
            attributes: Vec::new(),
            sequence_number,
            sequence_number_for_allocation: BTreeMap::new(),
            deleted: false,
            extra: Map::new(),
        }
    }

    /// Gives a free ordinal to the owner that `attribute` names, and numbers the block `sequence_number`.
    ///
    /// One of the two changes that a store may record by themselves instead of the whole block.
    /// False, and nothing changed, when the ordinal is not free.
    #[must_use]
    pub fn set(&mut self, ordinal: u16, attribute: &Attribute, sequence_number: u64) -> bool {
        let Some(place) = self.unallocated.iter().position(|&free| free == ordinal) else {
            return false;
        };
        let known = self.attributes.iter().position(|a| a == attribute);
        let Ok(index) = u16::try_from(known.unwrap_or(self.attributes.len())) else {
            return false;
        };
        let Some(slot) = self.allocations.get_mut(usize::from(ordinal)) else {
            return false;
        };
        self.unallocated.remove(place);
        *slot = Some(index);
        if known.is_none() {
            self.attributes.push(attribute.clone());
        }
        self.sequence_number_for_allocation.insert(ordinal, sequence_number.wrapping_sub(1));
        self.sequence_number = sequence_number;
        true
    }

    /// Frees an ordinal, which goes to the end of the queue, and numbers the block `sequence_number`.
    ///
    /// The other change that a store may record by itself. False, and nothing changed, when the ordinal is free already.
    #[must_use]
    pub fn clear(&mut self, ordinal: u16, sequence_number: u64) -> bool {
        let Some(slot) = self.allocations.get_mut(usize::from(ordinal)) else {
            return false;
        };
        if slot.take().is_none() {
            return false;
        }
        self.unallocated.push(ordinal);
        self.sequence_number_for_allocation.remove(&ordinal);
        self.sequence_number = sequence_number;
        self.collect_attributes();
        true
    }

    /// Drops the attributes that nothing points to; the others keep their order.
    pub fn collect_attributes(&mut self) {
        let mut used = vec![false; self.attributes.len()];
        for &index in self.allocations.iter().flatten() {
            if let Some(seen) = used.get_mut(usize::from(index)) {
                *seen = true;
            }
        }
        if used.iter().all(|&seen| seen) {
            return;
        }
        let mut moved = Vec::with_capacity(used.len());
        let mut next = 0u16;
        for &seen in &used {
            moved.push(next);
            next += u16::from(seen);
        }
        for index in self.allocations.iter_mut().flatten() {
            if let Some(&place) = moved.get(usize::from(*index)) {
                *index = place;
            }
        }
        let mut seen = used.iter();
        self.attributes.retain(|_| seen.next().copied().unwrap_or(true));
    }

    /// What makes this no well-formed block; `None` when it is one.
    ///
    /// Every ordinal is either allocated, with an index of an attribute, or stands exactly once in the free queue.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let size = self.cidr.size();
        if u128::try_from(self.allocations.len()).ok() != Some(size) {
            return Some(format!(
                "has {} allocations; {} holds {size} addresses",
                self.allocations.len(),
                self.cidr
            ));
        }
        let mut free = vec![false; self.allocations.len()];
        for &ordinal in &self.unallocated {
            match free.get_mut(usize::from(ordinal)) {
                None => return Some(format!("lists ordinal {ordinal} as free, which it does not have")),
                Some(true) => return Some(format!("lists ordinal {ordinal} as free twice")),
                Some(seen) => *seen = true,
            }
        }
        for (ordinal, (allocation, free)) in self.allocations.iter().zip(&free).enumerate() {
            match (allocation, free) {
                (Some(_), true) => return Some(format!("has ordinal {ordinal} both allocated and free")),
                (None, false) => return Some(format!("has ordinal {ordinal} neither allocated nor free")),
                (Some(index), false) if usize::from(*index) >= self.attributes.len() => {
                    return Some(format!("has no attribute {index}, to which ordinal {ordinal} points"));
                }
                _ => {}
            }
        }
        None
    }
}

/// Who has an address, as JSON text: most attributes that a call meets belong to others and are never looked into.
///
/// Two are equal when their texts are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attribute(Box<RawValue>);

impl Attribute {
    /// Writes fields down; absent ones are left out.
    ///
    /// # Panics
    /// Never: a map with text keys is always JSON.
    #[must_use]
    pub fn new(fields: &AttributeFields<'_>) -> Self {
        Self(serde_json::value::to_raw_value(fields).expect("maps with text keys are JSON"))
    }

    /// Takes JSON text as it is. `None` when it is not JSON.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        RawValue::from_string(text.to_owned()).ok().map(Self)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// Reads the fields. One that is not as expected counts as absent: such an address is nobody's, and stays taken.
    #[must_use]
    pub fn fields(&self) -> AttributeFields<'_> {
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }

    /// Whether it may mark a cooling address, without reading it: false only when it does not.
    #[must_use]
    pub fn may_be_cooling(&self) -> bool {
        self.as_json().contains("releasedAt")
    }

    /// Whether it may belong to a handle, without reading it: false only when it does not.
    #[must_use]
    pub fn may_name(&self, handle: &str) -> bool {
        let text = self.as_json();
        // An escaped spelling of the same name is possible, though no known writer produces one.
        text.contains(handle) || text.contains('\\')
    }
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for Attribute {}

/// The fields of an [`Attribute`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeFields<'a> {
    /// The handle that owns the address.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub handle_id: Option<Cow<'a, str>>,
    /// The active owner: who uses the address now. The name on the wire is historical.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "secondary")]
    pub active_owner: Option<BTreeMap<String, String>>,
    /// The alternate owner: who may take the address over.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "alternateOwnerAttrs")]
    pub alternate_owner: Option<BTreeMap<String, String>>,
    /// When the address was released; present: it cools down, and nobody owns it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "releasedAt")]
    pub released_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(handle: &str) -> Attribute {
        Attribute::new(&AttributeFields { handle_id: Some(handle.into()), ..AttributeFields::default() })
    }

    fn block() -> IpamBlock {
        let cidr = "10.244.3.64/30".parse().expect("cidr");
        IpamBlock::new(cidr, Some("host:worker-1".parse().expect("affinity")), Timestamp::default(), 100)
    }

    #[test]
    fn a_block_reads_and_writes_calicos_words() {
        let text = r#"{"cidr":"10.244.3.64/30","affinity":"host:worker-1","affinity_claim_time":"2026-08-22T06:33:20Z","allocations":[null,0,null,null],"unallocated":[2,3,0],"attributes":[{"handle_id":"k8s-pod-network.4f2a","secondary":{"namespace":"web","node":"worker-1","pod":"shop-0","timestamp":"2026-08-22 06:33:21.5 +0000 UTC"}}],"sequenceNumber":1787400000123456792,"sequenceNumberForAllocation":{"1":1787400000123456789},"deleted":false,"newField":{"kept":[1]}}"#;
        let block: IpamBlock = serde_json::from_str(text).expect("block");
        assert_eq!(block.problem(), None);
        assert_eq!(block.attributes[0].fields().handle_id.as_deref(), Some("k8s-pod-network.4f2a"));
        assert_eq!(serde_json::to_string(&block).expect("json"), text);
        let old = r#"{"cidr":"10.244.3.64/30","affinity":null,"allocations":[null,null,null,null],"unallocated":[0,1,2,3],"attributes":null,"sequenceNumberForAllocation":null}"#;
        let old: IpamBlock = serde_json::from_str(old).expect("a never used block of an old writer");
        assert_eq!((old.problem(), old.sequence_number), (None, 0));
    }

    #[test]
    fn a_freed_ordinal_waits_behind_the_others() {
        let mut block = block();
        assert!(block.set(0, &attribute("a"), 101));
        assert!(block.set(1, &attribute("b"), 102));
        assert!(!block.set(1, &attribute("c"), 103), "taken");
        assert_eq!(block.sequence_number_for_allocation, BTreeMap::from([(0, 100), (1, 101)]));
        assert!(block.clear(0, 103));
        assert!(!block.clear(0, 104), "free already");
        assert_eq!(block.unallocated, [2, 3, 0]);
        assert_eq!((block.attributes.len(), block.allocations[1]), (1, Some(0)));
        assert_eq!(block.problem(), None);
    }

    #[test]
    fn equal_attributes_are_shared() {
        let mut block = block();
        assert!(block.set(3, &attribute("a"), 101));
        assert!(block.set(0, &attribute("a"), 102));
        assert_eq!(
            (block.attributes.len(), block.allocations[0], block.allocations[3]),
            (1, Some(0), Some(0))
        );
        assert!(block.clear(3, 103));
        assert_eq!(block.attributes.len(), 1, "the other ordinal still points to it");
    }

    #[test]
    fn damage_is_told_apart() {
        let damaged = |change: fn(&mut IpamBlock)| {
            let mut block = block();
            assert!(block.set(0, &attribute("a"), 101));
            change(&mut block);
            block.problem()
        };
        assert_eq!(damaged(|_| ()), None);
        for change in [
            (|b| b.unallocated.push(1)) as fn(&mut IpamBlock),
            |b| b.unallocated.push(0),
            |b| b.unallocated.push(4),
            |b| b.unallocated.truncate(2),
            |b| b.allocations[0] = Some(1),
            |b| b.allocations.truncate(3),
        ] {
            assert!(damaged(change).is_some());
        }
    }
}
