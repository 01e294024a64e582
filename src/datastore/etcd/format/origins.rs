//! Which home of the configuration each option comes from, and where Calico sees another.

use super::configuration::{allocator_config, edited_config};
use crate::api::calico::VmAddressPersistence;
use crate::datastore::{Error, OptionOrigin, Revision};

/// What Calico's allocator goes by.
const ALLOCATOR: &str = "/calico/ipam/v2/config";
/// What people edit.
const EDITED: &str = "IPAMConfiguration `default`";
/// Where neither says anything.
const DEFAULT: &str = "default";
/// The option that Calico's plugin, and not its allocator, goes by.
const PERSISTENCE: &str = "kubeVirtVMAddressPersistence";

/// Where each option comes from, by what stands at both homes; see [`super::configuration`] for the rules.
///
/// # Errors
/// [`Error::Damaged`] when either cannot be read.
pub fn origins(allocator: Option<&[u8]>, edited: Option<&[u8]>) -> Result<Vec<OptionOrigin>, Error> {
    let allocator = allocator.map(allocator_config).transpose()?;
    let edited = edited.map(|value| edited_config(value, Revision(0))).transpose()?.map(|edited| edited.spec);
    let (all, one) = (allocator.as_ref(), edited.as_ref());
    let text = |flag: bool| flag.to_string();
    let rows = [
        (
            "strictAffinity",
            all.map(|all| text(all.strict_affinity)),
            one.and_then(|one| one.strict_affinity).map(text),
            "false",
        ),
        (
            "autoAllocateBlocks",
            all.map(|all| text(all.auto_allocate_blocks)),
            one.and_then(|one| one.auto_allocate_blocks).map(text),
            "true",
        ),
        (
            "maxBlocksPerHost",
            all.map(|all| all.max_blocks_per_host.to_string()),
            one.and_then(|one| one.max_blocks_per_host).map(|most| most.to_string()),
            "0",
        ),
        (
            "ipCooldownSeconds",
            all.map(|all| all.ip_cooldown_seconds.to_string()),
            one.and_then(|one| one.ip_cooldown_seconds).map(|seconds| seconds.to_string()),
            "0",
        ),
    ];
    let mut origins: Vec<_> =
        rows.into_iter().map(|(option, all, one, default)| of_allocator(option, all, one, default)).collect();
    let of_all = all.and_then(|all| all.kube_virt_vm_address_persistence);
    origins.push(of_plugin(of_all, one.and_then(|one| one.kube_virt_vm_address_persistence)));
    Ok(origins)
}

fn of_allocator(
    option: &'static str,
    allocator: Option<String>,
    edited: Option<String>,
    default: &str,
) -> OptionOrigin {
    let (place, note) = match (allocator, edited) {
        (Some(counts), Some(other)) if counts != other => {
            (ALLOCATOR, Some(format!("{EDITED} says {other}, which Calico's allocator does not go by")))
        }
        (Some(_), _) => (ALLOCATOR, None),
        (None, Some(counts)) if counts != default => (
            EDITED,
            Some(format!(
                "Calico's allocator does not go by it, and takes {default} while {ALLOCATOR} is absent"
            )),
        ),
        (None, Some(_)) => (EDITED, None),
        (None, None) => (DEFAULT, None),
    };
    OptionOrigin { option, place, note }
}

fn of_plugin(allocator: Option<VmAddressPersistence>, edited: Option<VmAddressPersistence>) -> OptionOrigin {
    let takes = |said: &str| {
        Some(format!("Calico's plugin goes by {EDITED} alone, and takes Enabled where that {said}"))
    };
    let (place, note) = match (edited, allocator) {
        (Some(counts), Some(other)) if counts != other => {
            (EDITED, Some(format!("{ALLOCATOR} says {other:?}, which Calico's plugin does not go by")))
        }
        (Some(_), _) => (EDITED, None),
        (None, Some(VmAddressPersistence::Enabled)) => (ALLOCATOR, None),
        (None, Some(VmAddressPersistence::Disabled)) => (ALLOCATOR, takes("says nothing")),
        (None, None) => (DEFAULT, takes("says nothing")),
    };
    OptionOrigin { option: PERSISTENCE, place, note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_says_where_it_comes_from_and_who_sees_another() {
        let resource = |spec: &str| format!(r#"{{"metadata":{{"name":"default"}},"spec":{spec}}}"#);
        let told = |allocator: Option<&str>, spec: Option<&str>| {
            let edited = spec.map(resource);
            let origins = origins(allocator.map(str::as_bytes), edited.as_deref().map(str::as_bytes));
            let line = |origin: OptionOrigin| (origin.place, origin.note.unwrap_or_default());
            origins.expect("both can be read").into_iter().map(line).collect::<Vec<_>>()
        };
        let nothing = told(None, None);
        assert!(nothing[..4].iter().all(|told| *told == (DEFAULT, String::new())), "{nothing:?}");
        assert!(nothing[4].1.contains("takes Enabled"), "{nothing:?}");
        let edited = told(
            None,
            Some(
                r#"{"strictAffinity":true,"autoAllocateBlocks":true,"kubeVirtVMAddressPersistence":"Disabled"}"#,
            ),
        );
        assert_eq!(edited[0].0, EDITED);
        assert!(edited[0].1.contains("takes false while /calico/ipam/v2/config is absent"), "{edited:?}");
        assert_eq!(edited[1], (EDITED, String::new()), "the default is the same to both");
        assert_eq!(edited[4], (EDITED, String::new()));
        let both = told(
            Some(r#"{"auto_allocate_blocks":true,"kubeVirtVMAddressPersistence":"Enabled"}"#),
            Some(r#"{"strictAffinity":true,"kubeVirtVMAddressPersistence":"Disabled"}"#),
        );
        assert_eq!(both[0].0, ALLOCATOR);
        assert!(both[0].1.contains("says true, which Calico's allocator does not go by"), "{both:?}");
        assert_eq!(both[1], (ALLOCATOR, String::new()));
        assert!(both[4].1.contains("says Enabled, which Calico's plugin does not go by"), "{both:?}");
        let of_allocator = told(Some(r#"{"kubeVirtVMAddressPersistence":"Disabled"}"#), Some("{}"));
        assert_eq!(of_allocator[4].0, ALLOCATOR);
        assert!(of_allocator[4].1.contains("takes Enabled"), "{of_allocator:?}");
    }
}
