//! What one call asks for beside the network's own settings.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::pools::PoolRef;
use super::section::{Section, Value};
use crate::cni::args::{Args, push_once, requested_address};
use crate::cni::failure::Failure;
use crate::cni::json::{self, Raw};
use crate::net::Family;

/// Where containerd and CRI-O put a pod's annotations.
const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
/// Whose annotations matter here.
const PREFIXES: [&str; 2] = ["cni.projectcalico.org/", "kubevirt.io/"];

/// What is asked for one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The addresses asked for, each once. Of `runtimeConfig.ips`, `args.cni.ips`, `CNI_ARGS` and the pod's annotation
    /// the first that asks for a family counts for it. Empty except at ADD.
    pub addresses: Vec<IpAddr>,
    /// The pod, where both its names are known.
    pub pod: Option<Pod>,
    /// `CNI_ARGS`.
    pub args: Args,
    /// The pod's annotations of Calico and `KubeVirt`.
    pub annotations: BTreeMap<String, String>,
    /// `args.cni.vm`, as JSON text.
    pub vm: Option<String>,
}

/// A pod's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The longest name that Kubernetes allows, in bytes.
pub(in crate::cni) const NAME_BYTES_MAX: usize = 253;

/// A pod's name or namespace as it is noted. A longer one than Kubernetes allows is cut: every block with such an address
/// repeats it, and a block's file has a limit.
fn bounded(name: &str) -> String {
    let ends = name.char_indices().map(|(start, letter)| start + letter.len_utf8());
    let end = ends.take_while(|end| *end <= NAME_BYTES_MAX).last().unwrap_or(0);
    name.get(..end).unwrap_or(name).to_owned()
}

/// What annotations put in place of the network's own settings.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    pub(super) ipv4_pools: Option<Vec<PoolRef>>,
    pub(super) ipv6_pools: Option<Vec<PoolRef>>,
    /// The families to assign.
    pub(super) families: Option<Vec<Family>>,
}

impl Request {
    /// Who is asking, and nothing that could be wrong.
    pub(super) fn identity(root: &Section<'_, '_>, args: Args) -> Request {
        let runtime = root.section("runtimeConfig").ok().flatten();
        let pod = args.pod_namespace.as_deref().map(bounded).zip(args.pod_name.as_deref().map(bounded));
        let cni = root.section("args").ok().flatten();
        Request {
            addresses: Vec::new(),
            pod: pod.map(|(namespace, name)| Pod { namespace, name }),
            annotations: runtime.as_ref().map(annotations).unwrap_or_default(),
            vm: cni.as_ref().and_then(|args| args.section("cni").ok()?).and_then(|cni| {
                let vm = cni.get("vm")?;
                Some(vm.raw.source().into_owned())
            }),
            args,
        }
    }

    /// Who is asking, and for what.
    pub(super) fn read(
        root: &Section<'_, '_>,
        runtime: Option<&Section<'_, '_>>,
        args: Args,
    ) -> Result<(Request, Overrides), Failure> {
        let mut request = Self::identity(root, args);
        let mut sources = Vec::with_capacity(4);
        sources.push(addresses(runtime)?);
        // `args` belongs to everybody: what is not understood is passed over, what is understood is not.
        let args = root.section("args").ok().flatten();
        let cni = args.as_ref().and_then(|args| args.section("cni").ok()?);
        sources.push(addresses(cni.as_ref())?);
        sources.push(request.args.ips.clone());
        sources.push(request.annotated_addresses()?);
        for family in Family::BOTH {
            let of_family = |address: &&IpAddr| Family::of(**address) == family;
            if let Some(source) =
                sources.iter().find(|source| source.iter().any(|address| of_family(&address)))
            {
                request.addresses.extend(source.iter().filter(of_family));
            }
        }
        let overrides = Overrides {
            ipv4_pools: request.annotated_pools("cni.projectcalico.org/ipv4pools", Family::V4)?,
            ipv6_pools: request.annotated_pools("cni.projectcalico.org/ipv6pools", Family::V6)?,
            families: request.annotated_families()?,
        };
        Ok((request, overrides))
    }

    fn annotated_addresses(&self) -> Result<Vec<IpAddr>, Failure> {
        const KEY: &str = "cni.projectcalico.org/ipAddrs";
        let Some(texts) = self.annotated_list(KEY)? else {
            return Ok(Vec::new());
        };
        let mut addresses = Vec::new();
        // Whoever may write a pod may write this; a long list is refused unread.
        for text in texts.iter().take(2) {
            let address = crate::net::parse_address(text)
                .ok_or_else(|| refused(KEY, format_args!("{text:?} is no address")))?;
            push_once(&mut addresses, address);
        }
        let count = |family| addresses.iter().filter(|address| Family::of(**address) == family).count();
        if texts.len() > 2 || addresses.is_empty() || Family::BOTH.into_iter().any(|family| count(family) > 1)
        {
            return Err(refused(KEY, "expected one IPv4 address, one IPv6 address, or one of each"));
        }
        Ok(addresses)
    }

    fn annotated_pools(&self, key: &str, family: Family) -> Result<Option<Vec<PoolRef>>, Failure> {
        let Some(texts) = self.annotated_list(key)? else {
            return Ok(None);
        };
        let pools =
            texts.iter().map(|text| PoolRef::parse(text, family).map_err(|problem| refused(key, problem)));
        pools.collect::<Result<_, _>>().map(Some)
    }

    fn annotated_families(&self) -> Result<Option<Vec<Family>>, Failure> {
        const KEY: &str = "cni.projectcalico.org/ipFamilies";
        let Some(texts) = self.annotated_list(KEY)? else {
            return Ok(None);
        };
        let families = texts.iter().map(|text| match text.as_str() {
            "IPv4" => Ok(Family::V4),
            "IPv6" => Ok(Family::V6),
            other => Err(refused(KEY, format_args!("{other:?} is no family; expected `IPv4` or `IPv6`"))),
        });
        families.collect::<Result<_, _>>().map(Some)
    }

    /// An annotation that is a JSON list of strings. `None`: the pod has none of this name.
    fn annotated_list(&self, key: &str) -> Result<Option<Vec<String>>, Failure> {
        let Some(text) = self.annotations.get(key) else {
            return Ok(None);
        };
        let list = json::document(text.as_bytes()).ok().and_then(Raw::array);
        let list = list.and_then(|list| list.map(|item| Some(item.string()?.into_owned())).collect());
        list.map(Some).ok_or_else(|| refused(key, format_args!("{text:?} is no JSON list of strings")))
    }
}

/// `ips` of a section.
fn addresses(section: Option<&Section<'_, '_>>) -> Result<Vec<IpAddr>, Failure> {
    let mut addresses = Vec::new();
    let Some(list) = section.and_then(|section| section.get("ips")) else {
        return Ok(addresses);
    };
    for value in list.list()? {
        push_once(&mut addresses, address(value)?);
    }
    Ok(addresses)
}

fn address(value: Value<'_, '_>) -> Result<IpAddr, Failure> {
    requested_address(&value.string()?)
        .ok_or_else(|| value.expected("an address, with or without a prefix length"))
}

fn annotations(runtime: &Section<'_, '_>) -> BTreeMap<String, String> {
    let Some(all) = runtime.section(POD_ANNOTATIONS).ok().flatten() else {
        return BTreeMap::new();
    };
    all.members()
        .filter(|(key, _)| PREFIXES.iter().any(|prefix| key.starts_with(prefix)))
        .filter_map(|(key, value)| Some((key.to_owned(), value.string()?.into_owned())))
        .collect()
}

fn refused(annotation: &str, problem: impl std::fmt::Display) -> Failure {
    Failure::config(format!("pod annotation `{annotation}`: {problem}"))
}
