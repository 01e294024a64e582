//! Chosen moments: several calls at once, and the power goes when the first of them has come to a given system call.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use nix::sys::signal::Signal;

use super::ledger::Ledger;
use crate::support::cni::{Call, Running};
use crate::support::strace::SystemCall;

/// Where in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Its record is written and not flushed.
    BeforeItsFlush,
    /// Its record is flushed; nothing is printed.
    BeforeItsAnswer,
    /// It is printed.
    AfterItsAnswer,
    /// In a cut: files are written, flushed, moved, removed.
    InACut,
    /// In a cut: directories are flushed.
    AmongTheDirectoriesOfACut,
    /// In a cut: the journal's header is written and not flushed.
    BeforeTheLastFlushOfACut,
    /// The cut is done.
    AfterACut,
}

impl Moment {
    pub(super) const ALL: [Moment; 7] = [
        Moment::BeforeItsFlush,
        Moment::BeforeItsAnswer,
        Moment::AfterItsAnswer,
        Moment::InACut,
        Moment::AmongTheDirectoriesOfACut,
        Moment::BeforeTheLastFlushOfACut,
        Moment::AfterACut,
    ];

    /// Whether it is in a call that writes the journal out.
    pub(super) fn is_of_a_cut(self) -> bool {
        !matches!(self, Moment::BeforeItsFlush | Moment::BeforeItsAnswer | Moment::AfterItsAnswer)
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Moment::BeforeItsFlush => "before a record's flush",
            Moment::BeforeItsAnswer => "before the answer",
            Moment::AfterItsAnswer => "after the answer",
            Moment::InACut => "in a cut, among the files",
            Moment::AmongTheDirectoriesOfACut => "in a cut, among the directories",
            Moment::BeforeTheLastFlushOfACut => "in a cut, before the last flush",
            Moment::AfterACut => "after a cut",
        }
    }

    /// The system calls of a recorded call behind which it is this moment.
    pub(super) fn points(self, calls: &[SystemCall]) -> Vec<SystemCall> {
        let place = |from: usize, found: &dyn Fn(&SystemCall) -> bool| {
            calls.iter().skip(from).position(found).map_or(calls.len(), |at| from + at)
        };
        let wrote =
            |what: &'static str| move |call: &SystemCall| call.name == "pwrite64" && call.line.contains(what);
        let record = place(0, &wrote("\"HA02 "));
        let flushed = place(record, &|call| call.name == "fdatasync");
        // A DEL prints nothing.
        let printed = place(flushed, &|call| call.line.starts_with("write(1,"));
        let answered = if printed < calls.len() { printed } else { flushed };
        let header = place(answered, &wrote("\"HAJ2 "));
        let done = place(header, &|call| call.name == "fdatasync");
        let changing =
            ["openat2", "write", "pwrite64", "fdatasync", "renameat", "unlinkat", "mkdirat", "fchmodat"];
        let in_cut = calls.get(answered + 1..header).unwrap_or_default();
        let of_names = |names: &[&str]| -> Vec<SystemCall> {
            in_cut.iter().filter(|call| names.contains(&call.name.as_str())).cloned().collect()
        };
        let one = |place: usize| calls.get(place).cloned().into_iter().collect();
        match self {
            Moment::BeforeItsFlush => one(record),
            Moment::BeforeItsAnswer => one(flushed),
            Moment::AfterItsAnswer => one(printed),
            Moment::InACut => of_names(&changing),
            Moment::AmongTheDirectoriesOfACut => of_names(&["fsync"]),
            Moment::BeforeTheLastFlushOfACut => one(header),
            Moment::AfterACut => one(done),
        }
    }
}

/// A call, for what container, under which verb.
pub(super) struct Racer {
    pub(super) verb: &'static str,
    pub(super) container: String,
    pub(super) call: Call,
}

/// Starts all of them; when the first has made its system call of that name and number, it is stopped there, the power
/// goes, and all are killed. False: none came to it.
pub(super) fn race(
    strace: &Path,
    racers: &[Racer],
    point: &SystemCall,
    ledger: &mut Ledger,
    power_goes: impl FnOnce(),
) -> bool {
    let [option, stop] = point.inject("signal=STOP");
    let trace = format!("trace={}", point.name);
    // The tracer is the child of its child, so what is started here is the plugin itself.
    let strace = strace.display().to_string();
    let under = [strace.as_str(), "-D", "-e", trace.as_str(), option.as_str(), stop.as_str()];
    let (events, heard) = mpsc::channel();
    let mut running: Vec<Running> =
        racers.iter().map(|racer| racer.call.clone().under(&under).start()).collect();
    let readers: Vec<_> = running
        .iter_mut()
        .map(|running| {
            let (stderr, events) = (running.stderr(), events.clone());
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if line.contains("--- SIGSTOP") {
                        let _ = events.send(());
                    }
                }
            })
        })
        .collect();
    drop(events);
    let stopped = heard.recv().is_ok();
    power_goes();
    for running in &running {
        running.signal(Signal::SIGKILL);
    }
    for (racer, running) in racers.iter().zip(running) {
        ledger.note(racer.verb, &racer.container, &running.finish());
    }
    for reader in readers {
        reader.join().expect("it only reads");
    }
    stopped
}
