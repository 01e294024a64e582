//! A machine within this one: processes, network, `/run`, `/opt`, `/etc/cni` and `/var/lib/cni` of its own, which end with
//! the value, whatever happens. It can be booted again.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::cni::{plugin, program};
use crate::support::store::{Lab, View};

/// Where the main plugins of others are on Debian.
pub(super) const MAIN_PLUGINS: &str = "/usr/lib/cni";

/// What the machine's first process does.
const SETUP: &str = r#"
set -e
mkdir -p /etc/cni /var/lib/cni
for place in /run /opt /etc/cni /var/lib/cni; do mount -t tmpfs none "$place"; done
mkdir -p /run/netns /run/lock /opt/cni/bin /etc/cni/net.d
ln -s "$1/bin/host-affine" /opt/cni/bin/host-affine
mount --bind "$1/boot" /proc/sys/kernel/random/boot_id
mount --bind "$1/stat" /proc/stat
ip link set lo up
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad
echo up
exec >/dev/null 2>&1
while :; do sleep 1 || :; done
"#;

/// One that runs.
pub(super) struct Machine {
    pub(super) lab: Lab,
    holder: Child,
    /// Its first process, as this machine numbers it.
    init: String,
    boots: u32,
}

impl Machine {
    /// Starts one that has these programs. `Err`: why that cannot be done here.
    pub(super) fn start(programs: &[&str]) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can play a machine".to_owned());
        }
        for name in ["unshare", "nsenter", "mount", "ip"].iter().chain(programs) {
            program(name).ok_or_else(|| format!("`{name}` is not installed"))?;
        }
        if !Path::new(MAIN_PLUGINS).join("bridge").is_file() {
            return Err(format!("the main plugins are not in {MAIN_PLUGINS}"));
        }
        let lab = Lab::new();
        fs::create_dir(lab.path().join("bin")).expect("a directory");
        fs::copy(plugin(), lab.path().join("bin/host-affine")).expect("a copy");
        fs::write(lab.path().join("boot"), boot_id(1)).expect("a file");
        fs::write(lab.path().join("stat"), stat_of(1)).expect("a file");
        let mut command = Command::new("unshare");
        command.args(["-m", "-n", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SETUP, "init"]);
        command.arg(lab.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| format!("cannot run unshare: {error}"))?;
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().expect("piped"));
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        if line != "up\n" {
            let output = holder.wait_with_output().map_err(|error| error.to_string())?;
            return Err(format!(
                "no machine can be played here: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let init = fs::read_to_string(children).expect("its children are known").trim().to_owned();
        Ok(Self { lab, holder, init, boots: 1 })
    }

    /// A command in it.
    pub(super) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init, "-m", "-n", "-p", "--"]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command in it to its end.
    #[track_caller]
    pub(super) fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Ran {
        Ran::of(self.command(words).output().expect("it can be run"))
    }

    /// The same with something on standard input.
    pub(super) fn feed<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Output {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().expect("it can be run");
        child.stdin.take().expect("piped").write_all(input).expect("it is read");
        child.wait_with_output().expect("its end")
    }

    /// Starts a command in it that goes on, with what it says in a file of that name.
    pub(super) fn spawn<S: AsRef<OsStr>>(&self, words: &[S], log: &str) -> Child {
        let log = fs::File::create(self.lab.path().join(log)).expect("a file");
        let same = log.try_clone().expect("a descriptor");
        self.command(words).stdout(log).stderr(same).spawn().expect("it can be run")
    }

    /// The command line of the plugin in it, on its store.
    #[track_caller]
    pub(super) fn host_affine(&self, words: &[&str]) -> Ran {
        let program = self.lab.path().join("bin/host-affine").display().to_string();
        let store = format!("file://{}", self.lab.store().display());
        self.run(&[&[program.as_str(), "--datastore", &store], words].concat())
    }

    /// Writes the configuration of a network to where runtimes look for it.
    pub(super) fn network(&self, conf: &Value) {
        let path = format!("/etc/cni/net.d/10-{}.conflist", conf["name"].as_str().expect("a name"));
        let output = self.feed(&["sh", "-c", "cat > \"$0\"", &path], conf.to_string().as_bytes());
        assert!(output.status.success(), "{output:?}");
    }

    /// Everything that runs dies at once, `/run` is empty, and the kernel has another boot ID. Files stay.
    pub(super) fn boot_again(&mut self) {
        // All but the first process, which makes the difference between a boot and an end.
        self.run(&["sh", "-c", "kill -9 -1"]);
        self.boots += 1;
        let script = "umount -R -l /run && mount -t tmpfs none /run && mkdir -p /run/netns /run/lock
            for mount in $(cut -d' ' -f2 /proc/mounts | grep \"^${0}podman/\"); do umount -l $mount; done
            for link in $(ip -o link show type bridge | cut -d: -f2); do ip link delete $link; done";
        self.run(&["sh", "-c", script, &self.path("")]).well();
        fs::write(self.lab.path().join("boot"), boot_id(self.boots)).expect("a file");
        fs::write(self.lab.path().join("stat"), stat_of(self.boots)).expect("a file");
    }

    /// What the store holds.
    pub(super) fn view(&self) -> View {
        View::of(&self.lab.store()).sound()
    }

    /// A path in the directory of the test.
    pub(super) fn path(&self, name: &str) -> String {
        self.lab.path().join(name).display().to_string()
    }

    /// The directories of plugins: ours before those of others.
    pub(super) fn plugin_folders(&self) -> [PathBuf; 2] {
        [self.lab.path().join("bin"), PathBuf::from(MAIN_PLUGINS)]
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.run(&["sh", "-c", "kill -9 -1"]);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn boot_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}\n")
}

/// The kernel's own `/proc/stat`, in which each boot begins a minute after the one before.
fn stat_of(boot: u32) -> String {
    let stat = fs::read_to_string("/proc/stat").expect("the kernel's own");
    let later = |line: &str| match line.strip_prefix("btime ").and_then(|began| began.parse::<u64>().ok()) {
        Some(began) => format!("btime {}\n", began + 60 * u64::from(boot - 1)),
        None => format!("{line}\n"),
    };
    stat.lines().map(later).collect()
}

/// What came of a command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) is_success: bool,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ran {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { is_success: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It must have succeeded.
    #[track_caller]
    pub(super) fn well(self) -> Self {
        assert!(self.is_success, "{self:?}");
        self
    }

    /// It must have failed, and have said all of this.
    #[track_caller]
    pub(super) fn fails_with(self, words: &[&str]) {
        assert!(!self.is_success, "{self:?}");
        for word in words {
            assert!(self.err.contains(word) || self.out.contains(word), "{word:?} is not said: {self:?}");
        }
    }

    /// The IPv4 addresses of `eth0` in what `ip addr` printed.
    #[track_caller]
    pub(super) fn address(self) -> std::net::IpAddr {
        let ran = self.well();
        let inet = ran.out.split_whitespace().skip_while(|word| *word != "inet").nth(1);
        let text =
            inet.and_then(|word| word.split('/').next()).unwrap_or_else(|| panic!("no address: {ran:?}"));
        text.parse().expect("an address")
    }
}
