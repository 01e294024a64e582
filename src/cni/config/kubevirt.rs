//! `ipam.kubevirt`: how a pod is recognised as a virtual machine's, and how long a machine without a pod is kept.

use std::time::Duration;

use super::section::{Section, Value};
use crate::cni::failure::Failure;

const KEYS: [&str; 4] = ["arguments", "annotations", "podName", "vmRetention"];

/// How virtual machines are recognised and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubevirtConf {
    /// What the runtime is told of the machine: `args.cni.vm`, and `IPAM_VM_…` in `CNI_ARGS`.
    pub arguments: Trust,
    /// `KubeVirt`'s annotations of the pod.
    pub annotations: Trust,
    /// The pod's name, which whoever makes pods can choose.
    pub pod_name: Trust,
    /// How long a machine keeps its addresses without a pod. `None`: until its deletion is known.
    pub vm_retention: Option<Duration>,
}

impl Default for KubevirtConf {
    fn default() -> Self {
        Self {
            arguments: Trust::Everywhere,
            annotations: Trust::Everywhere,
            pod_name: Trust::Nowhere,
            vm_retention: None,
        }
    }
}

/// In which namespaces a way of recognising machines counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// In all.
    Everywhere,
    /// In none.
    Nowhere,
    /// In these.
    In(Vec<String>),
}

impl Trust {
    /// Whether it counts in a namespace.
    #[must_use]
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Trust::Everywhere => true,
            Trust::Nowhere => false,
            Trust::In(namespaces) => namespaces.iter().any(|known| known == namespace),
        }
    }

    fn read(section: &Section<'_, '_>, key: &str, absent: Trust) -> Result<Trust, Failure> {
        let Some(value) = section.get(key) else {
            return Ok(absent);
        };
        if let Some(on) = value.raw.bool() {
            return Ok(if on { Trust::Everywhere } else { Trust::Nowhere });
        }
        if value.raw.object().is_none() {
            return Err(value.expected("true, false or an object with `namespaces`"));
        }
        let restricted = value.section()?;
        restricted.only(&["namespaces"])?;
        Ok(Trust::In(restricted.texts("namespaces")?))
    }
}

impl KubevirtConf {
    /// Reads `ipam.kubevirt`.
    pub(super) fn read(ipam: &Section<'_, '_>) -> Result<Self, Failure> {
        let absent = Self::default();
        let Some(section) = ipam.section("kubevirt")? else {
            return Ok(absent);
        };
        section.only(&KEYS)?;
        Ok(Self {
            arguments: Trust::read(&section, "arguments", absent.arguments)?,
            annotations: Trust::read(&section, "annotations", absent.annotations)?,
            pod_name: Trust::read(&section, "podName", absent.pod_name)?,
            vm_retention: section.given("vmRetention").map(duration).transpose()?,
        })
    }
}

/// A length of time as Go writes it: `168h`, `1h30m`, `90s`.
fn duration(value: Value<'_, '_>) -> Result<Duration, Failure> {
    let text = value.string()?;
    parse_duration(&text).ok_or_else(|| value.expected("a length of time, such as `168h`, `90m` or `1h30m`"))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let mut seconds: u64 = 0;
    let mut number = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let of = match c {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        let count: u64 = number.parse().ok()?;
        number.clear();
        seconds = seconds.checked_add(count.checked_mul(of)?)?;
    }
    (number.is_empty() && !text.is_empty() && seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_read_as_go_writes_it() {
        let seconds = |text: &str| parse_duration(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("168h"), Some(604_800));
        assert_eq!(seconds("1h30m"), Some(5400));
        assert_eq!(seconds("90s"), Some(90));
        for wrong in ["", "5", "h", "5d", "1.5h", "-1h", "0s", "99999999999999999999h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_way_of_recognising_machines_counts_where_it_is_trusted() {
        let only = Trust::In(vec!["prod".into()]);
        assert!(only.covers("prod") && !only.covers("prod2"));
        assert!(Trust::Everywhere.covers("x") && !Trust::Nowhere.covers("x"));
    }
}
