//! One HTTP request to one server.

use std::io;
use std::time::Duration;

use ureq::{Agent, Error, Timeout};

use super::refusal::Meaning;
use crate::datastore::Fault;

/// The largest answer that is read, in bytes. What may be long is asked for in pages.
const ANSWER_MAX: u64 = 1 << 30;

/// Sends a request once. The answer: its status and body.
pub(super) fn post(
    agent: &Agent,
    url: &str,
    token: Option<&str>,
    body: &[u8],
    patience: Duration,
) -> Result<(u16, Vec<u8>), Meaning> {
    let mut request = agent.post(url).content_type("application/json");
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let request = request
        .config()
        .timeout_send_request(Some(patience))
        .timeout_send_body(Some(patience))
        .timeout_recv_response(Some(patience))
        .timeout_recv_body(Some(patience))
        .build();
    let mut response = request.send(body).map_err(|error| failed(&error, patience))?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
    match body {
        Ok(body) => Ok((status, body)),
        Err(error) => Err(Meaning::Lost(describe(&error, patience))),
    }
}

/// Whether a URL names an address, for which nobody needs to be asked.
pub(super) fn is_address(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.parse::<std::net::SocketAddr>().is_ok()
}

fn failed(error: &Error, patience: Duration) -> Meaning {
    let problem = describe(error, patience);
    if let Some(tls) = tls_error(error) {
        // The server's certificate is looked at before anything is sent; and a server that does not like ours reads
        // nothing of what was.
        return match tls {
            rustls::Error::PeerMisbehaved(_) | rustls::Error::DecryptError => Meaning::Lost(problem),
            _ => Meaning::NotDone(Fault::Untrusted, problem),
        };
    }
    match error {
        Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | Error::HostNotFound
        | Error::ConnectionFailed => Meaning::NotDone(Fault::Unreachable, problem),
        Error::Io(io) if is_of_connecting(io) => Meaning::NotDone(Fault::Unreachable, problem),
        Error::Rustls(_) | Error::Tls(_) | Error::Pem(_) => Meaning::NotDone(Fault::Untrusted, problem),
        Error::Http(_) | Error::BadUri(_) => Meaning::NotDone(Fault::Options, problem),
        Error::Io(io) if is_cut(io) => Meaning::Cut(problem),
        _ => Meaning::Lost(problem),
    }
}

/// Whether the other side ended the connection.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
    )
}

/// Whether no connection came about.
fn is_of_connecting(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::AddrNotAvailable
    ) || error.to_string().starts_with("failed to lookup address")
}

fn tls_error(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::Rustls(error) => Some(error),
        Error::Io(io) => io.get_ref()?.downcast_ref(),
        _ => None,
    }
}

fn describe(error: &Error, patience: Duration) -> String {
    match error {
        Error::Timeout(Timeout::Connect) => "it takes no connection".to_owned(),
        Error::Timeout(Timeout::Resolve) => "its name could not be looked up in time".to_owned(),
        Error::Timeout(_) => format!("it did not answer within {} s", patience.as_secs_f32().ceil()),
        Error::HostNotFound => "its name has no address".to_owned(),
        Error::Io(io) => io.to_string(),
        Error::Rustls(tls) => tls.to_string(),
        error => error.to_string(),
    }
}
