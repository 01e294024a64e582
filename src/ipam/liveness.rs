//! The one judge of death: is the attachment that holds an address alive, provably dead, or not known?
//!
//! Unknown is never freed. Evidence, in the order in which it is asked:
//!
//! | evidence | verdict |
//! | --- | --- |
//! | the noted namespace, by device and inode, is at the noted path | alive, whatever the boot IDs say |
//! | a second machine uses this node name | unknown |
//! | the path cannot be looked at: no permission, I/O error, no namespace there, another PID namespace | unknown |
//! | the directory is not the one of the ADD: another mount namespace, or a directory created again | unknown |
//! | the ADD saw a namespace at the path; now there is nothing, or another namespace | dead |
//! | the process of a `/proc` path is gone, or started at another time in the same PID namespace | dead |
//! | the boot of the attachment is over | dead |
//!
//! The last row also overrides *unknown* of the path: directories do not survive a reboot. A boot is over on a store of
//! one kernel if its ID and its beginning differ from the present ones. An equal beginning under another ID says that a
//! container manager mounted a boot ID of its own over the kernel's. Then the path decides, and where it cannot be seen,
//! the absence of any process in the namespace, if all processes of the system can be seen. On a store that several kernels share, a boot of this node's name is over
//! only if the address was assigned before the present boot began. Later means that a second machine uses the name.
//!
//! Pure: [`Namespaces`] looks at the system.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::Host;
use super::provenance::{FileId, Netns, Noted, ProcessId};
use crate::api::calico::AttributeFields;
use crate::clock::Timestamp;

/// Two boots that begin less than this apart are one: the two clocks are not read in the same instant.
const SAME_BEGINNING: Duration = Duration::from_secs(2);
/// A clock that shows an earlier time was never set: 2020-01-01.
const CLOCK_UNSET_BEFORE: u64 = 1_577_836_800;

/// Looks at files and processes of the system.
pub trait Namespaces {
    /// The file at a path, symbolic links followed.
    fn file(&self, path: &Path) -> Probe<NamespaceFile>;

    /// The directory at a path.
    fn directory(&self, path: &Path) -> Probe<FileId>;

    /// A process as `/proc` shows it.
    fn process(&self, pid: u32) -> Probe<ProcessId>;

    /// The inode of the PID namespace whose numbers `/proc` shows; `None`: not known.
    fn pid_namespace(&self) -> Option<u64>;

    /// Is a process in the network namespace with this identity?
    fn inhabited(&self, id: FileId) -> Inhabited;

    /// The beginning of the present boot, by the kernel's own account. It is asked only if boot IDs differ.
    fn booted(&self) -> Option<Timestamp>;
}

/// The processes of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inhabited {
    /// A process is in it.
    Yes,
    /// No process of the whole system is.
    No,
    /// None was seen, and not all processes can be seen.
    NotSeen,
}

/// The answer of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe<T> {
    /// It exists.
    Found(T),
    /// It does not exist.
    Absent,
    /// It could not be looked at; the text says why.
    Unknown(String),
}

/// A file in the place of a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceFile {
    /// Its identity.
    pub id: FileId,
    /// Is it a namespace, and not an ordinary file that another mount namespace covers with one?
    pub is_namespace: bool,
}

/// Sees nothing: every look is *unknown*.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blind;

impl Namespaces for Blind {
    fn file(&self, _: &Path) -> Probe<NamespaceFile> {
        Probe::Unknown("nobody looked".to_owned())
    }

    fn directory(&self, _: &Path) -> Probe<FileId> {
        Probe::Unknown("nobody looked".to_owned())
    }

    fn process(&self, _: u32) -> Probe<ProcessId> {
        Probe::Unknown("nobody looked".to_owned())
    }

    fn pid_namespace(&self) -> Option<u64> {
        None
    }

    fn inhabited(&self, _: FileId) -> Inhabited {
        Inhabited::NotSeen
    }

    fn booted(&self) -> Option<Timestamp> {
        None
    }
}

/// The verdict on an attachment, with the evidence as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is alive.
    Alive(String),
    /// It is dead.
    Dead(String),
    /// Nothing proves either.
    Unknown(String),
}

impl Life {
    /// Is it proved dead?
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self, Life::Dead(_))
    }
}

/// The time of a proved death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// No packet of it can be under way any more.
    WithItsBoot,
    /// Perhaps a moment ago.
    InThisBoot,
}

/// How an attachment relates to the host that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Its node is this host's name, or none is noted.
    Ours,
    /// Its node is this host's name, but another machine, running at the same time, assigned it.
    SecondMachine,
    /// Another node name, but this very boot and network namespace: the host was renamed.
    Renamed,
    /// Another node name and an earlier boot of the one kernel that uses the store.
    EarlierBoot,
    /// Another host's.
    OtherHost,
}

/// Judges attachments from the point of view of one host.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The host that asks.
    pub host: &'a Host,
    /// Is the store used by one kernel alone?
    pub one_kernel: bool,
    /// Looks at the system.
    pub namespaces: &'a dyn Namespaces,
}

impl std::fmt::Debug for Judge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge")
            .field("host", self.host)
            .field("one_kernel", &self.one_kernel)
            .finish_non_exhaustive()
    }
}

/// Evidence at the noted path.
enum Place {
    Alive(String),
    Dead(String),
    /// It was looked for and cannot be judged from here.
    Unseen(String),
    /// The notes name no path, or not enough about it.
    NotNoted,
}

/// The noted boot compared with the present one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Boot {
    /// The same, or one of the two is not known.
    Present,
    /// An earlier one.
    Over,
    /// Other IDs, but the same beginning: one kernel under two boot IDs.
    Covered,
    /// Another machine's.
    SecondMachine,
    /// Other IDs, and no clock to compare them by.
    Unknown,
}

impl Judge<'_> {
    /// Whose an attachment is.
    #[must_use]
    pub fn whose(&self, noted: &Noted<'_>) -> Whose {
        let boot = self.boot(noted);
        let is_by_name =
            !self.host.is_nameless && noted.node.is_none_or(|node| node == self.host.name.as_str());
        if is_by_name || self.host.is_nameless && self.is_this_very_boot(noted) {
            let is_second = boot == Boot::SecondMachine && noted.node.is_some();
            return if is_second { Whose::SecondMachine } else { Whose::Ours };
        }
        if self.is_this_very_boot(noted) {
            return Whose::Renamed;
        }
        if self.one_kernel && matches!(boot, Boot::Over | Boot::Covered) {
            Whose::EarlierBoot
        } else {
            Whose::OtherHost
        }
    }

    /// Whose an address is, by its attribute.
    #[must_use]
    pub fn whose_is(&self, attribute: &AttributeFields<'_>) -> Whose {
        self.whose(&attribute.active_owner.as_ref().map(Noted::of).unwrap_or_default())
    }

    /// The boot ID of the second machine that assigned an address under this host's name, if one did.
    #[must_use]
    pub fn second_machine<'n>(&self, attribute: &'n AttributeFields<'_>) -> Option<&'n str> {
        let noted = Noted::of(attribute.active_owner.as_ref()?);
        noted.boot.filter(|_| noted.is_attachment() && self.whose(&noted) == Whose::SecondMachine)
    }

    /// May a DEL that found nothing under this host's name end an attachment that it names? Yes if this host made it under
    /// an earlier name, or an earlier boot of this kernel did, and it is dead or has the very namespace that the DEL names.
    #[must_use]
    pub fn may_end(&self, attribute: &AttributeFields<'_>, named: Option<&Netns>) -> bool {
        let noted = attribute.active_owner.as_ref().map(Noted::of).unwrap_or_default();
        self.may_end_noted(&noted, named)
    }

    /// As [`Judge::may_end`], by the notes.
    #[must_use]
    pub fn may_end_noted(&self, noted: &Noted<'_>, named: Option<&Netns>) -> bool {
        let is_named = || {
            named.is_some_and(|named| {
                noted.netns == Some(named.path.as_str())
                    && (noted.netns_id.is_none() || noted.netns_id == named.id)
            })
        };
        match self.whose(noted) {
            Whose::Renamed => is_named() || self.life_of(noted).is_dead(),
            Whose::EarlierBoot => self.life_of(noted).is_dead(),
            Whose::Ours | Whose::SecondMachine | Whose::OtherHost => false,
        }
    }

    /// Is the attachment that an attribute notes proved dead? If so, is its boot over as well?
    #[must_use]
    pub fn death(&self, attribute: &AttributeFields<'_>) -> Option<Death> {
        let noted = Noted::of(attribute.active_owner.as_ref()?);
        let ended =
            |noted| if self.boot(noted) == Boot::Over { Death::WithItsBoot } else { Death::InThisBoot };
        self.life_of(&noted).is_dead().then(|| ended(&noted))
    }

    /// Is the attachment with these notes alive?
    #[must_use]
    pub fn life(&self, notes: &BTreeMap<String, String>) -> Life {
        self.life_of(&Noted::of(notes))
    }

    /// Is an attachment alive?
    #[must_use]
    pub fn life_of(&self, noted: &Noted<'_>) -> Life {
        if !noted.is_attachment() {
            return Life::Unknown("no runtime attached it".to_owned());
        }
        match self.whose(noted) {
            Whose::SecondMachine => {
                let name = &self.host.name;
                return Life::Unknown(format!("a second machine uses the node name `{name}`"));
            }
            Whose::OtherHost if !self.one_kernel => {
                return Life::Unknown("it is another host's".to_owned());
            }
            _ => {}
        }
        let boot = self.boot(noted);
        let over = || {
            let (then, now) = (noted.boot.unwrap_or_default(), self.host.boot.as_deref().unwrap_or_default());
            Life::Dead(format!("its host has booted since (boot id {then} then, {now} now)"))
        };
        let place = match self.place(noted) {
            Place::Alive(why) => return Life::Alive(why),
            place => place,
        };
        if boot == Boot::Over {
            return over();
        }
        if let Place::Dead(why) = place {
            return if self.sees_its_paths(boot, noted) { Life::Dead(why) } else { Life::Unknown(why) };
        }
        // The path may be hidden while processes live in the namespace. The kernel gives inodes again, so a process outweighs no proof.
        let inhabited = noted.netns_id.map_or(Inhabited::NotSeen, |id| self.namespaces.inhabited(id));
        if inhabited == Inhabited::Yes && self.sees_its_paths(boot, noted) {
            return Life::Alive("a process is in its network namespace".to_owned());
        }
        match place {
            Place::Alive(why) => Life::Alive(why),
            Place::Unseen(_)
                if boot == Boot::Covered && inhabited == Inhabited::No && self.is_by_own(noted) =>
            {
                over()
            }
            Place::Dead(why) | Place::Unseen(why) => Life::Unknown(why),
            Place::NotNoted if boot == Boot::Covered => over(),
            Place::NotNoted => Life::Unknown("nothing noted proves it dead".to_owned()),
        }
    }

    /// Do the noted device and inode numbers mean the same on this kernel as on that of the ADD?
    fn sees_its_paths(&self, boot: Boot, noted: &Noted<'_>) -> bool {
        self.one_kernel || boot == Boot::Present && noted.boot.is_some() && self.host.boot.is_some()
    }

    /// Was it assigned under this host's name or in its network namespace?
    fn is_by_own(&self, noted: &Noted<'_>) -> bool {
        noted.node == Some(self.host.name.as_str())
            || noted.host_netns.is_some() && noted.host_netns == self.host.netns
    }

    fn is_this_very_boot(&self, noted: &Noted<'_>) -> bool {
        let same_boot = noted.boot.is_some() && noted.boot == self.host.boot.as_deref();
        same_boot && noted.host_netns.is_some() && noted.host_netns == self.host.netns
    }

    fn boot(&self, noted: &Noted<'_>) -> Boot {
        let (Some(then), Some(now)) = (noted.boot, self.host.boot.as_deref()) else {
            return Boot::Present;
        };
        if then == now {
            return Boot::Present;
        }
        let booted = self.namespaces.booted().or(self.host.booted);
        if self.one_kernel {
            let began = noted.booted.zip(booted).filter(|(then, _)| is_plausible(*then));
            let same = began.is_some_and(|(then, now)| {
                now.since(then) < SAME_BEGINNING && then.since(now) < SAME_BEGINNING
            });
            return if same { Boot::Covered } else { Boot::Over };
        }
        // Several kernels: only an address of before this boot can be of an earlier one of this machine.
        let made = noted.made.into_iter().chain(noted.booted).max();
        match (booted, made.filter(|made| is_plausible(*made))) {
            (Some(began), Some(made)) if made < began => Boot::Over,
            (Some(_), Some(_)) => Boot::SecondMachine,
            _ => Boot::Unknown,
        }
    }

    /// Looks at the noted path.
    fn place(&self, noted: &Noted<'_>) -> Place {
        let Some(path) = noted.netns else { return Place::NotNoted };
        let (path, shown) = (Path::new(path), path.escape_debug());
        // The kernel gives inodes of namespaces again, and a number to another process.
        let is_other_process = process_of(path).zip(noted.process).is_some_and(
            |(pid, then)| !matches!(self.namespaces.process(pid), Probe::Found(now) if now == then),
        );
        let found = match self.namespaces.file(path) {
            Probe::Found(file) if !is_other_process && noted.netns_id.is_none_or(|id| id == file.id) => {
                return Place::Alive(format!("its network namespace {shown} exists"));
            }
            // All namespaces have one device. The ADD saw an ordinary file if it noted another.
            Probe::Found(file)
                if !file.is_namespace || noted.netns_id.is_some_and(|id| id.device != file.id.device) =>
            {
                return Place::Unseen(format!("{shown} is no network namespace here"));
            }
            Probe::Found(_) => Some(()),
            Probe::Absent => None,
            Probe::Unknown(why) => return Place::Unseen(format!("{shown} cannot be looked at: {why}")),
        };
        // What no ADD saw cannot be gone.
        if noted.netns_id.is_none() {
            return Place::NotNoted;
        }
        if let Some(pid) = process_of(path) {
            return self.process(noted, pid);
        }
        let Some(then) = noted.netns_dir else { return Place::NotNoted };
        let directory = path.parent().map_or(Probe::Absent, |parent| self.namespaces.directory(parent));
        match (directory, found) {
            (Probe::Found(now), _) if now != then => {
                Place::Unseen(format!("the directory of {shown} is not the one that the ADD saw"))
            }
            (Probe::Found(_), None) => Place::Dead(format!("its network namespace {shown} is gone")),
            (Probe::Found(_), Some(())) => {
                Place::Dead(format!("another network namespace is at {shown} now"))
            }
            (Probe::Absent, _) => Place::Unseen(format!("the directory of {shown} does not exist here")),
            (Probe::Unknown(why), _) => {
                Place::Unseen(format!("the directory of {shown} cannot be looked at: {why}"))
            }
        }
    }

    fn process(&self, noted: &Noted<'_>, pid: u32) -> Place {
        let Some(then) = noted.process else { return Place::NotNoted };
        if self.namespaces.pid_namespace() != Some(then.pid_namespace) {
            return Place::Unseen(format!("process {pid} is of another PID namespace"));
        }
        match self.namespaces.process(pid) {
            Probe::Found(now) if now == then => {
                Place::Unseen(format!("process {pid} lives, in another network namespace"))
            }
            Probe::Found(_) | Probe::Absent => {
                Place::Dead(format!("process {pid}, whose network namespace it had, is gone"))
            }
            Probe::Unknown(why) => Place::Unseen(format!("process {pid} cannot be looked at: {why}")),
        }
    }
}

/// Can a clock that was set have shown this time?
pub(super) fn is_plausible(time: Timestamp) -> bool {
    time.as_nanos() / 1_000_000_000 >= CLOCK_UNSET_BEFORE
}

/// The process of a path of the form `/proc/PID/ns/net` or `/proc/PID/task/TID/ns/net`. Other paths below a process, such as
/// an open file of it, may lead to namespaces that outlive it.
#[must_use]
pub fn process_of(path: &Path) -> Option<u32> {
    let words: Vec<&str> =
        path.strip_prefix("/proc").ok()?.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    match words[..] {
        [pid, "ns", "net"] => pid.parse().ok(),
        [pid, "task", tid, "ns", "net"] if tid.bytes().all(|byte| byte.is_ascii_digit()) => pid.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
