//! One call of a runtime, from its variables to its answer.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::config::{Dialect, Dns, NetConf, NodeConf, Stdin, ValidAttachments};
use super::config::{NODENAME_FILE, node_name_from_file, parse_node_name, parse_resolv_conf};
use super::env::{Call, Verb};
use super::failure::{Code, Failure};
use super::machine;
use super::plan::Plan;
use super::refusal::{failure, store_failure};
use super::store;
use super::version::{self, Version};
use crate::api::HostName;
use crate::clock::{Clock, Timestamp};
use crate::datastore::file::{Access, IfAbsent};
use crate::datastore::{Datastore as _, run_in_place};
use crate::host;
use crate::host_local::HostLocalDirectory;
use crate::ipam::{
    self, Assign, Assigned, Attachment, Deletion, Host, Ipam, MachineFate, Netns, OwnAddresses, Owner,
    Released, Sharing,
};
use crate::net::Cidr;
use crate::netlink::{Answer, Links};
use crate::store::Store;
use crate::workload::Workloads;

/// How long STATUS waits for the store's lock: kubelet asks every few seconds, and marks the node by the answer.
const STATUS_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits for a store that is not this machine's.
const STATUS_PATIENCE: Duration = Duration::from_secs(5);

/// What a call can ask of the world around it.
pub struct World<'a> {
    /// The variables of the environment.
    pub variables: &'a dyn Fn(&str) -> Option<OsString>,
    /// The name under which the program was started, without its directory.
    pub called_as: &'a str,
    /// The time.
    pub clock: &'a dyn Clock,
    /// The kernel's network interfaces.
    pub links: &'a dyn Links,
    /// Pods and virtual machines, beyond what a call says of them.
    pub workloads: &'a dyn Workloads,
}

/// Serves one call. `None`: `CNI_COMMAND` is not set, so this is no call of a runtime.
///
/// The answer is one JSON document on `stdout`, or nothing. True: success.
pub fn run(world: &World<'_>, stdin: &mut dyn Read, stdout: &mut dyn Write) -> Option<bool> {
    let call = match Call::read(world.variables) {
        Ok(None) => return None,
        Ok(Some(call)) => call,
        Err(failure) => return Some(refuse(&failure, Version::LATEST, stdout)),
    };
    let mut input = Vec::with_capacity(4096);
    // VERSION is answered whatever comes, or does not come, on standard input.
    let read = stdin.read_to_end(&mut input);
    if call.verb == Verb::Version {
        return Some(answer(&version::answer(&input), stdout).is_ok());
    }
    if let Err(error) = read {
        let failure = Failure::new(Code::Io, format!("could not read the network configuration: {error}"));
        return Some(refuse(&failure, Version::LATEST, stdout));
    }
    let stdin = match Stdin::parse(&input) {
        Ok(stdin) => stdin,
        Err(failure) => return Some(refuse(&failure, Version::LATEST, stdout)),
    };
    let served = match call.verb {
        Verb::Add => add(world, &call, &stdin, stdout),
        Verb::Del => del(world, &call, &stdin),
        Verb::Check => check(world, &call, &stdin),
        Verb::Gc => gc(world, &call, &stdin),
        Verb::Status => status(world, &stdin),
        Verb::Version => Ok(()),
    };
    Some(served.map_or_else(|failure| refuse(&failure, stdin.answer_version(), stdout), |()| true))
}

fn refuse(failure: &Failure, version: Version, stdout: &mut dyn Write) -> bool {
    log::error!("{}", failure.msg);
    // Where not even the error can be written, the exit status still tells.
    let _ = answer(&failure.render(version), stdout);
    false
}

/// Writes one document in one piece.
fn answer(document: &str, stdout: &mut dyn Write) -> std::io::Result<()> {
    let line = format!("{document}\n");
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
}

fn add(world: &World<'_>, call: &Call, stdin: &Stdin<'_>, stdout: &mut dyn Write) -> Result<(), Failure> {
    let conf = NetConf::for_add(stdin, call, world.called_as)?;
    start_log(&conf);
    // Everything that can be wrong with the answer is found before an address is taken.
    let plan = Plan::of(&conf)?;
    let dns = dns(&conf)?;
    let machine = machine::identify(&conf.request, &conf.ipam.kubevirt, world.workloads)?;
    let host = this_host(&conf.node)?;
    let owner = owner(&conf, call, &host);
    let records = HostLocalDirectory::new(conf.ipam.host_local_dir(&conf.name), world.links);
    let Some(store) = open(&conf, call, Access::Change, IfAbsent::Create, conf.lock_timeout)? else {
        return Err(Failure::new(Code::Store, "the store was not made"));
    };
    let mut ipam = engine(store);
    let now = world.clock.now();
    let request = Assign {
        host: &host,
        owner: &owner,
        sharing: machine.as_ref().map_or(Sharing::Attachment, Sharing::Machine),
        wanted: &plan.wanted,
        pools: &plan.pools,
        gateways: plan.gateways.as_deref(),
        import: (conf.ipam.dialect == Dialect::HostLocal).then_some(&records),
        own_addresses: &OwnLinks(world.links),
        now,
    };
    let assigned = assign(&mut ipam, &request, &conf).map_err(|error| failure(&error))?;
    for address in &assigned.addresses {
        log::info!("ADD {} on {}: {}", call.container_id, conf.name, address.address);
    }
    if let Some(boot) = &assigned.second_machine {
        log::warn!(
            "two machines use the node name `{}`: this one, and one of boot {}; hint: give one of them another `nodename`",
            host.name,
            boot.escape_debug()
        );
    }
    let result = plan.result(&assigned, dns).render(conf.cni_version);
    if let Err(error) = answer(&result, stdout) {
        return Err(undo(&mut ipam, &owner.attachment, &host, &assigned, now, &error));
    }
    run_in_place(ipam.store_mut().settle());
    Ok(())
}

/// Where nothing is left, what machines had to give up by now makes room.
fn assign(ipam: &mut Ipam<Store>, request: &Assign<'_>, conf: &NetConf) -> Result<Assigned, ipam::Error> {
    let outcome = run_in_place(ipam.assign(request));
    let (Err(ipam::Error::Exhausted { .. }), Some(retention)) = (&outcome, conf.ipam.kubevirt.vm_retention)
    else {
        return outcome;
    };
    let released = run_in_place(ipam.release_ownerless(&conf.name, retention, request.host, request.now))?;
    if released.addresses.is_empty() { outcome } else { run_in_place(ipam.assign(request)) }
}

/// Frees what nobody was told of. What the attachment had before the call it keeps.
fn undo(
    ipam: &mut Ipam<Store>,
    attachment: &Attachment,
    host: &Host,
    assigned: &Assigned,
    now: Timestamp,
    error: &std::io::Error,
) -> Failure {
    let failed = format!("could not write the result to standard output: {error}");
    if assigned.addresses.iter().any(|address| address.held_before) {
        return Failure::new(Code::Io, failed)
            .with_details("the attachment keeps what it holds; a DEL frees it");
    }
    match run_in_place(ipam.release(attachment, host, now)) {
        Ok(_) => Failure::new(Code::Io, failed).with_details("nothing was kept"),
        Err(release) => {
            Failure::new(Code::Io, failed).with_details(format!("a DEL has to free it: {release}"))
        }
    }
}

fn del(world: &World<'_>, call: &Call, stdin: &Stdin<'_>) -> Result<(), Failure> {
    let conf = NetConf::for_release(stdin, call)?;
    start_log(&conf);
    let mut host = some_host(&conf.node);
    let attachment = attachment(&conf, call);
    let mut freed = Vec::new();
    if let Some(store) = open(&conf, call, Access::Change, IfAbsent::None, conf.lock_timeout)? {
        // The lock may have been waited for.
        host.uptime = host::uptime();
        let mut ipam = engine(store);
        let now = world.clock.now();
        let is_deleted = machine::is_deleted(&conf.request, world.workloads);
        let netns = netns(call);
        let deletion = Deletion {
            attachment: &attachment,
            netns: netns.as_ref(),
            vm: if is_deleted { MachineFate::Deleted } else { MachineFate::Lives },
        };
        let released = run_in_place(ipam.delete(&deletion, &host, now)).map_err(|error| failure(&error))?;
        freed = released.addresses;
        for address in &freed {
            log::info!("DEL {} on {}: {address}", call.container_id, conf.name);
        }
        for left in released.left {
            let holder = match left.node.as_deref() {
                Some(node) if node == host.name.as_str() => {
                    format!("another boot of node `{node}`, perhaps a second machine of that name, holds it")
                }
                Some(node) => {
                    format!("node `{}` holds it, and this is node `{}`", node.escape_debug(), host.name)
                }
                None => format!("it names no node, and this is node `{}`", host.name),
            };
            let (container, network) = (&call.container_id, &conf.name);
            log::warn!("DEL {container} on {network}: {} was not freed: {holder}", left.address);
        }
        run_in_place(ipam.store_mut().settle());
    }
    if conf.ipam.dialect == Dialect::HostLocal {
        let records = HostLocalDirectory::new(conf.ipam.host_local_dir(&conf.name), world.links);
        match records.forget(&call.container_id, &call.ifname, &freed) {
            Err(error) if freed.is_empty() => return Err(store_failure(&error)),
            // The store has freed the address, and decides about its record from now on.
            Err(error) => log::warn!("host-local's record of {} remains: {error}", call.container_id),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn check(world: &World<'_>, call: &Call, stdin: &Stdin<'_>) -> Result<(), Failure> {
    let conf = NetConf::for_check(stdin, call)?;
    start_log(&conf);
    let attachment = attachment(&conf, call);
    let who = format!("container `{}` on network `{}`", call.container_id, conf.name);
    let changed = |msg: String| Failure::new(Code::NotAsGiven, msg);
    let Some(store) = open(&conf, call, Access::Read, IfAbsent::None, conf.lock_timeout)? else {
        return Err(changed(format!("{who} holds no address: there is no store")));
    };
    let mut ipam = engine(store);
    let host = some_host(&conf.node);
    let held = run_in_place(ipam.held(&attachment, &host)).map_err(|error| failure(&error))?;
    ipam.store_mut().unlock();
    if held.addresses.is_empty() {
        return Err(changed(format!("{who} holds no address on interface `{}`", call.ifname)));
    }
    let previous = conf.prev_result.as_ref();
    if let Some(missing) = held.addresses.iter().find(|held| previous.is_none_or(|p| !p.contains(**held))) {
        return Err(changed(format!("{who} holds {missing}, which `prevResult` does not have")));
    }
    let ours = |address: &IpAddr| held.pools.iter().any(|pool| pool.cidr.contains_address(*address));
    let listed = previous.into_iter().flat_map(|previous| &previous.addresses).map(|listed| listed.address);
    let mut unheld = listed.filter(|address| ours(address) && !held.addresses.contains(address));
    if let Some(address) = unheld.next() {
        return Err(changed(format!("{who} does not hold {address}, which `prevResult` has")));
    }
    let Some(netns) = &call.netns else { return Ok(()) };
    on_interface(world, Path::new(netns), &call.ifname, &held.addresses)
}

/// Whether the addresses are on the interface, where its namespace can be entered.
fn on_interface(world: &World<'_>, netns: &Path, ifname: &str, held: &[IpAddr]) -> Result<(), Failure> {
    let place = format!("interface `{ifname}` in {}", netns.display());
    match world.links.addresses_of(netns, ifname) {
        Ok(Answer::NoNamespace { reason }) => {
            log::debug!("{} was not looked at: {reason}", netns.display());
            Ok(())
        }
        Ok(Answer::NoInterface) => Err(Failure::new(Code::NotAsGiven, format!("{place} does not exist"))),
        Ok(Answer::Addresses(present)) => match held
            .iter()
            .find(|held| !present.iter().any(|(p, _)| p == *held))
        {
            Some(missing) => Err(Failure::new(Code::NotAsGiven, format!("{place} does not have {missing}"))),
            None => Ok(()),
        },
        Err(error) => Err(Failure::new(Code::Io, format!("{place} could not be looked at: {error}"))),
    }
}

fn gc(world: &World<'_>, call: &Call, stdin: &Stdin<'_>) -> Result<(), Failure> {
    let conf = NetConf::for_release(stdin, call)?;
    start_log(&conf);
    let ValidAttachments::List(valid) = &conf.valid_attachments else { return Ok(()) };
    let valid = valid.iter().map(|valid| (valid.container_id.clone(), valid.ifname.clone())).collect();
    let host = some_host(&conf.node);
    let Some(store) = open(&conf, call, Access::Change, IfAbsent::None, conf.lock_timeout)? else {
        return Ok(());
    };
    let mut ipam = engine(store);
    let now = world.clock.now();
    let collected = run_in_place(ipam.collect(&conf.name, &valid, &host, now));
    let forgotten = match conf.ipam.kubevirt.vm_retention {
        Some(retention) => run_in_place(ipam.release_ownerless(&conf.name, retention, &host, now)),
        None => Ok(Released::default()),
    };
    run_in_place(ipam.store_mut().settle());
    let freed = [collected, forgotten].into_iter().collect::<Result<Vec<_>, _>>();
    let freed: Vec<_> =
        freed.map_err(|error| failure(&error))?.into_iter().flat_map(|freed| freed.addresses).collect();
    for address in &freed {
        log::info!("GC of {}: {address}", conf.name);
    }
    if conf.ipam.dialect == Dialect::HostLocal {
        let records = HostLocalDirectory::new(conf.ipam.host_local_dir(&conf.name), world.links);
        if let Err(error) = records.forget_invalid(&freed, &valid) {
            log::warn!("host-local's records of what GC freed remain: {error}");
        }
    }
    Ok(())
}

fn status(world: &World<'_>, stdin: &Stdin<'_>) -> Result<(), Failure> {
    let conf = NetConf::for_status(stdin, world.called_as)?;
    start_log(&conf);
    let unavailable = |failure: Failure| Failure { code: Code::NotAvailable, ..failure };
    let timeout = conf.lock_timeout.min(STATUS_LOCK_TIMEOUT);
    let call = Call::status();
    let opened = store::open(&conf, &call, Access::Read, IfAbsent::None, timeout, STATUS_PATIENCE);
    let Some(store) = opened.map_err(unavailable)? else { return Ok(()) };
    let mut ipam = engine(store);
    if !conf.ipam.status_exhaustion {
        return run_in_place(ipam.readable()).map_err(|error| unavailable(failure(&error)));
    }
    // A range that the runtime passes to ADD alone is not known here, and so not exhausted.
    let Ok(plan) = Plan::of(&conf) else { return Ok(()) };
    let host = this_host(&conf.node)?;
    let owner = owner(&conf, &call, &host);
    let request = Assign {
        host: &host,
        owner: &owner,
        sharing: Sharing::Attachment,
        wanted: &plan.wanted,
        pools: &plan.pools,
        gateways: plan.gateways.as_deref(),
        import: None,
        own_addresses: &OwnLinks(world.links),
        now: world.clock.now(),
    };
    run_in_place(ipam.could_assign(&request)).map_err(|error| unavailable(failure(&error)))
}

/// The engine, with a view of this host's namespaces.
fn engine(store: Store) -> Ipam<Store> {
    Ipam::new(store).looking_at(&host::namespaces::ThisHost)
}

fn start_log(conf: &NetConf) {
    crate::logging::start(conf.log.level, conf.log.file.clone());
}

fn open(
    conf: &NetConf,
    call: &Call,
    access: Access,
    if_absent: IfAbsent,
    lock_timeout: Duration,
) -> Result<Option<Store>, Failure> {
    store::open(conf, call, access, if_absent, lock_timeout, store::PATIENCE)
}

fn attachment(conf: &NetConf, call: &Call) -> Attachment {
    Attachment {
        network: conf.name.clone(),
        container_id: call.container_id.clone(),
        ifname: call.ifname.clone(),
    }
}

fn owner(conf: &NetConf, call: &Call, host: &Host) -> Owner {
    Owner {
        attachment: attachment(conf, call),
        host: host.clone(),
        netns: netns(call),
        pod: conf.request.pod.as_ref().map(|pod| (pod.namespace.clone(), pod.name.clone())),
    }
}

/// The container's network namespace, as the runtime names it.
fn netns(call: &Call) -> Option<Netns> {
    call.netns.as_deref().map(host::namespaces::netns)
}

/// This host: its name by the configuration, the node-name file, or the kernel, in that order.
fn this_host(node: &NodeConf) -> Result<Host, Failure> {
    let name = HostName::new(node_name(node)?).map_err(Failure::config)?;
    log::debug!("this host is `{name}` in the store");
    Ok(host::this_host(name))
}

/// This host where its name decides nothing that could be wrong: what is released is found by the attachment.
fn some_host(node: &NodeConf) -> Host {
    let unknown =
        || Host { is_nameless: true, ..host::this_host(HostName::new("localhost").expect("a name")) };
    this_host(node).unwrap_or_else(|_| unknown())
}

fn node_name(node: &NodeConf) -> Result<String, Failure> {
    if let Some(name) = &node.nodename {
        return Ok(name.clone());
    }
    let file = node.nodename_file.as_deref().unwrap_or(Path::new(NODENAME_FILE));
    match host::read_small(file) {
        Ok(text) => return node_name_from_file(&text, file),
        Err(error) => log::debug!("no node name in {}: {error}", file.display()),
    }
    if let Some(name) = &node.hostname {
        return Ok(name.clone());
    }
    let refused = |problem: String| {
        let msg = format!("the kernel's host name cannot be this host's name in the store: {problem}");
        Failure::config(msg).with_details("hint: set `nodename` in the network configuration")
    };
    let name = host::kernel_host_name().map_err(|error| refused(error.to_string()))?;
    parse_node_name(&name).ok_or_else(|| refused(format!("it is {name:?}")))
}

fn dns(conf: &NetConf) -> Result<Dns, Failure> {
    let Some(path) = &conf.ipam.resolv_conf else { return Ok(conf.ipam.dns.clone()) };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::config(format!("`ipam.resolvConf`: could not read {}: {error}", path.display()))
    })?;
    Ok(conf.ipam.dns.clone().or(parse_resolv_conf(&text)))
}

/// The host's own interfaces, asked by netlink.
struct OwnLinks<'a>(&'a dyn Links);

impl OwnAddresses for OwnLinks<'_> {
    fn within(&self, block: Cidr) -> Vec<IpAddr> {
        match self.0.host_addresses() {
            Ok(addresses) => {
                addresses.into_iter().filter(|address| block.contains_address(*address)).collect()
            }
            Err(error) => {
                log::warn!("the host's own addresses are not known: {error}");
                Vec::new()
            }
        }
    }
}
