//! Network namespaces for a test, one of them in the place of the host's, so that bridges, routes and settings of the
//! machine itself are left alone. All goes with the value, also when the test panics.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use super::cni::program;

/// A network namespace with a name of its own.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one, with its loopback interface up.
    ///
    /// # Errors
    /// Why none can be made here.
    pub(crate) fn new(role: &str) -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can make network namespaces".to_owned());
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("host-affine-{}-{number}-{role}", std::process::id());
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        // Else an IPv6 address cannot be used for a second or two.
        for conf in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{conf}/accept_dad");
            namespace.enter(move || drop(fs::write(path, "0")));
        }
        Ok(namespace)
    }

    /// Where it can be entered.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// What runs another program in it.
    pub(crate) fn exec(&self) -> Vec<PathBuf> {
        let ip = program("ip").expect("it made the namespace");
        [ip].into_iter().chain(["netns", "exec", &self.name].map(PathBuf::from)).collect()
    }

    /// `ip` in it.
    #[track_caller]
    pub(crate) fn ip(&self, words: &[&str]) -> String {
        let words: Vec<&str> = ["-n", self.name.as_str()].into_iter().chain(words.iter().copied()).collect();
        ip(&words).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Does something in it, in a thread that ends there.
    pub(crate) fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let path = self.path();
        let inside = move || {
            let namespace = File::open(&path).expect("the namespace is there");
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("root may enter it");
            work()
        };
        thread::spawn(inside).join().expect("the work in the namespace does not panic")
    }

    /// Whether a datagram gets from here to an address there, and one back.
    pub(crate) fn reaches(&self, there: &Namespace, address: IpAddr) -> bool {
        const TRIES: usize = 50;
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = move || UdpSocket::bind(SocketAddr::new(any, 0)).expect("a socket");
        let server = there.enter(socket);
        let client = self.enter(socket);
        let port = server.local_addr().expect("it is bound").port();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let echo = thread::spawn(move || {
            let mut buffer = [0; 16];
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                if let Ok((length, from)) = server.recv_from(&mut buffer) {
                    let _ = server.send_to(&buffer[..length], from);
                }
            }
        });
        let one_try = |_| {
            let mut buffer = [0; 16];
            // Where there is no route yet, the time to wait passes all the same.
            let _ = client.send_to(b"there and back", SocketAddr::new(address, port));
            let back = client.recv_from(&mut buffer);
            back.is_ok_and(|(_, from)| from == SocketAddr::new(address, port))
        };
        let reached = (0..TRIES).any(one_try);
        drop(stop);
        echo.join().expect("it only echoes");
        reached
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "delete", &self.name]);
    }
}

fn ip(words: &[&str]) -> Result<String, String> {
    let program = program("ip").ok_or("`ip` is not installed")?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run `ip`: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
