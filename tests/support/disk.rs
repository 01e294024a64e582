//! File systems of a test's own: small ones, ones that fill up, and ones whose power is cut. All are unmounted with the
//! value, also when the test panics.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cni::program;

/// What a file system is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On an image file of that many MiB.
    Ext4(u32),
    /// On an image file; it takes no less than 300 MiB, most of it never written.
    Xfs,
    /// In memory, with options.
    Tmpfs(&'static str),
}

impl Kind {
    /// As `mount` calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Ext4(_) => "ext4",
            Kind::Xfs => "xfs",
            Kind::Tmpfs(_) => "tmpfs",
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Disk {
    kind: Kind,
    /// `None`: it has none.
    image: Option<PathBuf>,
    at: PathBuf,
}

impl Disk {
    /// Makes and mounts one in a directory of the test's.
    ///
    /// # Errors
    /// Why none can be made here.
    pub(crate) fn mount(kind: Kind, within: &Path) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("only root can mount file systems".to_owned());
        }
        let at = within.join(format!("{}-mounted", kind.name()));
        fs::create_dir(&at).expect("a directory");
        let image = match kind {
            Kind::Tmpfs(_) => None,
            Kind::Ext4(_) | Kind::Xfs => Some(image(kind, within)?),
        };
        let disk = Self { kind, image, at };
        if let Err(error) = disk.mount_it(&[]) {
            return Err(format!("no {} can be mounted here: {error}", kind.name()));
        }
        Ok(disk)
    }

    /// The same, one whose power can be cut.
    ///
    /// # Errors
    /// Why none can be made here.
    pub(crate) fn that_can_be_cut(kind: Kind, within: &Path) -> Result<Self, String> {
        program("xfs_io").ok_or("xfs_io is not installed (xfsprogs has it)")?;
        let disk = Self::mount(kind, within)?;
        disk.shut_down().map_err(|error| format!("a {} cannot be shut down here: {error}", kind.name()))?;
        disk.mount_again();
        Ok(disk)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// A place for a store on it.
    pub(crate) fn store(&self) -> PathBuf {
        self.at.join("store")
    }

    /// Takes its power away: what is not on the disk by now never gets there. Processes that use it go on, in vain.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn shut_down(&self) -> Result<(), String> {
        run("xfs_io", [OsStr::new("-x"), OsStr::new("-c"), OsStr::new("shutdown"), self.at.as_os_str()])
    }

    /// Mounts it again after [`Disk::shut_down`], as it is on the disk. Nothing on it may be open any more.
    #[track_caller]
    pub(crate) fn mount_again(&self) {
        // Another test's mount namespace may hold a copy for a moment: then what is mounted is still without power.
        for _ in 0..1000 {
            run("umount", [&self.at]).unwrap_or_else(|error| panic!("{error}"));
            self.mount_it(&[]).unwrap_or_else(|error| panic!("{error}"));
            if self.has_power() {
                return;
            }
        }
        panic!("{} is held by another mount namespace", self.at.display());
    }

    fn has_power(&self) -> bool {
        use std::os::unix::fs::OpenOptionsExt as _;
        let unnamed = nix::fcntl::OFlag::O_TMPFILE.bits();
        File::options().write(true).custom_flags(unnamed).open(&self.at).is_ok()
    }

    /// Fills it to the last byte.
    pub(crate) fn fill(&self) -> Ballast {
        let path = self.at.join("ballast");
        let mut file = File::create(&path).expect("a file");
        for size in [64 << 10, 4096, 512, 1] {
            while file.write_all(&vec![1; size]).and_then(|()| file.sync_data()).is_ok() {}
        }
        Ballast(vec![path])
    }

    /// Leaves no further file to be made on it.
    pub(crate) fn use_up_inodes(&self) -> Ballast {
        let folder = self.at.join("many");
        fs::create_dir(&folder).expect("a directory");
        let mut made = Vec::new();
        loop {
            let path = folder.join(made.len().to_string());
            match File::create(&path) {
                Ok(_) => made.push(path),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(nix::libc::ENOSPC), "{error}");
                    return Ballast(made);
                }
            }
        }
    }

    fn mount_it(&self, options: &[&str]) -> Result<(), String> {
        let mut words: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        let of_tmpfs;
        match (self.kind, &self.image) {
            (Kind::Tmpfs(options), _) => {
                of_tmpfs = format!("mode=0700,{options}");
                words.extend(["-t", "tmpfs", "-o", of_tmpfs.as_str(), "none"].map(OsStr::new));
            }
            (_, Some(image)) => words.extend([OsStr::new("-o"), OsStr::new("loop"), image.as_os_str()]),
            (_, None) => return Err("it has no image".to_owned()),
        }
        words.push(self.at.as_os_str());
        run("mount", words)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if run("umount", [&self.at]).is_err() {
            // Something on it is open still; it goes when that is closed.
            let _ = run("umount", [OsStr::new("-l"), self.at.as_os_str()]);
        }
    }
}

/// What takes up the room of a disk.
#[derive(Debug)]
pub(crate) struct Ballast(Vec<PathBuf>);

impl Ballast {
    /// Throws it out.
    pub(crate) fn remove(self) {
        for path in self.0 {
            fs::remove_file(path).expect("it is there");
        }
    }
}

fn image(kind: Kind, within: &Path) -> Result<PathBuf, String> {
    let path = within.join(format!("{}-image", kind.name()));
    let mib = match kind {
        Kind::Ext4(mib) => u64::from(mib),
        Kind::Xfs => 320,
        Kind::Tmpfs(_) => 0,
    };
    File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("an image");
    let words: &[&str] = match kind {
        Kind::Ext4(_) => &["-q", "-F", "-m", "0"],
        Kind::Xfs | Kind::Tmpfs(_) => &["-q", "-f"],
    };
    let words = words.iter().map(OsStr::new).chain([path.as_os_str()]);
    run(&format!("mkfs.{}", kind.name()), words)?;
    Ok(path)
}

fn run<S: AsRef<OsStr>>(name: &str, words: impl IntoIterator<Item = S>) -> Result<(), String> {
    let program = program(name).ok_or_else(|| format!("{name} is not installed"))?;
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
