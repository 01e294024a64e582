//! How etcd is reached.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::datastore::{Error, Fault};

/// How etcd is reached, and how long an answer may take.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members' client URLs, `http://HOST:PORT` or `https://HOST:PORT`; without a scheme it is `http`. At least one.
    pub endpoints: Vec<String>,
    /// PEM file of the authorities that vouch for the members. `None`: the system's.
    pub ca_cert_file: Option<PathBuf>,
    /// PEM file of our certificate. `None`: none is shown.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// The user who logs in. `None`: nobody does.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Password>,
    /// How long an answer may take, all attempts together.
    pub patience: Patience,
    /// The file by whose lock processes of this host take turns. `None`: they do not. Nothing depends on it but how often
    /// they get in each other's way.
    pub lock_file: Option<PathBuf>,
    /// How long to wait for that lock; then it goes on without.
    pub lock_timeout: Duration,
    /// A directory of this machine in which are remembered a host's last blocks, so that they can be read before it is
    /// known which they are, and the endpoint that answered last. `None`, or one that cannot be used: one more request per
    /// call, and the first endpoint is asked first.
    pub memory: Option<PathBuf>,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The whole call, from when the store was opened: a runtime waits for it.
    Call(Duration),
    /// Each request by itself: a person watches.
    Request(Duration),
}

/// A password, or where it stands.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// Itself.
    Text(String),
    /// A file that holds it; the line's end is not part of it.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Password::Text(_) => f.write_str("Text(…)"),
            Password::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

/// How long a runtime's call may take by itself. Runtimes give a sandbox minutes.
pub const CALL_PATIENCE: Duration = Duration::from_secs(30);

impl EtcdOptions {
    /// How endpoints are reached that need no password and no certificates.
    #[must_use]
    pub fn at(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            ca_cert_file: None,
            cert_file: None,
            key_file: None,
            username: None,
            password: None,
            patience: Patience::Request(CALL_PATIENCE),
            lock_file: None,
            lock_timeout: Duration::from_secs(60),
            memory: None,
        }
    }

    /// Whether something can be reached with them, as far as that shows without trying.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.urls().map(drop)
    }

    /// The endpoints as URLs without a path.
    pub(super) fn urls(&self) -> Result<Vec<String>, Error> {
        let urls: Vec<_> =
            self.endpoints.iter().map(|endpoint| url_of(endpoint)).collect::<Result<_, _>>()?;
        if urls.is_empty() {
            return Err(wrong("`endpoints`", "it names none"));
        }
        Ok(urls)
    }

    /// The user and the password, if somebody logs in.
    pub(super) fn login(&self) -> Result<Option<(String, String)>, Error> {
        let Some(name) = self.username.clone().filter(|name| !name.is_empty()) else {
            return match self.password {
                Some(_) => Err(wrong("a password", "there is no `username` for it")),
                None => Ok(None),
            };
        };
        let password = match &self.password {
            None => return Err(wrong("`username`", "there is no password for it")),
            Some(Password::Text(text)) => text.clone(),
            Some(Password::File(path)) => std::fs::read_to_string(path)
                .map_err(|error| wrong(&format!("password file {}", path.display()), error))?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        };
        Ok(Some((name, password)))
    }
}

/// An option that nothing can be reached with.
pub(super) fn wrong(what: &str, problem: impl fmt::Display) -> Error {
    Error::Remote { server: what.to_owned(), fault: Fault::Options, problem: problem.to_string() }
}

/// A URL with its user and password hidden. Everything before the last `@` counts as them.
#[must_use]
pub fn without_login(url: &str) -> String {
    let Some((login, rest)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = login.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}***@{rest}")
}

fn url_of(endpoint: &str) -> Result<String, Error> {
    let refuse =
        |problem| Err(wrong(&format!("endpoint `{}`", without_login(endpoint).escape_debug()), problem));
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let scheme = match scheme {
        "http" | "etcd" => "http",
        "https" | "etcds" => "https",
        _ => return refuse("its scheme is neither `http` nor `https`"),
    };
    let place = rest.trim_end_matches('/');
    if place.contains(['/', '?', '#', '@', ' ']) || place.is_empty() {
        return refuse("expected `http://HOST:PORT` or `https://HOST:PORT`");
    }
    let after_host = place.rsplit_once(']').map_or(place, |(_, after)| after);
    let place = match after_host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => place.to_owned(),
        Some(_) => {
            return refuse("its port is no number from 1 to 65535; an IPv6 address stands in brackets");
        }
        // Clients of etcd are served at 2379.
        None => format!("{place}:2379"),
    };
    Ok(format!("{scheme}://{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_with_a_port() {
        let url = |text: &str| url_of(text).unwrap_or_else(|error| error.to_string());
        assert_eq!(url("http://127.0.0.1:2379"), "http://127.0.0.1:2379");
        assert_eq!(url("etcds://a.example:1/"), "https://a.example:1");
        assert_eq!(url("10.0.0.1"), "http://10.0.0.1:2379");
        assert_eq!(url("https://[fd00::1]"), "https://[fd00::1]:2379");
        assert_eq!(url("https://[fd00::1]:4001"), "https://[fd00::1]:4001");
        for bad in ["unix:///x", "http://", "http://a:0", "http://a:b", "http://a/b", "fd00::x"] {
            assert!(url(bad).contains(&format!("endpoint `{bad}`")), "{bad}: {}", url(bad));
        }
        for bad in ["http://u:secret@a", "u:secret@a:1", "etcd://u:secr@et/secret@a/b", "x://secret@a"] {
            assert!(url(bad).contains("***@a") && !url(bad).contains("secret"), "{bad}: {}", url(bad));
        }
    }

    #[test]
    fn a_password_is_read_without_its_line_end_and_never_shown() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("password");
        let _ = std::process::Command::new("sh")
            .args(["-c", "printf 'a b \\n' > \"$0\""])
            .arg(&path)
            .status()
            .expect("a shell");
        let mut options = EtcdOptions::at(vec!["x".into()]);
        options.password = Some(Password::File(path));
        assert!(options.login().expect_err("nobody to log in").to_string().contains("`username`"));
        options.username = Some("root".into());
        assert_eq!(options.login().expect("a password"), Some(("root".into(), "a b ".into())));
        options.password = Some(Password::Text("secret".into()));
        assert!(!format!("{options:?}").contains("secret"));
        options.password = Some(Password::File("/does/not/exist".into()));
        assert!(options.login().expect_err("no file").to_string().contains("/does/not/exist"));
    }
}
