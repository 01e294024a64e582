//! An authority, a server's certificate and a client's, made anew for a test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// For a server under `localhost` and 127.0.0.1. `None`: there is no `openssl`.
    pub(crate) fn make() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a directory for certificates");
        let made = Self { folder };
        for authority in ["ca", "other-ca"] {
            made.openssl(&[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                &format!("/CN={authority}"),
                "-keyout",
                &format!("{authority}.key"),
                "-out",
                &format!("{authority}.pem"),
            ])?;
        }
        // The gateway is a client of its own server.
        made.leaf("server", "ca", "serverAuth,clientAuth");
        made.leaf("client", "ca", "clientAuth");
        made.leaf("stranger", "other-ca", "clientAuth");
        Some(made)
    }

    /// A file of it: `ca.pem`, `server.pem`, `server.key`, `client.pem`, …
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn leaf(&self, name: &str, authority: &str, usage: &str) {
        let extensions = format!("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={usage}\n");
        std::fs::write(self.path("extensions"), extensions).expect("a file");
        let all = [
            vec!["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj"],
            vec!["x509", "-req", "-days", "2", "-CAcreateserial", "-extfile", "extensions", "-CA"],
        ];
        let named = |suffix: &str| format!("{name}.{suffix}");
        let (subject, key, request, pem) = (format!("/CN={name}"), named("key"), named("csr"), named("pem"));
        let (ca, ca_key) = (format!("{authority}.pem"), format!("{authority}.key"));
        let first = [subject.as_str(), "-keyout", &key, "-out", &request];
        let second = [ca.as_str(), "-CAkey", &ca_key, "-in", &request, "-out", &pem];
        for (start, rest) in all.iter().zip([&first[..], &second[..]]) {
            let arguments: Vec<&str> = start.iter().copied().chain(rest.iter().copied()).collect();
            self.openssl(&arguments).expect("openssl was there before");
        }
    }

    fn openssl(&self, arguments: &[&str]) -> Option<()> {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(self.folder()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = command.output().ok()?;
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(())
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}
