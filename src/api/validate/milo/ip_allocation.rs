use super::{check_name, check_size};
use crate::api::ObjectMeta;
use crate::api::milo::{BLOCK_NAME_PREFIX, IpAllocationSpec};
use crate::api::validate::{Path, Problem};

/// Rules of an allocation that its schema cannot say.
pub(super) fn check(metadata: &ObjectMeta, spec: &IpAllocationSpec, problems: &mut Vec<Problem>) {
    if metadata.name.starts_with(BLOCK_NAME_PREFIX) {
        let reason = format!(
            "is `{}`: names with `{BLOCK_NAME_PREFIX}` are those of hosts' blocks, which the plugin makes",
            metadata.name
        );
        problems.push(Problem::new(Path::root().key("metadata").key("name"), reason));
    }
    check_name(&spec.pool_ref.name, "an IPPool", &Path::root().key("spec").key("poolRef"), problems);
    check_size(metadata, spec.ip_family, problems);
}
