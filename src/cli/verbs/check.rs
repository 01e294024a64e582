//! `ipam check`: what does not agree, and addresses that nobody uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::args::Check;
use super::super::error::Error;
use super::super::liveness::{self, Life, ThisHost, Witness};
use super::super::render::{self, Format, counted, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome};
use super::{report, write};
use crate::datastore::{Derived, Inspect as _, run_in_place};
use crate::ipam::{AddressFact, Finding, Ipam, Survey, owner_key};
use crate::net::Cidr;

/// How many hosts are listed, those with the most addresses first.
const HOSTS_MAX: usize = 20;

/// Something that was found.
struct Problem {
    kind: &'static str,
    text: String,
    fields: Map<String, Value>,
}

impl Problem {
    fn new(kind: &'static str, text: String) -> Self {
        Self { kind, text, fields: Map::new() }
    }

    fn value(&self) -> Value {
        let mut value = self.fields.clone();
        value.insert("kind".into(), self.kind.into());
        value.insert("message".into(), self.text.clone().into());
        Value::Object(value)
    }
}

/// Serves it. `file`: where the report goes.
pub(in crate::cli) fn run(
    context: &mut Context<'_>,
    args: &Check,
    file: Option<&Path>,
) -> Result<Answer, Error> {
    let witness = Witness::of(context, liveness::path(args.inventory.as_ref()))?;
    let mut seen = Seen {
        is_wanted: args.show_all_ips
            || file.is_some()
            || matches!(context.format, Format::Json | Format::Yaml),
        witness: &witness,
        inventory: BTreeSet::new(),
        second_machines: BTreeMap::new(),
    };
    let mut repaired = String::new();
    let (mut ipam, note) = if args.repair {
        let lost = context.beyond_salvage()?;
        if !lost.is_empty() && !args.yes && !context.is_terminal {
            return Err(Error::WouldLose(lost));
        }
        context.confirm(&plan_of_repair(&lost), args.yes)?;
        repair(context, &mut repaired)?
    } else {
        context.open_to_read()?
    };
    let survey = context.survey(&mut ipam, &mut |fact| seen.keeps(fact))?;
    let lost = lost(context, &mut ipam, &survey)?;
    drop(ipam);
    let problems = problems(&survey, &lost, &seen);
    let store = context.place()?.to_string();
    let listed: Vec<Value> = problems.iter().map(Problem::value).collect();
    let document = || report::document(&store, &survey, &witness, &listed);
    let mut answer = Answer { notes: note.into_iter().collect(), ..Answer::default() };
    answer.data = match context.format {
        Format::Json => render::json(&document()),
        Format::Yaml => render::yaml(&document()),
        Format::Name => problems.iter().flat_map(|problem| [&problem.text, "\n"]).collect(),
        Format::Table | Format::Wide => {
            repaired + &text(&store, &survey, &witness, &problems, args.show_all_ips)
        }
    };
    if let Some(file) = file {
        report::write(file, &document())?;
        answer = answer.note(format!("note: the report is in {}", file.display()));
    }
    answer.notes.extend(survey.damaged.iter().map(|damage| format!("warning: {damage}")));
    if !problems.is_empty() {
        answer.outcome = Outcome::No;
    }
    Ok(answer)
}

/// What is looked for while the store is gone through.
struct Seen<'a> {
    /// Every address, and not only those with a problem.
    is_wanted: bool,
    witness: &'a Witness,
    /// Addresses of the inventory that somebody holds.
    inventory: BTreeSet<IpAddr>,
    /// Other machines of this host's name, by boot ID, with the number of their addresses.
    second_machines: BTreeMap<String, usize>,
}

impl Seen<'_> {
    fn keeps(&mut self, fact: &AddressFact) -> bool {
        if let Witness::Inventory(inventory) = self.witness
            && !fact.is_cooling
            && inventory.has(fact.address)
        {
            self.inventory.insert(fact.address);
        }
        if let Witness::Host(Some(this)) = self.witness
            && let Some(boot) = this.second_machine(fact)
        {
            *self.second_machines.entry(boot).or_default() += 1;
        }
        self.is_wanted
            || !fact.is_cooling && (is_unowned(fact) || matches!(self.witness.life(fact), Life::Dead(_)))
    }
}

fn second_machine(this: &ThisHost, boot: &str, addresses: usize) -> Problem {
    let text = format!(
        "two machines use the node name `{}`: this one, of boot {}, and one of boot {}, which holds {}; \
         hint: give one of them another `nodename`",
        this.name(),
        this.boot(),
        printable(boot),
        counted(addresses, "address", "addresses"),
    );
    Problem::new("secondMachine", text)
}

fn is_unowned(fact: &AddressFact) -> bool {
    fact.handle.is_none() && !fact.is_host_reserved
}

fn plan_of_repair(lost: &[String]) -> String {
    let mut plan = "This makes anew what is derived: the index, lists of blocks with room, records of affinities, and the \
                    header of a journal where it is damaged."
        .to_owned();
    if !lost.is_empty() {
        plan.push_str(
            " It ends the journal before a record that is damaged, although later calls were answered. Addresses of \
             the commits that are lost may be in use, and be assigned a second time. Lost:",
        );
        for line in lost {
            plan.extend(["\n  ", line]);
        }
    }
    plan
}

/// Mends what can be.
fn repair(context: &mut Context<'_>, repaired: &mut String) -> Result<(Ipam<Store>, Option<String>), Error> {
    if let Some(done) = context.salvage()? {
        let _ = writeln!(repaired, "Repaired: {done}");
    }
    let (mut ipam, note) = context.open_to_change()?;
    for done in run_in_place(ipam.store_mut().rebuild())? {
        let _ = writeln!(repaired, "Repaired: {done}");
    }
    for finding in context.survey(&mut ipam, &mut |_| false)?.findings {
        if run_in_place(ipam.repair(&finding))? {
            let _ = writeln!(repaired, "Repaired: {finding}");
        }
    }
    write::settle(&mut ipam);
    Ok((ipam, note))
}

/// Addresses whose handles do not lead to them.
fn lost(
    context: &mut Context<'_>,
    ipam: &mut Ipam<Store>,
    survey: &Survey,
) -> Result<Vec<AddressFact>, Error> {
    let lost = survey.derived.iter().filter_map(|derived| match derived {
        Derived::LostHandle { handle, block } => Some((handle.as_str(), *block)),
        Derived::StrayHandle { .. }
        | Derived::Unshielded { .. }
        | Derived::StrayShield { .. }
        | Derived::Unusable { .. } => None,
    });
    let lost: BTreeSet<(&str, Cidr)> = lost.collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    // The host's own are found by nobody's DEL, and are in no index.
    let mut is_lost = |fact: &AddressFact| {
        !fact.is_host_reserved
            && fact.handle.as_deref().is_some_and(|handle| lost.contains(&(handle, fact.block)))
    };
    Ok(context.facts(ipam, &mut is_lost)?.addresses)
}

fn problems(survey: &Survey, lost: &[AddressFact], seen: &Seen<'_>) -> Vec<Problem> {
    let witness = seen.witness;
    let mut problems: Vec<Problem> = Vec::new();
    let mut by_handle = ByHandle::new();
    for fact in lost {
        by_handle.entry((fact.handle.as_deref().unwrap_or_default(), fact.block)).or_default().push(fact);
    }
    let damaged = survey.damaged.iter();
    problems
        .extend(damaged.map(|text| Problem::new("damaged", format!("{text}; put it back from a backup"))));
    problems
        .extend(survey.findings.iter().map(|finding| Problem::new(kind_of(finding), finding.to_string())));
    problems.extend(survey.derived.iter().flat_map(|derived| of_derived(derived, &by_handle)));
    let used: BTreeSet<Cidr> = survey.addresses.iter().map(|fact| fact.block).collect();
    for (block, _) in survey.blocks.iter().filter(|(block, _)| !survey.has_pool(*block)) {
        if !used.contains(block) {
            problems
                .push(Problem::new("orphanBlock", format!("block {block} lies in no pool, and is empty")));
        }
    }
    for fact in survey.addresses.iter().filter(|fact| !fact.is_cooling) {
        if let Life::Dead(why) = witness.life(fact) {
            problems.push(leaked(fact, &printable(&why)));
        } else if is_unowned(fact) {
            problems.push(unowned(fact));
        }
        if !survey.has_pool(fact.block) {
            let text = format!("{} is assigned, and lies in no pool; {}", fact.address, whose(fact));
            problems.push(about("noPool", fact, text));
        }
    }
    if let Witness::Host(Some(this)) = witness {
        problems.extend(
            seen.second_machines.iter().map(|(boot, addresses)| second_machine(this, boot, *addresses)),
        );
    }
    if let Witness::Inventory(inventory) = witness {
        for (address, names) in inventory.users() {
            // What lies in no pool is another network's.
            let is_in = |(_, cidr, _): &&(String, Cidr, bool)| cidr.contains_address(address);
            let Some((pool, ..)) = survey.pools.iter().find(is_in) else { continue };
            let mut found = Vec::new();
            if !seen.inventory.contains(&address) {
                found.push(Problem::new(
                    "notAllocated",
                    format!(
                        "{address} in use but not allocated: {} has it, in pool `{}`",
                        names.join(", "),
                        printable(pool)
                    ),
                ));
            }
            if names.len() > 1 {
                let text = format!("{address} has several owners: {}", names.join(", "));
                found.push(Problem::new("duplicate", text));
            }
            for problem in &mut found {
                problem.fields.insert("ip".into(), address.to_string().into());
            }
            problems.extend(found);
        }
    }
    problems
}

const fn kind_of(finding: &Finding) -> &'static str {
    match finding {
        Finding::DamagedBlock { .. } => "damagedBlock",
        Finding::OverlappingBlocks { .. } => "overlappingBlocks",
        Finding::UnindexedAddress { .. } => "unindexedAddress",
        Finding::Overcounted { .. } => "overcountedHandle",
        Finding::UnconfirmedAffinity { .. } => "unconfirmedAffinity",
        Finding::UnrecordedAffinity { .. } => "unrecordedAffinity",
        Finding::StaleAffinity { .. } => "staleAffinity",
        Finding::CarvedTwice { .. } => "carvedTwice",
        Finding::CarvedForNobody { .. } => "carvedForNobody",
        Finding::NotCarved { .. } => "notCarved",
        Finding::UnboundClaim { .. } => "unboundClaim",
    }
}

/// What is derived and does not agree: where it is about addresses, one problem for each.
/// Addresses by their handle and block: a store without its index has as many lost handles as addresses.
type ByHandle<'a> = BTreeMap<(&'a str, Cidr), Vec<&'a AddressFact>>;

fn of_derived(derived: &Derived, facts: &ByHandle<'_>) -> Vec<Problem> {
    match derived {
        Derived::LostHandle { handle, block } => {
            let lost = |fact: &&AddressFact| {
                let text = format!(
                    "{} is held by a handle that the index does not lead to its block: no DEL would find it; {}",
                    fact.address,
                    whose(fact)
                );
                about("lostHandle", fact, text)
            };
            facts.get(&(handle.as_str(), *block)).into_iter().flatten().map(lost).collect()
        }
        Derived::StrayHandle { .. } => vec![Problem::new("strayHandle", derived.to_string())],
        Derived::Unshielded { .. } => vec![Problem::new("unshielded", derived.to_string())],
        Derived::StrayShield { .. } => vec![Problem::new("strayShield", derived.to_string())],
        Derived::Unusable { .. } => vec![Problem::new("unusable", derived.to_string())],
    }
}

fn leaked(fact: &AddressFact, why: &str) -> Problem {
    about("leaked", fact, format!("{} leaked: {why}; {}", fact.address, whose(fact)))
}

fn unowned(fact: &AddressFact) -> Problem {
    let text = format!(
        "{} is assigned without a handle: no DEL frees it, only `ipam release --ip`; {}",
        fact.address,
        whose(fact)
    );
    about("withoutHandle", fact, text)
}

/// A problem of one address.
fn about(kind: &'static str, fact: &AddressFact, text: String) -> Problem {
    let mut problem = Problem::new(kind, text);
    problem.fields.insert("ip".into(), fact.address.to_string().into());
    problem.fields.insert("block".into(), fact.block.to_string().into());
    for (key, value) in [
        ("handle", fact.handle.as_deref()),
        ("node", fact.noted(owner_key::NODE)),
        ("namespace", fact.noted(owner_key::NAMESPACE)),
        ("pod", fact.noted(owner_key::POD)),
    ] {
        if let Some(value) = value {
            problem.fields.insert(key.into(), value.into());
        }
    }
    problem
}

/// Who has an address, as far as is noted.
pub(super) fn whose(fact: &AddressFact) -> String {
    let handle = fact.handle.as_deref().unwrap_or("<none>");
    let mut text = format!("handle {}", printable(handle));
    if let Some(pod) = fact.pod() {
        let _ = write!(text, ", pod {}", printable(&pod));
    }
    if let Some(node) = fact.noted(owner_key::NODE) {
        let _ = write!(text, ", node {}", printable(node));
    }
    let owner = fact.affinity.as_ref().map_or_else(|| "<none>".to_owned(), ToString::to_string);
    let _ = write!(text, ", block {} (affinity {})", fact.block, printable(&owner));
    text
}

fn text(store: &str, survey: &Survey, witness: &Witness, problems: &[Problem], show_all: bool) -> String {
    let (held, cooling) = (survey.held, survey.cooling);
    let active = survey.pools.iter().filter(|(_, _, is_active)| *is_active).count();
    let mut text = format!("Checking the store at {store}\n");
    let _ = writeln!(
        text,
        "Found {}, of which {active} are active",
        counted(survey.pools.len(), "pool", "pools")
    );
    let _ = writeln!(
        text,
        "Found {} with {} in use and {cooling} that cool down",
        counted(survey.blocks.len(), "block", "blocks"),
        counted(held, "address", "addresses")
    );
    let _ = writeln!(text, "Who is alive: {}", witness.describe());
    hosts(&mut text, survey);
    if show_all {
        for fact in &survey.addresses {
            let _ = writeln!(text, "{}", address_line(fact, &witness.life(fact)));
        }
    }
    for problem in problems {
        let _ = writeln!(text, "{}", problem.text);
    }
    let _ = writeln!(text, "Check complete; found {} problems.", problems.len());
    text
}

fn address_line(fact: &AddressFact, life: &Life) -> String {
    let state = match life {
        _ if fact.is_cooling => return format!("{} cools down; block {}", fact.address, fact.block),
        Life::Alive(why) => format!("alive ({why})"),
        Life::Dead(why) => format!("dead ({why})"),
        Life::Unknown(why) => format!("not known to be alive ({why})"),
    };
    format!("{} in use, {state}; {}", fact.address, whose(fact))
}

/// Hosts with the most addresses, and those that own something without there being a Node for them.
fn hosts(text: &mut String, survey: &Survey) {
    let mut hosts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (node, count) in &survey.users {
        hosts.entry(node).or_default().0 += count;
    }
    for owner in survey.blocks.iter().filter_map(|(_, owner)| owner.as_ref()) {
        if owner.kind() == "host" {
            hosts.entry(owner.name().as_str()).or_default().1 += 1;
        }
    }
    let mut listed: Vec<_> = hosts.into_iter().collect();
    listed.sort_by_key(|(_, (addresses, _))| std::cmp::Reverse(*addresses));
    for (host, (addresses, blocks)) in listed.iter().take(HOSTS_MAX) {
        let is_known = survey.nodes.is_empty() || survey.nodes.iter().any(|node| node.as_str() == *host);
        let note = if is_known { "" } else { "; there is no Node of that name" };
        let (addresses, blocks) =
            (counted(*addresses, "address", "addresses"), counted(*blocks, "block", "blocks"));
        let _ = writeln!(text, "  {}: {addresses}, {blocks}{note}", printable(host));
    }
    if listed.len() > HOSTS_MAX {
        let _ = writeln!(text, "  and {} more hosts", listed.len() - HOSTS_MAX);
    }
}
