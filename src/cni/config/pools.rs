//! `ipam.pools[]`: pools that the network itself brings, and the pools it is restricted to.

use std::fmt;

use serde_json::{Map, Value as Json, json};

use super::section::{Section, Value};
use crate::cni::failure::Failure;
use crate::net::{Cidr, Family};

/// A pool as a network configuration describes it: what the first ADD makes of it if there is none with this CIDR.
///
/// # Source
/// `projectcalico.org/v3`, `IPPool`. `None`: not set, so the default of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConf {
    /// What identifies it.
    pub cidr: Cidr,
    /// `None`: a name made from the CIDR.
    pub name: Option<String>,
    /// Prefix length of its blocks: 20 to 32 or 116 to 128, not shorter than the pool's.
    pub block_size: Option<u8>,
    /// True: gives nothing.
    pub disabled: Option<bool>,
    /// Which hosts may use it.
    pub node_selector: Option<String>,
    /// Which namespaces may use it.
    pub namespace_selector: Option<String>,
    /// `Workload`, `Tunnel`, `LoadBalancer`. `None`: not set.
    pub allowed_uses: Option<Vec<String>>,
    /// `Automatic` or `Manual`.
    pub assignment_mode: Option<String>,
    /// `Always`, `CrossSubnet` or `Never`.
    pub ipip_mode: Option<String>,
    /// `Always`, `CrossSubnet` or `Never`.
    pub vxlan_mode: Option<String>,
    /// Whether what leaves the pool is masqueraded.
    pub nat_outgoing: Option<bool>,
    /// Whether its routes are kept from BGP.
    pub disable_bgp_export: Option<bool>,
}

const KEYS: [&str; 12] = [
    "cidr",
    "name",
    "blockSize",
    "disabled",
    "nodeSelector",
    "namespaceSelector",
    "allowedUses",
    "assignmentMode",
    "ipipMode",
    "vxlanMode",
    "natOutgoing",
    "disableBGPExport",
];

impl PoolConf {
    /// A pool of which nothing but the CIDR is set.
    #[must_use]
    pub const fn new(cidr: Cidr) -> Self {
        Self {
            cidr,
            name: None,
            block_size: None,
            disabled: None,
            node_selector: None,
            namespace_selector: None,
            allowed_uses: None,
            assignment_mode: None,
            ipip_mode: None,
            vxlan_mode: None,
            nat_outgoing: None,
            disable_bgp_export: None,
        }
    }

    /// The name it is given, or the one made from its CIDR: `10-88-0-0-16`.
    #[must_use]
    pub fn resource_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.cidr.object_name())
    }

    /// The `spec` of the resource, with what is set and nothing else.
    #[must_use]
    pub fn spec(&self) -> Map<String, Json> {
        let members = [
            ("cidr", Some(json!(self.cidr.to_string()))),
            ("blockSize", self.block_size.map(Json::from)),
            ("disabled", self.disabled.map(Json::from)),
            ("nodeSelector", self.node_selector.clone().map(Json::from)),
            ("namespaceSelector", self.namespace_selector.clone().map(Json::from)),
            ("allowedUses", self.allowed_uses.clone().map(Json::from)),
            ("assignmentMode", self.assignment_mode.clone().map(Json::from)),
            ("ipipMode", self.ipip_mode.clone().map(Json::from)),
            ("vxlanMode", self.vxlan_mode.clone().map(Json::from)),
            ("natOutgoing", self.nat_outgoing.map(Json::from)),
            ("disableBGPExport", self.disable_bgp_export.map(Json::from)),
        ];
        members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    pub(super) fn read_all(ipam: &Section<'_, '_>) -> Result<Vec<PoolConf>, Failure> {
        let mut pools: Vec<PoolConf> = Vec::new();
        let Some(list) = ipam.get("pools") else {
            return Ok(pools);
        };
        for value in list.list()? {
            let pool = Self::read(&value.section()?)?;
            if let Some(first) = pools.iter().position(|other| other.cidr.overlaps(pool.cidr)) {
                let (a, b) = (pool.cidr, pools[first].cidr);
                return Err(value.problem(format!("`{a}` overlaps `{b}` of `ipam.pools[{first}]`")));
            }
            pools.push(pool);
        }
        Ok(pools)
    }

    fn read(section: &Section<'_, '_>) -> Result<PoolConf, Failure> {
        section.only(&KEYS)?;
        let cidr = section.cidr("cidr")?.ok_or_else(|| section.problem("has no `cidr`"))?;
        let word = |key, words| -> Result<Option<String>, Failure> {
            let value = section.given(key);
            Ok(value.map(|value| value.word(words)).transpose()?.map(str::to_owned))
        };
        let mut allowed_uses = None;
        if let Some(value) = section.get("allowedUses") {
            let uses = value
                .list()?
                .map(|value| value.word(&["Workload", "Tunnel", "LoadBalancer"]).map(str::to_owned));
            allowed_uses = Some(uses.collect::<Result<_, _>>()?);
        }
        Ok(PoolConf {
            cidr,
            name: section.get("name").map(name).transpose()?.flatten(),
            block_size: section.get("blockSize").map(|value| block_size(value, cidr)).transpose()?.flatten(),
            disabled: section.bool("disabled")?,
            node_selector: section.text("nodeSelector")?,
            namespace_selector: section.text("namespaceSelector")?,
            allowed_uses,
            assignment_mode: word("assignmentMode", &["Automatic", "Manual"])?,
            ipip_mode: word("ipipMode", &["Always", "CrossSubnet", "Never"])?,
            vxlan_mode: word("vxlanMode", &["Always", "CrossSubnet", "Never"])?,
            nat_outgoing: section.bool("natOutgoing")?,
            disable_bgp_export: section.bool("disableBGPExport")?,
        })
    }
}

/// 0 means the default, as in the resource.
fn block_size(value: Value<'_, '_>, pool: Cidr) -> Result<Option<u8>, Failure> {
    let (shortest, longest) = match pool.family() {
        Family::V4 => (20, 32),
        Family::V6 => (116, 128),
    };
    match value.raw.unsigned().and_then(|size| u8::try_from(size).ok()) {
        Some(0) => Ok(None),
        Some(size) if size < shortest || size > longest => {
            Err(value.expected(format!("{shortest} to {longest} for {}", pool.family())))
        }
        Some(size) if size < pool.prefix() => {
            Err(value.expected(format!("at least {}: a block is a part of the pool `{pool}`", pool.prefix())))
        }
        Some(size) => Ok(Some(size)),
        None => Err(value.expected(format!("{shortest} to {longest} for {}", pool.family()))),
    }
}

/// Names are Kubernetes', whatever the store, so that a pool can move from one to another.
fn name(value: Value<'_, '_>) -> Result<Option<String>, Failure> {
    let name = value.string()?;
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    match name.as_ref() {
        "" => Ok(None),
        name if name.len() <= 253 && name.split('.').all(label) => Ok(Some(name.to_owned())),
        _ => {
            Err(value
                .expected("lower-case letters, digits, `-` and `.`, with a letter or digit at both ends"))
        }
    }
}

/// A pool that a network is restricted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolRef {
    /// By its CIDR.
    Cidr(Cidr),
    /// By its name.
    Name(String),
}

impl fmt::Display for PoolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolRef::Cidr(cidr) => cidr.fmt(f),
            PoolRef::Name(name) => f.write_str(name),
        }
    }
}

impl PoolRef {
    pub(super) fn read_all(
        ipam: &Section<'_, '_>,
        key: &str,
        family: Family,
    ) -> Result<Vec<PoolRef>, Failure> {
        let Some(list) = ipam.get(key) else {
            return Ok(Vec::new());
        };
        list.list()?
            .map(|value| Self::parse(&value.string()?, family).map_err(|problem| value.problem(problem)))
            .collect()
    }

    /// A CIDR is one with a slash; its host bits do not count, as in Calico.
    pub(super) fn parse(text: &str, family: Family) -> Result<PoolRef, String> {
        if text.is_empty() {
            return Err("is empty; expected a pool's name or CIDR".into());
        }
        if !text.contains('/') {
            return Ok(PoolRef::Name(text.to_owned()));
        }
        let cidr = Cidr::parse_masking(text).map_err(|problem| problem.to_string())?;
        if cidr.family() != family {
            return Err(format!("`{cidr}` is an {} network; expected an {family} one", cidr.family()));
        }
        Ok(PoolRef::Cidr(cidr))
    }
}
