//! One record: a file that is named after its address.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::ipam::Claim;

/// The interface of a record of an old version, which named none.
const OLD_IFNAME: &str = "eth0";
/// The mark of a record that the store knows: the sticky bit.
const MARK: u32 = 0o1000;
/// Between container and interface, as host-local writes it. It compares whole records byte for byte.
const LINE_BREAK: &str = "\r\n";
/// A record is longer by no name that a runtime may choose.
const BYTES_MAX: u64 = 64 << 10;

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty: the record has no text.
    pub(super) container_id: String,
    pub(super) ifname: String,
    pub(super) is_marked: bool,
    /// The later one of its times, in seconds since 1970.
    pub(super) changed: i64,
}

impl Record {
    /// `None`: there is no file, or none that could be a record.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        // Neither a link is followed, nor the writer of a pipe waited for.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = match File::options().read(true).custom_flags(flags.bits()).open(path) {
            Ok(file) => file,
            Err(error) if is_none(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text)?;
        Ok(Some(Self::parse(&String::from_utf8_lossy(&text), &meta)))
    }

    fn parse(text: &str, meta: &Metadata) -> Self {
        let mut lines = text.lines().map(str::trim);
        let container_id = lines.next().unwrap_or_default().to_owned();
        let ifname = lines.next().filter(|name| !name.is_empty()).unwrap_or(OLD_IFNAME).to_owned();
        let is_marked = meta.mode() & MARK != 0;
        Self { container_id, ifname, is_marked, changed: meta.mtime().max(meta.ctime()) }
    }

    /// Whether it says who has the address. host-local creates a record before it writes it.
    pub(super) fn is_named(&self) -> bool {
        !self.container_id.is_empty()
    }
}

/// Whether the record at a path is marked; false: there is none.
pub(super) fn is_marked(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & MARK != 0)
}

/// Marks a record, unless it is gone.
pub(super) fn mark(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => {
            std::fs::set_permissions(path, Permissions::from_mode(meta.mode() & 0o7777 | MARK))
        }
        Ok(_) => Ok(()),
        Err(error) if is_none(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a marked record; see [`crate::ipam::ImportSource::claim`]. The caller has host-local's lock.
pub(super) fn claim(path: &Path, container_id: &str, ifname: &str) -> io::Result<Claim> {
    let text = format!("{container_id}{LINE_BREAK}{ifname}");
    let created = File::options().write(true).create_new(true).mode(0o600 | MARK).open(path);
    let written = match created {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let Some(found) = Record::read(path)? else { return Ok(Claim::Recorded) };
            if found.is_named() && found.container_id == container_id && found.ifname == ifname {
                return mark(path).map(|()| Claim::Held);
            }
            if !found.is_marked {
                return Ok(if found.is_named() { Claim::Recorded } else { Claim::Nameless });
            }
            let opened = File::options().write(true).truncate(true).open(path);
            opened.and_then(|mut file| file.write_all(text.as_bytes()))
        }
        Err(error) => return Err(error),
    };
    if let Err(error) = written {
        // No room on the disk. A record without its text would keep the address from host-local.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(Claim::Held)
}

/// No record is there: nothing, or a link.
fn is_none(error: &io::Error) -> bool {
    use nix::errno::Errno;
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ELOOP | Errno::ENXIO))
}
