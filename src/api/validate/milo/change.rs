//! What of a stored resource may change. Each field that may not is named, all of them at once.

use std::fmt::Display;

use serde::Serialize;

use crate::api::ObjectMeta;
use crate::api::milo::{
    IpAllocation, IpAllocationStatus, IpClaim, IpClaimStatus, IpPoolSpec, PREFIX_LENGTH_ANNOTATION,
    REQUESTED_CIDR_ANNOTATION, SizeAsked,
};
use crate::api::validate::{Problem, annotation};
use crate::net::{Cidr, Family};

/// What of an allocation would change and may not: its specification, and the size that was carved.
#[must_use]
pub fn check_allocation_change(stored: &IpAllocation, asked: &IpAllocation) -> Vec<Problem> {
    let (old, new) = (&stored.spec, &asked.spec);
    let mut problems = Vec::new();
    problems.extend(fixed("ipFamily", &old.ip_family, &new.ip_family));
    problems.extend(fixed("poolRef", &old.pool_ref, &new.pool_ref));
    let carved = IpAllocationStatus::of(stored).and_then(|status| status.allocated_cidr);
    problems.extend(carved.map(|cidr| resized(cidr, &asked.metadata)).unwrap_or_default());
    problems
}

/// What of a claim would change and may not: all but the reclaim policy and whom it is for.
#[must_use]
pub fn check_claim_change(stored: &IpClaim, asked: &IpClaim) -> Vec<Problem> {
    let (old, new) = (&stored.spec, &asked.spec);
    let mut problems = Vec::new();
    problems.extend(fixed("ipFamily", &old.ip_family, &new.ip_family));
    problems.extend(fixed("prefixLength", &old.prefix_length, &new.prefix_length));
    problems.extend(fixed("poolRef", &old.pool_ref, &new.pool_ref));
    problems.extend(fixed("poolSelector", &old.pool_selector, &new.pool_selector));
    let carved = IpClaimStatus::of(stored).and_then(|status| status.allocated_cidr);
    if problems.is_empty() {
        problems.extend(carved.map(|cidr| resized(cidr, &asked.metadata)).unwrap_or_default());
    }
    problems
}

/// What of a pool would change and may not: its range, and where that comes from.
#[must_use]
pub fn check_pool_change(stored: &IpPoolSpec, asked: &IpPoolSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(fixed("cidr", &stored.cidr, &asked.cidr));
    problems.extend(fixed("ipFamily", &stored.ip_family, &asked.ip_family));
    problems.extend(fixed("parentPoolRef", &stored.parent_pool_ref, &asked.parent_pool_ref));
    problems.extend(fixed("prefixLength", &stored.prefix_length, &asked.prefix_length));
    problems
}

fn fixed<T: PartialEq + Serialize>(field: &str, stored: &T, asked: &T) -> Option<Problem> {
    (stored != asked).then(|| cannot_change(field, &shown(stored), &shown(asked)))
}

fn cannot_change(field: &str, stored: &str, asked: &str) -> Problem {
    Problem::spec(field, format!("cannot be changed: it is {stored}, and would become {asked}"))
}

fn shown(value: &impl Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        serde_json::Value::Null => "absent".to_owned(),
        serde_json::Value::String(text) => text,
        value => value.to_string(),
    }
}

/// An annotation about size may come and go, but not ask for another size than was carved.
fn resized(carved: Cidr, asked: &ObjectMeta) -> Vec<Problem> {
    let family: Family = carved.family();
    let size = match SizeAsked::of(asked, family) {
        Ok(size) => size,
        Err(problems) => return problems,
    };
    let refuse = |name, asked: &dyn Display| {
        let reason = format!("is {asked}, but {carved} was carved, which cannot be changed");
        Problem::new(annotation(name), reason)
    };
    let length = size.prefix_length.filter(|&length| length != carved.prefix());
    let cidr = size.cidr.filter(|&cidr| cidr != carved);
    let length = length.map(|length| refuse(PREFIX_LENGTH_ANNOTATION, &length));
    length.into_iter().chain(cidr.map(|cidr| refuse(REQUESTED_CIDR_ANNOTATION, &cidr))).collect()
}
