//! The end of the journal: a mark, a torn record, or a damaged one. [`frame`](super::frame) says how they are told apart.

use super::frame::{HeadLayout, MARK_BYTES, Mark, mark, mark_at, records_after};
use super::journal::Journal;
use super::record::{Op, parse};
use crate::datastore::Error;

impl Journal {
    /// Finds out why the journal ends here: the mark says so, or the next record is torn, or it is damaged.
    pub(super) fn check_tail(&mut self) -> Result<(), Error> {
        let mark_end = self.tail + MARK_BYTES;
        if mark_end <= self.capacity && mark_end > self.overlay.buffer().len() {
            self.read_to(mark_end)?;
        }
        let scope = self.header.scope();
        match mark_at(self.overlay.buffer(), self.tail, scope, self.next_seq) {
            Some(Mark::End) => return Ok(()),
            Some(Mark::Flushed) => {
                self.flushed_seq = self.next_seq.saturating_sub(1);
                self.flush_is_noted = true;
                return Ok(());
            }
            None => {}
        }
        self.read_to(self.capacity)?;
        let (tail, hole) = (self.tail, self.next_seq);
        let mut last = None;
        for (at, head, _) in records_after(self.overlay.buffer(), tail, scope) {
            if head.seq >= hole && head.proves_flushed(hole) {
                self.damage = Some(format!(
                    "the record of commit {hole} at byte {tail} is not valid, and that of commit {} at byte {at} \
                     follows it",
                    head.seq
                ));
                return Ok(());
            }
            last = last.max(Some(head.seq).filter(|seq| *seq > hole));
        }
        if let Some(last) = last {
            log::warn!(
                "{} ends before commit {hole}, whose record is torn; a power cut broke off the flush of the commits up \
                 to {last}, and none of them had been flushed",
                self.file.path.display()
            );
        }
        Ok(())
    }

    /// The places and numbers of the records after the damage, and their operations, by number.
    pub(super) fn records_past_damage(&self) -> Option<Vec<(u64, Vec<Op>)>> {
        self.damage.as_ref()?;
        let buffer = self.overlay.buffer();
        let mut records = Vec::new();
        for (_, head, body) in records_after(buffer, self.tail, self.header.scope()) {
            let mut ops = Vec::new();
            if head.seq > self.next_seq && parse(buffer, body, &mut ops).is_ok() {
                records.push((head.seq, ops));
            }
        }
        records.sort_by_key(|(seq, _)| *seq);
        Some(records)
    }

    /// Ends the journal before the damage: fills the rest of it with zeros.
    pub(super) fn end_here(&mut self) -> Result<(), Error> {
        let mut rest = mark(self.header.scope(), Mark::End, self.next_seq);
        rest.resize(self.capacity.saturating_sub(self.tail).max(rest.len()), 0);
        self.write_at(self.tail, &rest)?;
        self.sync_data()?;
        self.overlay.buffer_mut().truncate(self.tail);
        self.damage = None;
        Ok(())
    }

    /// Has the mark say that all is flushed, for the next writer to repeat it in its record. It is written after the
    /// answer, and not flushed. Without it, less is known of damage.
    pub(super) fn note_flush(&mut self) {
        let can_say = self.header.layout == HeadLayout::Two && !self.is_empty() && !self.flush_is_noted;
        if can_say && self.is_flushed() {
            let flushed = mark(self.header.scope(), Mark::Flushed, self.next_seq);
            self.flush_is_noted = self.write_at(self.tail, &flushed).is_ok();
        }
    }
}
