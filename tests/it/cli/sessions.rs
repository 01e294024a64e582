//! Sessions at a terminal, written down: `testdata/cli/<case>/session`, with the files that it uses beside it.
//!
//! ```text
//! # Words about what follows.
//! $ host-affine apply -f pools.yaml        what is typed; `< FILE` at the end is standard input
//! | ippool.projectcalico.org/pods created  standard output
//! ! hint: …                                standard error
//! [2]                                      the exit status, unless it is 0
//! $ add web-0 node-1                       a runtime adds a container on a host
//! $ del web-0 node-1                       and deletes it
//! $ kill web-0                             its network namespace goes behind everybody's back
//! ```
//!
//! The same is played again with the store in etcd; where that says something else, `session.etcd` beside it has it.
//!
//! `HOST_AFFINE_UPDATE_SESSIONS=1 cargo test --test it sessions` writes down what is said now. Paths, times, boots and
//! long numbers are left out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{Ran, Store, feed, program};

const UPDATE: &str = "HOST_AFFINE_UPDATE_SESSIONS";

#[test]
fn what_was_written_down_of_sessions_is_what_is_said_now() {
    let folders = folders();
    let is_update = std::env::var(UPDATE).is_ok_and(|value| !value.is_empty());
    let mut wrong = Vec::new();
    for folder in &folders {
        let file = folder.join("session");
        let written = std::fs::read_to_string(&file).expect("a session");
        let said = Session::of(folder, Store::new()).replay(&written);
        if is_update {
            std::fs::write(&file, said).expect("written");
        } else if said != written {
            wrong.push(format!("{}:\n{}", file.display(), difference(&written, &said)));
        }
    }
    assert!(wrong.is_empty(), "{}\n(with {UPDATE}=1 they are written anew)", wrong.join("\n"));
    assert!(folders.len() > 5, "{folders:?}");
}

#[test]
fn the_same_is_said_of_a_store_in_etcd() {
    let is_update = std::env::var(UPDATE).is_ok_and(|value| !value.is_empty());
    let mut wrong = Vec::new();
    for folder in folders() {
        let Some(store) = Store::in_etcd() else { return };
        let (file, other) = (folder.join("session"), folder.join("session.etcd"));
        let file = if other.exists() { other } else { file };
        let written = std::fs::read_to_string(&file).expect("a session");
        let said = Session::of(&folder, store).replay(&written);
        if on_any_store(&said) == on_any_store(&written) {
            continue;
        }
        if is_update {
            std::fs::write(folder.join("session.etcd"), said).expect("written");
        } else {
            let difference = difference(&on_any_store(&written), &on_any_store(&said));
            wrong.push(format!("{}:\n{difference}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is said whatever the store is. One in files may not be there yet, which is said instead of what it lacks, and it
/// counts its commits by itself.
fn on_any_store(said: &str) -> String {
    let revision = r#"([rR]esource ?[vV]ersion"?: +)"?[\d.A-Z]+"?|(resourceVersion` is )\d+, now [\d.]+"#;
    let revision = regex::Regex::new(revision).expect("a pattern");
    let is_of_nothing = |line: &&str| {
        line.starts_with("! note: there is no store at ") || line.starts_with("! note: there are no ")
    };
    let kept = said.lines().filter(|line| !is_of_nothing(line));
    kept.fold(String::new(), |text, line| text + &revision.replace_all(line, "${1}${2}REVISION") + "\n")
}

/// The cases that are written down.
fn folders() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cli");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(&cases).expect("cases").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    folders
}

/// The first lines that differ, with the one before.
fn difference(written: &str, said: &str) -> String {
    let (written, said): (Vec<_>, Vec<_>) = (written.lines().collect(), said.lines().collect());
    let first = written.iter().zip(&said).take_while(|(a, b)| a == b).count();
    let part = |lines: &[&str]| {
        let from = lines.iter().take(first).rposition(|line| line.starts_with('$')).unwrap_or(0);
        lines
            .iter()
            .skip(from)
            .take(first - from + 8)
            .fold(String::new(), |text, line| text + "    " + line + "\n")
    };
    format!("  line {}, written:\n{}  said:\n{}", first + 1, part(&written), part(&said))
}

struct Session {
    store: Store,
}

impl Session {
    /// A store, and beside it what the case has.
    fn of(folder: &Path, store: Store) -> Self {
        let session = Self { store };
        for entry in std::fs::read_dir(folder).expect("a case") {
            let path = entry.expect("an entry").path();
            let to = session.store.dir().join(path.file_name().expect("a name"));
            if path.is_dir() {
                std::fs::create_dir(&to).expect("a directory");
                for entry in std::fs::read_dir(&path).expect("a directory") {
                    let file = entry.expect("an entry").path();
                    std::fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("copied");
                }
            } else {
                std::fs::copy(&path, to).expect("copied");
            }
        }
        session.store.file("network.conf", &session.network("node-1"));
        session
    }

    fn network(&self, host: &str) -> Value {
        let mut network = self.store.network(host, &json!([]));
        let own = self.store.dir().join("network.json");
        if let Ok(text) = std::fs::read_to_string(own) {
            let more: Value = serde_json::from_str(&text).expect("a network");
            for (key, value) in more.as_object().expect("an object") {
                match key.as_str() {
                    "ipam" => value
                        .as_object()
                        .expect("an object")
                        .iter()
                        .for_each(|(key, value)| network["ipam"][key] = value.clone()),
                    _ => network[key] = value.clone(),
                }
            }
        }
        network
    }

    fn replay(&self, written: &str) -> String {
        let mut said = String::new();
        for line in written.lines() {
            if line.starts_with('#') || line.is_empty() {
                let _ = writeln!(said, "{line}");
            } else if let Some(command) = line.strip_prefix("$ ") {
                let _ = writeln!(said, "{line}");
                self.run(command).tell(&mut said);
            } else {
                assert!(line.starts_with(['|', '!', '[']), "what is `{line}`?");
            }
        }
        said
    }

    fn run(&self, command: &str) -> Ran {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let netns = |id: &str| self.store.dir().join("netns").join(id);
        let call = |verb: &str, id: &str, host: &str| {
            let output = self.store.call_in(verb, id, &self.network(host), &netns(id).display().to_string());
            self.store.ran(output)
        };
        match words.as_slice() {
            ["host-affine", args @ ..] => self.command_line(args),
            ["add", id, host] => {
                std::fs::create_dir_all(netns(id)).expect("a namespace");
                let mut added = call("ADD", id, host);
                if let Ok(result) = serde_json::from_str::<Value>(&added.out) {
                    let ips = result["ips"].as_array().cloned().unwrap_or_default();
                    let addresses =
                        ips.iter().filter_map(|ip| Some(format!("{}\n", ip["address"].as_str()?)));
                    added.out =
                        addresses.chain(result["msg"].as_str().map(|msg| format!("{msg}\n"))).collect();
                }
                added
            }
            ["del", id, host] => {
                let deleted = call("DEL", id, host);
                let _ = std::fs::remove_dir(netns(id));
                deleted
            }
            ["kill", id] => {
                std::fs::remove_dir(netns(id)).expect("it is there");
                Ran::nothing()
            }
            other => panic!("what is `{other:?}`?"),
        }
    }

    fn command_line(&self, args: &[&str]) -> Ran {
        let (args, input) = match args {
            [args @ .., "<", file] => {
                (args, std::fs::read_to_string(self.store.dir().join(file)).expect("an input"))
            }
            args => (args, String::new()),
        };
        let mut command = program();
        command.current_dir(self.store.dir()).args(["--conf", "network.conf"]).args(args);
        self.store.ran(feed(&mut command, &input))
    }
}

/// The words of a command, as a shell splits them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, c) => words.last_mut().expect("there is one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
