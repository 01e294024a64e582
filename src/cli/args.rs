//! The grammar: every type that clap reads. What an option's text means is decided by the verb, so that every
//! complaint says what is accepted.

#![expect(clippy::doc_markdown, reason = "clap prints these comments as help")]

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::error::Error;
use super::render::Format;
use crate::ipam::Trial;

const STORES: &str = "\
Where addresses are kept: --datastore, --conf, $HOST_AFFINE_DATASTORE, $ETCD_ENDPOINTS as for Calico, the first
host-affine configuration in /etc/cni/net.d, or /var/lib/cni/host-affine, whichever comes first.

Exit status: 0 done, 1 the answer is no, 2 could not.

Examples:
  host-affine ipam show --show-blocks
  host-affine get ippools -o yaml
  host-affine --datastore file:///tmp/store ipam show --ip=10.88.0.5";

/// Show and change what host-affine keeps: pools, blocks, and who has which address.
#[derive(Debug, Parser)]
#[command(name = "host-affine", version, after_help = STORES, disable_help_subcommand = true)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, ClapArgs)]
pub(super) struct Global {
    /// The store: file:///DIRECTORY, etcd://HOST:PORT[,HOST:PORT...] or etcds://...
    #[arg(long, global = true, value_name = "URL")]
    pub(super) datastore: Option<String>,
    /// A network configuration (file) that names the store
    #[arg(long, global = true, value_name = "NETCONF")]
    pub(super) conf: Option<PathBuf>,
    /// The project of allocations and claims, and of pools that are to belong to one; else $HOST_AFFINE_PROJECT, or default
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) project: Option<String>,
    /// How to print: table, wide, json, yaml or name
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(super) output: Option<String>,
}

impl Global {
    /// How the answer is to look.
    pub(super) fn format(&self) -> Result<Format, Error> {
        self.output.as_deref().map_or(Ok(Format::Table), str::parse)
    }
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    Get(Get),
    Describe(Describe),
    Explain(Explain),
    Apply(Apply),
    Create(Create),
    Replace(Replace),
    Patch(Patch),
    Delete(Delete),
    Ipam(Ipam),
    Completion(Completion),
}

impl Verb {
    /// The verb in words.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Verb::Get(_) => "get",
            Verb::Describe(_) => "describe",
            Verb::Explain(_) => "explain",
            Verb::Apply(_) => "apply",
            Verb::Create(_) => "create",
            Verb::Replace(_) => "replace",
            Verb::Patch(_) => "patch",
            Verb::Delete(_) => "delete",
            Verb::Completion(_) => "completion",
            Verb::Ipam(ipam) => match &ipam.verb {
                IpamVerb::Show(_) => "ipam show",
                IpamVerb::Check(_) => "ipam check",
                IpamVerb::Release(_) => "ipam release",
                IpamVerb::Gc(_) => "ipam gc",
                IpamVerb::Why(_) => "ipam why",
                IpamVerb::Configure(_) => "ipam configure",
                IpamVerb::Split(_) => "ipam split",
                IpamVerb::Migrate(_) => "ipam migrate",
                IpamVerb::Map(_) => "ipam map",
                IpamVerb::Metrics(_) => "ipam metrics",
            },
        }
    }
}

/// List resources, or print some of them
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Kinds: ipamconfiguration, ippool, ipreservation, node; read-only: blockaffinity, ipamblock, ipamhandle. Of
ipam.miloapis.com: ipallocation, ipclaim, ippools.ipam.miloapis.com. Singular, plural and short names work, in any case.

Examples:
  host-affine get ippools
  host-affine get ippool pods -o yaml
  host-affine get ipamblock 10.88.0.0/26 -o json
  host-affine get nodes -l zone=north,gpu!=none
  host-affine get ipallocations --project=my-project -o wide
  host-affine get ippools --field-selector=spec.disabled=true")]
pub(super) struct Get {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND")]
    pub(super) kind: String,
    /// The names; without any, all
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Only those with these labels: kubectl's `zone=north,!gpu`, or a selector of Calico
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub(super) selector: Option<String>,
    /// Only those with these fields, such as metadata.name=pods,spec.disabled!=true
    #[arg(long, value_name = "FIELDS", conflicts_with = "names")]
    pub(super) field_selector: Option<String>,
    /// Those of every project, each with its project
    #[arg(short = 'A', long, visible_alias = "platform-wide")]
    pub(super) all_projects: bool,
}

/// Print resources in full, with what of them is in use
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine describe ippool pods
  host-affine describe node node-1
  host-affine describe ipallocation web-tier-allocation --project=my-project")]
pub(super) struct Describe {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND")]
    pub(super) kind: String,
    /// The names; without any, all
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
}

/// Print the fields of a kind, what each accepts, and what its absence means
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine explain ipamconfiguration --recursive
  host-affine explain ippool.spec.blockSize
  host-affine explain ippools.ipam.miloapis.com.spec")]
pub(super) struct Explain {
    /// The kind, and the field if one is meant
    #[arg(value_name = "KIND[.FIELD]")]
    pub(super) field: String,
    /// Group and version of the kind, where its name alone means another: ipam.miloapis.com/v1alpha1
    #[arg(long, value_name = "GROUP/VERSION")]
    pub(super) api_version: Option<String>,
    /// Print the whole tree of fields
    #[arg(long)]
    pub(super) recursive: bool,
}

/// Make resources what files say; what an earlier file said and this one does not is taken back
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Everything is checked before anything is changed.

Examples:
  host-affine apply -f pools.yaml
  host-affine get ippool pods -o yaml | sed 's/disabled: true/disabled: false/' | host-affine apply -f -")]
pub(super) struct Apply {
    #[command(flatten)]
    pub(super) write: Write,
}

/// Make resources that do not exist yet
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine create -f pool.yaml
  host-affine create -f pools/ --dry-run")]
pub(super) struct Create {
    #[command(flatten)]
    pub(super) write: Write,
}

/// Make resources that exist what files say, whole
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
With `metadata.resourceVersion`, a resource that has changed since it was read is refused.

Examples:
  host-affine replace -f pool.yaml")]
pub(super) struct Replace {
    #[command(flatten)]
    pub(super) write: Write,
}

/// What `apply`, `create` and `replace` are told.
#[derive(Debug, ClapArgs)]
pub(super) struct Write {
    /// A file, a directory of files, or - for standard input; YAML or JSON
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(super) filename: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) dry_run: DryRun,
}

/// Whether anything is written.
#[derive(Debug, ClapArgs)]
pub(super) struct DryRun {
    /// Check everything and change nothing
    #[arg(long, value_name = "WORD", num_args = 0..=1, require_equals = true, default_missing_value = "client", hide_default_value = true)]
    dry_run: Option<String>,
}

impl DryRun {
    /// `kubectl`'s words are understood; the store is asked in any case.
    pub(super) fn trial(&self) -> Result<Trial, Error> {
        match self.dry_run.as_deref() {
            None | Some("none" | "false") => Ok(Trial::Write),
            Some("client" | "server" | "true") => Ok(Trial::DryRun),
            Some(other) => Err(Error::Argument {
                what: "`--dry-run`".into(),
                found: other.to_owned(),
                expected: "`none`, `client` or `server`".into(),
            }),
        }
    }
}

/// Change some fields of a resource
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine patch ippool old -p '{\"spec\":{\"disabled\":true}}'
  host-affine patch ippool old --type json -p '[{\"op\":\"remove\",\"path\":\"/spec/disabled\"}]'")]
pub(super) struct Patch {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND")]
    pub(super) kind: String,
    /// The name
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The patch, in JSON or YAML
    #[arg(short = 'p', long = "patch", value_name = "PATCH")]
    pub(super) change: String,
    /// How the patch is written: merge (RFC 7386) or json (RFC 6902)
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "merge")]
    pub(super) language: String,
    #[command(flatten)]
    pub(super) dry_run: DryRun,
}

/// Delete resources
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A pool that holds addresses, or that something is carved out of, is not deleted, unless it is forced: then its blocks give
nothing more, and go with their last address; what was carved out keeps its range. A claim's allocation goes with it, or
stays as the claim's policy says. A node gives up its blocks: empty ones go, others are kept for nobody.

Examples:
  host-affine delete ippool old
  host-affine delete node node-3
  host-affine delete ipclaim web --project=my-project
  host-affine delete -f pools.yaml")]
pub(super) struct Delete {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND", conflicts_with = "filename")]
    pub(super) kind: Option<String>,
    /// The names
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// A file, a directory of files, or - for standard input, with the resources to delete
    #[arg(short, long, value_name = "FILE")]
    pub(super) filename: Vec<PathBuf>,
    /// Delete a pool even if it holds addresses, or something is carved out of it
    #[arg(long)]
    pub(super) force: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
    /// What does not exist is no failure
    #[arg(long, short = 's', visible_alias = "skip-not-exists")]
    pub(super) ignore_not_found: bool,
    #[command(flatten)]
    pub(super) dry_run: DryRun,
}

/// Print what a shell needs to complete verbs and options
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine completion bash > /etc/bash_completion.d/host-affine
  host-affine completion fish > ~/.config/fish/completions/host-affine.fish")]
pub(super) struct Completion {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL")]
    pub(super) shell: String,
}

/// Look at and change the allocation of addresses
#[derive(Debug, ClapArgs)]
#[command(disable_help_subcommand = true)]
pub(super) struct Ipam {
    #[command(subcommand)]
    pub(super) verb: IpamVerb,
}

/// What is to be done about addresses.
#[derive(Debug, Subcommand)]
pub(super) enum IpamVerb {
    Show(Show),
    Check(Check),
    Release(Release),
    Gc(Gc),
    Why(Why),
    Configure(Configure),
    Split(Split),
    Migrate(Migrate),
    Map(Map),
    Metrics(Metrics),
}

/// Look for what does not agree, and for addresses that nobody uses
#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = "\
Exits with 1 when something was found. With -o FILE the report that `ipam release --from-report` reads is written there.

An address is leaked when its owner is known to be dead: the inventory does not list it, or, without an inventory, it
is this host's and its network namespace is gone or the host has booted since. A virtual machine's is never leaked.

Examples:
  host-affine ipam check
  host-affine ipam check --inventory=alive.json -o report.json
  host-affine ipam check -o json")]
pub(super) struct Check {
    /// Print every address and what is known of its owner
    #[arg(long)]
    pub(super) show_all_ips: bool,
    /// Print every address with a problem (they are printed in any case)
    #[arg(long)]
    pub(super) show_problem_ips: bool,
    /// Make anew what is derived: the index of handles, lists of blocks with room, records of affinities, and the
    /// header of a journal
    #[arg(long)]
    pub(super) repair: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
    /// A file that lists everything that is alive: {\"workloads\":[{\"containerID\":…,\"ips\":[…]}]}
    #[arg(long, value_name = "FILE")]
    pub(super) inventory: Option<PathBuf>,
}

/// Free addresses that no runtime will free any more
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "\
What is known to be alive is left alone, unless forced: its network namespace is here, or the inventory lists it.

Examples:
  host-affine ipam release --ip=10.88.0.5
  host-affine ipam release --from-report=report.json
  host-affine ipam release --node=node-3 --dry-run")]
pub(super) struct Release {
    /// Addresses
    #[arg(long, value_name = "ADDR")]
    pub(super) ip: Vec<String>,
    /// What nobody used in any of these reports of `ipam check`, if it has not changed hands since
    #[arg(long, value_name = "FILE")]
    pub(super) from_report: Vec<PathBuf>,
    /// Everything that a handle holds
    #[arg(long, value_name = "ID")]
    pub(super) handle: Option<String>,
    /// Everything that a virtual machine holds
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) vm: Option<String>,
    /// Everything that a node holds, and the blocks that are kept for it
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
    /// A file that lists everything that is alive
    #[arg(long, value_name = "FILE")]
    pub(super) inventory: Option<PathBuf>,
    /// Say what would be released, and release nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Release what is alive, too
    #[arg(long)]
    pub(super) force: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// Free what this host knows to be dead: left by an earlier boot, or by a network namespace that is gone
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine ipam gc --dry-run
  host-affine ipam gc --yes")]
pub(super) struct Gc {
    /// Say what would be released, and release nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// Say whether a host would get an address now, and if not, why not
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exits with 1 when it would get none. Nothing is changed.

Examples:
  host-affine ipam why
  host-affine ipam why --node=node-3
  host-affine ipam why --pod=prod/web-0")]
pub(super) struct Why {
    /// The pod that should have an address: what it holds is said first
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(super) pod: Option<String>,
    /// The host; without it, this one
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
}

/// Cut a pool into equal parts; blocks and addresses stay as they are
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine ipam split 4 --pool=pods
  host-affine ipam split 2 --cidr=10.88.0.0/16")]
pub(super) struct Split {
    /// How many parts: a power of 2
    #[arg(value_name = "NUMBER", allow_hyphen_values = true)]
    pub(super) parts: String,
    /// The pool, by its name
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    pub(super) pool: Option<String>,
    /// The pool, by its range
    #[arg(long, value_name = "CIDR")]
    pub(super) cidr: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// Import the leases that another plugin recorded, so that containers keep them
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The first ADD of a network in host-local's words does the same by itself. Each network has a directory of its name in
host-local's, by default /var/lib/cni/networks; the directory of one network may be given as well. Pools come from the
network's configuration (--conf, or in /etc/cni/net.d), else from the store. The records stay, except those from before
this boot whose addresses no network namespace of this host has.

Exits with 1 when somebody else has one of the addresses.

Examples:
  host-affine ipam migrate --from-host-local=/var/lib/cni/networks --dry-run
  host-affine ipam migrate --from-host-local=/var/lib/cni/networks --network=pods --conf=/etc/cni/net.d/10-pods.conflist")]
pub(super) struct Migrate {
    /// host-local's directory
    #[arg(long, value_name = "DIR")]
    pub(super) from_host_local: PathBuf,
    /// Only this network; or, where DIR is that of one network, its name
    #[arg(long, value_name = "NAME")]
    pub(super) network: Option<String>,
    /// Say what would be imported, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// Draw pools as maps: which host has what, and how full it is
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What is near in a pool is near on its map, which follows a Hilbert curve. -o is text, svg or html: one picture, or a page
that names what is pointed at. Also json and yaml: the same places, for those who draw their own.

Examples:
  host-affine ipam map
  host-affine ipam map --pool=pods -o svg > pods.svg
  host-affine ipam map -o html > pools.html")]
pub(super) struct Map {
    /// Only this pool, by its name or CIDR
    #[arg(long, value_name = "NAME")]
    pub(super) pool: Option<String>,
}

/// Print counts for Prometheus
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine ipam metrics
  host-affine ipam metrics --output-file=/var/lib/node_exporter/host_affine.prom")]
pub(super) struct Metrics {
    /// Replace this file as a whole, mode 0644, so that nobody reads half of it
    #[arg(long, value_name = "FILE")]
    pub(super) output_file: Option<PathBuf>,
}

/// Show how much of each pool is in use, and by whom
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Counts are exact: total = in use + reserved + carved out + free. Addresses that cool down after their release are in use.

Examples:
  host-affine ipam show
  host-affine ipam show --show-blocks
  host-affine ipam show --ip=10.88.0.5")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own on the command line")]
pub(super) struct Show {
    /// Show the blocks of each pool, whose they are, and who borrows from them
    #[arg(long = "show-blocks")]
    pub(super) blocks: bool,
    /// Show every address that a host uses from a block of another
    #[arg(long = "show-borrowed")]
    pub(super) borrowed: bool,
    /// Show the options in effect
    #[arg(long = "show-configuration")]
    pub(super) configuration: bool,
    /// Show who has one address
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["blocks", "borrowed", "configuration"])]
    pub(super) ip: Option<String>,
    /// Show virtual machines: their addresses, the pods that own them, and since when there is none
    #[arg(long, conflicts_with_all = ["blocks", "borrowed", "configuration", "ip"])]
    pub(super) vm: bool,
}

/// Change global options; those that are not named stay as they are
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  host-affine ipam configure --strictaffinity=true --max-blocks-per-host=4
  host-affine ipam configure --kubevirt-ip-persistence=Enabled
  host-affine ipam show --show-configuration")]
pub(super) struct Configure {
    /// Whether borrowing addresses from another host's block is forbidden: true or false
    #[arg(long, value_name = "BOOL", allow_hyphen_values = true)]
    pub(super) strictaffinity: Option<String>,
    /// The most blocks of one family that may be affine to one host: 0 to 2147483647 (0: the default, 20)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) max_blocks_per_host: Option<String>,
    /// Whether KubeVirt virtual machines keep their addresses: Enabled or Disabled
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) kubevirt_ip_persistence: Option<String>,
    /// The least time between release and reuse of an address, in seconds: 0 to 1200
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) ip_cooldown_seconds: Option<String>,
    /// Whether a host may claim blocks that it does not have: true or false
    #[arg(long, value_name = "BOOL", allow_hyphen_values = true)]
    pub(super) auto_allocate_blocks: Option<String>,
}
