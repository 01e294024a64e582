//! Facts of this machine that a call needs: its name, its boot. Read at the edge, passed on as values.

pub mod namespaces;

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::api::HostName;
use crate::clock::{Clock as _, SystemClock, Timestamp};
use crate::ipam::Host;

/// Where Linux says which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The network namespace of this process.
const OWN_NETNS: &str = "/proc/self/ns/net";

/// The identity of the present boot; `None` where the kernel does not tell.
#[must_use]
pub fn boot_id() -> Option<String> {
    let text = read_small(Path::new(BOOT_ID)).ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// This host under a name, with the facts that prove death or life: its boot, and the network namespace of this process.
#[must_use]
pub fn this_host(name: HostName) -> Host {
    let uptime = uptime();
    Host {
        boot: boot_id(),
        booted: uptime.and_then(booted),
        uptime,
        netns: namespaces::file_id(Path::new(OWN_NETNS)),
        ..Host::named(name)
    }
}

/// The time since the present boot began. Reading the clock costs no system call.
#[must_use]
pub fn uptime() -> Option<Duration> {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok().map(Duration::from)
}

/// The beginning of the present boot by the wall clock.
fn booted(uptime: Duration) -> Option<Timestamp> {
    let now = SystemClock.now().as_nanos();
    now.checked_sub(u64::try_from(uptime.as_nanos()).ok()?).map(Timestamp::from_nanos)
}

/// The kernel's host name in lower case, as Calico uses it for a node's name.
///
/// # Errors
/// When the kernel does not tell, or the name is no text.
pub fn kernel_host_name() -> io::Result<String> {
    let name = nix::unistd::gethostname().map_err(io::Error::from)?;
    let name =
        name.into_string().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8"))?;
    Ok(name.trim().to_lowercase())
}

/// Reads a file that fits into one small buffer, without asking for its size first.
///
/// # Errors
/// When it cannot be opened or read, or is no UTF-8.
pub fn read_small(path: &Path) -> io::Result<String> {
    let mut buffer = [0u8; 4096];
    let mut file = std::fs::File::open(path)?;
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let read = io::Read::read(&mut file, rest)?;
        filled += read;
        // The kernel's own files come in one piece, so that no second call is needed to see their end.
        if read == 0 || path.starts_with("/proc") {
            break;
        }
    }
    let text = buffer.get(..filled).unwrap_or_default();
    String::from_utf8(text.to_vec()).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The beginning of the present boot as the kernel tells it, in seconds since 1970 by the present clock. The kernel counts
/// interrupts of every processor to answer, so a call that only notes the time uses [`booted`].
#[must_use]
pub fn boot_time() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let time = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    time.trim().parse().ok()
}
