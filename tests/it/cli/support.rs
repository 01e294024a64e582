//! A store in a directory of its own, the plugin called on it, and the command line run on it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::etcd::Server;

const PROGRAM: &str = env!("CARGO_BIN_EXE_host-affine");

/// A store that nobody else has.
pub(crate) struct Store {
    dir: tempfile::TempDir,
    /// Where the store is, unless it is in the directory.
    etcd: Option<Server>,
}

impl Store {
    /// A place for a store; there is none yet.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), etcd: None }
    }

    /// The same in an etcd of its own. `None`: there is no etcd on this machine.
    pub(crate) fn in_etcd() -> Option<Self> {
        if !crate::support::etcd::is_installed() {
            crate::support::cni::skip("there is no `etcd`");
            return None;
        }
        Some(Self { etcd: Some(Server::start()), ..Self::new() })
    }

    /// The etcd that it is in.
    pub(crate) fn etcd(&self) -> &Server {
        self.etcd.as_ref().expect("the store is in etcd")
    }

    /// The store, as `--datastore` names it.
    pub(crate) fn url(&self) -> String {
        match &self.etcd {
            Some(server) => format!("etcd://{}", server.address()),
            None => format!("file://{}", self.path().display()),
        }
    }

    /// The directory that the store is in.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The store's own directory.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// A network whose configuration names pools, in `routed` addressing, on a host.
    pub(crate) fn network(&self, host: &str, pools: &Value) -> Value {
        json!({
            "cniVersion": "1.0.0", "name": "net", "type": "calico", "nodename": host,
            "ipam": { "type": "host-affine", "datastore": self.datastore(), "pools": pools },
        })
    }

    fn datastore(&self) -> Value {
        match &self.etcd {
            Some(server) => json!({ "type": "etcdv3", "endpoints": [server.url()] }),
            None => json!({ "type": "file", "path": self.path() }),
        }
    }

    /// A container is added.
    pub(crate) fn add(&self, id: &str, network: &Value) -> Value {
        let output = self.call("ADD", id, network);
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "ADD {id}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// A container is deleted.
    pub(crate) fn del(&self, id: &str, network: &Value) {
        assert!(self.call("DEL", id, network).status.success(), "DEL {id}");
    }

    /// The plugin is called, whatever comes of it.
    pub(crate) fn call(&self, verb: &str, id: &str, network: &Value) -> Output {
        self.call_in(verb, id, network, "/var/run/netns/none")
    }

    /// The plugin is called for a container whose network namespace has a path.
    pub(crate) fn call_in(&self, verb: &str, id: &str, network: &Value, netns: &str) -> Output {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.dir()).env_clear().envs([
            ("CNI_COMMAND", verb),
            ("CNI_CONTAINERID", id),
            ("CNI_NETNS", netns),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
        ]);
        command.env("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={id}"));
        feed(&mut command, &network.to_string())
    }

    /// The command line, on this store.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// The command line, on this store, with something on standard input.
    pub(crate) fn run_with(&self, args: &[&str], stdin: &str) -> Ran {
        let mut command = program();
        command.arg("--datastore").arg(self.url()).args(args);
        self.ran(feed(&mut command, stdin))
    }

    /// A file beside the store, and its path.
    pub(crate) fn file(&self, name: &str, content: &Value) -> String {
        let path = self.dir().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let file = std::fs::File::create(&path).expect("a file");
        serde_json::to_writer(file, content).expect("written");
        path.display().to_string()
    }

    /// A resource is applied from standard input.
    #[track_caller]
    pub(crate) fn apply(&self, kind: &str, name: &str, spec: &Value) -> Ran {
        self.run_with(&["apply", "-f", "-"], &resource(kind, name, spec).to_string())
    }

    /// What came of a run, with the place of the store and what differs from run to run taken out.
    pub(crate) fn ran(&self, output: Output) -> Ran {
        let text = |bytes: Vec<u8>| self.redact(&String::from_utf8(bytes).expect("text"));
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn redact(&self, text: &str) -> String {
        let text = text.replace(&self.dir().display().to_string(), "DIR");
        let text = match &self.etcd {
            Some(server) => text.replace(&format!("etcd at {}", server.url()), "DIR/store"),
            None => text,
        };
        let replaced = [
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC", "TIME"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
            (r"boot: \S+", "boot: BOOT"),
            (r"booted: \d+", "booted: BEGINNING"),
            (r"(host-netns|netns-id|netns-dir): [\d:]+", "$1: IDENTITY"),
            (r#""booted": "\d+""#, r#""booted": "BEGINNING""#),
            (r#""(host-netns|netns-id|netns-dir)": "[\d:]+""#, r#""$1": "IDENTITY""#),
            (r#""boot": "[^"]+""#, r#""boot": "BOOT""#),
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
            // Ages in tables: tests take less than two minutes.
            (r"(?m)   \d{1,3}s$", "   0s"),
            (r"   \d{1,3}s {3,4}", "   0s    "),
        ];
        replaced.iter().fold(text, |text, (pattern, word)| {
            regex::Regex::new(pattern).expect("a pattern").replace_all(&text, *word).into_owned()
        })
    }
}

/// A resource of Calico's group.
pub(crate) fn resource(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// The program without the environment of the test.
pub(crate) fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear();
    command
}

/// Runs a command with something on its standard input.
pub(crate) fn feed(command: &mut Command, stdin: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // Who does not read its input may be gone by now.
    let _ = child.stdin.take().expect("its standard input").write_all(stdin.as_bytes());
    child.wait_with_output().expect("its end")
}

/// What came of a command line.
#[derive(Debug)]
pub(crate) struct Ran {
    code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Nothing was run, and nothing is wrong.
    pub(crate) fn nothing() -> Self {
        Self { code: Some(0), out: String::new(), err: String::new() }
    }

    /// Writes it down as a session does.
    pub(crate) fn tell(&self, said: &mut String) {
        let long = regex::Regex::new(r"\d{12,}").expect("a pattern");
        let process = regex::Regex::new(r"host-affine\[\d+\]").expect("a pattern");
        for (mark, text) in [('|', &self.out), ('!', &self.err)] {
            let text = process.replace_all(text, "host-affine[PID]");
            for line in long.replace_all(&text, "NUMBER").lines() {
                let line = format!("{mark} {line}");
                let _ = writeln!(said, "{}", line.trim_end());
            }
        }
        if self.code != Some(0) {
            let _ = writeln!(said, "[{}]", self.code.unwrap_or(-1));
        }
    }

    /// It exits with a status, prints exactly this, and says nothing else.
    #[track_caller]
    pub(crate) fn prints(&self, code: i32, out: &str) -> &Self {
        self.is(code, out, "")
    }

    /// It exits with a status, prints nothing, and says exactly this.
    #[track_caller]
    pub(crate) fn says(&self, code: i32, err: &str) -> &Self {
        self.is(code, "", err)
    }

    /// It exits with a status, and both streams are exactly these.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, out: &str, err: &str) -> &Self {
        let (out, err) = (out.trim_start_matches('\n'), err.trim_start_matches('\n'));
        assert_eq!(self.out, out, "standard output; standard error was:\n{}", self.err);
        assert_eq!(self.err, err, "standard error");
        assert_eq!(self.code, Some(code), "exit status");
        self
    }

    /// It exits with a status.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "exit status; {self:?}");
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
