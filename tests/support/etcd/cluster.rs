//! Three members of one etcd.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::server::{await_ready, free_address};

/// Members that run until they are dropped.
pub(crate) struct Cluster {
    members: Vec<Member>,
    /// All members' names and URLs, as each is told.
    all: String,
}

struct Member {
    process: Child,
    client: String,
    peer: String,
    folder: PathBuf,
    _kept: tempfile::TempDir,
}

impl Cluster {
    /// Starts three, which take requests when this returns.
    pub(crate) fn start() -> Self {
        let places: Vec<(String, String)> = (0..3).map(|_| (free_address(), free_address())).collect();
        let all: Vec<String> =
            places.iter().enumerate().map(|(n, (_, peer))| format!("m{n}=http://{peer}")).collect();
        let all = all.join(",");
        let members = thread::scope(|scope| {
            let starting: Vec<_> = places
                .into_iter()
                .enumerate()
                .map(|(number, (client, peer))| {
                    let all = &all;
                    scope.spawn(move || {
                        let kept = tempfile::tempdir().expect("a directory for etcd");
                        let folder = kept.path().join("data");
                        let process = run(number, &client, &peer, all, &folder);
                        Member { process, client, peer, folder, _kept: kept }
                    })
                })
                .collect();
            starting.into_iter().map(|member| member.join().expect("a member starts")).collect()
        });
        Self { members, all }
    }

    /// The URLs for clients.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://{}", member.client)).collect()
    }

    /// Kills a member as `kill -9` does.
    pub(crate) fn kill(&mut self, number: usize) {
        let process = &mut self.members[number].process;
        process.kill().expect("it is running");
        process.wait().expect("it ends");
    }

    /// Starts a member that was killed, with what it has on disk; it serves when this returns.
    pub(crate) fn start_again(&mut self, number: usize) {
        let member = &mut self.members[number];
        member.process = run(number, &member.client, &member.peer, &self.all, &member.folder);
    }

    /// A member neither hears nor says anything any more, as behind a wall.
    pub(crate) fn cut_off(&self, number: usize) {
        self.signal(number, Signal::SIGSTOP);
    }

    /// It does again.
    pub(crate) fn connect(&self, number: usize) {
        self.signal(number, Signal::SIGCONT);
    }

    fn signal(&self, number: usize, signal: Signal) {
        let pid = self.members[number].process.id().try_into().expect("numbers of processes are small");
        kill(Pid::from_raw(pid), signal).expect("it is running");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

fn run(number: usize, client: &str, peer: &str, all: &str, folder: &PathBuf) -> Child {
    let mut command = Command::new("etcd");
    command
        .args(["--name", &format!("m{number}"), "--logger", "zap", "--unsafe-no-fsync"])
        .arg("--data-dir")
        .arg(folder)
        .args(["--listen-client-urls", &format!("http://{client}")])
        .args(["--advertise-client-urls", &format!("http://{client}")])
        .args(["--listen-peer-urls", &format!("http://{peer}")])
        .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
        .args(["--initial-cluster", all, "--initial-cluster-state", "new"])
        // Processes of a test machine wait for their turn: an election must not begin for that.
        .args(["--heartbeat-interval", "100", "--election-timeout", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    await_ready(command.spawn().expect("etcd starts"))
}
