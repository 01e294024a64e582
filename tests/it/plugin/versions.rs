//! Two versions of the program on one store: what a newer one adds to objects stays when ours changes them. That a store
//! of a newer format is left alone is tested among the refusals.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::cni::{Network, plugin};
use crate::support::store::{Lab, View, write_out};

/// Every JSON file below a directory.
fn objects(store: &Path) -> BTreeMap<PathBuf, Value> {
    let (mut folders, mut found) = (vec![store.to_owned()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let value = serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("JSON");
                found.insert(path, value);
            }
        }
    }
    found
}

/// Where a newer version may add something: the object, and in a resource its metadata and its `spec`; in a block, who
/// has an address.
fn places(object: &mut Value) -> Vec<&mut Value> {
    let mut places = Vec::new();
    if let Value::Object(fields) = object {
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                ("metadata" | "spec", value) => places.push(value),
                ("attributes", Value::Array(attributes)) => places.extend(attributes.iter_mut()),
                _ => {}
            }
        }
    }
    places
}

fn is_newer(value: &Value) -> bool {
    value["ofANewerVersion"] == json!({ "kept": [1, "two", null] })
}

#[test]
fn what_a_newer_version_adds_to_an_object_stays_when_the_object_changes() {
    let lab = Lab::in_memory();
    let store = lab.store();
    let network =
        Network::new("pods", &store, &json!([{ "cidr": "10.215.0.0/27", "blockSize": 29, "name": "pods" }]));
    for n in 0..5 {
        network.add(&format!("c{n}")).succeeded();
    }
    let cli = |args: &[&str]| {
        let mut command = Command::new(plugin());
        let url = format!("file://{}", store.display());
        let output = command.env_clear().arg("--datastore").arg(url).args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    cli(&["ipam", "configure", "--strictaffinity", "true"]);
    write_out(&network, &store);

    // The other version writes the same files.
    let addition = json!({ "kept": [1, "two", null] });
    let mut added = 0;
    for (path, mut object) in objects(&store) {
        object["ofANewerVersion"] = addition.clone();
        for place in places(&mut object) {
            place["ofANewerVersion"] = addition.clone();
            added += 1;
        }
        fs::write(&path, format!("{object}\n")).expect("ours");
    }
    assert!(added >= 8, "{added}");
    // Its copy of the settings it would have written anew.
    fs::remove_file(store.join("state")).expect("it is there");

    network.del("c1").succeeded();
    network.add("d").succeeded();
    for n in 0..3 {
        network.on("node-2").add(&format!("e{n}")).succeeded();
    }
    network.on("node-2").del("e0").succeeded();
    cli(&["patch", "ippool", "pods", "-p", r#"{"spec":{"disabled":true}}"#]);
    cli(&["patch", "ippool", "pods", "-p", r#"{"spec":{"disabled":false}}"#]);
    cli(&["ipam", "configure", "--strictaffinity", "false"]);
    write_out(&network, &store);

    let mut seen = 0;
    for (path, mut object) in objects(&store) {
        let is_of_node_2 = path.display().to_string().contains("node-2");
        let is_new = is_of_node_2 || object["affinity"] == "host:node-2";
        if is_new {
            continue;
        }
        assert!(is_newer(&object), "{}: {object}", path.display());
        let is_block = object["attributes"].is_array();
        let kept = places(&mut object).into_iter().filter(|place| is_newer(place)).count();
        // Of the block's attributes one went and one came.
        let expected = if is_block { 4 } else { places(&mut object).len() };
        assert_eq!(kept, expected, "{}: {object}", path.display());
        seen += kept;
    }
    assert!(seen >= 8, "{seen}");
    assert_eq!(View::of(&store).sound().held.len(), 7);
}
