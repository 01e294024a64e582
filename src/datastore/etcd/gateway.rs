//! Requests to etcd's JSON gateway: to whichever member answers, within the deadline.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;

use super::options::EtcdOptions;
use super::patience::Deadline;
use super::refusal::{Meaning, meaning};
use super::wire::{Grant, Granted, LoggedIn, Login, Number, TxnRequest, TxnResponse};
use super::{post, tls};
use crate::datastore::{Error, Fault};

/// How long to wait for a connection. A member that is gone often does not even refuse.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait for an answer where another member can be asked instead.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait where only this answer tells: longer than etcd tries, which is 7 s, so that it can say so.
const WRITE_TIMEOUT: Duration = Duration::from_secs(8);
/// How often all members are tried where none takes a connection.
const ROUNDS_MAX: u32 = 4;
/// The first pause after no member could be asked; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a request may reach etcd twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It changes nothing, or the same again.
    Repeatable,
    /// At most once.
    Once,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Gateway {
    agent: Agent,
    /// Without a path.
    urls: Vec<String>,
    /// Which of them is asked next.
    at: usize,
    login: Option<(String, String)>,
    token: Option<String>,
    /// Whether any request was served yet.
    has_answered: bool,
    deadline: Deadline,
}

/// A member that did not do it, and why.
struct Failure {
    url: String,
    fault: Fault,
    problem: String,
}

impl Gateway {
    /// Reads what the options name; connects to nobody yet.
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, Error> {
        let urls = options.urls()?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("host-affine/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT));
        if urls.iter().any(|url| url.starts_with("https:")) {
            config = config.tls_config(tls::config(options)?);
        }
        if urls.iter().any(|url| !post::is_address(url)) {
            config = config.timeout_resolve(Some(CONNECT_TIMEOUT));
        }
        let login = options.login()?;
        let deadline = Deadline::new(options.patience);
        Ok(Self {
            agent: config.build().new_agent(),
            urls,
            at: 0,
            login,
            token: None,
            has_answered: false,
            deadline,
        })
    }

    /// Asks this endpoint first, if it is one.
    pub(super) fn begin_with(&mut self, endpoint: &str) {
        self.at = self.urls.iter().position(|url| url == endpoint).unwrap_or(0);
    }

    /// The endpoint that is asked next: after an answer, the one that gave it.
    pub(super) fn endpoint(&self) -> &str {
        self.urls.get(self.at).map_or("", String::as_str)
    }

    /// Where the clock of a call is.
    pub(super) const fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// All endpoints, for messages.
    pub(super) fn servers(&self) -> String {
        self.urls.join(", ")
    }

    /// Runs a transaction. `None`: it was sent, at most once as was asked, and no answer came.
    pub(super) fn txn(
        &mut self,
        request: &TxnRequest,
        delivery: Delivery,
    ) -> Result<Option<TxnResponse>, Error> {
        self.deadline.next_request();
        self.ask("/v3/kv/txn", request, delivery)
    }

    /// A lease: keys that are put under it go when it ends, `ttl` seconds from now.
    pub(super) fn lease(&mut self, ttl: u64) -> Result<u64, Error> {
        let granted: Option<Granted> =
            self.ask("/v3/lease/grant", &Grant { ttl: Number(ttl) }, Delivery::Repeatable)?;
        Ok(granted.map_or(0, |granted| granted.id.0))
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        request: &impl Serialize,
        delivery: Delivery,
    ) -> Result<Option<T>, Error> {
        let body = serde_json::to_vec(request).expect("requests have text keys and no failing parts");
        let mut failures: Vec<Failure> = Vec::new();
        let mut renewed = false;
        loop {
            if self.login.is_some() && self.token.is_none() {
                self.log_in()?;
            }
            let url = self.endpoint().to_owned();
            let answer = match self.post(&url, path, &body, delivery) {
                Ok((200, bytes)) => match serde_json::from_slice(&bytes) {
                    Ok(answer) => {
                        self.has_answered = true;
                        return Ok(Some(answer));
                    }
                    Err(error) => Meaning::Failed(Fault::Odd, error.to_string()),
                },
                Ok((status, bytes)) => meaning(status, &bytes),
                Err(problem) => problem,
            };
            match answer {
                Meaning::Failed(fault, problem) => return Err(Error::Remote { server: url, fault, problem }),
                Meaning::LogInAgain if self.login.is_some() && !renewed => {
                    renewed = true;
                    self.token = None;
                    continue;
                }
                Meaning::LogInAgain => {
                    let problem = "it does not know our log-in any more".to_owned();
                    return Err(Error::Remote { server: url, fault: Fault::Denied, problem });
                }
                Meaning::Lost(problem) | Meaning::Cut(problem) if delivery == Delivery::Once => {
                    log::info!("etcd at {url} gave no answer: {problem}");
                    self.at = (self.at + 1) % self.urls.len();
                    return Ok(None);
                }
                // A server that does not like our certificate, or finds none, says so at most once, and to nobody who
                // is still writing.
                Meaning::Cut(problem) if !self.has_answered => {
                    self.at = (self.at + 1) % self.urls.len();
                    failures.push(if url.starts_with("https:") {
                        let problem = format!("it ends the connection ({problem})");
                        Failure { url, fault: Fault::Untrusted, problem }
                    } else {
                        let problem = format!("it ends the connection ({problem}); it may want `https`");
                        Failure { url, fault: Fault::Unreachable, problem }
                    });
                }
                Meaning::Lost(problem) | Meaning::Cut(problem) => {
                    log::info!("etcd at {url} gave no answer: {problem}");
                    self.at = (self.at + 1) % self.urls.len();
                    failures.push(Failure { url, fault: Fault::Unreachable, problem });
                }
                Meaning::NotDone(fault, problem) => {
                    log::info!("etcd at {url} could not be asked: {problem}");
                    self.at = (self.at + 1) % self.urls.len();
                    failures.push(Failure { url, fault, problem });
                }
            }
            self.go_on(&failures)?;
        }
    }

    /// Whether it makes sense to ask again; pauses before another round.
    fn go_on(&self, failures: &[Failure]) -> Result<(), Error> {
        let members = self.urls.len();
        if !failures.len().is_multiple_of(members) {
            return if self.deadline.left().is_zero() { Err(self.gave_up(failures)) } else { Ok(()) };
        }
        let rounds = u32::try_from(failures.len() / members).unwrap_or(u32::MAX);
        let last = failures.get(failures.len() - members..).unwrap_or_default();
        // Waiting does not mend certificates.
        let in_vain = last.iter().all(|failure| failure.fault != Fault::Unreachable);
        if in_vain || rounds >= ROUNDS_MAX || self.deadline.left().is_zero() {
            return Err(self.gave_up(last));
        }
        self.deadline.pause(PAUSE * (1 << rounds.min(4)));
        Ok(())
    }

    fn gave_up(&self, failures: &[Failure]) -> Error {
        let same = |fault: Fault| failures.iter().all(|failure| failure.fault == fault);
        let fault = failures.first().map(|failure| failure.fault).filter(|fault| same(*fault));
        let problem = match failures {
            [] => format!("there was no answer within {} s", self.deadline.whole().as_secs()),
            [one] => one.problem.clone(),
            several => {
                let each: Vec<_> =
                    several.iter().map(|failure| format!("{}: {}", failure.url, failure.problem)).collect();
                each.join("; ")
            }
        };
        Error::Remote { server: self.servers(), fault: fault.unwrap_or(Fault::Unreachable), problem }
    }

    fn post(
        &self,
        url: &str,
        path: &str,
        body: &[u8],
        delivery: Delivery,
    ) -> Result<(u16, Vec<u8>), Meaning> {
        let members = u32::try_from(self.urls.len()).unwrap_or(u32::MAX);
        let patience = match delivery {
            // So that there is time for the others.
            Delivery::Repeatable if members > 1 => READ_TIMEOUT.min(self.deadline.whole() / (members + 1)),
            _ => WRITE_TIMEOUT,
        };
        let left = self.deadline.left();
        if left.is_zero() {
            let problem = format!("there was no answer within {} s", self.deadline.whole().as_secs());
            return Err(Meaning::NotDone(Fault::Unreachable, problem));
        }
        post::post(&self.agent, &format!("{url}{path}"), self.token.as_deref(), body, patience.min(left))
    }

    fn log_in(&mut self) -> Result<(), Error> {
        let Some((name, password)) = &self.login else { return Ok(()) };
        let body = serde_json::to_vec(&Login { name, password }).expect("text");
        let mut failures = Vec::new();
        loop {
            let url = self.endpoint().to_owned();
            let failed = match self.post(&url, "/v3/auth/authenticate", &body, Delivery::Repeatable) {
                Ok((200, bytes)) => match serde_json::from_slice::<LoggedIn>(&bytes) {
                    Ok(answer) => {
                        self.token = Some(answer.token);
                        return Ok(());
                    }
                    Err(error) => Meaning::Failed(Fault::Odd, error.to_string()),
                },
                Ok((status, bytes)) => meaning(status, &bytes),
                Err(problem) => problem,
            };
            match failed {
                // Who names a user may name one before etcd asks for any.
                Meaning::Failed(_, problem) if problem.contains("authentication is not enabled") => {
                    self.login = None;
                    return Ok(());
                }
                Meaning::Failed(fault, problem) => {
                    let problem = format!("user `{}` cannot log in: {problem}", name.escape_debug());
                    return Err(Error::Remote { server: url, fault, problem });
                }
                Meaning::LogInAgain => failures.push(Failure {
                    url,
                    fault: Fault::Unreachable,
                    problem: "its users were changed just now".to_owned(),
                }),
                Meaning::Lost(problem) | Meaning::Cut(problem) => {
                    failures.push(Failure { url, fault: Fault::Unreachable, problem });
                }
                Meaning::NotDone(fault, problem) => failures.push(Failure { url, fault, problem }),
            }
            self.at = (self.at + 1) % self.urls.len();
            self.go_on(&failures)?;
        }
    }
}
