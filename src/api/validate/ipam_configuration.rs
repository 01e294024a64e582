use super::Problem;
use crate::api::calico::IpamConfigurationSpec;

/// The largest `maxBlocksPerHost`. Source: the reference page of `IPAMConfiguration`.
pub const MAX_BLOCKS_PER_HOST_MAX: u32 = 2_147_483_647;
/// The largest `ipCooldownSeconds`. Source: the schema of Calico's resource.
pub const IP_COOLDOWN_SECONDS_MAX: u32 = 1200;

/// Whether the options may stand together.
///
/// # Errors
/// The first problem.
pub fn check_ipam_configuration(spec: &IpamConfigurationSpec) -> Result<(), Problem> {
    let strict = spec.strict_affinity.unwrap_or(false);
    if !strict && spec.auto_allocate_blocks == Some(false) {
        // A host without a block could then only borrow, and nobody would have a block to borrow from.
        return Err(Problem::spec(
            "autoAllocateBlocks",
            "is false, which needs `spec.strictAffinity` to be true",
        ));
    }
    Ok(())
}
