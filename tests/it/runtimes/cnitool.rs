//! The runtime library of today, by its own `cnitool`, and the main plugin of today: CNI 1.1.0 with GC and STATUS.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::machine::{Machine, Ran};
use crate::support::cni::skip;

/// Names the directory with `cnitool` and `bridge`, built from their modules.
const TOOLS: &str = "HOST_AFFINE_CNI_TOOLS";

struct Tool {
    machine: Machine,
    tools: PathBuf,
}

impl Tool {
    #[expect(clippy::disallowed_methods, reason = "a test's own settings come by the environment")]
    fn start() -> Result<Self, String> {
        let tools = std::env::var_os(TOOLS).map(PathBuf::from);
        let tools = tools.ok_or_else(|| format!("{TOOLS} names no directory with cnitool and bridge"))?;
        for name in ["cnitool", "bridge"] {
            if !tools.join(name).is_file() {
                return Err(format!("there is no {name} in {}", tools.display()));
            }
        }
        let machine = Machine::start(&[])?;
        let tool = Self { machine, tools };
        for n in 0..3 {
            tool.machine.run(&["ip", "netns", "add", &format!("c{n}")]).well();
        }
        Ok(tool)
    }

    /// A network of that name by a main plugin; ours can be one as well, and then hears of everything.
    fn network(&self, name: &str, main: &str) {
        self.machine.network(&json!({
            "cniVersion": "1.1.0", "name": name,
            "plugins": [{
                "type": main, "bridge": "tool0", "isGateway": true,
                "ipam": {
                    "type": "host-affine", "nodename": "node-1", "status": { "exhaustion": true },
                    "datastore": { "type": "file", "path": self.machine.path("store") },
                    // Two that containers can have.
                    "pools": [{ "cidr": "10.88.9.0/29", "blockSize": 29 }],
                },
            }],
        }));
    }

    fn call(&self, verb: &str, network: &str, container: usize) -> Ran {
        let own = self.machine.lab.path().join("bin");
        let path = format!("CNI_PATH={}:{}", own.display(), self.tools.display());
        let tool = Path::new(&self.tools).join("cnitool").display().to_string();
        self.machine.run(&["env", &path, &tool, verb, network, &format!("/run/netns/c{container}")])
    }

    fn held(&self) -> usize {
        self.machine.view().held.len()
    }
}

#[test]
fn under_the_runtime_library_of_today_every_call_of_cni_1_1_works() {
    let tool = match Tool::start() {
        Ok(tool) => tool,
        Err(reason) => return skip(&reason),
    };
    tool.network("bridged", "bridge");
    tool.call("status", "bridged", 0).well();
    let added: Value = serde_json::from_str(&tool.call("add", "bridged", 0).well().out).expect("a result");
    assert_eq!((&added["cniVersion"], &added["ips"][0]["interface"]), (&json!("1.1.0"), &json!(2)));
    tool.call("add", "bridged", 1).well();
    tool.call("check", "bridged", 0).well();
    assert_eq!(tool.held(), 2);
    let address = added["ips"][0]["address"].as_str().expect("text");
    tool.machine.run(&["ip", "-n", "c0", "addr", "del", address, "dev", "eth0"]).well();
    tool.call("check", "bridged", 0).fails_with(&["10.88.9."]);
    tool.call("del", "bridged", 0).well();
    tool.call("del", "bridged", 0).well();
    assert_eq!(tool.held(), 1);
    // The library deletes what nobody lists; `bridge` itself does not pass GC on.
    tool.call("gc", "bridged", 0).well();
    assert_eq!(tool.held(), 0);
}

#[test]
fn status_reaches_the_store_and_a_gc_that_lists_nothing_frees_nothing() {
    let tool = match Tool::start() {
        Ok(tool) => tool,
        Err(reason) => return skip(&reason),
    };
    tool.network("alone", "host-affine");
    for container in 0..2 {
        tool.call("add", "alone", container).well();
    }
    tool.call("status", "alone", 0).well();
    // What the library remembers is gone, as after a reinstallation. `cnitool gc` then passes no list at all, which is
    // not an empty one.
    tool.machine.run(&["rm", "-r", "/var/lib/cni/results"]).well();
    assert_eq!(tool.held(), 2);
    tool.call("gc", "alone", 0).well();
    assert_eq!(tool.held(), 2);
    for container in 0..2 {
        tool.call("del", "alone", container).well();
    }
    assert_eq!(tool.held(), 0);
    tool.machine
        .host_affine(&["patch", "ippool", "10-88-9-0-29", "-p", r#"{"spec":{"disabled":true}}"#])
        .well();
    tool.call("status", "alone", 0).fails_with(&["10.88.9.0/29", "disabled"]);
    tool.call("add", "alone", 0).fails_with(&["10.88.9.0/29", "disabled"]);
    assert_eq!(tool.held(), 0);
}
