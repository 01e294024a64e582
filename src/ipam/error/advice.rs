//! What a person is told besides the error itself: the numbers behind it, and the way out.

use std::fmt::Write as _;

use super::{ChoiceError, Error, Ineligible, Limit, PoolReport, named};
use crate::net::Cidr;

impl Error {
    /// The numbers behind it, a line each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        match self {
            Error::NoUsablePool { refused, .. } => refused.iter().map(refusal_line).collect(),
            Error::Exhausted { pools, refused, limit, .. } => {
                let limit = limit.iter().map(ToString::to_string);
                let pools = pools.iter().map(PoolReport::line);
                limit.chain(pools).chain(refused.iter().map(refusal_line)).collect()
            }
            Error::OutsidePools { pools, .. } => vec![format!("these may: {}", named(pools))],
            _ => Vec::new(),
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Error::NoUsablePool { refused, .. } if refused.is_empty() => {
                "name a pool in `ipam.pools`, or create one with `host-affine apply -f`".into()
            }
            Error::NoUsablePool { .. } => "change one of these pools, or add one".into(),
            Error::Exhausted { limit: Some(Limit::MaxBlocks { .. }), .. } | Error::NoNewBlock { limit: Limit::MaxBlocks { .. }, .. } => {
                "raise it with `host-affine ipam configure --max-blocks-per-host=N`, or turn strict affinity off".into()
            }
            Error::Exhausted { limit: Some(Limit::Strict), .. } | Error::NoNewBlock { limit: Limit::Strict, .. } | Error::StrictAffinity { .. } => {
                "run `host-affine ipam show --show-blocks`, add a pool, or turn strict affinity off with `host-affine ipam configure --strictaffinity=false`".into()
            }
            Error::Exhausted { limit: Some(Limit::AutoAllocateOff), .. } | Error::NoNewBlock { limit: Limit::AutoAllocateOff, .. } => {
                "set autoAllocateBlocks to true in IPAMConfiguration `default`".into()
            }
            Error::Exhausted { limit: None, .. } => {
                "add a pool, or free addresses: `host-affine ipam show --show-blocks` lists who has them".into()
            }
            Error::Choice(ChoiceError::Unknown { .. }) => "run `host-affine get ippools` for those that exist".into(),
            Error::Choice(ChoiceError::Selector { .. }) => "correct the selector of that pool".into(),
            Error::OutsidePools { .. } => "ask for an address in one of these pools, or add a pool".into(),
            Error::Taken { .. } => "ask for another address, or delete its holder first".into(),
            Error::OnRecord { .. } => "ask for another address; a DEL of its container removes the record".into(),
            Error::Cooling { .. } => "ask again later, or for another address".into(),
            Error::CarvedOut { .. } => "ask for another address, or delete what was carved out".into(),
            Error::KeptBack { .. } => "ask for another address".into(),
            Error::PersistenceDisabled { .. } => {
                "set kubeVirtVMAddressPersistence to `Enabled`: `host-affine ipam configure --kubevirt-ip-persistence=Enabled`".into()
            }
            Error::MachineWithoutAddress { .. } => {
                "start the machine on this network first; `host-affine ipam show --vm` lists those with addresses".into()
            }
            Error::VmHandleTaken { .. } => {
                "rename one of the two networks or virtual machines, or release the other one's addresses with `host-affine ipam release --vm=NAMESPACE/NAME`; nothing was changed".into()
            }
            Error::HandleFull { .. } => "release what the handle has, or ask for that; nothing was changed".into(),
            Error::HoldsAnother { .. } => "delete the attachment first; nothing was changed".into(),
            Error::PoolsOverlap { .. } => {
                "use the same CIDR as that pool, or give one of the networks a `dataDir` (a store) of its own".into()
            }
            Error::PoolDiffers { .. } => "make the configuration say what is stored, or leave the property out".into(),
            Error::GatewayTaken { .. } => "name another gateway, or delete its holder first".into(),
            Error::Contended { applied: 0, .. } => "nothing was changed; a runtime asks again by itself".into(),
            Error::Contended { .. } => "ask again: it goes on after what was written".into(),
            Error::DamagedBlock { .. } => "put its file back from a backup; other blocks go on working".into(),
            Error::Name(_) => "choose another name".into(),
            Error::Datastore(error) => error.hint(),
        }
    }
}

impl PoolReport {
    fn line(&self) -> String {
        let mut line = format!(
            "pool `{}` ({}): {} of {} blocks exist, none with an address for this host",
            self.name, self.cidr, self.blocks, self.blocks_max
        );
        if self.unusable > 0 {
            let _ =
                write!(line, "; {} addresses are reserved or outside the network's ranges", self.unusable);
        }
        if self.cooling > 0 {
            let _ = write!(line, "; {} addresses cool down", self.cooling);
        }
        if self.carved > 0 {
            let _ =
                write!(line, "; {} addresses are carved out for IPAllocations or child pools", self.carved);
        }
        if let Some(obstacle) = &self.obstacle {
            let _ = write!(line, "; {obstacle}");
        }
        if !self.lent_out.is_empty() {
            let owners: Vec<_> =
                self.lent_out.iter().map(|(owner, blocks)| format!("{owner} ({blocks})")).collect();
            let _ = write!(
                line,
                "; {} addresses are free in blocks that are affine to other hosts: {}",
                self.free_elsewhere,
                owners.join(", ")
            );
        }
        line
    }
}

fn refusal_line((name, cidr, reason): &(String, Cidr, Ineligible)) -> String {
    format!("pool `{name}` ({cidr}) {reason}")
}
