//! Repairs a journal that cannot be opened.
//!
//! A damaged header is rebuilt if the records after it prove which generation it belongs to. A damaged record ends the
//! journal: the records after it are lost, and are listed first. Everything else is left as it is.

use std::borrow::Cow;

use nix::fcntl::OFlag;

use super::dir::Dir;
use super::frame::HeadLayout;
use super::handles::HandleMap;
use super::header::{BadHeader, Header};
use super::inspect::owner_names;
use super::journal::Journal;
use super::layout::{INDEX, JOURNAL, ROOM, STATE, fnv1a};
use super::lock::{self, Kernels, Locks};
use super::open_file::OpenFile;
use super::origin::{Origin, origin};
use super::overlay::{Latest, Overlay};
use super::record::{Op, OpVerb};
use super::{Access, FileStore, Options, Seen, index, state};
use crate::api::calico::Attribute;
use crate::datastore::{Error, Settings};
use crate::net::Cidr;

/// A store whose journal is to be repaired, locked.
struct Patient {
    dir: Dir,
    locks: Locks,
    file: OpenFile,
    header: Result<Header, BadHeader>,
    bytes: Vec<u8>,
}

impl FileStore {
    /// The commits that [`FileStore::salvage`] would drop, a line each; empty: none.
    pub fn beyond_salvage(options: &Options) -> Result<Vec<String>, Error> {
        let Some(patient) = patient(options, Access::Read)? else { return Ok(Vec::new()) };
        if patient.header.is_err() {
            return Ok(Vec::new());
        }
        Ok(lost(&Journal::up_to_damage(patient.file)?).unwrap_or_default())
    }

    /// Repairs a journal whose header or one of whose records is damaged. Returns what was done; `None`: neither is
    /// damaged, or there is no store.
    ///
    /// # Errors
    /// The records after the header do not prove what it was, or something else is damaged as well. The journal is as
    /// it was.
    pub fn salvage(options: &Options) -> Result<Option<String>, Error> {
        let Some(patient) = patient(options, Access::Change)? else { return Ok(None) };
        match patient.header {
            Err(BadHeader::Damaged) => Self::rebuild_header(options, patient).map(Some),
            Err(BadHeader::Newer(_)) => Ok(None),
            Ok(_) => end_before_damage(patient),
        }
    }

    fn rebuild_header(options: &Options, patient: Patient) -> Result<String, Error> {
        let Some(origin) = origin(&patient.bytes) else {
            let problem = "its header is not valid, and what stands behind it does not say surely of which \
                           generation it is; a copy of the whole store from before helps, or a store begun anew";
            return Err(Error::Damaged { path: patient.dir.path_of(JOURNAL), problem: problem.to_owned() });
        };
        let Origin { layout, first_seq, generation } = origin;
        let header = Header { layout, first_seq, generation, ..Header::new() };
        let mut store = Self {
            kernels: Kernels::Many,
            options: options.clone(),
            access: Access::Change,
            dir: patient.dir,
            locks: patient.locks,
            locked: true,
            journal: Journal::with_header(patient.file, header)?,
            state_is_stale: false,
            passed_over: None,
            seen: Seen::default(),
        };
        store.complete_header()?;
        store.journal.write_header()?;
        let commits = store.journal.next_seq() - first_seq;
        Ok(format!(
            "gave `{JOURNAL}` its header back: generation {generation}, from commit {first_seq} on, with all \
             {commits} commits behind it; made `{INDEX}` and `{STATE}` anew; the highest number of a block that was \
             deleted before is not known any more, and taken from those that there are"
        ))
    }

    /// Finds out what the records do not say of the header, and writes the derived files that it names.
    fn complete_header(&mut self) -> Result<(), Error> {
        self.journal.make_durable()?;
        let mut map = HandleMap::new();
        let mut floor = self.journal.floor();
        for cidr in self.block_cidrs()? {
            let Some(block) = self.block_uncached(cidr)? else { continue };
            floor = floor.max(block.sequence_number.saturating_add(1));
            for handle in owner_names(&block) {
                map.entry(fnv1a(handle.as_bytes())).or_default().insert(cidr);
            }
        }
        self.journal.header.floor = floor;
        if !map.is_empty() {
            let Header { layout, generation, .. } = self.journal.header;
            let id = match layout {
                HeadLayout::One => u64::from(generation),
                HeadLayout::Two => self.journal.next_index_id(generation),
            };
            index::build(&self.dir, id, 0, &index::entries(&map))?;
            self.journal.header.index = id;
        }
        if self.journal.overlay.latest(STATE) == Latest::File {
            let settings = self.settings_from_objects()?;
            if settings != Settings::default() {
                let content = state::encode(&settings);
                self.journal.header.state = Some(crc32fast::hash(&content));
                self.write_state(&content)?;
            }
        }
        Ok(())
    }
}

/// Opens and locks a store without using its journal. `None`: there is none.
fn patient(options: &Options, access: Access) -> Result<Option<Patient>, Error> {
    let Some(dir) = Dir::open_store(&options.path)? else { return Ok(None) };
    if !options.allow_network_file_system {
        lock::refuse_network(&dir, &options.path)?;
    }
    let mut locks = Locks::lock_directory(&dir, access, options.lock_timeout, &options.operation)?;
    let flags = match access {
        Access::Change => OFlag::O_RDWR,
        Access::Read => OFlag::O_RDONLY,
    };
    let Some(file) = dir.open_file(JOURNAL, flags)? else { return Ok(None) };
    locks.lock_file(&dir)?;
    let bytes = file.read()?;
    Ok(Some(Patient { header: Header::parse(&bytes), dir, locks, file, bytes }))
}

/// Ends the journal before a record that is damaged.
fn end_before_damage(patient: Patient) -> Result<Option<String>, Error> {
    let mut journal = Journal::up_to_damage(patient.file)?;
    let Some(lost) = lost(&journal) else { return Ok(None) };
    journal.end_here()?;
    Ok(Some(format!("ended `{JOURNAL}` before a damaged record; lost: {}", lost.join("; "))))
}

/// The commits from the damaged record on, a line each; `None`: no record is damaged.
fn lost(journal: &Journal) -> Option<Vec<String>> {
    let records = journal.records_past_damage()?;
    let mut lines = Vec::new();
    let mut next = journal.next_seq();
    for (seq, ops) in records {
        if seq > next {
            lines.push(unreadable(next, seq - 1));
        }
        next = next.max(seq.saturating_add(1));
        let ops: Vec<String> = ops.iter().filter_map(|op| in_words(&journal.overlay, op)).collect();
        lines.push(format!("commit {seq}: {}", ops.join(", ")));
    }
    Some(lines)
}

fn unreadable(first: u64, last: u64) -> String {
    if first == last {
        return format!("commit {first}, which cannot be read");
    }
    format!("commits {first} to {last}, which cannot be read")
}

/// An operation for people; `None`: it only concerns derived files.
fn in_words(journal: &Overlay, op: &Op) -> Option<String> {
    let name = journal.text(&op.name);
    let address = || {
        let cidr = name.parse::<Cidr>().ok()?;
        cidr.nth(op.ordinal.into()).map(|address| address.to_string())
    };
    let address =
        || address().unwrap_or_else(|| format!("ordinal {} of {}", op.ordinal, name.escape_debug()));
    Some(match op.verb {
        OpVerb::Put if name == STATE || name.starts_with(ROOM) => return None,
        OpVerb::Delete if name.starts_with(ROOM) => return None,
        OpVerb::HandleAdd | OpVerb::HandleRemove => return None,
        OpVerb::Put => format!("{} written", name.escape_debug()),
        OpVerb::Delete => format!("{} deleted", name.escape_debug()),
        OpVerb::Clear => format!("{} released", address()),
        OpVerb::Set => {
            let attribute = Attribute::from_json(journal.text(&op.payload));
            let handle = attribute.and_then(|attribute| attribute.fields().handle_id.map(Cow::into_owned));
            let handle = handle.map(|handle| format!(" to {}", handle.escape_debug())).unwrap_or_default();
            format!("{} assigned{handle}", address())
        }
    })
}
