//! `ipam migrate`: imports the leases of another plugin, so that every container keeps its address.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::args::Migrate as Args;
use super::super::error::Error;
use super::super::render::{self, Format, counted, printable};
use super::super::{Answer, Context, Outcome};
use super::write;
use crate::api::calico::{IpPool, IpPoolSpec};
use crate::cni::config::{Addressing, NetConf, PoolConf};
use crate::datastore::run_in_place;
use crate::host_local::HostLocalDirectory;
use crate::ipam::{Host, HostLocalLease, LeaseFate, Migrate, PoolAsked, Trial};
use crate::netlink::Rtnetlink;

/// A network, and where its records are.
struct Network {
    name: String,
    records: HostLocalDirectory<'static>,
    /// What its configuration says, where there is one.
    pools: Vec<PoolAsked>,
    gateways: Option<Vec<IpAddr>>,
}

/// What became of the records of a network.
struct Told {
    network: String,
    fates: Vec<(HostLocalLease, LeaseFate)>,
}

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Args) -> Result<Answer, Error> {
    let networks = networks(context, args)?;
    let host = context.this_host()?.ok_or(Error::NothingToDo {
        verb: "ipam migrate",
        expected: "this host does not know its name; give it one, or `nodename` in the configuration of `--conf`",
    })?;
    let trial = if args.dry_run { Trial::DryRun } else { Trial::Write };
    let mut told = Vec::new();
    let mut ipam = context.open_to_write(Trial::DryRun)?;
    for network in &networks {
        let fates = run_in_place(ipam.judge_leases(&request(context, &host, network), &network.records))?;
        told.push(Told { network: network.name.clone(), fates });
    }
    drop(ipam);
    refuse_homeless(&told)?;
    let free = told.iter().map(Told::free).sum::<usize>();
    if trial == Trial::Write {
        if free > 0 {
            let addresses = counted(free, "address", "addresses");
            context.confirm(&format!("This imports {addresses} from host-local."), args.yes)?;
        }
        let mut ipam = context.open_to_write(Trial::Write)?;
        for network in &networks {
            run_in_place(ipam.migrate(&request(context, &host, network), &network.records))?;
        }
        write::settle(&mut ipam);
    }
    let data = match context.format {
        Format::Json => render::json(&document(&told, trial)),
        Format::Yaml => render::yaml(&document(&told, trial)),
        _ => told.iter().map(|told| told.text(trial)).collect(),
    };
    let outcome = if told.iter().any(Told::has_conflict) { Outcome::No } else { Outcome::Done };
    Ok(Answer { data, outcome, notes: Vec::new() })
}

fn request<'a>(context: &Context<'_>, host: &'a Host, network: &'a Network) -> Migrate<'a> {
    Migrate {
        host,
        network: &network.name,
        pools: &network.pools,
        gateways: network.gateways.as_deref(),
        now: context.clock.now(),
    }
}

/// The networks that are meant: the directory's own, or those of its directories.
fn networks(context: &Context<'_>, args: &Args) -> Result<Vec<Network>, Error> {
    let dir = &args.from_host_local;
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    match &args.network {
        Some(name) if dir.join(name).is_dir() => found.push((name.clone(), dir.join(name))),
        Some(name) if is_of_a_network(dir)? => found.push((name.clone(), dir.clone())),
        Some(name) => {
            let problem = format!("has no records of network `{}`", printable(name));
            return Err(Error::File { path: dir.clone(), problem });
        }
        None if is_of_a_network(dir)? => {
            let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            found.push((name, dir.clone()));
        }
        None => {
            for path in entries(dir)? {
                if let Some(name) = path.file_name().and_then(|name| name.to_str())
                    && path.is_dir()
                    && is_of_a_network(&path)?
                {
                    found.push((name.to_owned(), path.clone()));
                }
            }
        }
    }
    if found.is_empty() {
        let problem = "holds no records of host-local, and no directory of a network that does".to_owned();
        return Err(Error::File { path: dir.clone(), problem });
    }
    found.sort();
    found.into_iter().map(|(name, path)| network(context, name, path)).collect()
}

fn network(context: &Context<'_>, name: String, path: PathBuf) -> Result<Network, Error> {
    let records = HostLocalDirectory::new(path, &Rtnetlink);
    let Some(conf) = context.network_conf(&name)? else {
        return Ok(Network { name, records, pools: Vec::new(), gateways: None });
    };
    let named = conf.ipam.sets.iter().flat_map(|set| &set.ranges).filter_map(|range| range.gateway);
    let gateways = match conf.ipam.addressing {
        Addressing::Routed => None,
        Addressing::Subnet => Some(conf.ipam.gateways.iter().copied().chain(named).collect()),
    };
    Ok(Network { pools: pools(&conf)?, name, records, gateways })
}

/// The pools that a network's first ADD would make.
fn pools(conf: &NetConf) -> Result<Vec<PoolAsked>, Error> {
    let ranges = conf.ipam.sets.iter().flat_map(|set| &set.ranges).map(|range| PoolConf::new(range.subnet));
    let mut pools: Vec<PoolAsked> = Vec::new();
    for conf in conf.ipam.pools.iter().cloned().chain(ranges) {
        let mut spec: IpPoolSpec =
            serde_json::from_value(conf.spec().into()).map_err(|error| Error::Argument {
                what: "a pool of the network".into(),
                found: conf.cidr.to_string(),
                expected: format!("an IPPool: {error}"),
            })?;
        if conf.block_size.is_none() && spec.block_prefix() < spec.cidr.prefix() {
            // A block is never larger than its pool.
            spec.block_size = Some(spec.cidr.prefix());
        }
        let asked = PoolAsked {
            pool: IpPool::new(conf.resource_name(), spec),
            name_given: conf.name.is_some(),
            block_size_given: conf.block_size.is_some(),
        };
        if !pools.contains(&asked) {
            pools.push(asked);
        }
    }
    Ok(pools)
}

/// Whether a directory is one that host-local keeps for a network.
fn is_of_a_network(dir: &Path) -> Result<bool, Error> {
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.is_file() && (crate::net::parse_address(name).is_some() || name.starts_with("last_reserved_ip"))
    };
    Ok(entries(dir)?.iter().any(is_record))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: dir.to_owned(), source };
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// What lies in no pool would be given to nobody, and kept from nobody: first the pool, then the records.
fn refuse_homeless(told: &[Told]) -> Result<(), Error> {
    let homeless = told.iter().flat_map(|told| {
        let of_network = told.fates.iter().filter(|(_, fate)| *fate == LeaseFate::NoPool);
        of_network.map(|(lease, _)| format!("{} (network `{}`)", lease.address, printable(&told.network)))
    });
    let homeless: Vec<_> = homeless.collect();
    if homeless.is_empty() { Ok(()) } else { Err(Error::Homeless(homeless)) }
}

impl Told {
    fn free(&self) -> usize {
        self.fates.iter().filter(|(_, fate)| matches!(fate, LeaseFate::Free { .. })).count()
    }

    fn has_conflict(&self) -> bool {
        self.fates.iter().any(|(_, fate)| matches!(fate, LeaseFate::Taken { .. }))
    }

    fn text(&self, trial: Trial) -> String {
        let mut text = String::new();
        let (imported, import) = match trial {
            Trial::Write => ("Imported", "imported"),
            Trial::DryRun => ("Would import", "would import"),
        };
        let removed =
            if trial == Trial::Write { "its record was removed" } else { "its record would be removed" };
        for (lease, fate) in &self.fates {
            let who = format!("container {}, {}", printable(&lease.container_id), printable(&lease.ifname));
            let address = lease.address;
            let _ = match fate {
                LeaseFate::Free { pool } => {
                    writeln!(text, "{imported} {address} ({who}) into pool {}", printable(pool))
                }
                LeaseFate::Held => writeln!(text, "{address} ({who}) is held by it already"),
                LeaseFate::Released => writeln!(text, "{address} ({who}) was released since it was imported"),
                LeaseFate::Dead => writeln!(
                    text,
                    "{address} ({who}) is from before this boot, and no network namespace has it: {removed}"
                ),
                LeaseFate::Nameless => writeln!(
                    text,
                    "{address} is in a record without a container: it is left out, and not assigned, until that changes"
                ),
                LeaseFate::Taken { handle } => {
                    let handle = handle.as_deref().map_or_else(|| "<none>".to_owned(), printable);
                    writeln!(text, "CONFLICT: {address} ({who}) belongs to handle {handle}, which keeps it")
                }
                LeaseFate::NoPool => writeln!(text, "{address} ({who}) lies in no pool"),
            };
        }
        let addresses = counted(self.free(), "address", "addresses");
        let _ = writeln!(text, "Network `{}`: {import} {addresses}.", printable(&self.network));
        text
    }
}

fn document(told: &[Told], trial: Trial) -> Value {
    let network = |told: &Told| {
        let each = told.fates.iter().map(|(lease, fate)| {
            let (word, pool, handle) = match fate {
                LeaseFate::Free { pool } => ("imported", Some(pool), None),
                LeaseFate::Held => ("heldAlready", None, None),
                LeaseFate::Released => ("released", None, None),
                LeaseFate::Dead => ("dead", None, None),
                LeaseFate::Nameless => ("noContainer", None, None),
                LeaseFate::Taken { handle } => ("conflict", None, handle.as_ref()),
                LeaseFate::NoPool => ("noPool", None, None),
            };
            json!({
                "ip": lease.address, "containerID": lease.container_id, "ifname": lease.ifname,
                "outcome": word, "pool": pool, "heldBy": handle,
            })
        });
        json!({ "network": told.network, "addresses": each.collect::<Vec<_>>() })
    };
    json!({ "dryRun": trial == Trial::DryRun, "networks": told.iter().map(network).collect::<Vec<_>>() })
}
