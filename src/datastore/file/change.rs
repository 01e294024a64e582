//! How a block changes: whether one ordinal says it all, and whether it gives or takes.

use crate::api::calico::IpamBlock;

/// A change of one ordinal, which says all that is new in a block.
pub(super) enum SmallChange {
    Set(u16),
    Clear(u16),
}

/// How `old` becomes `new` with one change of one ordinal; found by doing it.
pub(super) fn small_change(mut old: IpamBlock, new: &IpamBlock) -> Option<SmallChange> {
    let sequence = new.sequence_number;
    if old.sequence_number.checked_add(1) != Some(sequence) || old.allocations.len() != new.allocations.len()
    {
        return None;
    }
    let mut differing = (0u16..)
        .zip(old.allocations.iter().zip(&new.allocations))
        .filter(|(_, (old, new))| old.is_some() != new.is_some())
        .map(|(ordinal, (_, new))| (ordinal, *new));
    let ((ordinal, allocation), None) = (differing.next()?, differing.next()) else {
        return None;
    };
    drop(differing);
    let (change, done) = match allocation {
        Some(index) => {
            let attribute = new.attributes.get(usize::from(index))?;
            (SmallChange::Set(ordinal), old.set(ordinal, attribute, sequence))
        }
        None => (SmallChange::Clear(ordinal), old.clear(ordinal, sequence)),
    };
    (done && old == *new).then_some(change)
}

/// How much a block gives to others: less after any release, even one that lets the address cool down, or hands it
/// over to the owner's alternate.
pub(super) fn weight(block: &IpamBlock) -> usize {
    let of_attribute = |index: &u16| {
        let Some(attribute) = block.attributes.get(usize::from(*index)) else {
            return 1;
        };
        let fields = attribute.fields();
        1 + usize::from(fields.handle_id.is_some())
            + usize::from(fields.active_owner.is_some())
            + usize::from(fields.alternate_owner.is_some())
    };
    usize::from(block.affinity.is_some())
        + block.allocations.iter().flatten().map(of_attribute).sum::<usize>()
}
