use super::check_name;
use crate::api::milo::IpPoolSpec;
use crate::api::validate::ip_pool::check_link_local;
use crate::api::validate::{Path, Problem};
use crate::net::Cidr;

/// Rules of a pool that its schema cannot say.
pub(super) fn check(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    let refuse =
        |problems: &mut Vec<Problem>, field, reason: &str| problems.push(Problem::spec(field, reason));
    match (spec.cidr, &spec.parent_pool_ref) {
        (None, None) => {
            let reason = "is missing: a root pool has `spec.cidr` and `spec.ipFamily`, a child pool \
                          `spec.parentPoolRef` and `spec.prefixLength`";
            refuse(problems, "cidr", reason);
        }
        (Some(cidr), None) => {
            check_root(cidr, spec, problems);
            if spec.prefix_length.is_some() {
                refuse(problems, "prefixLength", "is for child pools; a root pool has it in `spec.cidr`");
            }
        }
        (None, Some(parent)) => {
            let path = Path::root().key("spec").key("parentPoolRef");
            check_name(&parent.name, "an IPPool", &path, problems);
            if spec.prefix_length.is_none() {
                refuse(problems, "prefixLength", "is missing: a child pool is carved out with it");
            }
            if spec.ip_family.is_some() {
                refuse(problems, "ipFamily", "is for root pools; a child pool has its parent's");
            }
        }
        (Some(_), Some(_)) => {
            let reason = "is given beside `spec.cidr`: a root pool has a CIDR, a child pool a parent";
            refuse(problems, "parentPoolRef", reason);
        }
    }
    check_bounds(spec, problems);
}

/// Whether a child pool can be carved out of a parent: it may be as large, not larger, and of the parent's family.
#[must_use]
pub fn check_child(length: u8, parent: &str, cidr: Cidr) -> Option<Problem> {
    let (least, most) = (cidr.prefix(), cidr.family().bits());
    if (least..=most).contains(&length) {
        return None;
    }
    let reason = format!("is {length}; expected {least} to {most}: the parent `{parent}` is {cidr}");
    Some(Problem::spec("prefixLength", reason))
}

fn check_root(cidr: Cidr, spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    check_link_local(cidr, problems);
    match spec.ip_family {
        None => {
            let reason = format!("is missing; expected `{}`, the family of {cidr}", cidr.family());
            problems.push(Problem::spec("ipFamily", reason));
        }
        Some(family) if family != cidr.family() => {
            let reason = format!("is {family}, but {cidr} is {}", cidr.family());
            problems.push(Problem::spec("ipFamily", reason));
        }
        Some(_) => {}
    }
}

fn check_bounds(spec: &IpPoolSpec, problems: &mut Vec<Problem>) {
    let Some(rules) = &spec.allocation else { return };
    let path = Path::root().key("spec").key("allocation");
    let bounds = [("minPrefixLength", rules.least()), ("maxPrefixLength", rules.most())];
    if let Some(family) = spec.cidr.map(Cidr::family) {
        for (field, bound) in bounds {
            if let Some(bound) = bound.filter(|&bound| bound > family.bits()) {
                let reason = format!("is {bound}; expected {} at most for {family}", family.bits());
                problems.push(Problem::new(path.key(field), reason));
            }
        }
    }
    if let (Some(least), Some(most)) = (rules.least(), rules.most())
        && least > most
    {
        let reason = format!("is {least}, more than `{}`, which is {most}", path.key("maxPrefixLength"));
        problems.push(Problem::new(path.key("minPrefixLength"), reason));
    }
}
