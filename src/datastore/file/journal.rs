//! The journal: reading it up to its tail, and appending a record to it.

use std::os::unix::fs::FileExt;

use nix::fcntl::OFlag;

use super::dir::Dir;
use super::frame::{Found, Head, Link, MARK_BYTES, Mark, finish_record, mark, record_at};
use super::header::{BadHeader, HEADER_BYTES, Header, VERSION};
use super::layout::JOURNAL;
use super::open_file::{OpenFile, io_error};
use super::overlay::Overlay;
use super::record::Body;
use super::{Access, Durability, index};
use crate::datastore::{Error, Verb};

/// The size of a journal, in bytes. It is written whole when it is made, since a commit into space that was only
/// reserved would have to change the file system's own records too.
pub(super) const JOURNAL_BYTES: usize = 128 << 10;
/// How much is read at once, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Room for what a journal holds before it is cut, and for one more record: memory that is not used is not mapped.
const BUFFER_BYTES: usize = 40 << 10;
/// No journal grows beyond this; it bounds what a damaged file's size makes us read.
const JOURNAL_BYTES_MAX: usize = 256 << 20;

/// What is said where the header is damaged.
const NO_HEADER: &str = "its header is not valid; `host-affine ipam check --repair` gives it back, where what stands \
                         behind it tells enough";

/// An open journal, as read.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) file: OpenFile,
    pub(super) header: Header,
    pub(super) overlay: Overlay,
    /// The place of the next record.
    pub(super) tail: usize,
    pub(super) next_seq: u64,
    pub(super) capacity: usize,
    /// The highest commit number that is known to be flushed.
    pub(super) flushed_seq: u64,
    /// Whether the mark at the tail says that all is flushed.
    pub(super) flush_is_noted: bool,
    /// The checksums of the records, in order.
    checksums: Vec<u32>,
    /// Why the journal cannot be used as it was read.
    pub(super) damage: Option<String>,
}

impl Journal {
    /// Opens and reads the journal. `None`: there is none.
    pub(super) fn open(dir: &Dir, access: Access) -> Result<Option<Self>, Error> {
        let flags = match access {
            Access::Change => OFlag::O_RDWR,
            Access::Read => OFlag::O_RDONLY,
        };
        let Some(file) = dir.open_file(JOURNAL, flags)? else {
            return Ok(None);
        };
        let mut journal = Self::unread(file);
        journal.load()?;
        journal.check()?;
        Ok(Some(journal))
    }

    /// Reads a journal as if it had this header.
    pub(super) fn with_header(file: OpenFile, header: Header) -> Result<Self, Error> {
        let mut journal = Self::unread(file);
        journal.begin_reading()?;
        journal.header = header;
        journal.replay()?;
        journal.check()?;
        Ok(journal)
    }

    /// Reads a journal up to its end, or up to the first record that is damaged.
    pub(super) fn up_to_damage(file: OpenFile) -> Result<Self, Error> {
        let mut journal = Self::unread(file);
        journal.load()?;
        Ok(journal)
    }

    fn unread(file: OpenFile) -> Self {
        Self {
            file,
            header: Header::new(),
            overlay: Overlay::default(),
            tail: HEADER_BYTES,
            next_seq: 1,
            capacity: 0,
            flushed_seq: 0,
            flush_is_noted: false,
            checksums: Vec::new(),
            damage: None,
        }
    }

    /// Reads the journal again.
    pub(super) fn reload(&mut self) -> Result<(), Error> {
        let metadata =
            self.file.file.metadata().map_err(|source| io_error(Verb::Inspect, &self.file.path, source))?;
        self.file.size = metadata.len();
        self.load()?;
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        match &self.damage {
            None => Ok(()),
            Some(problem) => Err(self.damaged(format!(
                "{problem}; `host-affine ipam check --repair` says what would be lost, and ends the journal there"
            ))),
        }
    }

    fn load(&mut self) -> Result<(), Error> {
        self.begin_reading()?;
        self.header = match Header::parse(self.overlay.buffer()) {
            Ok(header) => header,
            Err(BadHeader::Damaged) => return Err(self.damaged(NO_HEADER.to_owned())),
            Err(BadHeader::Newer(found)) => {
                return Err(Error::NewerFormat { path: self.file.path.clone(), found, supported: VERSION });
            }
        };
        self.replay()
    }

    fn begin_reading(&mut self) -> Result<(), Error> {
        self.capacity = usize::try_from(self.file.size).unwrap_or(usize::MAX);
        if !(JOURNAL_BYTES..=JOURNAL_BYTES_MAX).contains(&self.capacity) {
            return Err(self.damaged(format!(
                "has {} bytes; a journal has {JOURNAL_BYTES} to {JOURNAL_BYTES_MAX}",
                self.file.size
            )));
        }
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        self.file.read_on(&mut buffer, READ_BYTES)?;
        self.overlay = Overlay::new(buffer);
        Ok(())
    }

    fn replay(&mut self) -> Result<(), Error> {
        self.tail = HEADER_BYTES;
        self.next_seq = self.header.first_seq;
        self.flushed_seq = self.next_seq.saturating_sub(1);
        self.flush_is_noted = false;
        self.checksums.clear();
        self.damage = None;
        let scope = self.header.scope();
        loop {
            let next = self.next_seq;
            match record_at(self.overlay.buffer(), self.tail, self.capacity, scope, |seq| seq == next) {
                Found::Record { head, body, end } if self.follows(&head) => {
                    self.overlay.add(body).map_err(|at| {
                        self.damaged(format!("the record of commit {next} holds no operation at byte {at}"))
                    })?;
                    self.tail = end;
                    self.next_seq = next.wrapping_add(1);
                    self.flushed_seq = self.flushed_seq.max(head.link.map_or(0, |link| link.flushed));
                    self.checksums.push(head.crc);
                }
                Found::Needs(len) => self.read_to(len)?,
                Found::Record { .. } | Found::Nothing => break,
            }
        }
        self.check_tail()
    }

    /// Whether a record was written after the last one. Else it is left over from a flush that a power cut broke off.
    fn follows(&self, head: &Head) -> bool {
        head.link.is_none_or(|link| link.previous == self.last_checksum())
    }

    fn last_checksum(&self) -> u32 {
        self.checksums.last().copied().unwrap_or(0)
    }

    /// Reads on until so many bytes are there.
    pub(super) fn read_to(&mut self, len: usize) -> Result<(), Error> {
        let have = self.overlay.buffer().len();
        let len = len.next_multiple_of(READ_BYTES).min(self.capacity).saturating_sub(have);
        self.file.read_on(self.overlay.buffer_mut(), len)
    }

    /// The number of the next commit.
    pub(super) const fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// How much of the journal is in use, in bytes.
    pub(super) const fn tail(&self) -> usize {
        self.tail
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.tail == HEADER_BYTES
    }

    /// Whether nothing was ever committed.
    pub(super) const fn is_unused(&self) -> bool {
        self.next_seq == 1
    }

    /// One more than the highest sequence number of any block that was ever deleted.
    pub(super) fn floor(&self) -> u64 {
        self.header.floor.max(self.overlay.floor())
    }

    /// Where the journal ends once a body is appended, mark included.
    pub(super) fn end_with(&self, body: &Body) -> usize {
        self.tail + self.header.layout.head_bytes() + body.len() + 1 + MARK_BYTES
    }

    /// Makes the file large enough for a record that ends there.
    pub(super) fn grow_to(&mut self, end: usize) -> Result<(), Error> {
        if end <= self.capacity {
            return Ok(());
        }
        if end > JOURNAL_BYTES_MAX {
            return Err(self.full());
        }
        let capacity = end.next_multiple_of(4096);
        self.write_at(self.capacity, &vec![0; capacity - self.capacity])?;
        self.sync_all()?;
        self.capacity = capacity;
        Ok(())
    }

    /// Appends a record, with the mark behind it, and flushes it.
    ///
    /// # Errors
    /// Nothing was committed; or, with [`Error::OutcomeUnknown`], nobody can tell. What is in memory is as it was.
    pub(super) fn append(&mut self, body: Body, durability: Durability) -> Result<(), Error> {
        let (seq, scope) = (self.next_seq, self.header.scope());
        let ops_before = self.overlay.ops().len();
        let link = Link { flushed: self.flushed_seq, previous: self.last_checksum() };
        let (mut written, checksum) = finish_record(scope, seq, link, body.into_bytes());
        let end = self.tail + written.len();
        written.extend_from_slice(&mark(scope, Mark::End, seq.wrapping_add(1)));
        let buffer = self.overlay.buffer_mut();
        buffer.truncate(self.tail);
        buffer.extend_from_slice(&written);
        let parsed = self.overlay.add(self.tail + scope.layout.head_bytes()..end - 1);
        assert!(parsed.is_ok(), "a record must be readable before it is written: {parsed:?}");
        if let Err(error) = self.write_and_flush(&written, durability) {
            self.overlay.truncate_ops(ops_before);
            self.overlay.buffer_mut().truncate(self.tail);
            return Err(self.take_back(error));
        }
        self.tail = end;
        self.next_seq = seq.wrapping_add(1);
        self.checksums.push(checksum);
        self.flush_is_noted = false;
        if durability == Durability::Power {
            self.flushed_seq = seq;
        }
        Ok(())
    }

    fn write_and_flush(&self, record: &[u8], durability: Durability) -> Result<(), Error> {
        self.write_at(self.tail, record)?;
        match durability {
            Durability::Power => self.sync_data(),
            Durability::Process => Ok(()),
        }
    }

    /// Whether all of it is known to be flushed.
    pub(super) const fn is_flushed(&self) -> bool {
        self.flushed_seq.wrapping_add(1) == self.next_seq
    }

    /// Whether the journal holds a record with this checksum.
    pub(super) fn has_checksum(&self, checksum: u32) -> bool {
        self.checksums.contains(&checksum)
    }

    /// The number of the index that a cut writes now, for the generation that it begins.
    pub(super) fn next_index_id(&self, generation: u32) -> u64 {
        index::id(generation, self.last_checksum())
    }

    /// Makes a record that may or may not have reached the disk into none. Otherwise the next process would find it
    /// in memory, and build on what may never reach the disk.
    fn take_back(&self, error: Error) -> Error {
        let overwritten = self.write_at(self.tail, &vec![0; self.header.layout.head_bytes()]);
        let _ = self.file.file.sync_data();
        match overwritten {
            Ok(()) => error,
            Err(_) => Error::OutcomeUnknown { what: format!("commit {} ({error})", self.next_seq) },
        }
    }

    /// Begins the next generation, with an empty journal. All that the journal says must be in the files, flushed.
    pub(super) fn begin(&mut self, header: Header) -> Result<(), Error> {
        let bytes = header.to_bytes();
        self.write_at(0, &bytes)?;
        self.sync_data()?;
        self.tail = HEADER_BYTES;
        self.next_seq = header.first_seq;
        self.flushed_seq = header.first_seq.saturating_sub(1);
        self.flush_is_noted = false;
        self.checksums.clear();
        self.header = header;
        self.overlay = Overlay::new(bytes);
        Ok(())
    }

    /// Writes the header over a damaged one, and nothing of what stands behind it.
    pub(super) fn write_header(&self) -> Result<(), Error> {
        let bytes = self.header.to_bytes();
        self.write_at(0, bytes.get(..HEADER_BYTES).unwrap_or_default())?;
        self.sync_data()
    }

    /// Flushes what earlier calls wrote and may have died before flushing.
    pub(super) fn make_durable(&mut self) -> Result<(), Error> {
        if !self.is_flushed() {
            self.sync_data()?;
            self.flushed_seq = self.next_seq.wrapping_sub(1);
        }
        Ok(())
    }

    /// An error that names the journal.
    pub(super) fn damaged(&self, problem: String) -> Error {
        Error::Damaged { path: self.file.path.clone(), problem }
    }

    /// That the journal has no room.
    pub(super) fn full(&self) -> Error {
        Error::JournalFull {
            path: self.file.path.clone(),
            used: u64::try_from(self.tail).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn write_at(&self, place: usize, bytes: &[u8]) -> Result<(), Error> {
        let offset = u64::try_from(place).unwrap_or(u64::MAX);
        let written = self.file.file.write_all_at(bytes, offset);
        written.map_err(|source| io_error(Verb::Write, &self.file.path, source))
    }

    pub(super) fn sync_data(&self) -> Result<(), Error> {
        self.file.file.sync_data().map_err(|source| io_error(Verb::Sync, &self.file.path, source))
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.file.file.sync_all().map_err(|source| io_error(Verb::Sync, &self.file.path, source))
    }
}
