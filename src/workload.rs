//! What can be asked about pods and virtual machines beyond what a call brings with it: a cluster's API, where one is
//! configured.

use crate::ipam::MachineIdentity;

/// A pod, as a cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodAnswer {
    /// An ordinary pod, or one that nothing is known of.
    Pod,
    /// A pod of a virtual machine, which owns it.
    Machine(MachineIdentity),
}

/// Why something could not be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not ask about {about}: {reason}")]
pub struct AskError {
    /// What was asked about.
    pub about: String,
    /// What went wrong.
    pub reason: String,
}

/// A source of facts about pods and virtual machines.
pub trait Workloads {
    /// What a pod is.
    ///
    /// # Errors
    /// When it cannot be told: a wrong answer would give a machine another address, or a pod a machine's.
    fn pod(&self, namespace: &str, name: &str) -> Result<PodAnswer, AskError>;

    /// Whether a virtual machine is being deleted, or is gone.
    ///
    /// # Errors
    /// When it cannot be told. Then it counts as alive.
    fn machine_is_deleted(&self, namespace: &str, name: &str) -> Result<bool, AskError>;
}

/// Nobody is asked: every pod is a pod, and no machine is known to be deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorkloads;

impl Workloads for NoWorkloads {
    fn pod(&self, _: &str, _: &str) -> Result<PodAnswer, AskError> {
        Ok(PodAnswer::Pod)
    }

    fn machine_is_deleted(&self, _: &str, _: &str) -> Result<bool, AskError> {
        Ok(false)
    }
}
