//! Making a store, and telling a new one from one that lost its journal.

use super::cut::format_text;
use super::dir::{Dir, sync_ancestors};
use super::header::Header;
use super::journal::JOURNAL_BYTES;
use super::layout::{FORMAT, JOURNAL, TEMPORARY, WITH_JOURNAL};
use super::open_file::io_error;
use crate::datastore::{Error, Verb};

/// Refuses a directory without a journal that has something of a store in it. What belongs to others is no matter.
pub(super) fn refuse_lost_journal(dir: &Dir) -> Result<(), Error> {
    for name in WITH_JOURNAL {
        if dir.exists(name)? {
            return Err(Error::Damaged {
                path: dir.path_of(JOURNAL),
                problem: format!(
                    "it is missing, but `{name}` is there (if that is a host-local network of this name, \
                     the store needs a directory of its own)"
                ),
            });
        }
    }
    Ok(())
}

/// Makes an empty store in a locked directory.
///
/// The journal gets its name when it is whole, so a store that has one is complete. `format` follows; the next cut
/// makes it if this call is killed before.
pub(super) fn create(dir: &Dir) -> Result<(), Error> {
    let mut content = Header::new().to_bytes();
    content.resize(JOURNAL_BYTES, 0);
    write_whole(dir, JOURNAL, &content)?;
    finish(dir)?;
    write_whole(dir, FORMAT, &format_text())?;
    dir.sync()
}

/// Flushes the entries of the journal and of the directories above it. A call that was killed after it made the journal may
/// not have done so, and without them the first commit would not survive a power cut.
pub(super) fn finish(dir: &Dir) -> Result<(), Error> {
    dir.sync()?;
    sync_ancestors(dir.path())
}

fn write_whole(dir: &Dir, name: &str, content: &[u8]) -> Result<(), Error> {
    let temporary = format!("{TEMPORARY}{name}");
    let file = dir.write_new(&temporary, content)?;
    file.sync_all().map_err(|source| io_error(Verb::Sync, &dir.path_of(&temporary), source))?;
    dir.rename(&temporary, dir, name)
}
