//! The two homes of the configuration.

use super::*;
use crate::api::calico::{IpamConfiguration, IpamConfigurationSpec, VmAddressPersistence};
use crate::datastore::etcd::format::configuration::is_in_step;
use crate::datastore::{Change, Op};

const ALLOCATOR: &str = "/calico/ipam/v2/config";
const EDITED: &str = "/calico/resources/v3/projectcalico.org/ipamconfigurations/default";

fn held(value: &str, mod_revision: u64) -> Held<'_> {
    Held { value: value.as_bytes(), mod_revision }
}

fn edited(spec: &str) -> String {
    format!(
        r#"{{"kind":"IPAMConfiguration","apiVersion":"projectcalico.org/v3","metadata":{{"name":"default"}},"spec":{spec}}}"#
    )
}

/// The specification that counts, as JSON.
fn read(allocator: Option<&str>, spec: Option<&str>) -> String {
    let resource = spec.map(edited);
    let homes = [allocator.map(|value| held(value, 3)), resource.as_deref().map(|value| held(value, 5))];
    let entry = assemble(&Key::Configuration, &homes).expect("it can be read").expect("there is one");
    let configuration: IpamConfiguration = entry.into();
    serde_json::to_string(&configuration.spec).expect("json")
}

#[test]
fn each_option_counts_where_calico_goes_by_it() {
    let all = r#"{"strict_affinity":true,"auto_allocate_blocks":true,"maxBlocksPerHost":40,"kubeVirtVMAddressPersistence":"Enabled","ipCooldownSeconds":30}"#;
    let same = r#"{"strictAffinity":true,"maxBlocksPerHost":40,"kubeVirtVMAddressPersistence":"Enabled","ipCooldownSeconds":30}"#;
    for (allocator, spec, counts) in [
        (Some(all), None, same),
        (None, Some(same), same),
        // The trap: what is absent in the allocator's configuration is false, the claiming of blocks too.
        (Some("{}"), None, r#"{"autoAllocateBlocks":false}"#),
        (Some(""), Some("{}"), r#"{"autoAllocateBlocks":false}"#),
        (
            Some("{}"),
            Some(r#"{"strictAffinity":true,"maxBlocksPerHost":40}"#),
            r#"{"strictAffinity":false,"maxBlocksPerHost":0,"autoAllocateBlocks":false}"#,
        ),
        // What says the same stays as a person wrote it.
        (Some(r#"{"auto_allocate_blocks":true}"#), Some("{}"), "{}"),
        (
            Some(r#"{"auto_allocate_blocks":true}"#),
            Some(r#"{"strictAffinity":false,"autoAllocateBlocks":true}"#),
            r#"{"strictAffinity":false,"autoAllocateBlocks":true}"#,
        ),
        // Virtual machines: the plugin goes by the resource, if it says anything.
        (
            Some(all),
            Some(
                r#"{"strictAffinity":true,"maxBlocksPerHost":40,"ipCooldownSeconds":30,"kubeVirtVMAddressPersistence":"Disabled"}"#,
            ),
            r#"{"strictAffinity":true,"maxBlocksPerHost":40,"kubeVirtVMAddressPersistence":"Disabled","ipCooldownSeconds":30}"#,
        ),
        (Some(all), Some("{}"), same),
    ] {
        assert_eq!(read(allocator, spec), counts, "{allocator:?} and {spec:?}");
    }
    assert_eq!(assemble(&Key::Configuration, &[None, None]).expect("nothing"), None);
}

#[test]
fn a_home_that_cannot_be_read_is_named() {
    let resource = edited("{}");
    for (allocator, edited, named) in [
        (Some("7"), None, ALLOCATOR),
        (Some(r#"{"kubeVirtVMAddressPersistence":"Perhaps"}"#), Some(resource.as_str()), ALLOCATOR),
        (None, Some("{"), EDITED),
    ] {
        let homes = [allocator.map(|value| held(value, 3)), edited.map(|value| held(value, 5))];
        let error = assemble(&Key::Configuration, &homes).expect_err(named).to_string();
        assert!(error.starts_with(&format!("{named} is damaged")), "{error}");
    }
}

#[test]
fn a_change_of_either_home_is_another_revision() {
    let of = |one: Option<u64>, other: Option<u64>| {
        revision_of(&[one.map(|at| held("{}", at)), other.map(|at| held("{}", at))])
    };
    let states = [
        (Some(5), None),
        (None, Some(5)),
        (Some(5), Some(7)),
        (Some(7), Some(5)),
        (Some(7), Some(7)),
        (Some(9), Some(7)),
    ];
    for (at, one) in states.iter().enumerate() {
        for other in &states[at + 1..] {
            assert_ne!(of(one.0, one.1), of(other.0, other.1), "{one:?} and {other:?}");
        }
    }
    assert_eq!(of(None, None), None);
    assert_eq!(revision_of(&[Some(held("", 4))]), Some(Revision(4)));
}

/// What one change does to both homes: what is expected, and what is put.
fn writes(
    change: impl FnOnce(Option<Revision>) -> Change,
    allocator: Option<(&str, u64)>,
    resource: Option<(&str, u64)>,
) -> Option<Vec<(Expect, Option<String>)>> {
    let homes = [allocator, resource].map(|home| home.map(|(value, at)| held(value, at)));
    let op = Op { key: Key::Configuration, change: change(revision_of(&homes)), interim: None };
    assert_eq!(needed_by(&op), [ALLOCATOR, EDITED]);
    let writes = writes_of(&op, |key| if key == ALLOCATOR { homes[0] } else { homes[1] })
        .expect("it may be stored")?;
    assert_eq!(writes.iter().map(|write| write.key.as_str()).collect::<Vec<_>>(), [ALLOCATOR, EDITED]);
    let text = |put: Vec<u8>| String::from_utf8(put).expect("text");
    Some(writes.into_iter().map(|write| (write.expect, write.put.map(text))).collect())
}

fn object(spec: IpamConfigurationSpec) -> Object {
    IpamConfiguration::new("default", spec).into()
}

#[test]
fn both_homes_are_written_together_and_keep_what_others_put_there() {
    let new = || object(IpamConfigurationSpec { strict_affinity: Some(true), ..Default::default() });
    let create = |_| Change::Create(new());
    let created = writes(create, None, None).expect("nothing is there");
    let resource = r#"{"apiVersion":"projectcalico.org/v3","kind":"IPAMConfiguration","metadata":{"name":"default"},"spec":{"strictAffinity":true}}"#;
    assert_eq!(
        created,
        [
            (Expect::Absent, Some(r#"{"strict_affinity":true,"auto_allocate_blocks":true}"#.to_owned())),
            (Expect::Absent, Some(resource.to_owned())),
        ]
    );
    let update = |at: Option<Revision>| Change::Update(at.expect("it is there"), new());
    let stored = r#"{"maxBlocksPerHost":4,"next":9007199254740993}"#;
    let updated = writes(update, Some((stored, 3)), None).expect("it is as expected");
    let allocator = r#"{"auto_allocate_blocks":true,"next":9007199254740993,"strict_affinity":true}"#;
    assert_eq!(updated[0], (Expect::At(3), Some(allocator.to_owned())));
    assert_eq!(updated[1], (Expect::Absent, Some(resource.to_owned())), "the other is made");
    assert_eq!(
        writes(|at| Change::Delete(at.expect("it is there")), Some((stored, 3)), None)
            .expect("it is as expected"),
        [(Expect::At(3), None), (Expect::Absent, None)],
        "neither is left, and the other must not appear"
    );
    assert_eq!(writes(create, None, Some((resource, 5))), None, "one exists");
    assert_eq!(writes(|_| Change::Delete(Revision(3)), Some((stored, 4)), None), None, "it changed");
}

#[test]
fn what_is_written_reads_the_same() {
    for spec in [
        IpamConfigurationSpec::default(),
        IpamConfigurationSpec {
            auto_allocate_blocks: Some(false),
            strict_affinity: Some(true),
            ..Default::default()
        },
        IpamConfigurationSpec {
            max_blocks_per_host: Some(4),
            ip_cooldown_seconds: Some(60),
            kube_virt_vm_address_persistence: Some(VmAddressPersistence::Disabled),
            ..Default::default()
        },
    ] {
        let change = Change::Create(object(spec.clone()));
        let puts = writes(|_| change, None, None).expect("nothing is there");
        let value = |at: usize| puts[at].1.as_deref().expect("put");
        let homes = [Some(held(value(0), 3)), Some(held(value(1), 3))];
        let read: IpamConfiguration =
            assemble(&Key::Configuration, &homes).expect("read").expect("there").into();
        assert_eq!(read.spec, spec);
    }
}

#[test]
fn homes_that_say_the_same_are_in_step() {
    let in_step = |allocator: Option<&str>, spec: Option<&str>| {
        let resource = spec.map(edited);
        is_in_step(allocator.map(str::as_bytes), resource.as_deref().map(str::as_bytes))
    };
    let strict = r#"{"strict_affinity":true,"auto_allocate_blocks":true}"#;
    assert!(in_step(None, None) && in_step(Some(strict), Some(r#"{"strictAffinity":true}"#)));
    assert!(in_step(Some(r#"{"auto_allocate_blocks":true}"#), Some(r#"{"maxBlocksPerHost":0}"#)));
    for (allocator, spec) in [
        (Some(strict), None),
        (None, Some("{}")),
        (Some(strict), Some("{}")),
        (Some("{}"), Some("{}")),
        (Some(strict), Some(r#"{"strictAffinity":true,"kubeVirtVMAddressPersistence":"Enabled"}"#)),
    ] {
        assert!(!in_step(allocator, spec), "{allocator:?} and {spec:?}");
    }
}
