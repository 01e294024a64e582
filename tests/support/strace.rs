//! Watching, killing and troubling the plugin at its system calls, by `strace`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, iter};

use super::cni::{Answer, Call, program};

/// `strace`, or why it cannot be used here.
pub(crate) fn strace() -> Result<PathBuf, String> {
    let path = program("strace").ok_or("strace is not installed")?;
    let mut command = Command::new(&path);
    command.args(["-o", "/dev/null", "-e", "inject=getpid:signal=KILL:when=1", "/bin/true"]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        Ok(path)
    } else {
        Err("strace may not trace a process here".to_owned())
    }
}

/// A system call that a run made.
#[derive(Clone, Debug)]
pub(crate) struct SystemCall {
    /// Its name.
    pub(crate) name: String,
    /// The whole line that `strace` writes of it.
    pub(crate) line: String,
    /// How many of the name there were, with this one.
    pub(crate) occurrence: usize,
}

impl SystemCall {
    /// Whether the next run may not make it: it depends on where the kernel puts memory, or on who comes first of two.
    pub(crate) fn is_by_chance(&self) -> bool {
        let by_chance = ["brk", "mmap", "munmap", "mremap", "madvise", "mprotect", "futex"];
        by_chance.contains(&self.name.as_str())
    }

    /// The options that let `strace` do something before it, such as `signal=KILL`.
    pub(crate) fn inject(&self, what: &str) -> [String; 2] {
        ["-e".to_owned(), format!("inject={}:{what}:when={}", self.name, self.occurrence)]
    }

    /// The same before it and all later ones of its name.
    pub(crate) fn inject_from_then_on(&self, what: &str) -> [String; 2] {
        let [option, once] = self.inject(what);
        [option, format!("{once}+")]
    }
}

/// Makes a call and tells what system calls it made, from `exec` to exit.
pub(crate) fn record(strace: &Path, call: Call, scratch: &Path) -> (Answer, Vec<SystemCall>) {
    let file = scratch.join(format!("trace-{:?}", std::thread::current().id()));
    let words = ["-s", "200", "-o"].map(Into::into);
    let wrapper: Vec<PathBuf> = iter::once(strace.to_owned()).chain(words).chain([file.clone()]).collect();
    let answer = call.under(&wrapper).run();
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        // `--- SIGPIPE ...` and `+++ exited ...` are none.
        let Some((name, _)) = line.split_once('(').filter(|(name, _)| !name.contains(' ')) else { continue };
        let occurrence = counts.entry(name.to_owned()).or_default();
        *occurrence += 1;
        calls.push(SystemCall { name: name.to_owned(), line: line.to_owned(), occurrence: *occurrence });
    }
    (answer, calls)
}

/// Makes a call under `strace` with these options.
pub(crate) fn troubled(strace: &Path, call: Call, options: &[String]) -> Answer {
    let own = [strace.display().to_string(), "-o".to_owned(), "/dev/null".to_owned()];
    let wrapper: Vec<String> = own.into_iter().chain(options.iter().cloned()).collect();
    call.under(&wrapper).run()
}
