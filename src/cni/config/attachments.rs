use super::section::{Section, Value};
use crate::cni::failure::Failure;

/// What GC must leave alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidAttachments {
    /// The runtime did not say which attachments are valid, so nothing may be freed.
    Absent,
    /// These are valid, all others of the network are gone. An empty list comes from `[]` and from `null`.
    List(Vec<Attachment>),
}

/// An interface of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attachment {
    /// As the runtime gives it; it is compared and nothing else.
    pub container_id: String,
    /// The interface's name in the container.
    pub ifname: String,
}

impl ValidAttachments {
    /// Reads `cni.dev/valid-attachments`. The list of the historic key `cni.dev/attachments` alone says nothing.
    ///
    /// # Source
    /// CNI 1.1.0, section 2, *GC*.
    pub(super) fn read(root: &Section<'_, '_>) -> Result<ValidAttachments, Failure> {
        const KEY: &str = "cni.dev/valid-attachments";
        if root.get_or_null(KEY).is_none() {
            return Ok(ValidAttachments::Absent);
        }
        let Some(list) = root.get(KEY) else {
            return Ok(ValidAttachments::List(Vec::new()));
        };
        // One entry that cannot be read might be the one that keeps an address, so nothing is read past it.
        list.list()?.map(attachment).collect::<Result<_, _>>().map(ValidAttachments::List)
    }
}

fn attachment(value: Value<'_, '_>) -> Result<Attachment, Failure> {
    let entry = value.section()?;
    let member = |key| entry.text(key)?.ok_or_else(|| entry.problem(format!("has no `{key}`")));
    Ok(Attachment { container_id: member("containerID")?, ifname: member("ifname")? })
}
