//! Where a claim of a block stands, and where it may go from there. Pure.

use crate::api::calico::AffinityState;

/// Every legal step of a block affinity's record; `None`: there is no record.
///
/// A claim is announced before its block exists, so that its host finds the block after a crash between the two; it is
/// recalled before its block goes, so that nobody routes to a block that is on its way out. A store that applies a batch
/// all or nothing may take two steps at once.
///
/// Source: the reference engine, state of a block affinity.
const STEPS: [(Option<AffinityState>, Option<AffinityState>); 9] = {
    use AffinityState::{Confirmed, Pending, PendingDeletion};
    [
        // A claim begins, is announced again by whoever finishes it, and ends well.
        (None, Some(Pending)),
        (Some(Pending), Some(Pending)),
        (Some(Pending), Some(Confirmed)),
        // A confirmed record whose block does not exist, or says otherwise: the claim begins anew.
        (Some(Confirmed), Some(Pending)),
        // It is given up, wherever it stood.
        (Some(Pending), Some(PendingDeletion)),
        (Some(Confirmed), Some(PendingDeletion)),
        (Some(PendingDeletion), Some(PendingDeletion)),
        (Some(PendingDeletion), None),
        // Its host came back before it was gone.
        (Some(PendingDeletion), Some(Pending)),
    ]
};

/// Whether a record may go from one state to another in one step.
#[must_use]
pub fn may_become(from: Option<AffinityState>, to: Option<AffinityState>) -> bool {
    STEPS.contains(&(from, to))
}

/// Whether a record may go from one state to another by way of an interim one, as an operation of a batch does.
#[must_use]
pub fn may_go(
    from: Option<AffinityState>,
    interim: Option<AffinityState>,
    to: Option<AffinityState>,
) -> bool {
    interim.map_or_else(
        || may_become(from, to),
        |interim| may_become(from, Some(interim)) && may_become(Some(interim), to),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every pair of states means. A pair that is missing here, or twice, fails the test.
    #[test]
    fn every_pair_of_states_is_legal_or_not_for_a_reason() {
        use AffinityState::{Confirmed, Pending, PendingDeletion};
        let table = [
            (None, None, false, "nothing happens to nothing"),
            (None, Some(Pending), true, "a claim begins"),
            (None, Some(Confirmed), false, "others would route to a block that does not exist yet"),
            (None, Some(PendingDeletion), false, "there is nothing to give up"),
            (
                Some(Pending),
                None,
                false,
                "a process that finishes the claim would find it gone under its feet",
            ),
            (Some(Pending), Some(Pending), true, "somebody else goes on with it"),
            (Some(Pending), Some(Confirmed), true, "the block exists and says so"),
            (Some(Pending), Some(PendingDeletion), true, "the claim is void"),
            (Some(Confirmed), None, false, "the block may still stand"),
            (Some(Confirmed), Some(Pending), true, "the block has to be made again"),
            (Some(Confirmed), Some(Confirmed), false, "there is nothing to write"),
            (Some(Confirmed), Some(PendingDeletion), true, "the block is being given up"),
            (Some(PendingDeletion), None, true, "the block is gone, or nobody's"),
            (Some(PendingDeletion), Some(Pending), true, "its host came back first"),
            (Some(PendingDeletion), Some(Confirmed), false, "the block may have gone meanwhile"),
            (Some(PendingDeletion), Some(PendingDeletion), true, "somebody else goes on giving it up"),
        ];
        let all = || [None].into_iter().chain(AffinityState::ALL.map(Some));
        for from in all() {
            for to in all() {
                let rows: Vec<_> = table.iter().filter(|row| (row.0, row.1) == (from, to)).collect();
                assert_eq!(rows.len(), 1, "{from:?} to {to:?} is told {} times", rows.len());
                assert_eq!(may_become(from, to), rows[0].2, "{from:?} to {to:?}: {}", rows[0].3);
            }
        }
    }

    #[test]
    fn an_operation_takes_legal_steps_only() {
        use AffinityState::{Confirmed, Pending, PendingDeletion};
        assert!(may_go(None, Some(Pending), Some(Confirmed)));
        assert!(may_go(Some(Pending), None, Some(Confirmed)));
        assert!(may_go(Some(Confirmed), Some(PendingDeletion), None));
        assert!(!may_go(Some(Confirmed), None, None));
        assert!(!may_go(Some(PendingDeletion), None, Some(Confirmed)));
    }
}
