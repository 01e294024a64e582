//! Calls of the built plugin as a runtime makes them: a process of its own, variables, a configuration, an answer.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::{env, fs, io, thread};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Names the plugin to test instead of the one that cargo built: the static release build, of which more is promised.
const PLUGIN: &str = "HOST_AFFINE_PLUGIN";

/// The plugin under test.
pub(crate) fn plugin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = given().unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_host-affine")));
        fs::canonicalize(&path).unwrap_or_else(|error| panic!("no plugin at {}: {error}", path.display()))
    })
}

/// Whether it is the static release build that is tested, and not what cargo built for the tests.
pub(crate) fn is_release_build() -> bool {
    given().is_some()
}

#[expect(clippy::disallowed_methods, reason = "a test's own settings come by the environment")]
fn given() -> Option<OsString> {
    env::var_os(PLUGIN)
}

/// Says on the real standard output that the test running now was not run, and why.
pub(crate) fn skip(reason: &str) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    // Not `print!`, which is only shown for a test that fails.
    let _ = io::stdout().lock().write_all(format!("\nSKIP {name}: {reason}\n").as_bytes());
}

/// The program of that name, where a person would find it.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// A network configuration.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// The whole of it, as it is passed on standard input.
    pub(crate) conf: Value,
}

impl Network {
    /// A network of our own dialect with a store of its own choice, on the node `node-1`.
    pub(crate) fn new(name: &str, store: &Path, pools: &Value) -> Self {
        Self::of(&json!({
            "cniVersion": "1.1.0",
            "name": name,
            "type": "bridge",
            "ipam": {
                "type": "host-affine",
                "pools": pools,
                "nodename": "node-1",
                "datastore": { "type": "file", "path": store },
            },
        }))
    }

    /// A network as it is written.
    pub(crate) fn of(conf: &Value) -> Self {
        Self { conf: conf.clone() }
    }

    /// The same with another value in `ipam`.
    pub(crate) fn with(&self, key: &str, value: impl Into<Value>) -> Self {
        let mut other = self.clone();
        other.conf["ipam"][key] = value.into();
        other
    }

    /// The same beside `ipam`.
    pub(crate) fn with_top(&self, key: &str, value: impl Into<Value>) -> Self {
        let mut other = self.clone();
        other.conf[key] = value.into();
        other
    }

    /// The same on another node.
    pub(crate) fn on(&self, node: &str) -> Self {
        self.with("nodename", node)
    }

    /// The same without flushes, for tests of what does not depend on them.
    pub(crate) fn unflushed(&self) -> Self {
        let mut other = self.clone();
        other.conf["ipam"]["datastore"]["durability"] = "process".into();
        other
    }

    /// A call of a verb for a container.
    pub(crate) fn call(&self, verb: &str, container: &str) -> Call {
        Call {
            program: plugin().to_owned(),
            args: Vec::new(),
            under: Vec::new(),
            variables: vec![
                ("CNI_COMMAND", verb.into()),
                ("CNI_CONTAINERID", container.into()),
                ("CNI_IFNAME", "eth0".into()),
                ("CNI_NETNS", format!("/run/netns/none-{container}")),
                ("CNI_PATH", "/nonexistent".into()),
            ],
            stdin: self.conf.to_string(),
        }
    }

    /// ADD.
    pub(crate) fn add(&self, container: &str) -> Answer {
        self.call("ADD", container).run()
    }

    /// DEL. It names the namespace of the ADD, so that a host under another name frees the address too.
    pub(crate) fn del(&self, container: &str) -> Answer {
        self.call("DEL", container).run()
    }

    /// GC, with the containers that are still there; all of them have `eth0`.
    pub(crate) fn gc_call(&self, valid: &[&str]) -> Call {
        let attachment = |id: &&str| json!({ "containerID": id, "ifname": "eth0" });
        let valid: Vec<Value> = valid.iter().map(attachment).collect();
        let mut call = self.with_top("cni.dev/valid-attachments", valid).call("GC", "");
        call.variables.retain(|(name, _)| matches!(*name, "CNI_COMMAND" | "CNI_PATH"));
        call
    }
}

/// A call that is yet to be made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    program: PathBuf,
    args: Vec<OsString>,
    under: Vec<OsString>,
    variables: Vec<(&'static str, String)>,
    stdin: String,
}

impl Call {
    /// What a person types, with something on standard input.
    pub(crate) fn typed<S: AsRef<OsStr>>(args: &[S], stdin: impl Into<String>) -> Self {
        Self {
            program: plugin().to_owned(),
            args: args.iter().map(|word| word.as_ref().to_owned()).collect(),
            under: Vec::new(),
            variables: Vec::new(),
            stdin: stdin.into(),
        }
    }

    /// With another variable, or another value of one.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.into()));
        self
    }

    /// On another interface.
    pub(crate) fn ifname(self, name: &str) -> Self {
        self.variable("CNI_IFNAME", name)
    }

    /// By another program, such as a main plugin that runs ours.
    pub(crate) fn program(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Under a program that runs it, such as `strace`.
    pub(crate) fn under<S: AsRef<OsStr>>(mut self, wrapper: &[S]) -> Self {
        let mut under: Vec<OsString> = wrapper.iter().map(|word| word.as_ref().to_owned()).collect();
        under.append(&mut self.under);
        self.under = under;
        self
    }

    /// With what CHECK and DEL are told of the ADD.
    pub(crate) fn previous(mut self, result: &Value) -> Self {
        let mut conf: Value = serde_json::from_str(&self.stdin).expect("a configuration of ours");
        conf["prevResult"] = result.clone();
        self.stdin = conf.to_string();
        self
    }

    /// Makes it and waits for its end.
    pub(crate) fn run(&self) -> Answer {
        self.start().finish()
    }

    /// Makes it, and does not wait. It leads a group of processes, so that nobody who watches it is left over.
    pub(crate) fn start(&self) -> Running {
        let mut words = self.under.iter().map(OsString::as_os_str).chain([self.program.as_os_str()]);
        let first = words.next().expect("the program at least");
        let mut command = Command::new(first);
        command
            .args(words)
            .args(&self.args)
            .env_clear()
            .current_dir("/")
            .envs(self.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", first.display()));
        // Shorter than a pipe holds, so this never waits. A plugin that is killed does not read it.
        let _ = child.stdin.take().expect("piped").write_all(self.stdin.as_bytes());
        Running(child)
    }
}

/// A call that is being made.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// The process, which may be another program's that runs the plugin.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().expect("numbers of processes are small"))
    }

    /// What it says to a person, to be read meanwhile. The answer has none of it then.
    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.0.stderr.take().expect("it is taken once")
    }

    /// Sends a signal to it, and to whoever watches it, unless they have ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = killpg(self.pid(), signal);
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Answer {
        let output = self.0.wait_with_output().expect("a child that was started can be waited for");
        Answer {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// What a call ended with.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What a runtime reads.
    pub(crate) stdout: String,
    /// What a person reads.
    pub(crate) stderr: String,
}

impl Answer {
    /// Whether the runtime takes it for a success.
    pub(crate) fn is_success(&self) -> bool {
        self.status.success()
    }

    /// Whether it was killed before its end.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(9) || self.status.code() == Some(128 + 9)
    }

    /// It must be a success.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert!(self.is_success(), "{:?}: {}{}", self.status, self.stdout, self.stderr);
        self
    }

    /// It must have succeeded with this one address.
    #[track_caller]
    pub(crate) fn address(self) -> IpAddr {
        let addresses = self.addresses();
        assert_eq!(addresses.len(), 1, "{addresses:?}");
        addresses[0]
    }

    /// It must have succeeded with these addresses.
    #[track_caller]
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        let answer = self.succeeded();
        answer.printed_addresses().unwrap_or_else(|| panic!("no result: {:?}", answer.stdout))
    }

    /// The result, whole.
    #[track_caller]
    pub(crate) fn result(self) -> Value {
        let answer = self.succeeded();
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", answer.stdout))
    }

    /// The addresses of a result that was printed to its end, whatever became of the process then.
    pub(crate) fn printed_addresses(&self) -> Option<Vec<IpAddr>> {
        let result: Value = serde_json::from_str(&self.stdout).ok()?;
        let of_entry = |entry: &Value| {
            let (address, _) = entry["address"].as_str()?.split_once('/')?;
            address.parse().ok()
        };
        result["ips"].as_array()?.iter().map(of_entry).collect()
    }

    /// It must have failed, with one error object on standard output and nothing else.
    #[track_caller]
    pub(crate) fn refused(self) -> Refusal {
        assert_eq!(self.status.code(), Some(1), "{}{}", self.stdout, self.stderr);
        let object: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no error object: {error}: {:?}", self.stdout));
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        assert!(object["cniVersion"].is_string(), "{object}");
        assert!(!text("msg").is_empty(), "{object}");
        Refusal { code: object["code"].as_u64().expect("a code"), msg: text("msg"), details: text("details") }
    }
}

/// An error object.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Its code.
    pub(crate) code: u64,
    /// What happened to whom.
    pub(crate) msg: String,
    /// The numbers and the way out.
    pub(crate) details: String,
}

impl Refusal {
    /// Message and details must say all this.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) {
        let text = format!("{}\n{}", self.msg, self.details);
        for word in words {
            assert!(text.contains(word), "{word:?} is not said: {text}");
        }
    }
}

/// Makes calls at once, each in a thread, and gives their answers in order.
pub(crate) fn at_once(calls: &[Call]) -> Vec<Answer> {
    thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| scope.spawn(|| call.run())).collect();
        running.into_iter().map(|call| call.join().expect("a call does not panic")).collect()
    })
}

/// The addresses, which must all differ.
#[track_caller]
pub(crate) fn all_different(addresses: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    let mut seen = BTreeSet::new();
    for address in addresses {
        assert!(seen.insert(address), "{address} was given twice");
    }
    seen
}
