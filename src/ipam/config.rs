//! The effective configuration: what an absent `IPAMConfiguration`, or an absent field of it, means.

use std::time::Duration;

use crate::api::calico::{IpamConfiguration, VmAddressPersistence};

/// Blocks of one family that may be affine to one host, where nothing else is said. Source: the reference page of
/// `IPAMConfiguration`.
pub const MAX_BLOCKS_PER_HOST: u32 = 20;

/// Whether a host may use another host's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityRule {
    /// Its own blocks only.
    Strict,
    /// Its own first, then others'.
    MayBorrow,
}

/// The options that a call goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether blocks of other hosts may be used.
    pub affinity_rule: AffinityRule,
    /// The most blocks of one family that may be affine to one host. At least 1.
    pub max_blocks_per_host: u32,
    /// Whether virtual machines keep their addresses.
    pub vm_address_persistence: VmAddressPersistence,
    /// Whether a host may claim blocks that it does not have.
    pub auto_allocate_blocks: bool,
    /// The least time between release and reuse.
    pub cooldown: Duration,
}

impl Config {
    /// Applies the defaults.
    #[must_use]
    pub fn effective(stored: Option<&IpamConfiguration>) -> Self {
        let spec = stored.map(|stored| &stored.spec);
        let strict = spec.and_then(|spec| spec.strict_affinity).unwrap_or(false);
        Self {
            affinity_rule: if strict { AffinityRule::Strict } else { AffinityRule::MayBorrow },
            max_blocks_per_host: spec
                .and_then(|spec| spec.max_blocks_per_host)
                .filter(|&limit| limit > 0)
                .unwrap_or(MAX_BLOCKS_PER_HOST),
            vm_address_persistence: spec
                .and_then(|spec| spec.kube_virt_vm_address_persistence)
                .unwrap_or(VmAddressPersistence::Disabled),
            auto_allocate_blocks: spec.and_then(|spec| spec.auto_allocate_blocks).unwrap_or(true),
            cooldown: Duration::from_secs(spec.and_then(|spec| spec.ip_cooldown_seconds).unwrap_or(0).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::calico::IpamConfigurationSpec;

    #[test]
    fn what_is_not_said_has_its_default() {
        let absent = Config::effective(None);
        assert_eq!(absent.affinity_rule, AffinityRule::MayBorrow);
        assert_eq!(absent.max_blocks_per_host, 20);
        assert_eq!(absent.vm_address_persistence, VmAddressPersistence::Disabled);
        assert!(absent.auto_allocate_blocks);
        assert_eq!(absent.cooldown, Duration::ZERO);
        let empty = IpamConfiguration::new("default", IpamConfigurationSpec::default());
        assert_eq!(Config::effective(Some(&empty)), absent);
    }

    #[test]
    fn a_limit_of_zero_means_the_default() {
        let spec = |limit| IpamConfigurationSpec { max_blocks_per_host: Some(limit), ..Default::default() };
        assert_eq!(
            Config::effective(Some(&IpamConfiguration::new("default", spec(0)))).max_blocks_per_host,
            20
        );
        assert_eq!(
            Config::effective(Some(&IpamConfiguration::new("default", spec(4)))).max_blocks_per_host,
            4
        );
    }
}
