//! The grammar: every type that clap reads. What an option's text means is decided by the verb, so that every
//! complaint says what is accepted.

#![expect(clippy::doc_markdown, reason = "clap prints these comments as help")]

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::error::Error;
use super::render::Format;

const STORES: &str = "\
Where addresses are kept: --datastore, --conf, $HOST_AFFINE_DATASTORE, the first host-affine configuration in
/etc/cni/net.d, or /var/lib/cni/host-affine, whichever comes first.

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
    /// The store: file:///DIRECTORY
    #[arg(long, global = true, value_name = "URL")]
    pub(super) datastore: Option<String>,
    /// A network configuration (file) that names the store
    #[arg(long, global = true, value_name = "NETCONF")]
    pub(super) conf: Option<PathBuf>,
    /// The project of resources that are in one
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
    Ipam(Ipam),
}

impl Verb {
    /// The verb in words.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Verb::Get(_) => "get",
            Verb::Ipam(ipam) => match &ipam.verb {
                IpamVerb::Show(_) => "ipam show",
                IpamVerb::Configure(_) => "ipam configure",
            },
        }
    }
}

/// List resources, or print some of them
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Kinds: ipamconfiguration, ippool, ipreservation, node; read-only: blockaffinity, ipamblock, ipamhandle.
Singular, plural and short names work, in any case.

Examples:
  host-affine get ippools
  host-affine get ippool pods -o yaml
  host-affine get ipamblock 10.88.0.0/26 -o json")]
pub(super) struct Get {
    /// The kind, or KIND/NAME
    #[arg(value_name = "KIND")]
    pub(super) kind: String,
    /// The names; without any, all
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
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
    Configure(Configure),
}

/// Show how much of each pool is in use, and by whom
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Counts are exact: total = in use + reserved + free. Addresses that cool down after their release are in use.

Examples:
  host-affine ipam show
  host-affine ipam show --show-blocks
  host-affine ipam show --ip=10.88.0.5")]
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
