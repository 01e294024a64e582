use super::{check_name, check_project, check_size};
use crate::api::ObjectMeta;
use crate::api::milo::{IpClaimSpec, PoolSelector, REQUESTED_CIDR_ANNOTATION};
use crate::api::validate::{Path, Problem, annotation};

/// Rules of a claim that its schema cannot say.
pub(super) fn check(metadata: &ObjectMeta, spec: &IpClaimSpec, problems: &mut Vec<Problem>) {
    check_pool(spec, problems);
    check_length(metadata, spec, problems);
}

fn check_pool(spec: &IpClaimSpec, problems: &mut Vec<Problem>) {
    let path = Path::root().key("spec");
    match (&spec.pool_ref, &spec.pool_selector) {
        (None, None) => {
            problems.push(Problem::spec(
                "poolRef",
                "is missing, and so is `spec.poolSelector`: give one of them",
            ));
        }
        (Some(_), Some(_)) => {
            problems.push(Problem::spec("poolSelector", "is given beside `spec.poolRef`: give one of them"));
        }
        (Some(pool), None) => {
            let path = path.key("poolRef");
            check_name(&pool.name, "an IPPool", &path, problems);
            check_project(pool.project_ref.as_ref(), &path, problems);
        }
        (None, Some(selector)) => check_selector(selector, &path.key("poolSelector"), problems),
    }
}

fn check_selector(selector: &PoolSelector, path: &Path, problems: &mut Vec<Problem>) {
    check_project(selector.project_ref.as_ref(), path, problems);
    for (index, asked) in selector.match_expressions.iter().enumerate() {
        let path = path.key("matchExpressions").index(index);
        if asked.key.is_empty() {
            problems.push(Problem::new(path.key("key"), "is empty; expected the name of a label"));
        }
        let operator = asked.operator;
        let reason = match (operator.takes_values(), asked.values.is_empty()) {
            (true, true) => format!("has nothing in it; `{operator:?}` needs a value"),
            (false, false) => format!("is given; `{operator:?}` takes none"),
            _ => continue,
        };
        problems.push(Problem::new(path.key("values"), reason));
    }
}

fn check_length(metadata: &ObjectMeta, spec: &IpClaimSpec, problems: &mut Vec<Problem>) {
    let (length, bits, family) = (spec.prefix_length, spec.ip_family.bits(), spec.ip_family);
    if length > bits {
        problems
            .push(Problem::spec("prefixLength", format!("is {length}; expected 1 to {bits} for {family}")));
        return;
    }
    let asked = check_size(metadata, family, problems).unwrap_or_default();
    if let Some(cidr) = asked.cidr.filter(|cidr| cidr.prefix() != length) {
        let reason = format!("is {cidr}, but `spec.prefixLength` is {length}");
        problems.push(Problem::new(annotation(REQUESTED_CIDR_ANNOTATION), reason));
    } else if let Some(given) = asked.prefix_length.filter(|&given| given != length) {
        let reason = format!("is {given}, but `spec.prefixLength` is {length}, which counts for a claim");
        problems.push(Problem::new(annotation(crate::api::milo::PREFIX_LENGTH_ANNOTATION), reason));
    }
}
