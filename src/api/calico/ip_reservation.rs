use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{Resource, Spec};

/// Addresses that are never handed out automatically.
pub type IpReservation = Resource<IpReservationSpec>;

/// The specification of an [`IpReservation`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpReservationSpec {
    /// CIDRs or single addresses. A reader skips what is neither.
    #[serde(default, rename = "reservedCIDRs")]
    pub reserved_cidrs: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Spec for IpReservationSpec {
    const API_VERSION: &'static str = super::API_VERSION;
    const KIND: &'static str = "IPReservation";
    const PLURAL: &'static str = "ipreservations";
}
