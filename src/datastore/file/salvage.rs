//! A journal whose header is damaged gets it back, where what stands behind it says beyond doubt of which generation it
//! is. Otherwise nothing is touched: a shorter journal is never believed.

use nix::fcntl::OFlag;

use super::dir::Dir;
use super::handles::HandleMap;
use super::header::{BadHeader, Header};
use super::inspect::owner_names;
use super::journal::Journal;
use super::layout::{INDEX, JOURNAL, STATE, fnv1a};
use super::lock::{self, Locks};
use super::origin::origin;
use super::overlay::Latest;
use super::{Access, FileStore, Options, Seen, index, state};
use crate::datastore::{Error, Settings};

impl FileStore {
    /// Gives a journal whose header is damaged its header back. The answer: what was done; `None`: the header is not
    /// damaged, or there is no store.
    ///
    /// # Errors
    /// What stands behind the header does not say surely enough what it must be, or something else is damaged as well.
    /// The journal is as it was.
    pub fn salvage(options: &Options) -> Result<Option<String>, Error> {
        let Some(dir) = Dir::open_store(&options.path)? else { return Ok(None) };
        if !options.allow_network_file_system {
            lock::refuse_network(&dir, &options.path)?;
        }
        let mut locks =
            Locks::lock_directory(&dir, Access::Change, options.lock_timeout, &options.operation)?;
        let Some(file) = dir.open_file(JOURNAL, OFlag::O_RDWR)? else { return Ok(None) };
        locks.lock_file(&dir)?;
        let bytes = file.read()?;
        if Header::parse(&bytes) != Err(BadHeader::Damaged) {
            return Ok(None);
        }
        let path = dir.path_of(JOURNAL);
        let Some(origin) = origin(&bytes) else {
            let problem = "its header is not valid, and what stands behind it does not say surely of which \
                           generation it is; a copy of the whole store from before helps, or a store begun anew";
            return Err(Error::Damaged { path, problem: problem.to_owned() });
        };
        let header = Header { first_seq: origin.first_seq, generation: origin.generation, ..Header::new() };
        let mut store = Self {
            options: options.clone(),
            access: Access::Change,
            dir,
            locks,
            locked: true,
            journal: Journal::with_header(file, header)?,
            state_is_stale: false,
            passed_over: None,
            seen: Seen::default(),
        };
        store.complete_header()?;
        store.journal.write_header()?;
        let Header { first_seq, generation, .. } = store.journal.header;
        let commits = store.journal.next_seq() - first_seq;
        Ok(Some(format!(
            "gave `{JOURNAL}` its header back: generation {generation}, from commit {first_seq} on, with all \
             {commits} commits behind it; made `{INDEX}` and `{STATE}` anew; the highest number of a block that was \
             deleted before is not known any more, and taken from those that there are"
        )))
    }

    /// Finds out what the records do not say of the header, and writes the derived files that it names.
    fn complete_header(&mut self) -> Result<(), Error> {
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
            let generation = self.journal.header.generation;
            index::build(&self.dir, generation, 0, &index::entries(&map))?;
            self.journal.header.index = generation;
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
