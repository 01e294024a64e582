//! A proxy before a server: it knows each HTTP request that passes, and can keep answers back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is served.
    Serve,
    /// It is served, and the answer never comes: the connection ends instead.
    DropAnswer,
    /// It is not even passed on, and the connection ends.
    DropRequest,
    /// The connection ends, and it is passed on when the test says so.
    Keep,
}

/// A request that passed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) body: String,
}

impl Passed {
    /// Whether it is a batch: a condition, and changes.
    pub(crate) fn is_commit(&self) -> bool {
        self.body.contains("\"compare\"") && self.writes()
    }

    /// Whether it would change something.
    pub(crate) fn writes(&self) -> bool {
        ["request_put", "request_delete_range"].iter().any(|word| self.body.contains(word))
    }
}

type Decide = dyn FnMut(&Passed) -> Fate + Send;

struct Inner {
    decide: Box<Decide>,
    passed: Vec<Passed>,
    kept: Vec<Vec<u8>>,
}

/// A proxy that listens until the test ends.
pub(crate) struct Proxy {
    address: String,
    server: String,
    inner: Arc<Mutex<Inner>>,
}

impl Proxy {
    /// Passes everything on to a server.
    pub(crate) fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let inner = Inner { decide: Box::new(|_| Fate::Serve), passed: Vec::new(), kept: Vec::new() };
        let inner = Arc::new(Mutex::new(inner));
        let (shared, server_of_thread) = (inner.clone(), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (shared, server) = (shared.clone(), server_of_thread.clone());
                std::thread::spawn(move || serve(client, &server, &shared));
            }
        });
        Self { address, server: server.to_owned(), inner }
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, requests fare like this.
    pub(crate) fn decide(&self, decide: impl FnMut(&Passed) -> Fate + Send + 'static) {
        self.inner.lock().expect("nobody panics with it").decide = Box::new(decide);
    }

    /// Passes on what was kept, and waits until it was served. How many requests that were.
    pub(crate) fn pass_on(&self) -> usize {
        let kept = std::mem::take(&mut self.inner.lock().expect("nobody panics with it").kept);
        for request in &kept {
            let mut server = TcpStream::connect(&self.server).expect("the server takes a connection");
            server.write_all(request).expect("sent");
            assert!(message(&mut BufReader::new(server)).is_some(), "no answer");
        }
        kept.len()
    }

    /// The requests since this was asked last.
    pub(crate) fn passed(&self) -> Vec<Passed> {
        std::mem::take(&mut self.inner.lock().expect("nobody panics with it").passed)
    }
}

fn serve(client: TcpStream, server: &str, shared: &Mutex<Inner>) {
    let mut from_client = BufReader::new(client.try_clone().expect("a copy"));
    let mut to_client = client;
    let Ok(mut to_server) = TcpStream::connect(server) else { return };
    let mut from_server = BufReader::new(to_server.try_clone().expect("a copy"));
    while let Some((head, body)) = message(&mut from_client) {
        let passed = Passed { body: String::from_utf8_lossy(&body).into_owned() };
        let fate = {
            let whole = [head.as_bytes(), &body].concat();
            let mut inner = shared.lock().expect("nobody panics with it");
            let fate = (inner.decide)(&passed);
            inner.passed.push(passed);
            if fate == Fate::Keep {
                inner.kept.push(whole);
            }
            fate
        };
        if matches!(fate, Fate::DropRequest | Fate::Keep) {
            break;
        }
        if to_server.write_all(head.as_bytes()).and_then(|()| to_server.write_all(&body)).is_err() {
            break;
        }
        let Some((head, body)) = message(&mut from_server) else { break };
        if fate == Fate::DropAnswer {
            break;
        }
        if to_client.write_all(head.as_bytes()).and_then(|()| to_client.write_all(&body)).is_err() {
            break;
        }
    }
    let _ = to_client.shutdown(Shutdown::Both);
}

/// The head of a message, with its empty line, and its body, as they came.
fn message(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = field("content-length").and_then(|length| length.parse().ok()) {
        body.resize(length, 0);
        stream.read_exact(&mut body).ok()?;
    } else if field("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        loop {
            let from = body.len();
            stream.read_until(b'\n', &mut body).ok()?;
            let size = std::str::from_utf8(body.get(from..)?).ok()?.trim();
            let size = usize::from_str_radix(size, 16).ok()?;
            if size == 0 {
                // Trailers, up to the empty line.
                while !body.ends_with(b"\r\n\r\n") {
                    stream.read_until(b'\n', &mut body).ok().filter(|read| *read > 0)?;
                }
                break;
            }
            let from = body.len();
            body.resize(from + size + 2, 0);
            stream.read_exact(body.get_mut(from..)?).ok()?;
        }
    }
    Some((head, body))
}
