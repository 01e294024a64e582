//! The variables that a runtime sets.

use std::ffi::OsString;
use std::fmt;

use super::failure::Failure;
use super::version::Version;

/// What a runtime asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Give an attachment its addresses.
    Add,
    /// Take them back.
    Del,
    /// Look whether it still has them.
    Check,
    /// Take back those of attachments that are gone.
    Gc,
    /// Say whether ADD could be served.
    Status,
    /// Say which versions of the specification are spoken.
    Version,
}

impl Verb {
    const ALL: [Verb; 6] = [Verb::Add, Verb::Del, Verb::Check, Verb::Gc, Verb::Status, Verb::Version];

    /// How `CNI_COMMAND` spells it, in exactly this letter case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verb::Add => "ADD",
            Verb::Del => "DEL",
            Verb::Check => "CHECK",
            Verb::Gc => "GC",
            Verb::Status => "STATUS",
            Verb::Version => "VERSION",
        }
    }

    /// The first version of the specification that has it. VERSION is in none of a configuration's business.
    #[must_use]
    pub const fn since(self) -> Version {
        match self {
            Verb::Add | Verb::Del | Verb::Version => Version::V0_1_0,
            Verb::Check => Version::V0_4_0,
            Verb::Gc | Verb::Status => Version::V1_1_0,
        }
    }

    /// Whether it is about one attachment.
    const fn names_an_attachment(self) -> bool {
        matches!(self, Verb::Add | Verb::Del | Verb::Check)
    }

    const fn needs_netns(self) -> bool {
        matches!(self, Verb::Add | Verb::Check)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the environment says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is asked for.
    pub verb: Verb,
    /// `CNI_CONTAINERID`. Empty for GC, STATUS and VERSION.
    pub container_id: String,
    /// `CNI_NETNS`: the path of the network namespace. `None` at DEL when it is not known any more.
    pub netns: Option<String>,
    /// `CNI_IFNAME`. Empty for GC, STATUS and VERSION.
    pub ifname: String,
    /// `CNI_ARGS`, not yet taken apart. Empty: none.
    pub args: String,
    /// `CNI_PATH`. Nothing is delegated, so it may be missing.
    pub path: Option<OsString>,
}

impl Call {
    /// Reads a call from the variables that `get` knows. `None`: there is no `CNI_COMMAND`, so this is no call.
    ///
    /// Only what the verb requires is looked at and can be wrong; an empty variable counts as missing.
    ///
    /// # Errors
    /// Code 4, naming the variables.
    ///
    /// # Source
    /// CNI 1.1.0, section 2, *Parameters*.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Call>, Failure> {
        let get = |name: &'static str| get(name).filter(|value| !value.is_empty());
        let Some(command) = get("CNI_COMMAND") else {
            return Ok(None);
        };
        let command = text("CNI_COMMAND", command)?;
        // libcni knows plugins of 0.1.0 by this very message.
        let verb = Verb::ALL
            .into_iter()
            .find(|verb| verb.as_str() == command)
            .ok_or_else(|| Failure::environment(format!("unknown CNI_COMMAND: {command}")))?;
        let mut call = Call {
            verb,
            container_id: String::new(),
            netns: None,
            ifname: String::new(),
            args: String::new(),
            path: get("CNI_PATH"),
        };
        if verb.names_an_attachment() {
            call.read_attachment(get)?;
        }
        Ok(Some(call))
    }

    /// A call of STATUS, which is about no attachment.
    pub(super) const fn status() -> Call {
        Call {
            verb: Verb::Status,
            container_id: String::new(),
            netns: None,
            ifname: String::new(),
            args: String::new(),
            path: None,
        }
    }

    fn read_attachment(&mut self, get: impl Fn(&'static str) -> Option<OsString>) -> Result<(), Failure> {
        let (id, ifname, netns) = (get("CNI_CONTAINERID"), get("CNI_IFNAME"), get("CNI_NETNS"));
        let (Some(id), Some(ifname), true) = (&id, &ifname, netns.is_some() || !self.verb.needs_netns())
        else {
            return Err(missing(self.verb, id.is_none(), ifname.is_none(), netns.is_none()));
        };
        self.container_id = text("CNI_CONTAINERID", id.clone())?;
        if !is_identifier(&self.container_id) {
            return Err(Failure::environment(format!(
                "`CNI_CONTAINERID` is {:?}; expected a letter or digit, then letters, digits, `_`, `.` and `-`",
                self.container_id
            )));
        }
        self.ifname = text("CNI_IFNAME", ifname.clone())?;
        if let Some(problem) = ifname_problem(&self.ifname) {
            return Err(Failure::environment(format!("`CNI_IFNAME` is {:?}, which {problem}", self.ifname)));
        }
        self.netns = match netns.map(OsString::into_string).transpose() {
            Err(_) if self.verb.needs_netns() => return Err(not_utf8("CNI_NETNS")),
            netns => netns.ok().flatten(),
        };
        self.args = match get("CNI_ARGS").unwrap_or_default().into_string() {
            Ok(args) => args,
            // A request that cannot be read may not be passed over, but only ADD serves requests.
            Err(_) if self.verb == Verb::Add => return Err(not_utf8("CNI_ARGS")),
            Err(args) => args.to_string_lossy().into_owned(),
        };
        Ok(())
    }
}

/// Whether a text may be a container ID or a network's name: an ASCII letter or digit, then those, `_`, `.` and `-`.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// What is wrong with an interface's name, by the kernel's rules. `None`: nothing.
fn ifname_problem(name: &str) -> Option<&'static str> {
    if name.len() > 15 {
        Some("is longer than 15 bytes")
    } else if matches!(name, "." | "..") {
        Some("is a directory's name")
    } else if name.contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace()) {
        Some("has a slash, a colon or white space in it")
    } else {
        None
    }
}

fn missing(verb: Verb, id: bool, ifname: bool, netns: bool) -> Failure {
    let names = [(id, "CNI_CONTAINERID"), (ifname, "CNI_IFNAME"), (netns && verb.needs_netns(), "CNI_NETNS")];
    let names: Vec<_> =
        names.into_iter().filter(|(missing, _)| *missing).map(|(_, name)| format!("`{name}`")).collect();
    Failure::environment(format!("missing environment variables: {}", names.join(", ")))
        .with_details(format!("{verb} requires them; an empty one counts as missing"))
}

fn text(name: &str, value: OsString) -> Result<String, Failure> {
    value.into_string().map_err(|_| not_utf8(name))
}

fn not_utf8(name: &str) -> Failure {
    Failure::environment(format!("`{name}` is not valid UTF-8"))
}

#[cfg(test)]
mod tests;
