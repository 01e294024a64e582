//! `ipam metrics`: counts for Prometheus, in its text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::super::error::Error;
use super::super::render::{self, Format, count};
use super::super::{Answer, Context};
use crate::datastore::run_in_place;
use crate::ipam::Usage;

/// Serves it.
pub(in crate::cli) fn run(context: &Context<'_>) -> Result<Answer, Error> {
    let (mut ipam, note) = context.open_to_read()?;
    let usage = run_in_place(ipam.usage(context.clock.now()))?;
    drop(ipam);
    let samples = samples(&usage);
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
    Ok(Answer { data, notes: note.into_iter().collect(), ..Answer::default() })
}

struct Sample {
    metric: &'static str,
    labels: Vec<(&'static str, String)>,
    value: u128,
}

/// The metrics, and what each counts.
const HELP: [(&str, &str); 4] = [
    ("host_affine_pool_addresses", "Addresses of a pool, by what they are: in use, reserved or free."),
    ("host_affine_pool_blocks", "Blocks of a pool that exist."),
    ("host_affine_host_blocks", "Blocks that are affine to a host."),
    ("host_affine_host_borrowed_addresses", "Addresses that a host uses from blocks of others."),
];

fn samples(usage: &Usage) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut hosts: BTreeMap<String, (u128, u128)> = BTreeMap::new();
    for pool in &usage.pools {
        let labels = || vec![("pool", pool.name.clone()), ("cidr", pool.cidr.to_string())];
        for (state, value) in [("in_use", pool.in_use), ("reserved", pool.reserved), ("free", pool.free)] {
            let mut labels = labels();
            labels.push(("state", state.to_owned()));
            samples.push(Sample { metric: HELP[0].0, labels, value });
        }
        let blocks = u128::try_from(pool.blocks.len()).unwrap_or(u128::MAX);
        samples.push(Sample { metric: HELP[1].0, labels: labels(), value: blocks });
    }
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
        samples.push(Sample { metric: HELP[2].0, labels: labels.clone(), value: blocks });
        samples.push(Sample { metric: HELP[3].0, labels, value: borrowed });
    }
    samples
}

fn text(samples: &[Sample]) -> String {
    let mut text = String::new();
    for (metric, help) in HELP {
        let of_metric: Vec<_> = samples.iter().filter(|sample| sample.metric == metric).collect();
        if of_metric.is_empty() {
            continue;
        }
        let _ = writeln!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge");
        for sample in of_metric {
            let labels: Vec<_> =
                sample.labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
            let _ = writeln!(text, "{metric}{{{}}} {}", labels.join(","), sample.value);
        }
    }
    text
}

/// A label's value, as the format escapes it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
