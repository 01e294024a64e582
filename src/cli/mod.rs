//! The command line of whoever is on call: `kubectl`'s and `calicoctl`'s grammar over the same store that runtimes use.
//!
//! Reading order: [`args`] (the grammar), [`place`] (which store is meant), [`kinds`] (what can be named), `verbs` (a
//! file each) and [`render`] (how answers look). A verb returns what it has to say; only this file writes it.

mod args;
mod error;
mod filter;
mod kinds;
mod liveness;
mod manifest;
mod map;
mod networks;
mod place;
mod progress;
mod project;
mod render;
mod store;
mod verbs;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Args, IpamVerb, Verb};
use error::Error;
use progress::Progress;
use render::Format;
use store::Store;

use crate::clock::{Clock, SystemClock};
use crate::datastore::run_in_place;
use crate::ipam::{AddressFact, Census, Facts, Ipam, Survey};

/// It could not be done, or the command line says something that is not understood.
const COULD_NOT: u8 = 2;
/// It was done, and the answer is no.
const NO: u8 = 1;

/// Runs a command line: 0 when it was done, 1 when the answer is no, 2 when it could not be done.
pub fn main(args: impl Iterator<Item = OsString>, variables: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let (out_is_terminal, err_is_terminal) = (stdout.is_terminal(), stderr.is_terminal());
    let (mut out, mut err) = (stdout.lock(), stderr.lock());
    if args.len() < 2 {
        let help = Args::command().render_help();
        return exit(write_all(&mut err, &help.to_string()).map_or(COULD_NOT, |()| 0));
    }
    let stdin = std::io::stdin();
    let is_terminal = stdin.is_terminal();
    let world = World { variables, clock: &SystemClock, is_terminal, out_is_terminal, err_is_terminal };
    exit(run(args, &world, &mut stdin.lock(), &mut out, &mut err))
}

/// The grammar, for those who make manual pages of it.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// What does not change during a run.
struct World<'a> {
    variables: &'a dyn Fn(&str) -> Option<OsString>,
    clock: &'a dyn Clock,
    is_terminal: bool,
    out_is_terminal: bool,
    err_is_terminal: bool,
}

fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// What a verb can ask of the world around it.
struct Context<'a> {
    global: &'a args::Global,
    /// How the answer is to look.
    format: Format,
    /// The verb as it is told to those who wait for the lock.
    operation: &'static str,
    variables: &'a dyn Fn(&str) -> Option<OsString>,
    clock: &'a dyn Clock,
    stdin: &'a mut dyn Read,
    /// Whether a person can be asked.
    is_terminal: bool,
    /// Whether a person reads the answer at once.
    out_is_terminal: bool,
    err_is_terminal: bool,
    /// Standard output, for answers that are printed part by part. All others are returned.
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

impl Context<'_> {
    /// Tells whoever is looking how far the work on some things is.
    fn progress(&mut self, what: &'static str) -> Progress<'_> {
        let to: Option<&mut dyn Write> = if self.err_is_terminal { Some(&mut *self.err) } else { None };
        Progress::new(to, self.clock, what)
    }

    /// Counts the whole store. What is damaged is told at once, and left out.
    fn count(&mut self, ipam: &mut Ipam<Store>) -> Result<Census, Error> {
        let now = self.clock.now();
        let mut progress = self.progress("blocks");
        let census = run_in_place(ipam.census(now, &mut |total| progress.step(total)));
        drop(progress);
        Ok(census?)
    }

    /// Looks through the whole store, and keeps of the addresses those that are wanted.
    fn survey(
        &mut self,
        ipam: &mut Ipam<Store>,
        keep: &mut dyn FnMut(&AddressFact) -> bool,
    ) -> Result<Survey, Error> {
        let now = self.clock.now();
        let mut progress = self.progress("blocks");
        let survey = run_in_place(ipam.survey(now, &mut |total| progress.step(total), keep));
        drop(progress);
        Ok(survey?)
    }

    /// The addresses of the whole store that are wanted.
    fn facts(
        &mut self,
        ipam: &mut Ipam<Store>,
        keep: &mut dyn FnMut(&AddressFact) -> bool,
    ) -> Result<Facts, Error> {
        let now = self.clock.now();
        let mut progress = self.progress("blocks");
        let facts = run_in_place(ipam.facts(now, &mut |total| progress.step(total), keep));
        drop(progress);
        Ok(facts?)
    }

    /// Whether the answer may be coloured: a person reads it, and did not forbid it (<https://no-color.org>).
    fn wants_colour(&self) -> bool {
        let is_set = |name| (self.variables)(name).is_some_and(|value| !value.is_empty());
        let is_dumb = (self.variables)("TERM").is_some_and(|term| term == "dumb");
        self.out_is_terminal && !is_set("NO_COLOR") && !is_dumb
    }

    /// Says what is about to happen and asks whether it may, where a person can be asked.
    fn confirm(&mut self, plan: &str, yes: bool) -> Result<(), Error> {
        if yes || !self.is_terminal {
            return Ok(());
        }
        let plan = render::printable_lines(plan);
        let _ = write_all(self.err, &format!("{plan}\nGo on? [y/N] "));
        let mut answer = Vec::new();
        let mut byte = [0u8; 1];
        while self.stdin.read(&mut byte).is_ok_and(|read| read == 1) && byte != *b"\n" {
            answer.extend(byte);
        }
        match answer.trim_ascii().to_ascii_lowercase().as_slice() {
            b"y" | b"yes" => Ok(()),
            _ => Err(Error::NotConfirmed),
        }
    }
}

/// How a verb ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Outcome {
    /// It did what it was asked.
    #[default]
    Done,
    /// It did, and the answer is no: nothing was found, or something was that should not be.
    No,
    /// It could not do all of it.
    Failed,
}

/// What a verb has to say.
#[derive(Debug, Default)]
struct Answer {
    /// For standard output: data, and nothing else.
    data: String,
    /// For standard error, a line each.
    notes: Vec<String>,
    outcome: Outcome,
}

impl Answer {
    fn data(data: String) -> Self {
        Self { data, ..Self::default() }
    }

    /// An answer, and what is to be said beside it.
    fn with_notes(data: String, notes: impl IntoIterator<Item = String>) -> Self {
        Self { data, notes: notes.into_iter().collect(), ..Self::default() }
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

fn run(
    args: Vec<OsString>,
    world: &World<'_>,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        // Help that was asked for is data; everything else is a complaint.
        Err(refused) if !refused.use_stderr() => {
            return write_all(out, &refused.render().to_string()).map_or(COULD_NOT, |()| 0);
        }
        Err(refused) => {
            let _ = write_all(err, &refused.render().to_string());
            return COULD_NOT;
        }
    };
    let mut answer = match serve(&args, world, stdin, out, err) {
        Ok(answer) => answer,
        Err(error) => {
            let _ = write_all(err, &render::printable_lines(&error.report()));
            return COULD_NOT;
        }
    };
    // Escape sequences of ours are in pictures only; JSON and YAML have escapes of their own.
    let is_text = !matches!(args.global.format(), Ok(Format::Json | Format::Yaml))
        && !matches!(&args.verb, Verb::Ipam(ipam) if matches!(ipam.verb, IpamVerb::Map(_)))
        && !matches!(args.verb, Verb::Completion(_));
    if is_text {
        answer.data = render::printable_lines(&answer.data);
    }
    if let Err(error) = write_all(out, &answer.data) {
        let _ = write_all(err, &Error::Output(error).report());
        return COULD_NOT;
    }
    let notes: String = answer.notes.iter().flat_map(|note| [note, "\n"]).collect();
    let _ = write_all(err, &render::printable_lines(&notes));
    match answer.outcome {
        Outcome::Done => 0,
        Outcome::No => NO,
        Outcome::Failed => COULD_NOT,
    }
}

/// Writes everything in one piece. A reader that has gone away has read enough.
fn write_all(to: &mut dyn Write, text: &str) -> std::io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn serve(
    args: &Args,
    world: &World<'_>,
    stdin: &mut dyn Read,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Answer, Error> {
    let is_check = matches!(&args.verb, Verb::Ipam(ipam) if matches!(ipam.verb, IpamVerb::Check(_)));
    let is_map = matches!(&args.verb, Verb::Ipam(ipam) if matches!(ipam.verb, IpamVerb::Map(_)));
    let (format, file) = match args.global.format() {
        // A picture has looks of its own.
        Err(_) if is_map => (Format::Table, None),
        // What is no word for a look is where the report goes.
        Err(_) if is_check => (Format::Table, args.global.output.as_deref().map(Path::new)),
        format => (format?, None),
    };
    let mut context = Context {
        global: &args.global,
        format,
        operation: args.verb.name(),
        variables: world.variables,
        clock: world.clock,
        stdin,
        is_terminal: world.is_terminal,
        out_is_terminal: world.out_is_terminal,
        err_is_terminal: world.err_is_terminal,
        out,
        err,
    };
    let context = &mut context;
    match &args.verb {
        Verb::Get(get) => verbs::get::run(context, get),
        Verb::Describe(describe) => verbs::describe::run(context, describe),
        Verb::Explain(explain) => verbs::explain::run(explain),
        Verb::Apply(apply) => verbs::apply::run(context, &apply.write),
        Verb::Create(create) => verbs::create::run(context, &create.write),
        Verb::Replace(replace) => verbs::replace::run(context, &replace.write),
        Verb::Patch(patch) => verbs::patch::run(context, patch),
        Verb::Delete(delete) => verbs::delete::run(context, delete),
        Verb::Completion(completion) => verbs::completion::run(completion),
        Verb::Ipam(ipam) => match &ipam.verb {
            IpamVerb::Show(show) => verbs::show::run(context, show),
            IpamVerb::Check(check) => verbs::check::run(context, check, file),
            IpamVerb::Release(release) => verbs::release::run(context, release),
            IpamVerb::Gc(gc) => verbs::gc::run(context, gc),
            IpamVerb::Why(why) => verbs::why::run(context, why),
            IpamVerb::Split(split) => verbs::split::run(context, split),
            IpamVerb::Migrate(migrate) => verbs::migrate::run(context, migrate),
            IpamVerb::Map(map) => verbs::map::run(context, map),
            IpamVerb::Metrics(metrics) => verbs::metrics::run(context, metrics),
            IpamVerb::Configure(configure) => verbs::configure::run(context, configure),
        },
    }
}
