//! `ipam show`: how much of each pool is in use, and by whom.

mod carved;
mod options;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::super::args::Show;
use super::super::error::Error;
use super::super::render::{self, Align, Format, Table, count, percent, printable};
use super::super::{Answer, Context, Outcome};
use crate::datastore::run_in_place;
use crate::ipam::{AddressReport, BlockUsage, Census, Loan, Loans, PoolUsage, Standing, Usage, owner_key};
use crate::net::parse_address;
use carved::Carving;
use options::Options;

pub(super) use options::config_value;

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Show) -> Result<Answer, Error> {
    if context.format == Format::Name {
        return Err(Error::Argument {
            what: "`--output`".into(),
            found: "name".into(),
            expected: "`table`, `wide`, `json` or `yaml` for `ipam show`".into(),
        });
    }
    if args.vm {
        return super::machines::show(context);
    }
    match &args.ip {
        Some(text) => {
            let address = parse_address(text).ok_or_else(|| Error::Address(text.clone()))?;
            show_address(context, address)
        }
        None => show_store(context, args),
    }
}

/// What is read, each only where it was asked for.
#[derive(Default)]
struct Seen {
    usage: Option<Census>,
    /// What was carved out of pools for something other than blocks.
    carved: Vec<Carving>,
    loans: Option<Loans>,
    options: Option<Options>,
}

fn show_store(context: &mut Context<'_>, args: &Show) -> Result<Answer, Error> {
    let wants_usage = args.blocks || !(args.borrowed || args.configuration);
    let (mut ipam, note) = context.open_to_read()?;
    let mut seen = Seen::default();
    if wants_usage {
        seen.usage = Some(context.count(&mut ipam)?);
    }
    if args.blocks {
        seen.carved = carved::read(&mut ipam)?;
    }
    if args.borrowed {
        seen.loans = Some(run_in_place(ipam.loans())?);
    }
    if args.configuration {
        seen.options = Some(Options::read(&mut ipam)?);
    }
    drop(ipam);
    let data = match context.format {
        Format::Json => render::json(&seen.value(args.blocks)),
        Format::Yaml => render::yaml(&seen.value(args.blocks)),
        _ => seen.tables(args.blocks),
    };
    let damage = seen.damage();
    let notes =
        note.into_iter().chain(seen.usage.iter().flat_map(carved::obstacles)).chain(warnings(&damage));
    let notes = notes.chain(seen.options.iter().flat_map(Options::notes));
    Ok(Answer::with_notes(data, notes))
}

/// What is said about what could not be read.
pub(super) fn warnings(damage: &[String]) -> impl Iterator<Item = String> {
    let hint = "hint: what it holds is not counted; put the file back from a backup, or run `host-affine ipam check`";
    let hint = Some(hint.to_owned()).filter(|_| !damage.is_empty());
    damage.iter().map(|damage| format!("warning: {damage}")).chain(hint)
}

/// What could not be read, a line each.
pub(super) fn damage(census: &Census) -> Vec<String> {
    census.damaged.iter().map(|damage| damage.reason.to_string()).collect()
}

impl Seen {
    /// What could not be read, named once.
    fn damage(&self) -> Vec<String> {
        let counted = self.usage.iter().flat_map(damage);
        let mut damage: Vec<_> =
            counted.chain(self.loans.iter().flat_map(|loans| loans.damaged.clone())).collect();
        damage.sort();
        damage.dedup();
        damage
    }

    fn tables(&self, with_blocks: bool) -> String {
        let usage = self
            .usage
            .as_ref()
            .map(|census| usage_table(&census.usage, with_blocks.then_some(&self.carved)).boxed());
        let loans = self.loans.as_ref().map(loans_table);
        let options = self.options.as_ref().map(Options::table);
        [usage, loans, options].into_iter().flatten().collect()
    }

    fn value(&self, with_blocks: bool) -> Value {
        let mut value = Map::new();
        if let Some(Census { usage, .. }) = &self.usage {
            let pools = usage
                .pools
                .iter()
                .map(|pool| pool_value(usage, pool, with_blocks.then_some(&self.carved)))
                .collect();
            value.insert("pools".into(), Value::Array(pools));
            if with_blocks {
                let orphans = usage.orphans.iter().map(block_value).collect();
                value.insert("blocksInNoPool".into(), Value::Array(orphans));
            }
        }
        if let Some(loans) = &self.loans {
            value.insert("borrowed".into(), loans.loans.iter().map(loan_value).collect());
            value.insert("withoutHost".into(), count(loans.without_host.into()));
        }
        if let Some(options) = &self.options {
            options.add_to(&mut value);
        }
        let damage = self.damage();
        if !damage.is_empty() {
            value.insert("damaged".into(), damage.into());
        }
        Value::Object(value)
    }
}

/// `carved`: what was carved out of pools, where that and blocks are listed.
fn usage_table(usage: &Usage, carved: Option<&Vec<Carving>>) -> Table {
    let with_blocks = carved.is_some();
    // Whoever never carves has `calicoctl`'s columns.
    let is_carved = carved.is_some_and(|carved| !carved.is_empty());
    let with_carved = is_carved || usage.pools.iter().any(|pool| pool.carved > 0);
    let mut columns = vec![
        ("GROUPING", Align::Left),
        ("CIDR", Align::Left),
        ("IPS TOTAL", Align::Right),
        ("IPS IN USE", Align::Right),
        ("IPS RESERVED", Align::Right),
        ("IPS FREE", Align::Right),
        ("NAME", Align::Left),
    ];
    if with_carved {
        columns.insert(5, ("IPS CARVED", Align::Right));
    }
    if with_blocks {
        columns.extend([("AFFINITY", Align::Left), ("BORROWED BY", Align::Left)]);
    }
    let mut table = Table::new(columns);
    let blank = || [String::new(), String::new()];
    for pool in &usage.pools {
        let name = if pool.disabled { format!("{} (disabled)", pool.name) } else { pool.name.clone() };
        let mut row = vec!["IP Pool".to_owned(), pool.cidr.to_string()];
        row.extend(counts(pool.capacity, pool.in_use, pool.reserved, pool.free));
        if with_carved {
            row.insert(5, format!("{} ({}%)", pool.carved, percent(pool.carved, pool.capacity)));
        }
        row.push(name);
        table.row(row.into_iter().chain(blank().into_iter().filter(|_| with_blocks)));
        let blocks = pool.blocks.iter().filter(|_| with_blocks);
        let mut rows: Vec<_> = blocks.map(|block| (block.cidr, block_row(block, "", with_carved))).collect();
        rows.extend(carved.iter().flat_map(|carved| carved::rows(usage, pool, carved)));
        rows.sort_by_key(|(cidr, _)| *cidr);
        for (_, row) in rows {
            table.row(row);
        }
    }
    for block in usage.orphans.iter().filter(|_| with_blocks) {
        table.row(block_row(block, "(no pool)", with_carved));
    }
    table
}

fn block_row(block: &BlockUsage, name: &str, with_carved: bool) -> Vec<String> {
    let affinity = block.affinity.as_ref().map_or_else(|| "<none>".to_owned(), ToString::to_string);
    let borrowers: Vec<_> = block.borrowed.iter().map(|(host, count)| format!("{host} ({count})")).collect();
    let counts = counts(block.capacity, block.in_use, block.reserved, block.free);
    let row = ["Block".into(), block.cidr.to_string()].into_iter().chain(counts);
    let mut row: Vec<String> = row.chain([name.to_owned(), affinity, borrowers.join(", ")]).collect();
    if with_carved {
        row.insert(5, String::new());
    }
    row
}

fn counts(total: u128, in_use: u128, reserved: u128, free: u128) -> [String; 4] {
    let part = |part: u128| format!("{part} ({}%)", percent(part, total));
    [total.to_string(), part(in_use), part(reserved), part(free)]
}

fn pool_value(usage: &Usage, pool: &PoolUsage, carved: Option<&Vec<Carving>>) -> Value {
    let mut value = json!({
        "name": pool.name,
        "cidr": pool.cidr,
        "disabled": pool.disabled,
        "total": count(pool.capacity),
        "inUse": count(pool.in_use),
        "reserved": count(pool.reserved),
        "carved": count(pool.carved),
        "free": count(pool.free),
        "slots": carved::slots(pool),
    });
    if let (Some(carved), Some(fields)) = (carved, value.as_object_mut()) {
        fields.insert("blocks".into(), pool.blocks.iter().map(block_value).collect());
        fields.insert("carvedNetworks".into(), carved::values(usage, pool, carved));
    }
    value
}

fn block_value(block: &BlockUsage) -> Value {
    let borrowed =
        block.borrowed.iter().map(|(host, number)| json!({ "node": host, "count": count(*number) }));
    json!({
        "cidr": block.cidr,
        "affinity": block.affinity,
        "total": count(block.capacity),
        "inUse": count(block.in_use),
        "reserved": count(block.reserved),
        "free": count(block.free),
        "borrowedBy": borrowed.collect::<Vec<_>>(),
    })
}

fn loans_table(loans: &Loans) -> String {
    let headers = ["IP", "BORROWING-NODE", "BLOCK", "BLOCK OWNER", "TYPE", "ALLOCATED-TO"];
    let mut table = Table::new(headers.map(|header| (header, Align::Left)));
    for loan in &loans.loans {
        let (kind, to) = allocated_to(&loan.active);
        let owner = loan.owner.as_ref().map_or_else(String::new, |owner| owner.name().to_string());
        table.row([loan.address.to_string(), loan.borrower.clone(), loan.block.to_string(), owner, kind, to]);
    }
    let mut text = table.boxed();
    if loans.without_host > 0 {
        let _ = writeln!(
            text,
            "Note: found {} addresses without a node; whether they are borrowed is not known",
            loans.without_host
        );
    }
    text
}

fn loan_value(loan: &Loan) -> Value {
    let (kind, to) = allocated_to(&loan.active);
    json!({
        "ip": loan.address,
        "borrower": loan.borrower,
        "block": loan.block,
        "owner": loan.owner,
        "type": kind,
        "allocatedTo": to,
    })
}

/// What kind of thing uses an address, and its name.
fn allocated_to(active: &BTreeMap<String, String>) -> (String, String) {
    let get = |key: &str| active.get(key).map(String::as_str);
    let in_namespace = |name: &str| match get(owner_key::NAMESPACE) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    match (get(owner_key::VMI_NAME), get(owner_key::POD), get(owner_key::TYPE)) {
        (Some(vmi), _, _) => ("vmi".into(), in_namespace(vmi)),
        (None, Some(pod), _) => ("pod".into(), in_namespace(pod)),
        (None, None, Some(kind)) => (kind.to_owned(), String::new()),
        (None, None, None) => (String::new(), String::new()),
    }
}

fn show_address(context: &Context<'_>, address: IpAddr) -> Result<Answer, Error> {
    let (mut ipam, note) = context.open_to_read()?;
    let report = run_in_place(ipam.look_up(address, context.clock.now()))?;
    drop(ipam);
    Ok(Answer { notes: note.into_iter().collect(), ..address_answer(context.format, &report) })
}

fn address_answer(format: Format, report: &AddressReport) -> Answer {
    let data = match format {
        Format::Json => render::json(&address_value(report)),
        Format::Yaml => render::yaml(&address_value(report)),
        _ => address_text(report),
    };
    let is_held = matches!(report.standing, Standing::Held { .. });
    let outcome = if is_held { Outcome::Done } else { Outcome::No };
    Answer { data, outcome, ..Answer::default() }
}

fn address_text(report: &AddressReport) -> String {
    let address = report.address;
    match &report.standing {
        Standing::Held { handle, active, alternate, .. } => {
            let handle = handle.as_deref().map_or_else(|| "<none>".into(), printable);
            let mut text = format!("IP {address} is in use\nHandle ID: {handle}\n");
            if active.is_empty() {
                text.push_str("No active owner attributes defined\n");
            } else {
                text.push_str("Active Owner Attributes:\n");
                list(&mut text, active);
            }
            if !alternate.is_empty() {
                text.push_str("Alternate Owner Attributes:\n");
                list(&mut text, alternate);
            }
            text
        }
        Standing::Cooling { since } => {
            format!(
                "{address} is not assigned: it was released at {since} and is in cooldown\n{}",
                place(report)
            )
        }
        Standing::Free => format!("{address} is not assigned\n{}", place(report)),
    }
}

fn list(text: &mut String, attributes: &BTreeMap<String, String>) {
    for (key, value) in attributes {
        let _ = writeln!(text, "  {}: {}", printable(key), printable(value));
    }
}

/// Where an address lies, a line each.
fn place(report: &AddressReport) -> String {
    let mut text = String::new();
    let _ = match &report.pool {
        Some(pool) => writeln!(text, "  pool: {} ({})", printable(&pool.name), pool.cidr),
        None => writeln!(text, "  it lies in no pool"),
    };
    if let Some(block) = report.block {
        let affinity = report.affinity.as_ref().map_or_else(|| "<none>".to_owned(), ToString::to_string);
        let _ = writeln!(text, "  block: {block} (affinity {})", printable(&affinity));
    }
    if let Some((cidr, owner)) = &report.carved {
        let _ = writeln!(text, "  carved out: {cidr}, for {owner}");
    }
    for reservation in &report.reservations {
        let _ = writeln!(text, "  reserved by: {}", printable(reservation));
    }
    text
}

fn address_value(report: &AddressReport) -> Value {
    let mut value = json!({
        "ip": report.address,
        "assigned": matches!(report.standing, Standing::Held { .. }),
        "pool": report.pool.as_ref().map(|pool| &pool.name),
        "block": report.block,
        "affinity": report.affinity,
        "reservedBy": report.reservations,
    });
    let more = match &report.standing {
        Standing::Free => json!({}),
        Standing::Cooling { since } => json!({ "releasedAt": since }),
        Standing::Held { handle, active, alternate, sequence } => json!({
            "handle": handle,
            "activeOwner": active,
            "alternateOwner": alternate,
            "sequenceNumber": count((*sequence).into()),
        }),
    };
    if let Some(carving) = &report.carved {
        value["carved"] = carved::value(carving);
    }
    if let (Some(fields), Value::Object(more)) = (value.as_object_mut(), more) {
        fields.extend(more);
    }
    value
}
