use serde_json::Value;

use super::{Path, Problem};
use crate::api::calico::{AllowedUse, IpPoolSpec};
use crate::net::{Cidr, Family};

/// Rules of Calico's resource that its schema cannot say.
///
/// # Source
/// `api/pkg/apis/projectcalico/v3/ippool.go` and `libcalico-go/lib/clientv3/ippool.go`.
pub(super) fn check(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    check_range(spec, problems);
    check_tunnels(spec, problems);
    check_uses(spec, problems);
}

fn check_range(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    let cidr = spec.cidr;
    check_link_local(cidr, problems);
    let (least, most) = match cidr.family() {
        Family::V4 => (20, 32),
        Family::V6 => (116, 128),
    };
    if let Some(size) = spec.block_size.filter(|&size| size != 0 && !(least..=most).contains(&size)) {
        let family = cidr.family();
        let reason = format!("is {size}; expected {least} to {most} for {family}, or 0 for the default");
        problems.push(Problem::spec("blockSize", reason));
    } else if spec.block_prefix() < cidr.prefix() && !spec.disabled {
        let block = spec.block_prefix();
        let what = if spec.block_size.unwrap_or(0) == 0 { "is not given, and the default" } else { "is" };
        let reason = format!(
            "{what} {block}: such a block is larger than the pool {cidr}; expected {} or more",
            cidr.prefix()
        );
        problems.push(Problem::spec("blockSize", reason));
    }
}

/// Link-local addresses are every interface's own.
pub(super) fn check_link_local(cidr: Cidr, problems: &mut Vec<Problem>) {
    let link_local = match cidr.family() {
        Family::V4 => "169.254.0.0/16",
        Family::V6 => "fe80::/10",
    };
    if link_local.parse::<Cidr>().is_ok_and(|range| range.overlaps(cidr)) {
        problems.push(Problem::spec(
            "cidr",
            format!("is {cidr}, which overlaps the link-local range {link_local}"),
        ));
    }
}

/// Whether an encapsulation is switched on; absent: it is not.
fn is_on(spec: &IpPoolSpec, mode: &str) -> bool {
    spec.extra.get(mode).and_then(Value::as_str).is_some_and(|mode| mode != "Never" && !mode.is_empty())
}

fn check_tunnels(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    if !is_on(spec, "ipipMode") {
        return;
    }
    if is_on(spec, "vxlanMode") {
        problems.push(Problem::spec(
            "vxlanMode",
            "is on, and so is `spec.ipipMode`; expected `Never` for one of them",
        ));
    }
    if spec.cidr.family() == Family::V6 {
        problems.push(Problem::spec("ipipMode", "is on; IP in IP does not carry IPv6: expected `Never`"));
    }
}

fn check_uses(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    let uses = &spec.allowed_uses;
    if uses.contains(&AllowedUse::Tunnel)
        && spec.namespace_selector.as_deref().is_some_and(|text| !text.is_empty())
    {
        let reason = "is given, but the pool serves tunnels, which are in no namespace: take `Tunnel` out of `spec.allowedUses`";
        problems.push(Problem::spec("namespaceSelector", reason));
    }
    if !uses.contains(&AllowedUse::LoadBalancer) {
        return;
    }
    if uses.len() > 1 {
        let path = Path::root().key("spec").key("allowedUses");
        problems.push(Problem::new(path, "has `LoadBalancer` beside other uses; expected it alone"));
    }
    for mode in ["ipipMode", "vxlanMode"].into_iter().filter(|mode| is_on(spec, mode)) {
        problems.push(Problem::spec(mode, "is on; a pool for `LoadBalancer` needs `Never`"));
    }
    if spec.extra.get("disableBGPExport").and_then(Value::as_bool) == Some(true) {
        problems.push(Problem::spec("disableBGPExport", "is true; a pool for `LoadBalancer` needs false"));
    }
    if let Some(selector) = spec.node_selector.as_deref().filter(|text| !text.is_empty() && *text != "all()")
    {
        let reason = format!("is `{}`; a pool for `LoadBalancer` needs `all()`", selector.escape_debug());
        problems.push(Problem::spec("nodeSelector", reason));
    }
}
