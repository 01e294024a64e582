//! The command line of whoever is on call: `kubectl`'s and `calicoctl`'s grammar over the same store that runtimes use.
//!
//! Reading order: [`args`] (the grammar), [`store`] (which store is meant), [`kinds`] (what can be named), `verbs` (a
//! file each) and [`render`] (how answers look). A verb returns what it has to say; only this file writes it.

mod args;
mod error;
mod kinds;
mod render;
mod store;
mod verbs;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::{Args, IpamVerb, Verb};
use error::Error;
use render::Format;

use crate::clock::{Clock, SystemClock};

/// It could not be done, or the command line says something that is not understood.
const COULD_NOT: u8 = 2;
/// It was done, and the answer is no.
const NO: u8 = 1;

/// Runs a command line: 0 when it was done, 1 when the answer is no, 2 when it could not be done.
pub fn main(args: impl Iterator<Item = OsString>, variables: &dyn Fn(&str) -> Option<OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    if args.len() < 2 {
        let help = Args::command().render_help();
        return exit(write_all(&mut err, &help.to_string()).map_or(COULD_NOT, |()| 0));
    }
    exit(run(args, variables, &SystemClock, &mut out, &mut err))
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
}

/// What a verb has to say.
#[derive(Debug, Default)]
struct Answer {
    /// For standard output: data, and nothing else.
    data: String,
    /// For standard error, a line each.
    notes: Vec<String>,
    /// The answer is no: nothing was found, or something was that should not be.
    is_no: bool,
}

impl Answer {
    fn data(data: String) -> Self {
        Self { data, ..Self::default() }
    }

    fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

fn run(
    args: Vec<OsString>,
    variables: &dyn Fn(&str) -> Option<OsString>,
    clock: &dyn Clock,
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
    let answer = match serve(&args, variables, clock) {
        Ok(answer) => answer,
        Err(error) => {
            let _ = write_all(err, &error.report());
            return if error.is_no() { NO } else { COULD_NOT };
        }
    };
    if let Err(error) = write_all(out, &answer.data) {
        let _ = write_all(err, &Error::Output(error).report());
        return COULD_NOT;
    }
    let _ = write_all(err, &answer.notes.iter().flat_map(|note| [note, "\n"]).collect::<String>());
    if answer.is_no { NO } else { 0 }
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
    variables: &dyn Fn(&str) -> Option<OsString>,
    clock: &dyn Clock,
) -> Result<Answer, Error> {
    let context = Context {
        global: &args.global,
        format: args.global.format()?,
        operation: args.verb.name(),
        variables,
        clock,
    };
    match &args.verb {
        Verb::Get(get) => verbs::get::run(&context, get),
        Verb::Ipam(ipam) => match &ipam.verb {
            IpamVerb::Show(show) => verbs::show::run(&context, show),
            IpamVerb::Configure(configure) => verbs::configure::run(&context, configure),
        },
    }
}
