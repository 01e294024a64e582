//! `ipam configure`: global options, one by one.

use std::fmt::Write as _;

use serde_json::json;

use super::super::args::Configure;
use super::super::error::Error;
use super::super::render::{self, Format};
use super::super::{Answer, Context};
use super::show::config_value;
use crate::api::calico::VmAddressPersistence;
use crate::api::validate::{IP_COOLDOWN_SECONDS_MAX, MAX_BLOCKS_PER_HOST_MAX};
use crate::datastore::{Datastore as _, run_in_place};
use crate::ipam::{AffinityRule, Config, ConfigureError, MAX_BLOCKS_PER_HOST, Trial};

/// The options that were given, understood.
struct Change {
    strict: Option<bool>,
    max_blocks: Option<u32>,
    persistence: Option<VmAddressPersistence>,
    cooldown: Option<u32>,
    auto_allocate: Option<bool>,
}

/// Serves it.
pub(in crate::cli) fn run(context: &Context<'_>, args: &Configure) -> Result<Answer, Error> {
    let change = Change::parse(args)?;
    if change.is_empty() {
        return Err(Error::NothingToDo {
            verb: "ipam configure",
            expected: "give at least one option; nothing was changed",
        });
    }
    let mut ipam = context.open_to_write(Trial::Write)?;
    let changed = run_in_place(ipam.configure(|spec| {
        spec.strict_affinity = change.strict.or(spec.strict_affinity);
        spec.max_blocks_per_host = change.max_blocks.or(spec.max_blocks_per_host);
        spec.kube_virt_vm_address_persistence = change.persistence.or(spec.kube_virt_vm_address_persistence);
        spec.ip_cooldown_seconds = change.cooldown.or(spec.ip_cooldown_seconds);
        spec.auto_allocate_blocks = change.auto_allocate.or(spec.auto_allocate_blocks);
    }))
    .map_err(|error| match error {
        ConfigureError::Invalid(problem) => Error::Options(problem),
        ConfigureError::Engine(error) => Error::Engine(error),
    })?;
    run_in_place(ipam.store_mut().settle());
    match context.format {
        Format::Json => {
            return Ok(Answer::data(render::json(&json!({ "configuration": config_value(&changed.after) }))));
        }
        Format::Yaml => {
            return Ok(Answer::data(render::yaml(&json!({ "configuration": config_value(&changed.after) }))));
        }
        _ => {}
    }
    let mut text = String::new();
    let (before, after) = (properties(&changed.before), properties(&changed.after));
    for ((property, before), (_, after)) in before.into_iter().zip(after) {
        if !change.names(property) {
            continue;
        }
        let _ = if before == after {
            writeln!(text, "{property} was {after} already")
        } else {
            writeln!(text, "Successfully set {property} to: {after}")
        };
    }
    Ok(Answer::data(text))
}

const STRICT_AFFINITY: &str = "StrictAffinity";
const AUTO_ALLOCATE_BLOCKS: &str = "AutoAllocateBlocks";
const MAX_BLOCKS: &str = "MaxBlocksPerHost";
const PERSISTENCE: &str = "KubeVirtVMAddressPersistence";
const COOLDOWN: &str = "IPCooldownSeconds";

/// The options in effect, in `calicoctl`'s words and order.
pub(in crate::cli) fn properties(config: &Config) -> [(&'static str, String); 5] {
    let persistence = match config.vm_address_persistence {
        VmAddressPersistence::Enabled => "Enabled",
        VmAddressPersistence::Disabled => "Disabled",
    };
    [
        (STRICT_AFFINITY, (config.affinity_rule == AffinityRule::Strict).to_string()),
        (AUTO_ALLOCATE_BLOCKS, config.auto_allocate_blocks.to_string()),
        (MAX_BLOCKS, config.max_blocks_per_host.to_string()),
        (PERSISTENCE, persistence.to_owned()),
        (COOLDOWN, config.cooldown.as_secs().to_string()),
    ]
}

impl Change {
    fn parse(args: &Configure) -> Result<Self, Error> {
        let bool =
            |option, text: &Option<String>| text.as_deref().map(|text| boolean(option, text)).transpose();
        Ok(Self {
            strict: bool("--strictaffinity", &args.strictaffinity)?,
            max_blocks: args.max_blocks_per_host.as_deref().map(max_blocks).transpose()?,
            persistence: args.kubevirt_ip_persistence.as_deref().map(persistence).transpose()?,
            cooldown: args.ip_cooldown_seconds.as_deref().map(cooldown).transpose()?,
            auto_allocate: bool("--auto-allocate-blocks", &args.auto_allocate_blocks)?,
        })
    }

    fn is_empty(&self) -> bool {
        ![STRICT_AFFINITY, AUTO_ALLOCATE_BLOCKS, MAX_BLOCKS, PERSISTENCE, COOLDOWN]
            .into_iter()
            .any(|property| self.names(property))
    }

    fn names(&self, property: &str) -> bool {
        match property {
            STRICT_AFFINITY => self.strict.is_some(),
            AUTO_ALLOCATE_BLOCKS => self.auto_allocate.is_some(),
            MAX_BLOCKS => self.max_blocks.is_some(),
            PERSISTENCE => self.persistence.is_some(),
            _ => self.cooldown.is_some(),
        }
    }
}

fn refuse(option: &str, found: &str, expected: impl Into<String>) -> Error {
    Error::Argument { what: format!("`{option}`"), found: found.to_owned(), expected: expected.into() }
}

/// The words that Go, and so `calicoctl`, takes for a truth value.
fn boolean(option: &str, text: &str) -> Result<bool, Error> {
    match text {
        "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
        "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
        _ => Err(refuse(option, text, "`true` or `false`")),
    }
}

fn number(option: &str, text: &str, most: u32, note: &str) -> Result<u32, Error> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|&number| digits && number <= most);
    parsed.ok_or_else(|| refuse(option, text, format!("a number from 0 to {most}{note}")))
}

fn max_blocks(text: &str) -> Result<u32, Error> {
    let note = format!(" (0: the default, {MAX_BLOCKS_PER_HOST})");
    number("--max-blocks-per-host", text, MAX_BLOCKS_PER_HOST_MAX, &note)
}

fn cooldown(text: &str) -> Result<u32, Error> {
    number("--ip-cooldown-seconds", text, IP_COOLDOWN_SECONDS_MAX, "")
}

fn persistence(text: &str) -> Result<VmAddressPersistence, Error> {
    match text {
        "Enabled" => Ok(VmAddressPersistence::Enabled),
        "Disabled" => Ok(VmAddressPersistence::Disabled),
        _ => Err(refuse("--kubevirt-ip-persistence", text, "`Enabled` or `Disabled`")),
    }
}
