//! Which pools may serve a request, in which order, and why the others may not. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::selector::{Selector, SelectorError};
use crate::api::calico::{AllowedUse, AssignmentMode, IpPool};
use crate::net::{Cidr, Family};

/// Which pools a request may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolChoice {
    /// Every enabled pool that selects the host.
    Any,
    /// The pools of a network, by their CIDRs. Their selectors count.
    OfNetwork(Vec<Cidr>),
    /// Pools asked for by name or CIDR, in that order. Selectors and the mode `Manual` do not count.
    Requested(Vec<String>),
}

/// A pool as the engine looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its range.
    pub cidr: Cidr,
    /// The prefix length of its blocks.
    pub block_prefix: u8,
}

impl Pool {
    /// What the engine needs of a stored pool.
    #[must_use]
    pub fn of(stored: &IpPool) -> Self {
        Self {
            name: stored.name().to_owned(),
            cidr: stored.spec.cidr,
            block_prefix: stored.spec.block_prefix(),
        }
    }

    /// The block that an address lies in.
    #[must_use]
    pub fn block_of(&self, address: IpAddr) -> Option<Cidr> {
        Cidr::containing(address, self.block_prefix).filter(|block| self.cidr.contains(*block))
    }
}

/// Why a pool may not serve a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// The user switched it off.
    #[error("is disabled")]
    Disabled,
    /// Its deletion was asked for.
    #[error("is being deleted")]
    Deleting,
    /// A controller found it unusable.
    #[error("is not allocatable ({0})")]
    NotAllocatable(String),
    /// Its node selector does not match.
    #[error("does not select this host (its nodeSelector is `{0}`)")]
    OtherNodes(String),
    /// Its namespace selector does not match.
    #[error("does not select this namespace (its namespaceSelector is `{0}`)")]
    OtherNamespaces(String),
    /// It serves explicit requests only.
    #[error("is for explicit requests only (its assignmentMode is `Manual`)")]
    Manual,
    /// It serves other purposes.
    #[error("does not serve workloads (its allowedUses leave them out)")]
    OtherUse,
    /// It is smaller than one of its blocks.
    #[error("is smaller than one block of /{0}")]
    Narrow(u8),
}

/// Pools, told apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    /// Those that may serve, in the order in which they are tried.
    pub(super) allowed: Vec<Pool>,
    /// Those that may not, and why.
    pub(super) refused: Vec<(Pool, Ineligible)>,
}

/// Why no choice could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// A pool was asked for that does not exist.
    #[error("there is no {family} pool `{asked}`")]
    Unknown {
        /// The name or CIDR asked for.
        asked: String,
        /// The family asked for.
        family: Family,
    },
    /// A selector does not parse: nobody knows whom the pool is for.
    #[error("the {which} of pool `{pool}` does not parse: {problem}")]
    Selector {
        /// The pool.
        pool: String,
        /// Which of its selectors.
        which: &'static str,
        /// What is wrong with it.
        problem: SelectorError,
    },
}

/// Chooses among all pools of the store for a host with some labels.
///
/// # Errors
/// When a requested pool does not exist, or a selector that counts does not parse.
///
/// # Source
/// The reference engine: enabled pools in the order of their names; requested pools in the order of the request, whose
/// selectors and assignment mode do not count.
pub(super) fn choose(
    pools: &[IpPool],
    family: Family,
    choice: &PoolChoice,
    labels: &BTreeMap<String, String>,
) -> Result<Choice, ChoiceError> {
    let of_family = || pools.iter().filter(|pool| pool.spec.cidr.family() == family);
    let mut made = Choice::default();
    match choice {
        PoolChoice::Any => {
            for pool in of_family() {
                made.add(pool, selected(pool, labels)?.or_else(|| manual(pool)));
            }
        }
        PoolChoice::OfNetwork(cidrs) => {
            for pool in of_family().filter(|pool| cidrs.contains(&pool.spec.cidr)) {
                made.add(pool, selected(pool, labels)?);
            }
        }
        PoolChoice::Requested(names) => {
            for asked in names {
                let pool = of_family()
                    .find(|pool| pool.name() == asked || is_cidr(asked, pool.spec.cidr))
                    .ok_or_else(|| ChoiceError::Unknown { asked: asked.clone(), family })?;
                made.add(pool, None);
            }
        }
    }
    Ok(made)
}

fn is_cidr(asked: &str, cidr: Cidr) -> bool {
    Cidr::parse_masking(asked).is_ok_and(|asked| asked == cidr)
}

impl Choice {
    fn add(&mut self, pool: &IpPool, refused: Option<Ineligible>) {
        let known = Pool::of(pool);
        match unusable(pool).or(refused) {
            Some(reason) => self.refused.push((known, reason)),
            None if self.allowed.contains(&known) => {}
            None => self.allowed.push(known),
        }
    }
}

/// Why a pool serves nobody, whoever asks.
fn unusable(pool: &IpPool) -> Option<Ineligible> {
    if pool.spec.disabled {
        return Some(Ineligible::Disabled);
    }
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(Ineligible::Deleting);
    }
    if let Some(reason) = not_allocatable(pool) {
        return Some(Ineligible::NotAllocatable(reason));
    }
    if !pool.spec.allows(AllowedUse::Workload) {
        return Some(Ineligible::OtherUse);
    }
    let block = pool.spec.block_prefix();
    (block < pool.spec.cidr.prefix()).then_some(Ineligible::Narrow(block))
}

/// Why nothing new may be carved out of a pool, whoever asks.
#[must_use]
pub(super) fn closed(pool: &IpPool) -> Option<Ineligible> {
    unusable(pool).filter(|reason| matches!(reason, Ineligible::Disabled | Ineligible::Deleting))
}

/// Whether nothing new may come from a pool, whoever asks: it is off, going, or unusable.
#[must_use]
pub(super) fn is_enabled(pool: &IpPool) -> bool {
    !matches!(
        unusable(pool),
        Some(Ineligible::Disabled | Ineligible::Deleting | Ineligible::NotAllocatable(_))
    )
}

/// Whether a pool's blocks are of use to a host with these labels: then an empty one may stay with it.
#[must_use]
pub(super) fn selects_host(pool: &IpPool, labels: &BTreeMap<String, String>) -> bool {
    let text = pool.spec.node_selector.as_deref().unwrap_or_default();
    // A selector that does not parse gives no ground to take anything away.
    Selector::parse(text).map_or(true, |selector| selector.matches(labels))
}

fn not_allocatable(pool: &IpPool) -> Option<String> {
    let conditions = pool.status.as_ref()?.get("conditions")?.as_array()?;
    let field = |condition: &serde_json::Value, name: &str| {
        condition.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let refused =
        conditions.iter().find(|c| field(c, "type") == "Allocatable" && field(c, "status") == "False")?;
    Some(field(refused, "reason"))
}

fn manual(pool: &IpPool) -> Option<Ineligible> {
    (pool.spec.assignment_mode == Some(AssignmentMode::Manual)).then_some(Ineligible::Manual)
}

/// Whether the pool's selectors leave this host, or a container without a namespace, out.
fn selected(pool: &IpPool, labels: &BTreeMap<String, String>) -> Result<Option<Ineligible>, ChoiceError> {
    let matches = |which: &'static str, text: &str, labels: &BTreeMap<String, String>| {
        // The selector of nearly every pool; worth no parser.
        if text.is_empty() || text == "all()" {
            return Ok(true);
        }
        Selector::parse(text)
            .map(|selector| selector.matches(labels))
            .map_err(|problem| ChoiceError::Selector { pool: pool.name().to_owned(), which, problem })
    };
    let nodes = pool.spec.node_selector.as_deref().unwrap_or_default();
    if !matches("nodeSelector", nodes, labels)? {
        return Ok(Some(Ineligible::OtherNodes(nodes.to_owned())));
    }
    let namespaces = pool.spec.namespace_selector.as_deref().unwrap_or_default();
    if !matches("namespaceSelector", namespaces, &BTreeMap::new())? {
        return Ok(Some(Ineligible::OtherNamespaces(namespaces.to_owned())));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::calico::IpPoolSpec;
    use serde_json::json;

    fn pool(name: &str, cidr: &str, change: impl FnOnce(&mut IpPoolSpec)) -> IpPool {
        let mut spec = IpPoolSpec::new(cidr.parse().expect("cidr"));
        change(&mut spec);
        IpPool::new(name, spec)
    }

    fn labels(zone: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("zone".to_owned(), zone.to_owned())])
    }

    fn names(pools: &[IpPool], choice: &PoolChoice, labels: &BTreeMap<String, String>) -> Vec<String> {
        let made = choose(pools, Family::V4, choice, labels).expect("a choice");
        made.allowed.into_iter().map(|pool| pool.name).collect()
    }

    #[test]
    fn enabled_pools_that_select_the_host_come_in_the_order_of_the_store() {
        let mut gone = pool("e", "10.4.0.0/16", |_| ());
        gone.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        let mut overlapping = pool("f", "10.5.0.0/16", |_| ());
        overlapping.status = Some(
            json!({"conditions": [{"type": "Allocatable", "status": "False", "reason": "CIDROverlap"}]}),
        );
        let pools = [
            pool("a", "10.0.0.0/16", |_| ()),
            pool("b", "10.1.0.0/16", |spec| spec.disabled = true),
            pool("c", "10.2.0.0/16", |spec| spec.node_selector = Some("zone == 'x'".into())),
            pool("d", "10.3.0.0/16", |spec| spec.assignment_mode = Some(AssignmentMode::Manual)),
            gone,
            overlapping,
            pool("g", "10.6.0.0/16", |spec| spec.allowed_uses = vec![AllowedUse::Tunnel]),
            pool("h", "10.7.0.0/29", |_| ()),
            pool("i", "fd00::/64", |_| ()),
            pool("j", "10.8.0.0/16", |spec| spec.namespace_selector = Some("has(team)".into())),
            pool("k", "10.9.0.0/16", |spec| spec.namespace_selector = Some("!has(team)".into())),
        ];
        assert_eq!(names(&pools, &PoolChoice::Any, &BTreeMap::new()), ["a", "k"]);
        assert_eq!(names(&pools, &PoolChoice::Any, &labels("x")), ["a", "c", "k"]);
        let refused = choose(&pools, Family::V4, &PoolChoice::Any, &labels("y")).expect("a choice").refused;
        assert_eq!(refused.len(), 8, "{refused:?}");
    }

    #[test]
    fn requested_pools_come_in_the_order_of_the_request_whatever_their_selectors() {
        let pools = [
            pool("a", "10.0.0.0/16", |_| ()),
            pool("b", "10.1.0.0/16", |spec| spec.node_selector = Some("zone == 'x'".into())),
            pool("c", "10.2.0.0/16", |spec| spec.assignment_mode = Some(AssignmentMode::Manual)),
            pool("d", "10.3.0.0/16", |spec| spec.disabled = true),
        ];
        let requested = |names: &[&str]| PoolChoice::Requested(names.iter().map(|&n| n.to_owned()).collect());
        assert_eq!(
            names(&pools, &requested(&["c", "10.1.2.3/16", "a", "c"]), &BTreeMap::new()),
            ["c", "b", "a"]
        );
        assert_eq!(names(&pools, &requested(&["d"]), &BTreeMap::new()), Vec::<String>::new());
        let unknown = choose(&pools, Family::V4, &requested(&["a", "nope"]), &BTreeMap::new());
        assert_eq!(unknown, Err(ChoiceError::Unknown { asked: "nope".into(), family: Family::V4 }));
    }

    #[test]
    fn a_network_is_restricted_to_its_pools_and_their_selectors_count() {
        let pools = [
            pool("a", "10.0.0.0/16", |_| ()),
            pool("b", "10.1.0.0/16", |spec| spec.node_selector = Some("zone == 'x'".into())),
        ];
        let both = PoolChoice::OfNetwork(pools.iter().map(|pool| pool.spec.cidr).collect());
        assert_eq!(names(&pools, &both, &labels("x")), ["a", "b"]);
        assert_eq!(names(&pools, &both, &labels("y")), ["a"]);
    }

    #[test]
    fn a_selector_that_does_not_parse_fails_the_request() {
        let pools = [pool("a", "10.0.0.0/16", |spec| spec.node_selector = Some("zone ==".into()))];
        let made = choose(&pools, Family::V4, &PoolChoice::Any, &BTreeMap::new());
        assert!(matches!(made, Err(ChoiceError::Selector { which: "nodeSelector", .. })), "{made:?}");
    }
}
