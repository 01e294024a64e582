//! `ipam show --vm` and `ipam release --vm`: virtual machines and their addresses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::args::Release;
use super::super::error::Error;
use super::super::liveness::{Life, Witness};
use super::super::render::{self, Align, Format, Table, printable};
use super::super::{Answer, Context, Outcome};
use super::check::whose;
use super::ledger::{Ledger, RELEASED, WOULD_RELEASE};
use super::write;
use crate::api::{HandleId, HostName};
use crate::datastore::run_in_place;
use crate::ipam::{AddressFact, Host, MachineReport, OwnerNotes, owner_key};

/// Lists them.
pub(super) fn show(context: &Context<'_>) -> Result<Answer, Error> {
    let (mut ipam, note) = context.open_to_read()?;
    let machines = run_in_place(ipam.machines())?;
    drop(ipam);
    let value =
        || Value::from(machines.iter().map(|(handle, machine)| value(handle, machine)).collect::<Vec<_>>());
    let data = match context.format {
        Format::Json => render::json(&json!({ "virtualMachines": value() })),
        Format::Yaml => render::yaml(&json!({ "virtualMachines": value() })),
        _ => table(machines.values()),
    };
    Ok(Answer::with_notes(data, note))
}

fn table<'a>(machines: impl Iterator<Item = &'a MachineReport>) -> String {
    let columns = ["NAMESPACE", "NAME", "NETWORK", "ADDRESSES", "ACTIVE", "ALTERNATE", "WITHOUT A POD SINCE"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    for machine in machines {
        let addresses: Vec<_> = machine.addresses.iter().map(ToString::to_string).collect();
        let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.row([
            printable(&machine.namespace),
            printable(&machine.name),
            printable(&machine.network),
            dash(addresses.join(",")),
            dash(owner(&machine.active)),
            dash(owner(&machine.alternate)),
            machine.ownerless_since.map_or_else(|| "-".to_owned(), |since| since.to_string()),
        ]);
    }
    table.boxed()
}

/// A pod and where it is: `POD on NODE`.
fn owner(of: &OwnerNotes) -> String {
    let text = |key: &str| of.get(key).map(|text| printable(text)).unwrap_or_default();
    let (pod, host) = (text(owner_key::POD), text(owner_key::NODE));
    if host.is_empty() { pod } else { format!("{pod} on {host}") }
}

fn value(handle: &HandleId, machine: &MachineReport) -> Value {
    let notes = |notes: &OwnerNotes| if notes.is_empty() { Value::Null } else { json!(notes) };
    json!({
        "handle": handle,
        "network": machine.network,
        "namespace": machine.namespace,
        "name": machine.name,
        "addresses": machine.addresses,
        "activeOwner": notes(&machine.active),
        "alternateOwner": notes(&machine.alternate),
        "attachments": machine.attachments,
        "ownerlessSince": machine.ownerless_since,
    })
}

/// Frees the addresses of one, on all its networks.
pub(super) fn release(
    context: &mut Context<'_>,
    args: &Release,
    witness: &Witness,
    named: &str,
) -> Result<Answer, Error> {
    let (namespace, name) = named.split_once('/').ok_or_else(|| Error::Argument {
        what: "`--vm`".into(),
        found: named.to_owned(),
        expected: "NAMESPACE/NAME".into(),
    })?;
    crate::api::check_vm_namespace(namespace).map_err(crate::ipam::Error::from)?;
    let (mut ipam, note) = context.open_to_read()?;
    let mut machines = run_in_place(ipam.machines())?;
    machines.retain(|_, machine| machine.namespace == namespace && machine.name == name);
    let is_its = |fact: &AddressFact| {
        let is_known = |handle: &str| machines.keys().any(|known| known.as_str() == handle);
        fact.is_virtual_machine() && fact.handle.as_deref().is_some_and(is_known)
    };
    let facts = context.facts(&mut ipam, &mut { is_its })?;
    // Nobody waits while a person thinks.
    drop(ipam);
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    answer.notes.extend(facts.damaged.iter().map(|damage| format!("warning: {damage}")));
    if machines.is_empty() {
        answer.outcome = Outcome::No;
        answer.notes.push(format!("note: virtual machine {} has no address and no record", printable(named)));
        return Ok(answer);
    }
    let mut of_machine: BTreeMap<&str, Vec<&AddressFact>> = BTreeMap::new();
    for fact in &facts.addresses {
        of_machine.entry(fact.handle.as_deref().unwrap_or_default()).or_default().push(fact);
    }
    if !args.dry_run {
        let addresses: Vec<_> = facts.addresses.iter().map(|fact| fact.address.to_string()).collect();
        let plan =
            format!("This releases {}, of virtual machine {}.", addresses.join(", "), printable(named));
        context.confirm(&plan, args.yes)?;
    }
    let (mut ipam, _) = if args.dry_run { context.open_to_read()? } else { context.open_to_change()? };
    let mut ledger = Ledger::default();
    let host = Host::named(HostName::new("-").map_err(crate::ipam::Error::from)?);
    for (handle, machine) in &machines {
        let held = of_machine.remove(handle.as_str()).unwrap_or_default();
        let alive = |fact: &&AddressFact| {
            let why = if args.force { None } else { alive(witness, fact, machine) }?;
            Some(format!(
                "error: {} is in use, and its owner is alive: {why}; {}\nhint: stop the machine first, or use `--force`",
                fact.address,
                whose(fact)
            ))
        };
        if let Some(alive) = held.iter().find_map(alive) {
            answer.notes.push(alive);
            answer.outcome = Outcome::Failed;
            continue;
        }
        if args.dry_run {
            for fact in held {
                ledger.released(WOULD_RELEASE, None, fact);
            }
            continue;
        }
        let same = |record: Option<&crate::datastore::Machine>| {
            args.force || record.is_none_or(|record| record.attachments == machine.attachments)
        };
        let now = context.clock.now();
        let released = run_in_place(ipam.release_machine(handle, &host, now, same))?;
        for fact in held {
            if released.addresses.contains(&fact.address) {
                ledger.released(RELEASED, None, fact);
            } else {
                ledger.skipped(fact.address, &format!("{} changed meanwhile", fact.address));
            }
        }
    }
    if !args.dry_run {
        write::settle(&mut ipam);
    }
    answer.data = ledger.render(context.format);
    Ok(answer)
}

/// The proof that a pod of a machine is alive: its own, or that of the address.
fn alive(witness: &Witness, fact: &AddressFact, machine: &MachineReport) -> Option<String> {
    let of_pods = machine.attachments.iter().map(|known| witness.life_of_vm(known));
    std::iter::once(witness.life(fact)).chain(of_pods).find_map(|life| match life {
        Life::Alive(why) => Some(why),
        Life::Dead(_) | Life::Unknown(_) => None,
    })
}
