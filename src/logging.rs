//! The log: one line per record, to a file or to standard error, never to standard output.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use log::{LevelFilter, Log, Metadata, Record};

use crate::clock::{Clock, SystemClock};

/// Starts logging. The file is opened by the first record; one that cannot be written gives way to standard error, and
/// no failure to log fails a call.
pub fn start(level: LevelFilter, file: Option<PathBuf>) {
    if level != LevelFilter::Off && log::set_boxed_logger(Box::new(Logger { file })).is_ok() {
        log::set_max_level(level);
    }
}

struct Logger {
    file: Option<PathBuf>,
}

impl Logger {
    /// One write per record: concurrent processes append whole lines.
    fn append(&self, line: &str) -> bool {
        let Some(path) = &self.file else { return false };
        open(path).and_then(|mut file| file.write_all(line.as_bytes())).is_ok()
    }
}

/// Opens the log; one that is made is its owner's alone, whatever the umask.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(nix::libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = options.create(true).mode(0o600).open(path)?;
            // Where another process made it first, that one does this.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
            Ok(file)
        }
        opened => opened,
    }
}

/// A text in one line, with nothing in it that a terminal obeys or that is not seen.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' => printable.push(character),
            other => printable.extend(other.escape_debug()),
        }
    }
    printable
}

impl Log for Logger {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // Other crates' talk is theirs.
        if !record.target().starts_with("host_affine") {
            return;
        }
        // What a runtime sends may hold escape sequences; they go no further than here.
        let message = printable(&record.args().to_string());
        let (time, level, process) = (SystemClock.now(), record.level(), std::process::id());
        let line = format!("{time} {level} host-affine[{process}]: {message}\n");
        if !self.append(&line) {
            // There is nowhere left to report that this fails.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_line_has_no_control_characters_and_reads_as_it_was_written() {
        assert_eq!(printable("the host's \"name\" is `ä`"), "the host's \"name\" is `ä`");
        assert_eq!(printable("a\nb\u{1b}[2J\u{200b}\\"), "a\\nb\\u{1b}[2J\\u{200b}\\\\");
    }
}
