//! Hosts of the fleet, each a thread with namespaces of its own: mounts, host name, network, and for some processes.
//!
//! A child process inherits the namespaces of the thread that starts it, so a call costs one process and no `nsenter`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use super::forward::Forward;

/// Where runtimes keep their network namespaces.
pub(super) const NETNS: &str = "/run/netns";

type Job = Box<dyn FnOnce(&Inside) + Send>;

/// What a host starts with.
#[derive(Clone, Debug)]
pub(super) struct Blueprint {
    /// A directory for the host alone, which outlives its boots.
    pub(super) scratch: PathBuf,
    /// The directory with `boot_id` and `stat` of its kernel.
    pub(super) kernel: PathBuf,
    /// The kernel's host name.
    pub(super) name: String,
    /// The host has a process namespace of its own.
    pub(super) own_processes: bool,
    /// A server that the host must reach at a loopback address of its own.
    pub(super) server: Option<String>,
}

/// A host that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Host {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    init: Option<Child>,
    forward: Option<Forward>,
}

/// The inside of a host, for its thread alone.
#[derive(Debug)]
pub(super) struct Inside {
    network: File,
    scratch: PathBuf,
}

/// What a thread reports once its namespaces are ready.
struct Ready {
    init: Option<Child>,
    listener: Option<TcpListener>,
}

impl Host {
    /// Starts a host.
    ///
    /// # Errors
    /// When the namespaces cannot be created here.
    pub(super) fn start(blueprint: &Blueprint) -> Result<Self, String> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (report, ready) = mpsc::channel();
        let plan = blueprint.clone();
        let thread = thread::spawn(move || serve(&plan, &report, &queue));
        let ready = ready.recv().map_err(|_| "the host's thread ended".to_owned())??;
        let upstream = blueprint.server.clone().unwrap_or_default();
        let forward = ready.listener.map(|listener| Forward::start(listener, upstream));
        Ok(Self { jobs: Some(jobs), thread: Some(thread), init: ready.init, forward })
    }

    /// Runs a job inside the host.
    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce(&Inside) -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        let jobs = self.jobs.as_ref().expect("the host runs");
        let job: Job = Box::new(move |inside| drop(answer.send(job(inside))));
        jobs.send(job).expect("the host's thread runs");
        answered.recv().expect("a job inside a host does not panic")
    }

    /// Address at which the server is reached from inside.
    pub(super) fn server(&self) -> Option<String> {
        self.forward.as_ref().map(|forward| forward.address().to_owned())
    }

    pub(super) fn rename(&self, name: &str) {
        let name = name.to_owned();
        self.run(move |_| nix::unistd::sethostname(name).expect("root may name its own UTS namespace"));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(forward) = self.forward.take() {
            let address = forward.stopping().to_owned();
            // The listener waits in the host's network, so the last connection must come from there.
            self.run(move |_| drop(TcpStream::connect(address)));
        }
        if let Some(init) = &mut self.init {
            let _ = init.kill();
            let _ = init.wait();
        }
        drop(self.jobs.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(plan: &Blueprint, report: &Sender<Result<Ready, String>>, queue: &Receiver<Job>) {
    match enter(plan) {
        Ok((inside, ready)) => {
            let _ = report.send(Ok(ready));
            for job in queue {
                job(&inside);
            }
        }
        Err(error) => drop(report.send(Err(error))),
    }
}

/// Moves the thread into new namespaces and sets them up as a host has them.
fn enter(plan: &Blueprint) -> Result<(Inside, Ready), String> {
    let namespaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWNET;
    unshare(CloneFlags::CLONE_FS | namespaces).map_err(|error| format!("no new namespaces: {error}"))?;
    mount_with(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    // Process numbers of this thread are only valid in the first `/proc`.
    let proc = plan.scratch.join("proc");
    fs::create_dir_all(&proc).map_err(|error| error.to_string())?;
    bind(Path::new("/proc"), &proc)?;
    let network = File::open(proc.join("thread-self/ns/net")).map_err(|error| error.to_string())?;
    let init = if plan.own_processes { Some(new_process_namespace()?) } else { None };
    mount_with(Some(Path::new("tmpfs")), Path::new("/run"), Some("tmpfs"), MsFlags::empty())?;
    fs::create_dir(NETNS).map_err(|error| error.to_string())?;
    bind(&plan.kernel.join("boot_id"), Path::new("/proc/sys/kernel/random/boot_id"))?;
    bind(&plan.kernel.join("stat"), Path::new("/proc/stat"))?;
    nix::unistd::sethostname(&plan.name).map_err(|error| error.to_string())?;
    let mut listener = None;
    if plan.server.is_some() {
        run("ip", &["link", "set", "lo", "up"])?;
        listener = Some(TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?);
    }
    Ok((Inside { network, scratch: plan.scratch.clone() }, Ready { init, listener }))
}

/// Children of the thread live in a new process namespace from now on. Its init waits for input that never comes.
fn new_process_namespace() -> Result<Child, String> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(|error| format!("no process namespace: {error}"))?;
    let init = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let init = init.map_err(|error| format!("no init: {error}"))?;
    run("mount", &["-t", "proc", "proc", "/proc"])?;
    Ok(init)
}

fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run `{program}`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{program} {}: {said}", words.join(" "))) }
}

fn bind(from: &Path, to: &Path) -> Result<(), String> {
    mount_with(Some(from), to, None, MsFlags::MS_BIND)
}

fn mount_with(from: Option<&Path>, to: &Path, kind: Option<&str>, flags: MsFlags) -> Result<(), String> {
    mount(from, to, kind, flags, None::<&str>).map_err(|error| format!("mount on {}: {error}", to.display()))
}

impl Inside {
    /// Runs something in a new network namespace, which ends with the work unless something keeps it.
    fn in_new_network<T>(&self, work: impl FnOnce() -> T) -> T {
        unshare(CloneFlags::CLONE_NEWNET).expect("root may create network namespaces");
        let result = work();
        setns(&self.network, CloneFlags::CLONE_NEWNET).expect("the thread returns to its host");
        result
    }

    /// Creates a network namespace and pins it at a path.
    pub(super) fn pin(&self, path: &Path) {
        let own = self.scratch.join("proc/thread-self/ns/net");
        File::create(path).expect("a file to mount on");
        self.in_new_network(|| bind(&own, path)).expect("root may pin it");
    }

    /// Ends a pinned namespace.
    pub(super) fn unpin(path: &Path) {
        umount2(path, MntFlags::MNT_DETACH).expect("it is pinned there");
        fs::remove_file(path).expect("the file that it was mounted on");
    }

    /// Starts a process in a new network namespace, and tells its number inside the host.
    pub(super) fn start_process(&self) -> (Child, String) {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = self.in_new_network(|| command.spawn()).expect("a shell");
        let mut number = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        said.read_line(&mut number).expect("the shell tells its number");
        (child, number.trim().to_owned())
    }

    /// Gives the interface of a container its addresses, as a main plugin does after ADD.
    pub(super) fn configure(&self, netns: &Path, addresses: &[String]) -> Result<(), String> {
        let namespace = File::open(netns).map_err(|error| format!("{}: {error}", netns.display()))?;
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
        // The link may exist already; then only its addresses are replaced.
        let _ = run("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"]);
        let _ = run("ip", &["address", "flush", "dev", "eth0"]);
        let mut added =
            addresses.iter().map(|address| run("ip", &["address", "add", address, "dev", "eth0"]));
        let result = added.find(Result::is_err).unwrap_or(Ok(()));
        setns(&self.network, CloneFlags::CLONE_NEWNET).expect("the thread returns to its host");
        result
    }
}
