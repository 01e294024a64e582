//! One call of the plugin as a process of its own.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::Stop;
use super::case::Step;
use super::input;
use super::placeholder::Context;

/// A plugin that has not ended by then hangs.
pub(crate) const RUN_TIME_MAX: Duration = Duration::from_secs(20);

/// Taken for the time of an ADD when none has succeeded yet.
const USUAL_ADD_TIME: Duration = Duration::from_millis(5);

/// What a call of the plugin left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) elapsed: Duration,
    /// Whether the case sent SIGKILL, or was about to. Nothing can be expected of such a call.
    pub(crate) killed: bool,
}

/// Calls the plugin as `step` says and waits for its end. `index` is the number of this call among its repetitions.
pub(crate) fn call(plugin: &Path, step: &Step, context: &Context, index: usize) -> Result<Outcome, Stop> {
    call_within(RUN_TIME_MAX, plugin, step, context, index)
}

fn call_within(
    limit: Duration,
    plugin: &Path,
    step: &Step,
    context: &Context,
    index: usize,
) -> Result<Outcome, Stop> {
    let variables = input::variables(step, context, index)?;
    let stdin = input::stdin(step, context, index)?;
    let kill_after = step.kill_after_fraction.map(|fraction| {
        let fastest = context.fastest.lock().expect("no call panics while it holds this");
        fastest.get(&Some("ADD".to_owned())).copied().unwrap_or(USUAL_ADD_TIME).mul_f64(fraction)
    });

    let mut command = Command::new(plugin);
    command.env_clear().envs(variables).current_dir(&context.working_directory);
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());

    let start = Instant::now();
    let child = command.spawn().map_err(|error| format!("cannot run `{}`: {error}", plugin.display()))?;
    let outcome = Running::new(child, stdin, start).finish(kill_after, limit)?;

    if !outcome.killed && outcome.status.success() {
        let mut fastest = context.fastest.lock().expect("no call panics while it holds this");
        let time = fastest.entry(step.command.clone()).or_insert(outcome.elapsed);
        *time = outcome.elapsed.min(*time);
    }
    Ok(outcome)
}

/// Something the threads around a running plugin have to tell.
enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exited,
}

/// A plugin that was started. It is a zombie at worst until `finish` reaps it, so its process ID stays its own.
struct Running {
    child: Child,
    events: Receiver<Event>,
    start: Instant,
}

impl Running {
    /// The threads are never joined: a grandchild that holds a pipe open must not hang the run.
    fn new(mut child: Child, stdin: Option<Vec<u8>>, start: Instant) -> Self {
        let (sender, events) = mpsc::channel();
        if let (Some(mut pipe), Some(bytes)) = (child.stdin.take(), stdin) {
            // A plugin may end without having read it all; what that means the expectations say.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        if let Some(pipe) = child.stdout.take() {
            report(&sender, move || Event::Stdout(read_all(pipe)));
        }
        if let Some(pipe) = child.stderr.take() {
            report(&sender, move || Event::Stderr(read_all(pipe)));
        }
        let id = child.id();
        report(&sender, move || {
            wait_without_reaping(id);
            Event::Exited
        });
        Self { child, events, start }
    }

    /// Sends SIGKILL after `kill_after`, and when the plugin has not ended by `limit`.
    fn finish(mut self, kill_after: Option<Duration>, limit: Duration) -> Result<Outcome, Stop> {
        let (mut stdout, mut stderr, mut exited) = (None, None, false);
        let deadline = self.start + limit;
        let mut kill_at = kill_after.map(|time| Instant::now() + time);
        while !(exited && stdout.is_some() && stderr.is_some()) {
            let until = kill_at.map_or(deadline, |kill_at| kill_at.min(deadline));
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Stdout(bytes)) => stdout = Some(bytes),
                Ok(Event::Stderr(bytes)) => stderr = Some(bytes),
                Ok(Event::Exited) => exited = true,
                Err(RecvTimeoutError::Timeout) if until < deadline => {
                    self.kill();
                    kill_at = None;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.kill();
                    self.reap()?;
                    return Err(Stop::Fail(format!("no end after {} s", limit.as_secs_f64())));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.kill();
                    self.reap()?;
                    return Err(Stop::Fail("lost sight of the plugin".to_owned()));
                }
            }
        }
        let elapsed = self.start.elapsed();
        let status = self.reap()?;
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        Ok(Outcome { status, stdout, stderr, elapsed, killed: kill_after.is_some() })
    }

    fn kill(&mut self) {
        // It fails only for a plugin that has ended already, which is as good.
        drop(self.child.kill());
    }

    fn reap(&mut self) -> Result<ExitStatus, Stop> {
        self.child.wait().map_err(|error| Stop::Fail(format!("cannot wait for the plugin: {error}")))
    }
}

impl Outcome {
    /// The exit status, or the signal the plugin died of.
    pub(crate) fn exit(&self) -> Result<i32, i32> {
        self.status.code().ok_or_else(|| self.status.signal().unwrap_or_default())
    }
}

fn report(sender: &Sender<Event>, event: impl FnOnce() -> Event + Send + 'static) {
    let sender = sender.clone();
    // Nobody listens any more when the plugin took too long.
    thread::spawn(move || drop(sender.send(event())));
}

fn read_all(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe does not fail to be read. If it did, what came before says enough.
    let _: io::Result<usize> = pipe.read_to_end(&mut bytes);
    bytes
}

/// Returns when the process has ended. It can still be killed and waited for by its ID then.
fn wait_without_reaping(id: u32) {
    let Ok(id) = i32::try_from(id) else { return };
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while let Err(Errno::EINTR) = waitid(Id::Pid(Pid::from_raw(id)), flags) {}
}

mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::super::placeholder::tests::{context, profiles};
    use super::*;

    /// Runs a script by a shell that has no variables but those of the case.
    fn shell(script: &str, step: Step, limit: Duration) -> Result<Outcome, Stop> {
        let profiles = profiles();
        let step = Step { stdin_raw: Some(script.to_owned()), ..step };
        call_within(limit, Path::new("/bin/sh"), &step, &context(&profiles), 0)
    }

    const FOREVER: &str = "while :; do :; done";

    #[test]
    fn output_status_and_signal_come_back() {
        let outcome =
            shell("echo out; echo err >&2; exit 3", Step::default(), RUN_TIME_MAX).expect("it ends");
        assert_eq!((outcome.exit(), outcome.killed), (Ok(3), false));
        assert_eq!((&outcome.stdout[..], &outcome.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        let outcome = shell("kill -9 $$", Step::default(), RUN_TIME_MAX).expect("it ends");
        assert_eq!((outcome.exit(), outcome.killed), (Err(9), false));
    }

    #[test]
    fn the_plugin_gets_no_variable_of_ours() {
        let script = "echo [$HOME$CARGO$CARGO_MANIFEST_DIR$USER$LANG] $CNI_IFNAME";
        let outcome = shell(script, Step::default(), RUN_TIME_MAX).expect("it ends");
        assert_eq!(String::from_utf8_lossy(&outcome.stdout), "[] eth0\n");
    }

    #[test]
    fn a_plugin_that_reads_nothing_of_a_large_stdin_is_no_error() {
        let profiles = profiles();
        let step = Step { stdin_raw: Some("x".repeat(1 << 20)), ..Step::default() };
        let outcome = call(Path::new("/bin/true"), &step, &context(&profiles), 0).expect("it ends");
        assert_eq!(outcome.exit(), Ok(0));
    }

    #[test]
    fn a_plugin_that_hangs_fails() {
        let limit = Duration::from_millis(50);
        let verdict = shell(FOREVER, Step::default(), limit);
        assert_eq!(verdict.map(|outcome| outcome.exit()), Err(Stop::Fail("no end after 0.05 s".to_owned())));
        // It need not be busy, nor hold its pipes.
        let verdict = shell("exec >&- 2>&-; while :; do :; done", Step::default(), limit);
        assert!(matches!(verdict, Err(Stop::Fail(_))));
    }

    #[test]
    fn a_kill_is_sent_after_the_fraction_and_counts_as_killed() {
        let step = Step { kill_after_fraction: Some(0.5), ..Step::default() };
        let outcome = shell(FOREVER, step, RUN_TIME_MAX).expect("it is killed");
        assert_eq!((outcome.exit(), outcome.killed), (Err(9), true));
        let step = Step { kill_after_fraction: Some(1e6), ..Step::default() };
        let outcome = shell("exit 0", step, RUN_TIME_MAX).expect("it ends by itself");
        assert_eq!((outcome.exit(), outcome.killed), (Ok(0), true));
    }

    #[test]
    fn only_calls_that_succeed_undisturbed_are_timed() {
        let profiles = profiles();
        let mut context = context(&profiles);
        context.fastest = Mutex::new(BTreeMap::from([(Some("DEL".to_owned()), Duration::ZERO)]));
        let run = |command: &str, script: &str, kill_after_fraction: Option<f64>| {
            let command = Some(command.to_owned());
            let step =
                Step { command, stdin_raw: Some(script.into()), kill_after_fraction, ..Step::default() };
            call(Path::new("/bin/sh"), &step, &context, 0).expect("it ends");
        };
        run("ADD", "exit 1", None);
        run("ADD", "exit 0", Some(1e6));
        run("DEL", "exit 0", None);
        run("CHECK", "exit 0", None);
        let fastest = context.fastest.lock().expect("not poisoned");
        assert_eq!(fastest.get(&Some("ADD".to_owned())), None);
        assert_eq!(fastest.get(&Some("DEL".to_owned())), Some(&Duration::ZERO), "the shortest stays");
        assert!(fastest.contains_key(&Some("CHECK".to_owned())));
    }

    #[test]
    fn a_plugin_that_is_not_there_fails() {
        let profiles = profiles();
        let verdict = call(Path::new("/nonexistent/plugin"), &Step::default(), &context(&profiles), 0);
        assert!(matches!(verdict, Err(Stop::Fail(_))));
    }
}
