use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::api::{HandleId, InvalidName, check_vm_namespace};

/// The longest handle that is written out, in bytes. Source: the reference engine.
const BYTES_MAX: usize = 128;
/// The network of a network without a name.
const DEFAULT_NETWORK: &str = "k8s-pod-network";
/// How many digits of the hash stand in for a name that is too long.
const DIGITS: usize = 40;

/// The handle of a machine's addresses on a network: `<network>.vmi.<namespace>.<name>`, as Calico writes it. What would be
/// longer than 128 bytes has a hash instead of namespace and name, where the reference engine crashes; it is never cut.
///
/// # Errors
/// When a part holds what no key may, or the namespace holds a dot.
pub fn machine_handle(network: &str, namespace: &str, name: &str) -> Result<HandleId, InvalidName> {
    check_vm_namespace(namespace)?;
    let network = if network.is_empty() { DEFAULT_NETWORK } else { network };
    let machine = format!("{namespace}.{name}");
    let whole = format!("{network}.vmi.{machine}");
    if whole.len() <= BYTES_MAX {
        return HandleId::new(whole);
    }
    let mut short = format!("{network}.vmi.h-");
    for byte in Sha256::digest(&machine).iter().take(DIGITS / 2) {
        // Writing to a text cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    HandleId::new(short)
}

/// Network, namespace and name of the machine that a handle names; `None`: it names none, or only by a hash.
///
/// A namespace holds no dot, so the first one behind it ends it.
#[must_use]
pub fn parse_machine_handle(handle: &str) -> Option<(&str, &str, &str)> {
    let (network, machine) = handle.split_once(".vmi.")?;
    let (namespace, name) = machine.split_once('.')?;
    (!namespace.is_empty() && !name.is_empty()).then_some((network, namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_calicos_up_to_its_limit_and_never_cut_beyond() {
        let of = |network: &str, namespace: &str, name: &str| {
            machine_handle(network, namespace, name).expect("a handle").to_string()
        };
        assert_eq!(of("vmnet", "prod", "db-1"), "vmnet.vmi.prod.db-1");
        assert_eq!(of("", "prod", "db-1"), "k8s-pod-network.vmi.prod.db-1");
        let longest = "x".repeat(128 - "n.vmi.p.".len());
        assert_eq!(of("n", "p", &longest).len(), 128);
        let (one, other) = (format!("{longest}a"), format!("{longest}b"));
        assert_eq!(of("n", "p", &one).len(), "n.vmi.h-".len() + 40);
        assert_ne!(of("n", "p", &one), of("n", "p", &other), "machines that share their beginning");
        assert_eq!(of("n", "p", &one), of("n", "p", &one));
    }

    #[test]
    fn a_namespace_with_a_dot_has_no_handle() {
        let refused = machine_handle("n", "a.b", "c").expect_err("the handle of `a`/`b.c`").to_string();
        assert_eq!(
            refused,
            "virtual machine namespace `a.b` holds a dot, which no Kubernetes namespace does"
        );
        assert!(machine_handle("n", "", "c").is_err());
        assert!(machine_handle("n", "a", "b.c").is_ok());
    }

    #[test]
    fn a_handle_tells_its_machine() {
        assert_eq!(parse_machine_handle("a.b.vmi.prod.db.v2"), Some(("a.b", "prod", "db.v2")));
        assert_eq!(parse_machine_handle("net.4f2a"), None);
        assert_eq!(parse_machine_handle("net.vmi.h-0123"), None);
    }
}
