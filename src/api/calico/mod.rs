//! The resources of `projectcalico.org/v3`, and the blocks, affinities and handles in the words of Calico's etcd store.
//!
//! Source of names and defaults: `projectcalico/calico`, `api/pkg/apis/projectcalico/v3` and
//! `libcalico-go/lib/backend/model`.

mod block_affinity;
mod ip_pool;
mod ip_reservation;
mod ipam_block;
mod ipam_configuration;
mod ipam_handle;
mod node;

pub use block_affinity::{AffinityState, BlockAffinity};
pub use ip_pool::{AllowedUse, AssignmentMode, IpPool, IpPoolSpec};
pub use ip_reservation::{IpReservation, IpReservationSpec};
pub use ipam_block::{Attribute, AttributeFields, IpamBlock};
pub use ipam_configuration::{IpamConfiguration, IpamConfigurationSpec, VmAddressPersistence};
pub use ipam_handle::IpamHandle;
pub use node::{Node, NodeSpec};

/// Group and version of every resource here.
pub const API_VERSION: &str = "projectcalico.org/v3";
