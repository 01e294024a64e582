//! `CNI_ARGS`: `KEY=VALUE` pairs joined by `;`.
//!
//! # Source
//! CNI conventions, *`CNI_ARGS`*. Runtimes send repeated keys, values with `=` in them and empty pairs, which Go's
//! reader refuses; here they are taken. Of a key that is repeated the last value counts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::failure::Failure;
use super::suggest;
use crate::net::parse_address;

/// What is known of `CNI_ARGS`. An empty value counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// `IP`: the addresses asked for, each once, in their order.
    pub ips: Vec<IpAddr>,
    /// `MAC`, as given. The main plugin's business.
    pub mac: Option<String>,
    /// `GATEWAY`, as given. Gateways come from the network configuration.
    pub gateway: Option<String>,
    /// `K8S_POD_NAMESPACE`.
    pub pod_namespace: Option<String>,
    /// `K8S_POD_NAME`.
    pub pod_name: Option<String>,
    /// `K8S_POD_INFRA_CONTAINER_ID`.
    pub pod_infra_container_id: Option<String>,
    /// `K8S_POD_UID`.
    pub pod_uid: Option<String>,
    /// What is said about a virtual machine: the keys that begin with `IPAM_VM`, and `IPAM_MIGRATION_UID`.
    pub vm: BTreeMap<String, String>,
}

impl Args {
    /// Reads `CNI_ARGS` as ADD needs it: an address that cannot be read, or a key that nobody knows, is refused,
    /// so that no request is passed over.
    ///
    /// # Errors
    /// Code 4: a pair without `=`, an address that is none, an `IgnoreUnknown` that is neither true nor false, and,
    /// unless that is true, a key that is not known.
    pub fn strict(text: &str) -> Result<Args, Failure> {
        let mut args = Args::default();
        let mut ignore_unknown = false;
        let mut unknown = None;
        let mut ips = "";
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(refused(format!("{pair:?} is no `KEY=VALUE` pair")));
            };
            match key {
                "IgnoreUnknown" => {
                    ignore_unknown = truth(value).ok_or_else(|| {
                        refused(format!("`IgnoreUnknown` is {value:?}; expected `1`, `true`, `0` or `false`"))
                    })?;
                }
                "IP" => ips = value,
                _ if args.set(key, value) => {}
                _ => unknown = unknown.or(Some(key)),
            }
        }
        for text in ips.split(',').filter(|text| !text.is_empty()) {
            let address = requested_address(text).ok_or_else(|| {
                refused(format!("`IP` is {text:?}; expected an address, with or without a prefix length"))
            })?;
            push_once(&mut args.ips, address);
        }
        match unknown {
            Some(key) if !ignore_unknown => Err(unknown_key(key)),
            _ => Ok(args),
        }
    }

    /// Reads what can be read of `CNI_ARGS`. Addresses are left out: only ADD gives any.
    #[must_use]
    pub fn lenient(text: &str) -> Args {
        let mut args = Args::default();
        for (key, value) in text.split(';').filter_map(|pair| pair.split_once('=')) {
            args.set(key, value);
        }
        args
    }

    /// Takes the value of one of the keys that are kept as they are. `false`: the key is not known.
    fn set(&mut self, key: &str, value: &str) -> bool {
        let field = match key {
            "MAC" => &mut self.mac,
            "GATEWAY" => &mut self.gateway,
            "K8S_POD_NAMESPACE" => &mut self.pod_namespace,
            "K8S_POD_NAME" => &mut self.pod_name,
            "K8S_POD_INFRA_CONTAINER_ID" => &mut self.pod_infra_container_id,
            "K8S_POD_UID" => &mut self.pod_uid,
            _ if key.starts_with("IPAM_VM") || key == "IPAM_MIGRATION_UID" => {
                if value.is_empty() {
                    self.vm.remove(key);
                } else {
                    self.vm.insert(key.to_owned(), value.to_owned());
                }
                return true;
            }
            _ => return false,
        };
        *field = Some(value).filter(|value| !value.is_empty()).map(str::to_owned);
        true
    }
}

/// The address of a request, which may carry a prefix length. The pool's own length counts, but a length that the
/// family does not have is no length.
pub(super) fn requested_address(text: &str) -> Option<IpAddr> {
    match text.split_once('/') {
        None => parse_address(text),
        Some((address, _)) => {
            crate::net::Cidr::parse_masking(text).ok()?;
            parse_address(address)
        }
    }
}

pub(super) fn push_once(addresses: &mut Vec<IpAddr>, address: IpAddr) {
    if !addresses.contains(&address) {
        addresses.push(address);
    }
}

fn truth(value: &str) -> Option<bool> {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    match () {
        () if is("1") || is("true") => Some(true),
        () if is("0") || is("false") || value.is_empty() => Some(false),
        () => None,
    }
}

fn unknown_key(key: &str) -> Failure {
    const KNOWN: [&str; 8] = [
        "IP",
        "MAC",
        "GATEWAY",
        "K8S_POD_NAMESPACE",
        "K8S_POD_NAME",
        "K8S_POD_INFRA_CONTAINER_ID",
        "K8S_POD_UID",
        "IgnoreUnknown",
    ];
    let suggestion =
        suggest::closest(key, &KNOWN).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
    refused(format!("the key {key:?} is not known{suggestion}"))
        .with_details("`IgnoreUnknown=1` lets unknown keys pass")
}

fn refused(problem: impl std::fmt::Display) -> Failure {
    Failure::environment(format!("`CNI_ARGS`: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(text: &str) -> Vec<String> {
        Args::strict(text).expect(text).ips.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_runtimes_send_is_understood() {
        let sent = "IgnoreUnknown=1;K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=web-0;\
                    K8S_POD_INFRA_CONTAINER_ID=c0;K8S_POD_UID=2b1f;IPAM_VM_NAME=db;IPAM_VMI_UID=u";
        let args = Args::strict(sent).expect("containerd's");
        assert_eq!(args.pod_namespace.as_deref(), Some("kube-system"));
        assert_eq!(args.pod_name.as_deref(), Some("web-0"));
        assert_eq!(args.pod_infra_container_id.as_deref(), Some("c0"));
        assert_eq!(args.pod_uid.as_deref(), Some("2b1f"));
        assert_eq!(args.vm.get("IPAM_VM_NAME").map(String::as_str), Some("db"));
        assert_eq!(args.vm.get("IPAM_VMI_UID").map(String::as_str), Some("u"));
        assert_eq!(Args::lenient(sent), args, "the same at DEL");
    }

    #[test]
    fn empty_pairs_repeated_keys_and_equals_signs_are_taken() {
        let args =
            Args::strict(";;IgnoreUnknown=0;FOO=a=b=c;K8S_POD_NAME=x;K8S_POD_NAME=a=b;IgnoreUnknown=1;");
        assert_eq!(args.expect("taken").pod_name.as_deref(), Some("a=b"));
        let empty =
            Args::strict("IgnoreUnknown=1;K8S_POD_NAMESPACE=;K8S_POD_NAME=;IP=;MAC=").expect("empty values");
        assert_eq!(empty, Args::default());
        assert_eq!(Args::strict("").expect("none"), Args::default());
        assert_eq!(Args::strict("K8S_POD_NAME=x;K8S_POD_NAME=").expect("emptied").pod_name, None);
    }

    #[test]
    fn addresses_come_alone_in_lists_and_with_prefix_lengths() {
        assert_eq!(ips("IP=10.77.0.50"), ["10.77.0.50"]);
        assert_eq!(ips("IP=10.77.0.51/24"), ["10.77.0.51"]);
        assert_eq!(
            ips("IgnoreUnknown=1;IP=10.77.2.50,fd00:77:2::50/64,10.77.2.50"),
            ["10.77.2.50", "fd00:77:2::50"]
        );
        assert_eq!(ips("IP=10.0.0.1;IP=10.0.0.2"), ["10.0.0.2"], "the last one counts");
    }

    #[test]
    fn a_request_that_cannot_be_read_is_refused_at_add_only() {
        for bad in [
            "IP=banana",
            "IP=10.77.0.010",
            "IP=10.77.0.5/99",
            "IP=10.0.0.1,x",
            "IgnoreUnknown=1;x",
            "IgnoreUnknown=maybe",
            "FOO=BAR",
            "=",
            "IP=banana;=;;x",
        ] {
            let failure = Args::strict(bad).expect_err(bad);
            assert_eq!(failure.code.number(), 4);
            assert!(failure.msg.contains("CNI_ARGS"), "{}", failure.msg);
            assert_eq!(Args::lenient(bad), Args::default());
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_named() {
        let failure = Args::strict("IPS=10.0.0.1").expect_err("unknown");
        assert_eq!(failure.msg, "`CNI_ARGS`: the key \"IPS\" is not known; did you mean `IP`?");
    }

    #[test]
    fn unknown_keys_pass_when_the_runtime_says_so() {
        for text in ["FOO=BAR;IgnoreUnknown=true", "IgnoreUnknown=TRUE;FOO=BAR", "IgnoreUnknown=1;FOO=BAR"] {
            assert!(Args::strict(text).is_ok(), "{text}");
        }
        assert!(Args::strict("IgnoreUnknown=false;FOO=BAR").is_err());
    }
}
