//! Changing the global options: read, change, validate as a whole, write at the revision that was read.

use super::attempt::CAS_ATTEMPTS_MAX;
use super::{Config, Error, Ipam};
use crate::api::calico::{IpamConfiguration, IpamConfigurationSpec};
use crate::api::validate::{self, Problem};
use crate::datastore::{Answer, Batch, Commit, Datastore, Key, Want};

/// The name of the one [`IpamConfiguration`].
const SINGLETON: &str = "default";

/// The options before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// In effect before.
    pub before: Config,
    /// In effect now.
    pub after: Config,
}

/// Why options were not changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The options would contradict each other.
    #[error("{0}")]
    Invalid(Problem),
    /// The store failed, or others were faster each time.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl<D: Datastore> Ipam<D> {
    /// Changes some options and leaves the others as they are, also those that somebody else changes at the same time.
    ///
    /// The first write says what absent fields mean where other readers of the store would take them for something
    /// else: Calico reads an absent `kubeVirtVMAddressPersistence` as `Enabled`.
    ///
    /// # Errors
    /// When the result may not stand, or the store failed. Then nothing was changed.
    pub async fn configure(
        &mut self,
        change: impl Fn(&mut IpamConfigurationSpec),
    ) -> Result<Configuration, ConfigureError> {
        for _ in 0..CAS_ATTEMPTS_MAX {
            let read = self.store.read(&[Want::Object(Key::Configuration)]).await.map_err(Error::from)?.pop();
            let stored = read.and_then(Answer::object).map(|entry| (entry.revision, entry.into()));
            let before = Config::effective(stored.as_ref().map(|(_, stored)| stored));
            let (revision, old) = match stored {
                Some((revision, stored)) => (Some(revision), Some(stored)),
                None => (None, None),
            };
            let fresh = || IpamConfiguration::new(SINGLETON, IpamConfigurationSpec::default());
            let mut new: IpamConfiguration = old.clone().unwrap_or_else(fresh);
            change(&mut new.spec);
            new.spec.kube_virt_vm_address_persistence.get_or_insert(before.vm_address_persistence);
            validate::check_ipam_configuration(&new.spec).map_err(ConfigureError::Invalid)?;
            let after = Config::effective(Some(&new));
            if old.as_ref() == Some(&new) && !self.store.is_out_of_step(&Key::Configuration) {
                return Ok(Configuration { before, after });
            }
            let mut batch = Batch::default();
            match revision {
                Some(revision) => batch.update(Key::Configuration, revision, new),
                None => batch.create(Key::Configuration, new),
            }
            if self.store.commit(batch).await.map_err(Error::from)? == Commit::Applied {
                return Ok(Configuration { before, after });
            }
        }
        Err(Error::Contended { attempts: CAS_ATTEMPTS_MAX, applied: 0 }.into())
    }
}
