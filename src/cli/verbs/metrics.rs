//! `ipam metrics`: counts for Prometheus, as `OpenMetrics` text.
//!
//! What a node exporter's textfile directory takes is an older format, in which the lines that are new are comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::{fs, io};

use serde_json::json;

use super::super::args::Metrics;
use super::super::error::Error;
use super::super::render::{self, Format, count, printable};
use super::super::{Answer, Context};
use super::show::{damage, warnings};
use crate::ipam::Census;

/// Serves it.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &Metrics) -> Result<Answer, Error> {
    let (mut ipam, note) = context.open_to_read()?;
    let census = context.count(&mut ipam)?;
    drop(ipam);
    let samples = samples(&census);
    let data = match context.format {
        Format::Json | Format::Yaml => {
            let listed = samples.iter().map(|sample| {
                let labels: BTreeMap<_, _> = sample.labels.iter().map(|(key, value)| (*key, value)).collect();
                json!({ "metric": sample.metric, "labels": labels, "value": count(sample.value) })
            });
            let document = listed.collect();
            if context.format == Format::Json { render::json(&document) } else { render::yaml(&document) }
        }
        _ => text(&samples),
    };
    let data = match &args.output_file {
        Some(path) => {
            write_whole(path, &data).map_err(|source| Error::Write { path: path.clone(), source })?;
            String::new()
        }
        None => data,
    };
    Ok(Answer::with_notes(data, note.into_iter().chain(warnings(&damage(&census)))))
}

struct Sample {
    metric: &'static str,
    labels: Vec<(&'static str, String)>,
    value: u128,
}

/// A metric family. Its name ends with its unit.
struct Family {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
}

const POOL_ADDRESSES: Family = Family {
    name: "host_affine_pool_addresses",
    unit: "addresses",
    help: "Addresses of a pool, by what they are: in use, reserved, carved out or free.",
};
const POOL_BLOCKS: Family =
    Family { name: "host_affine_pool_blocks", unit: "blocks", help: "Blocks of a pool that exist." };
const HOST_BLOCKS: Family =
    Family { name: "host_affine_host_blocks", unit: "blocks", help: "Blocks that are affine to a host." };
const HOST_BORROWED: Family = Family {
    name: "host_affine_host_borrowed_addresses",
    unit: "addresses",
    help: "Addresses that a host uses from blocks of others.",
};
const UNREADABLE: Family = Family {
    name: "host_affine_unreadable_blocks",
    unit: "blocks",
    help: "Blocks whose files cannot be read, and which no other metric counts.",
};

const FAMILIES: [Family; 5] = [POOL_ADDRESSES, POOL_BLOCKS, HOST_BLOCKS, HOST_BORROWED, UNREADABLE];

fn samples(census: &Census) -> Vec<Sample> {
    let usage = &census.usage;
    let as_count = |number: usize| u128::try_from(number).unwrap_or(u128::MAX);
    let mut samples = Vec::new();
    let mut hosts: BTreeMap<String, (u128, u128)> = BTreeMap::new();
    for pool in &usage.pools {
        let labels = || vec![("pool", pool.name.clone()), ("cidr", pool.cidr.to_string())];
        let states = [
            ("in_use", pool.in_use),
            ("reserved", pool.reserved),
            ("carved", pool.carved),
            ("free", pool.free),
        ];
        for (state, value) in states {
            let mut labels = labels();
            labels.push(("state", state.to_owned()));
            samples.push(Sample { metric: POOL_ADDRESSES.name, labels, value });
        }
        let value = as_count(pool.blocks.len());
        samples.push(Sample { metric: POOL_BLOCKS.name, labels: labels(), value });
    }
    let value = as_count(census.damaged.len());
    samples.push(Sample { metric: UNREADABLE.name, labels: Vec::new(), value });
    for block in usage.pools.iter().flat_map(|pool| &pool.blocks).chain(&usage.orphans) {
        if let Some(owner) = &block.affinity {
            hosts.entry(owner.name().to_string()).or_default().0 += 1;
        }
        for (host, borrowed) in &block.borrowed {
            hosts.entry(host.clone()).or_default().1 += borrowed;
        }
    }
    for (host, (blocks, borrowed)) in hosts {
        let labels = vec![("host", host)];
        samples.push(Sample { metric: HOST_BLOCKS.name, labels: labels.clone(), value: blocks });
        samples.push(Sample { metric: HOST_BORROWED.name, labels, value: borrowed });
    }
    samples
}

fn text(samples: &[Sample]) -> String {
    let mut text = String::new();
    for Family { name, unit, help } in FAMILIES {
        let of_family: Vec<_> = samples.iter().filter(|sample| sample.metric == name).collect();
        if of_family.is_empty() {
            continue;
        }
        let _ = writeln!(text, "# TYPE {name} gauge\n# UNIT {name} {unit}\n# HELP {name} {help}");
        for sample in of_family {
            let labels: Vec<_> =
                sample.labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{labels} {}", sample.value);
        }
    }
    text.push_str("# EOF\n");
    text
}

/// Replaces a file as a whole: a collector that reads it meanwhile sees the old or the new text.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // Collectors read files that end in `.prom`.
    let temporary = path.with_file_name(format!(".{}.{}.tmp", name.display(), std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A label's value, as the format escapes it.
fn escaped(value: &str) -> String {
    let value = value.split('\n').map(printable).collect::<Vec<_>>().join("\n");
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
