//! The log: one line per record, to a file or to standard error, never to standard output.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use log::{LevelFilter, Log, Metadata, Record};

use crate::clock::{Clock, SystemClock};

/// Starts logging. The file is opened by the first record; one that cannot be written gives way to standard error, and
/// no failure to log fails a call.
pub fn start(level: LevelFilter, file: Option<PathBuf>) {
    let logger = Logger { file, is_refused: AtomicBool::new(false) };
    if level != LevelFilter::Off && log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(level);
    }
}

struct Logger {
    file: Option<PathBuf>,
    /// Whether the warning about the file was written.
    is_refused: AtomicBool,
}

impl Logger {
    /// One write per record: concurrent processes append whole lines.
    fn append(&self, line: &str) -> bool {
        let Some(path) = &self.file else { return false };
        match open(path).and_then(|mut file| file.write_all(line.as_bytes())) {
            Ok(()) => true,
            Err(error) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    let path = printable(&path.display().to_string());
                    let warning =
                        format!("warning: the log goes to standard error: cannot write to {path}: {error}\n");
                    let _ = io::stderr().write_all(warning.as_bytes());
                }
                false
            }
        }
    }
}

/// Opens the log; one that is made is its owner's alone, whatever the umask.
///
/// A record is written while the store is locked, so nothing here may wait for another process. That leaves regular files,
/// and devices, which `O_NONBLOCK` keeps from waiting.
fn open(path: &Path) -> io::Result<File> {
    let file = open_any(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_char_device() {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file"))
}

fn open_any(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    options.append(true).custom_flags(flags);
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
    use super::{open, printable};

    #[test]
    fn a_log_that_could_hang_is_refused() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().expect("a directory for the test");
        let path = folder.path().join("log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
        open(&path).expect_err("nobody reads it: it would wait for a reader");
        let reader = std::fs::File::options().read(true).write(true).open(&path).expect("opens");
        open(&path).expect_err("a reader that does not read would stop the writer");
        drop(reader);
        open(folder.path()).expect_err("a directory");
        open("/dev/null".as_ref()).expect("a device").write_all(b"x").expect("takes everything");
        let file = folder.path().join("file");
        open(&file).expect("is made").write_all(b"x").expect("is written");
        open(&file).expect("opens").write_all(b"y").expect("is written");
        assert_eq!(std::fs::read(&file).expect("the log"), b"xy");
    }

    #[test]
    fn a_line_has_no_control_characters_and_reads_as_it_was_written() {
        assert_eq!(printable("the host's \"name\" is `ä`"), "the host's \"name\" is `ä`");
        assert_eq!(printable("a\nb\u{1b}[2J\u{200b}\\"), "a\\nb\\u{1b}[2J\\u{200b}\\\\");
    }
}
