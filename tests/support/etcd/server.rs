//! One member of etcd, with a data directory of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Certificates;

/// Whether Debian's etcd-server, or another, is there.
pub(crate) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Starts of a member until its ports are free.
const STARTS_MAX: usize = 5;

/// How a member is started.
#[derive(Default)]
pub(crate) struct Start<'a> {
    /// It speaks TLS, and asks for a certificate.
    pub(crate) tls: Option<&'a Certificates>,
    /// More options.
    pub(crate) options: Vec<String>,
}

/// A member that runs until it is dropped.
pub(crate) struct Server {
    process: Child,
    address: String,
    scheme: &'static str,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts one that takes requests by when this returns.
    pub(crate) fn start() -> Self {
        Self::start_with(&Start::default())
    }

    /// Starts one. Another process may take a port between its choice and its use: then others are chosen.
    pub(crate) fn start_with(start: &Start<'_>) -> Self {
        let tries = (0..STARTS_MAX).map(|_| Self::try_start(start));
        let mut last = String::new();
        for outcome in tries {
            match outcome {
                Ok(server) => return server,
                Err(log) if log.contains("address already in use") => last = log,
                Err(log) => panic!("etcd did not start:\n{log}"),
            }
        }
        panic!("etcd found no free port in {STARTS_MAX} starts:\n{last}");
    }

    fn try_start(start: &Start<'_>) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a directory for etcd");
        let (address, peers) = (free_address(), free_address());
        let scheme = if start.tls.is_some() { "https" } else { "http" };
        let client_url = format!("{scheme}://{address}");
        let peer_url = format!("http://{peers}");
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}"), "--logger", "zap"])
            // Nobody cuts the power in a test, and flushing is most of what it would do.
            .args(["--unsafe-no-fsync"])
            .args(&start.options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(certificates) = start.tls {
            command
                .arg("--cert-file")
                .arg(certificates.path("server.pem"))
                .arg("--key-file")
                .arg(certificates.path("server.key"))
                .arg("--trusted-ca-file")
                .arg(certificates.path("ca.pem"))
                .arg("--client-cert-auth");
        }
        let process = try_await_ready(command.spawn().expect("etcd starts"))?;
        Ok(Self { process, address, scheme, _folder: folder })
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// A request of the test's own to the gateway.
    pub(crate) fn ask(&self, path: &str, request: &Value) -> Value {
        ask(&self.address, path, request)
    }

    /// Puts a value, as another program would.
    pub(crate) fn put(&self, key: &str, value: &str) {
        put(&self.address, key, value);
    }

    /// Puts many values, in few transactions.
    pub(crate) fn put_all(&self, all: &[(String, String)]) {
        for some in all.chunks(100) {
            let put = |(key, value): &(String, String)| json!({ "request_put": { "key": STANDARD.encode(key), "value": STANDARD.encode(value) } });
            self.ask("/v3/kv/txn", &json!({ "success": some.iter().map(put).collect::<Vec<_>>() }));
        }
    }

    /// As [`Server::put`], whatever comes of it.
    pub(crate) fn try_put(&self, key: &str, value: &str) -> bool {
        let request = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
        try_ask(&self.address, "/v3/kv/put", &request).0 == 200
    }

    /// Adds a role, as `root`, by which all who are logged in have to do so again.
    pub(crate) fn change_users_as_root(&self, password: &str) {
        let login = self.ask("/v3/auth/authenticate", &json!({ "name": "root", "password": password }));
        let token = login["token"].as_str().expect("a token");
        let role = json!({ "name": format!("role-{}", self.list_roles(token)) });
        let (status, answer) = try_ask_as(&self.address, "/v3/auth/role/add", &role, token);
        assert_eq!(status, 200, "{answer}");
    }

    fn list_roles(&self, token: &str) -> usize {
        let (_, answer) = try_ask_as(&self.address, "/v3/auth/role/list", &json!({}), token);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["roles"].as_array().map_or(0, Vec::len)
    }

    /// Everything below a prefix, as text.
    pub(crate) fn list(&self, prefix: &str) -> Vec<(String, String)> {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().expect("a prefix") += 1;
        let answer = self.ask(
            "/v3/kv/range",
            &json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) }),
        );
        let text = |value: &Value| {
            let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
            String::from_utf8(bytes).expect("text")
        };
        let kvs = answer["kvs"].as_array().cloned().unwrap_or_default();
        kvs.iter().map(|kv| (text(&kv["key"]), text(&kv["value"]))).collect()
    }

    /// Removes everything below a prefix.
    pub(crate) fn clear(&self, prefix: &str) {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().expect("a prefix") += 1;
        self.ask(
            "/v3/kv/deleterange",
            &json!({ "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) }),
        );
    }

    /// Stops it for good.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A member that takes requests by when this returns. Its standard error must be a pipe.
pub(super) fn await_ready(process: Child) -> Child {
    try_await_ready(process).unwrap_or_else(|log| panic!("etcd did not start:\n{log}"))
}

/// As [`await_ready`]; the error is its log.
fn try_await_ready(mut process: Child) -> Result<Child, String> {
    let mut log = BufReader::new(process.stderr.take().expect("its log"));
    let mut seen = String::new();
    let mut line = String::new();
    while log.read_line(&mut line).expect("the log of etcd") > 0 {
        seen.push_str(&line);
        if line.contains("serving client traffic") {
            // Somebody has to go on reading what it says.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok(process);
        }
        line.clear();
    }
    let _ = process.wait();
    Err(seen)
}

/// A request to the gateway at an address, which must be served.
pub(crate) fn ask(address: &str, path: &str, request: &Value) -> Value {
    let (status, answer) = try_ask(address, path, request);
    assert_eq!(status, 200, "{path} {request}: {answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// Puts a value through the gateway at an address.
pub(crate) fn put(address: &str, key: &str, value: &str) {
    ask(address, "/v3/kv/put", &json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) }));
}

/// A request to the gateway at an address: the status and the body of the answer.
pub(crate) fn try_ask(address: &str, path: &str, request: &Value) -> (u16, String) {
    try_ask_as(address, path, request, "")
}

fn try_ask_as(address: &str, path: &str, request: &Value, token: &str) -> (u16, String) {
    let body = request.to_string();
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    let mut stream = TcpStream::connect(address).expect("etcd takes a connection");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n{authorization}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("sent");
    let answer = std::io::read_to_string(stream).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (status, dechunked(body));
    }
    (status, body.to_owned())
}

/// An address on loopback that nobody listens at just now.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
