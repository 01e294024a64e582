//! The end of a migration, told by somebody who watched it: the pod that waits has the addresses from now on.

use super::{are_of, owners_in};
use crate::api::{HandleId, HostName};
use crate::clock::Timestamp;
use crate::datastore::{Answer, Datastore, Want};
use crate::ipam::assign::checked;
use crate::ipam::attempt::{Attempts, Next};
use crate::ipam::draft::Draft;
use crate::ipam::owners::write_owners;
use crate::ipam::policy::Policy;
use crate::ipam::{Error, Expected, Ipam};

/// Why a pod was not made the active owner. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    /// The handle has no address.
    #[error("handle `{0}` has no address")]
    NoAddress(HandleId),
    /// Nobody waits for the address.
    #[error("nobody waits to take {0} over")]
    NobodyWaits(std::net::IpAddr),
    /// Another pod waits for the address.
    #[error("{waits} waits to take {address} over, not the pod that was named")]
    AnotherWaits {
        /// The address.
        address: std::net::IpAddr,
        /// Who waits.
        waits: Box<Expected>,
    },
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<D: Datastore> Ipam<D> {
    /// Makes a pod that waits for a machine's addresses their active owner; who was that becomes the alternate one. All
    /// addresses in one commit; a pod that is the active owner already is left as it is.
    ///
    /// # Errors
    /// When the machine has no address, or the pod is not the one that waits.
    pub async fn promote(
        &mut self,
        handle: &HandleId,
        namespace: &str,
        pod: &str,
        now: Timestamp,
    ) -> Result<(), PromoteError> {
        let mut attempts = Attempts::default();
        loop {
            let wants = [Want::Settings, Want::Held(handle.clone())];
            let mut answers = self.store.read(&wants).await.map_err(Error::from)?.into_iter();
            let settings = answers.next().map(Answer::settings).unwrap_or_default();
            let (_, blocks) = answers.next().map(Answer::held).unwrap_or_default();
            let nobody = HostName::new("-").map_err(Error::from)?;
            let policy = Policy::new(settings, None, &nobody, now);
            let mut draft = Draft::default();
            let mut has_address = false;
            for entry in blocks {
                let (revision, block) = checked(entry, &policy)?;
                let block = draft.load_block(revision, block);
                for (ordinal, (active, alternate)) in owners_in(block, handle) {
                    has_address = true;
                    if are_of(&active, namespace, pod) {
                        continue;
                    }
                    let address = block.address_of(ordinal);
                    if alternate.is_empty() {
                        return Err(PromoteError::NobodyWaits(address));
                    }
                    if !are_of(&alternate, namespace, pod) {
                        let waiting = Box::new(Expected::of(&alternate));
                        return Err(PromoteError::AnotherWaits { address, waits: waiting });
                    }
                    write_owners(block, ordinal, handle, alternate, active);
                }
            }
            if !has_address {
                return Err(PromoteError::NoAddress(handle.clone()));
            }
            if self.write(draft, &policy.reserved, &mut attempts).await? == Next::Done {
                return Ok(());
            }
        }
    }
}
