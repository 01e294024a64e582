//! Runs the examples of a document: as they are written, in their order, on a fresh store.
//!
//! | block | what is done |
//! | --- | --- |
//! | `json`, `yaml`, `toml` or `text` with `title="FILE"` | the file is written; a network configuration is also tried with an ADD |
//! | `sh` | each line is run and must succeed, or end as its comment says: `# refused`, `# exit status 1: …` |
//! | `console` | each line after `$ ` is run, and what follows it is what it prints; `…` stands for any text |
//!
//! Directories of the system are replaced by those of a temporary one. In place of a container runtime the plugin is
//! called as the runtime would have it called.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::elsewhere;
use super::markdown::{Block, Document};
use crate::support::cni::{plugin, skip};
use crate::support::etcd::{Server, is_installed};

/// Directories of the system, which are replaced by others.
const SYSTEM: [&str; 7] = [
    "/etc/cni/net.d",
    "/etc/bash_completion.d",
    "/etc/containers",
    "/opt/cni/bin",
    "/usr/lib/cni",
    "/usr/local",
    "/var/lib/cni",
];
/// Those of them that a fresh Debian does not have.
const MISSING_AT_FIRST: &str = "/opt/cni/bin";
/// The etcd of the examples.
const ETCD: &str = "127.0.0.1:2379";
/// The executable that `scripts/build` makes.
const BUILT: &str = "target/release/host-affine";
/// The URL of the store, unless an example names another.
const DATASTORE: &str = "HOST_AFFINE_DATASTORE";

/// Runs the examples of a document, and returns what went wrong.
pub(super) fn run(document: &Document, text: &str) -> Vec<String> {
    if text.contains(ETCD) && !is_installed() {
        skip("there is no `etcd` for the examples");
        return Vec::new();
    }
    let mut page = Page::new(text.contains(ETCD).then(Server::start));
    for block in &document.blocks {
        page.block(block);
    }
    page.problems
}

struct Page {
    dir: tempfile::TempDir,
    etcd: Option<Server>,
    variables: BTreeMap<String, String>,
    containers: usize,
    problems: Vec<String>,
}

/// The end that an example says it has.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Success,
    Refusal,
    No,
}

impl Page {
    fn new(etcd: Option<Server>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for folder in
            SYSTEM.iter().filter(|folder| **folder != MISSING_AT_FIRST).chain(&["/usr/local/bin", "/bin"])
        {
            fs::create_dir_all(below(dir.path(), folder)).expect("a directory");
        }
        std::os::unix::fs::symlink(built(), dir.path().join("bin/host-affine")).expect("a link");
        let root = dir.path().display();
        let path = format!("{root}/usr/local/bin:{root}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let variables = [
            ("PATH", path),
            ("HOME", root.to_string()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            (DATASTORE, format!("file://{root}/var/lib/cni/host-affine")),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        Self { dir, etcd, variables, containers: 0, problems: Vec::new() }
    }

    fn block(&mut self, block: &Block) {
        match (block.language.as_str(), &block.title) {
            ("sh", None) => commands(&block.text).iter().for_each(|command| {
                self.example(command);
            }),
            ("console", None) => self.console(&block.text),
            ("text", None) => {}
            ("json" | "yaml" | "toml" | "text", Some(title)) => self.file(block, title),
            (language, title) => self.problem(&format!("a block of `{language}` with the title {title:?}")),
        }
    }

    fn problem(&mut self, problem: &str) {
        self.problems.push(problem.to_owned());
    }

    fn file(&mut self, block: &Block, title: &str) {
        if !block.introduced_by.iter().any(|code| code == title) {
            self.problem(&format!("the paragraph before the file {title} does not name it"));
        }
        let path =
            if title.starts_with('/') { below(self.dir.path(), title) } else { self.dir.path().join(title) };
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let mut content = self.here(&block.text);
        if block.language == "json" {
            match serde_json::from_str::<Value>(&content) {
                Err(error) => self.problem(&format!("{title}: {error}")),
                Ok(network) if network["plugins"].is_array() => {
                    self.try_network(&network);
                    content = self.with_store(network).to_string();
                }
                Ok(_) => {}
            }
        }
        fs::write(&path, content).expect("written");
    }

    /// A network configuration that names no store has the one of the examples: the usual one is not theirs.
    fn with_store(&self, mut network: Value) -> Value {
        let store = below(self.dir.path(), "/var/lib/cni/host-affine");
        let plugins = network["plugins"].as_array_mut().into_iter().flatten();
        for ipam in plugins.filter_map(|plugin| plugin.get_mut("ipam")) {
            if ipam["datastore"].is_null() {
                ipam["datastore"] = json!({ "type": "file", "path": store });
            }
        }
        network
    }

    /// A network configuration is accepted by an ADD on a store of its own.
    fn try_network(&mut self, network: &Value) {
        let store = tempfile::tempdir().expect("a directory");
        let output = self.cni("ADD", &of_plugin(network, store.path()), "");
        if !output.status.success() {
            self.problem(&format!("{}: ADD: {}", network["name"], text(&output.stdout)));
        }
    }

    fn console(&mut self, written: &str) {
        for part in format!("\n{written}").split("\n$ ").skip(1) {
            let (command, expected) = part.split_once('\n').unwrap_or((part, ""));
            let printed = self.example(command).unwrap_or_default();
            let printed = printed.replace(&self.dir.path().display().to_string(), "");
            if !is_like(expected.trim_end(), printed.trim_end()) {
                self.problem(&format!("`{command}` prints\n{printed}\nand not\n{expected}"));
            }
        }
    }

    /// Runs one command and returns its output. `None`: it is not run here.
    fn example(&mut self, written: &str) -> Option<String> {
        let (command, comment) = written.split_once(" # ").unwrap_or((written, ""));
        let command = command.trim();
        if let Some(setting) = command.strip_prefix("export ") {
            let (name, value) = setting.split_once('=').expect("NAME=VALUE");
            let value = self.here(value);
            self.variables.insert(name.to_owned(), value);
            return None;
        }
        let bare = without_settings(command);
        let output = if bare.starts_with("podman run") || bare.starts_with("cnitool add") {
            self.container(bare)
        } else if elsewhere::covered_by(bare).is_some() && !bare.starts_with("host-affine") {
            return None;
        } else {
            let command = self.here(command);
            let mut shell = Command::new("bash");
            shell.args(["-euo", "pipefail", "-c", &command]).current_dir(self.dir.path()).env_clear();
            shell.envs(&self.variables).output().expect("bash runs")
        };
        let end = end_of(comment);
        if end != end_by(&output) {
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            self.problem(&format!("`{written}` ended with {}: {said}", output.status));
        }
        Some(text(&output.stdout))
    }

    /// Calls the plugin as a runtime does that runs a container.
    fn container(&mut self, command: &str) -> Output {
        let words: Vec<&str> = command.split_whitespace().collect();
        let after =
            |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1));
        let name = after("--network").or_else(|| after("add")).expect("a network");
        let network = self.network(name);
        let store = below(self.dir.path(), "/var/lib/cni/host-affine");
        let plugin = of_plugin(&network, &store);
        self.containers += 1;
        let args = after("--ip").map(|address| format!("IP={address}")).unwrap_or_default();
        let output = self.cni("ADD", &plugin, &args);
        if words.contains(&"--rm") {
            self.cni("DEL", &plugin, &args);
        }
        output
    }

    fn network(&self, name: &str) -> Value {
        let folder = fs::read_dir(below(self.dir.path(), "/etc/cni/net.d")).expect("a directory");
        let files = folder.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a text"));
        let networks = files.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        networks
            .into_iter()
            .find(|network| network["name"] == *name)
            .unwrap_or_else(|| panic!("no network {name}"))
    }

    fn cni(&self, verb: &str, conf: &Value, args: &str) -> Output {
        let id = format!("example-{}", self.containers);
        let netns = self.dir.path().join(format!("netns-{id}"));
        fs::write(&netns, "").expect("written");
        let mut command = Command::new(built());
        command
            .env_clear()
            .envs([
                ("CNI_COMMAND", verb),
                ("CNI_CONTAINERID", &id),
                ("CNI_IFNAME", "eth0"),
                ("CNI_PATH", "/bin"),
            ])
            .env("CNI_NETNS", netns)
            .env("CNI_ARGS", args);
        super::feed(&mut command, &conf.to_string())
    }

    /// A text with the places of the examples replaced by those here.
    fn here(&self, text: &str) -> String {
        let root = self.dir.path().display();
        let mut here = text.replace(BUILT, &built().display().to_string());
        for folder in SYSTEM {
            here = here.replace(folder, &format!("{root}{folder}"));
        }
        match &self.etcd {
            Some(server) => here.replace(ETCD, server.address()),
            None => here,
        }
    }
}

/// The configuration that the first plugin of a network passes on, with a store and a host that the examples know.
fn of_plugin(network: &Value, store: &Path) -> Value {
    let mut plugin = network["plugins"][0].clone();
    for key in ["cniVersion", "name"] {
        plugin[key] = network[key].clone();
    }
    plugin["nodename"] = "node-1".into();
    plugin["ipam"]["datastore"] = json!({ "type": "file", "path": store });
    plugin["ipam"].as_object_mut().expect("an object").remove("dataDir");
    plugin
}

/// The plugin, from whatever directory it is started.
fn built() -> PathBuf {
    fs::canonicalize(plugin()).expect("the plugin")
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a block that are commands.
pub(super) fn commands(block: &str) -> Vec<String> {
    let lines = block.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// A command without the settings before it.
pub(super) fn without_settings(command: &str) -> &str {
    let setting = |word: &str| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
    match command.split_once(' ') {
        Some((first, rest)) if setting(first) => without_settings(rest.trim_start()),
        _ => command,
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn end_of(comment: &str) -> End {
    if comment.contains("exit status 1:") {
        End::No
    } else if comment.contains("refused") {
        End::Refusal
    } else {
        End::Success
    }
}

fn end_by(output: &Output) -> End {
    // A plugin that refuses ends with 1, and prints an error object.
    let is_error_object = text(&output.stdout).contains("\"code\":");
    match output.status.code() {
        Some(0) => End::Success,
        Some(1) if !is_error_object => End::No,
        _ => End::Refusal,
    }
}

/// True if a text is as a document has it, in which `…` stands for any text within a line.
fn is_like(expected: &str, printed: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::trim_end).map(str::to_owned).collect::<Vec<_>>();
    let (expected, printed) = (lines(expected), lines(printed));
    let is_line = |(expected, printed): (&String, &String)| {
        let pattern = expected.split('…').map(regex::escape).collect::<Vec<_>>().join(".*");
        regex::Regex::new(&format!("^{pattern}$")).expect("a pattern").is_match(printed)
    };
    expected.len() == printed.len() && expected.iter().zip(&printed).all(is_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(markdown: &str) -> usize {
        run(&Document::parse(markdown), markdown).len()
    }

    #[test]
    fn an_example_that_does_not_work_is_found() {
        assert_eq!(problems("```sh\ntrue\nA=1 false # exit status 1: it is false\n```\n"), 0);
        assert_eq!(problems("```sh\nfalse\n```\n"), 1);
        assert_eq!(problems("```sh\ntrue # refused\nexit 2 # refused\n```\n"), 1);
        assert_eq!(problems("```console\n$ echo a 1 b\na … b\n$ printf ''\n```\n"), 0);
        assert_eq!(problems("```console\n$ echo a\nb\n```\n"), 1);
        assert_eq!(
            problems("In `x.yaml`:\n\n```yaml title=\"x.yaml\"\na: 1\n```\n\n```sh\ngrep -q a x.yaml\n```\n"),
            0
        );
        assert_eq!(problems("```json title=\"x.json\"\n{\n```\n"), 2);
        assert_eq!(problems("```rust\n```\n"), 1);
    }

    #[test]
    fn a_command_is_found_behind_its_settings() {
        assert_eq!(without_settings("A=1 B_2=$PWD/x cargo test a=b"), "cargo test a=b");
        assert_eq!(without_settings("host-affine get x=1"), "host-affine get x=1");
    }
}
