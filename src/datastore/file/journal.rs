//! The journal: reading it up to its tail, and appending a record to it.

use std::os::unix::fs::FileExt;

use nix::fcntl::OFlag;

use super::dir::Dir;
use super::header::{
    BadHeader, Found, HEADER_BYTES, Header, MARK_BYTES, RECORD_HEAD_BYTES, RECORD_MAGIC, VERSION, mark,
    record_at, record_head,
};
use super::layout::JOURNAL;
use super::open_file::{OpenFile, io_error};
use super::overlay::Overlay;
use super::record::Body;
use super::{Access, Durability};
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
    file: OpenFile,
    pub(super) header: Header,
    pub(super) overlay: Overlay,
    /// Where the next record goes.
    tail: usize,
    next_seq: u64,
    capacity: usize,
    /// Whether all of it is known to be flushed.
    flushed: bool,
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
        Ok(Some(journal))
    }

    /// Reads a journal as if it had this header.
    pub(super) fn with_header(file: OpenFile, header: Header) -> Result<Self, Error> {
        let mut journal = Self::unread(file);
        journal.begin_reading()?;
        journal.header = header;
        journal.replay()?;
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
            flushed: false,
        }
    }

    /// Reads the journal again.
    pub(super) fn reload(&mut self) -> Result<(), Error> {
        let metadata =
            self.file.file.metadata().map_err(|source| io_error(Verb::Inspect, &self.file.path, source))?;
        self.file.size = metadata.len();
        self.load()
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
        self.flushed = false;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        self.file.read_on(&mut buffer, READ_BYTES)?;
        self.overlay = Overlay::new(buffer);
        Ok(())
    }

    fn replay(&mut self) -> Result<(), Error> {
        self.tail = HEADER_BYTES;
        self.next_seq = self.header.first_seq;
        loop {
            let next = self.next_seq;
            let found =
                record_at(self.overlay.buffer(), self.tail, self.capacity, self.header.generation, |seq| {
                    seq == next
                });
            match found {
                Found::Record { body, end, .. } => {
                    self.overlay.add(body).map_err(|at| {
                        self.damaged(format!("the record of commit {next} holds no operation at byte {at}"))
                    })?;
                    self.tail = end;
                    self.next_seq = next.wrapping_add(1);
                }
                Found::Needs(len) => self.read_to(len)?,
                Found::Nothing => break,
            }
        }
        self.check_tail()
    }

    /// Reads on until so many bytes are there.
    fn read_to(&mut self, len: usize) -> Result<(), Error> {
        let have = self.overlay.buffer().len();
        let len = len.next_multiple_of(READ_BYTES).min(self.capacity).saturating_sub(have);
        self.file.read_on(self.overlay.buffer_mut(), len)
    }

    /// A torn tail and a damaged record look alike; but behind damage, later commits follow.
    fn check_tail(&mut self) -> Result<(), Error> {
        let mark_end = self.tail + MARK_BYTES;
        if mark_end <= self.capacity && mark_end > self.overlay.buffer().len() {
            self.read_to(mark_end)?;
        }
        let expected = mark(self.header.generation, self.next_seq);
        if self.overlay.buffer().get(self.tail..mark_end) == Some(&expected[..]) {
            return Ok(());
        }
        self.read_to(self.capacity)?;
        let buffer = self.overlay.buffer();
        let mut start = self.tail;
        while let Some(distance) = buffer[start..].iter().position(|&byte| byte == RECORD_MAGIC[0]) {
            let at = start + distance;
            start = at + 1;
            let later = |seq| seq >= self.next_seq;
            let found = record_at(buffer, at, self.capacity, self.header.generation, later);
            if let Found::Record { seq, .. } = found {
                return Err(self.damaged(format!(
                    "the record of commit {} at byte {} is not valid, and that of commit {seq} at byte {at} follows it",
                    self.next_seq, self.tail
                )));
            }
        }
        Ok(())
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

    /// One more than the highest sequence number of any block that was ever deleted.
    pub(super) fn floor(&self) -> u64 {
        self.header.floor.max(self.overlay.floor())
    }

    /// Where the journal ends once a body is appended, mark included.
    pub(super) fn end_with(&self, body: &Body) -> usize {
        self.tail + RECORD_HEAD_BYTES + body.len() + 1 + MARK_BYTES
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
        let zeros = vec![0; capacity - self.capacity];
        let offset = u64::try_from(self.capacity).unwrap_or(u64::MAX);
        self.file
            .file
            .write_all_at(&zeros, offset)
            .map_err(|source| io_error(Verb::Write, &self.file.path, source))?;
        self.sync_all()?;
        self.capacity = capacity;
        Ok(())
    }

    /// Appends a record, with the mark behind it, and flushes it.
    ///
    /// # Errors
    /// Nothing was committed; or, with [`Error::OutcomeUnknown`], nobody can tell. What is in memory is as it was.
    pub(super) fn append(&mut self, body: Body, durability: Durability) -> Result<(), Error> {
        let seq = self.next_seq;
        let ops_before = self.overlay.ops().len();
        let record = finished(body, self.header.generation, seq);
        let end = self.tail + record.len();
        let mut written = record;
        written.extend_from_slice(&mark(self.header.generation, seq.wrapping_add(1)));
        let buffer = self.overlay.buffer_mut();
        buffer.truncate(self.tail);
        buffer.extend_from_slice(&written);
        let parsed = self.overlay.add(self.tail + RECORD_HEAD_BYTES..end - 1);
        assert!(parsed.is_ok(), "a record must be readable before it is written: {parsed:?}");
        if let Err(error) = self.write_and_flush(&written, durability) {
            self.overlay.truncate_ops(ops_before);
            self.overlay.buffer_mut().truncate(self.tail);
            return Err(self.take_back(error));
        }
        self.tail = end;
        self.next_seq = seq.wrapping_add(1);
        self.flushed |= durability == Durability::Power;
        Ok(())
    }

    fn write_and_flush(&self, record: &[u8], durability: Durability) -> Result<(), Error> {
        let offset = u64::try_from(self.tail).unwrap_or(u64::MAX);
        self.file
            .file
            .write_all_at(record, offset)
            .map_err(|source| io_error(Verb::Write, &self.file.path, source))?;
        match durability {
            Durability::Power => self.sync_data(),
            Durability::Process => Ok(()),
        }
    }

    /// Makes a record that may or may not have reached the disk into none. Otherwise the next process would find it
    /// in memory, and build on what may never reach the disk.
    fn take_back(&self, error: Error) -> Error {
        let offset = u64::try_from(self.tail).unwrap_or(u64::MAX);
        let overwritten = self.file.file.write_all_at(&[0; RECORD_HEAD_BYTES], offset);
        let _ = self.file.file.sync_data();
        match overwritten {
            Ok(()) => error,
            Err(_) => Error::OutcomeUnknown { what: format!("commit {} ({error})", self.next_seq) },
        }
    }

    /// Begins the next generation, with an empty journal. All that the journal says must be in the files, flushed.
    pub(super) fn begin(&mut self, header: Header) -> Result<(), Error> {
        let bytes = header.to_bytes();
        self.file
            .file
            .write_all_at(&bytes, 0)
            .map_err(|source| io_error(Verb::Write, &self.file.path, source))?;
        self.sync_data()?;
        self.tail = HEADER_BYTES;
        self.next_seq = header.first_seq;
        self.header = header;
        self.overlay = Overlay::new(bytes);
        self.flushed = true;
        Ok(())
    }

    /// Writes the header over a damaged one, and nothing of what stands behind it.
    pub(super) fn write_header(&self) -> Result<(), Error> {
        let bytes = self.header.to_bytes();
        self.file
            .file
            .write_all_at(bytes.get(..HEADER_BYTES).unwrap_or_default(), 0)
            .map_err(|source| io_error(Verb::Write, &self.file.path, source))?;
        self.sync_data()
    }

    /// Flushes what earlier calls wrote and may have died before flushing.
    pub(super) fn make_durable(&mut self) -> Result<(), Error> {
        if !self.flushed && !self.is_empty() {
            self.sync_data()?;
            self.flushed = true;
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

    fn sync_data(&self) -> Result<(), Error> {
        self.file.file.sync_data().map_err(|source| io_error(Verb::Sync, &self.file.path, source))
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.file.file.sync_all().map_err(|source| io_error(Verb::Sync, &self.file.path, source))
    }
}

/// The bytes of a record.
fn finished(body: Body, generation: u32, seq: u64) -> Vec<u8> {
    let mut bytes = body.into_bytes();
    let (head, rest) = bytes.split_at_mut(RECORD_HEAD_BYTES);
    head.copy_from_slice(&record_head(generation, seq, rest));
    bytes.push(b'\n');
    bytes
}
