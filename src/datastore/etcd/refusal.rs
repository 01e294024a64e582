//! What it means when etcd does not do something.

use super::wire::Refusal;
use crate::datastore::Fault;

/// What came of a request that was not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It was not done, and would not be by another member either.
    Failed(Fault, String),
    /// It was not done; another member may do it.
    NotDone(Fault, String),
    /// It may have been done, or be done yet.
    Lost(String),
    /// The same: the connection was cut.
    Cut(String),
    /// It was not done: the log-in is no longer good.
    LogInAgain,
}

/// gRPC's codes, as far as they decide something.
mod code {
    pub(super) const UNAUTHENTICATED: u32 = 16;
    pub(super) const PERMISSION_DENIED: u32 = 7;
    pub(super) const OUT_OF_RANGE: u32 = 11;
}

/// What an answer means that is not 200.
pub(super) fn meaning(status: u16, body: &[u8]) -> Meaning {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) if !refusal.text().is_empty() => of_etcd(refusal.text(), refusal.code),
        _ => of_another(status, &String::from_utf8_lossy(body)),
    }
}

/// Whether what was to be read as of a revision is there no more.
pub(super) fn is_compacted(problem: &str) -> bool {
    problem.contains("required revision has been compacted")
}

fn of_etcd(message: &str, code: u32) -> Meaning {
    let says = |part: &str| message.contains(part);
    let failed = |fault| Meaning::Failed(fault, message.to_owned());
    if code == code::UNAUTHENTICATED && says("invalid auth token") || says("revision of auth store is old") {
        return Meaning::LogInAgain;
    }
    if [code::UNAUTHENTICATED, code::PERMISSION_DENIED].contains(&code)
        || says("authentication failed")
        || says("user name is empty")
        || says("permission denied")
    {
        return failed(Fault::Denied);
    }
    if says("database space exceeded") {
        return failed(Fault::Full);
    }
    if says("request is too large") || says("too many operations") || says("larger than max") {
        return failed(Fault::TooLarge);
    }
    if says("authentication is not enabled") || code == code::OUT_OF_RANGE {
        return failed(Fault::Odd);
    }
    // Refused before it was proposed to the others.
    if says("too many requests") || says("no leader") || says("not capable") {
        return Meaning::NotDone(Fault::Unreachable, message.to_owned());
    }
    // Invalid, not found, already exists, unimplemented: our fault, or a version's that is unlike all others.
    if matches!(code, 3 | 5 | 6 | 12) {
        return failed(Fault::Odd);
    }
    if says("connection closed") || says("SubConn") || says("transport") {
        let own = "etcd's gateway cannot reach its own server; with `--client-cert-auth` the server's certificate must be \
                   good for clients too";
        return Meaning::Lost(format!("{message} ({own})"));
    }
    Meaning::Lost(message.to_owned())
}

/// An answer of something that is not etcd's API.
fn of_another(status: u16, body: &str) -> Meaning {
    let first = body.lines().next().unwrap_or_default();
    let said: String = first.chars().take(200).filter(|c| !c.is_control()).collect();
    let problem = format!("it answers {status}, {said:?}");
    if body.contains("HTTP request to an HTTPS server") {
        return Meaning::NotDone(Fault::Untrusted, "it wants `https`".to_owned());
    }
    match status {
        404 | 405 | 501 => Meaning::NotDone(Fault::NoGateway, problem),
        401 | 403 => Meaning::Failed(Fault::Denied, problem),
        413 => Meaning::Failed(Fault::TooLarge, problem),
        500.. => Meaning::Lost(problem),
        _ => Meaning::Failed(Fault::Odd, problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_surely_not_done_is_asked_of_another_member() {
        let of = |status, body: &str| meaning(status, body.as_bytes());
        let fault = |meaning| match meaning {
            Meaning::Failed(fault, _) | Meaning::NotDone(fault, _) => Some(fault),
            Meaning::Lost(_) | Meaning::Cut(_) | Meaning::LogInAgain => None,
        };
        let timed_out = of(503, r#"{"error":"etcdserver: request timed out","code":14}"#);
        assert_eq!(timed_out, Meaning::Lost("etcdserver: request timed out".into()));
        assert!(matches!(of(502, "<html>"), Meaning::Lost(_)));
        assert_eq!(of(401, r#"{"message":"etcdserver: invalid auth token","code":16}"#), Meaning::LogInAgain);
        let full = of(429, r#"{"error":"etcdserver: mvcc: database space exceeded","code":8}"#);
        assert_eq!(fault(full), Some(Fault::Full));
        let wrong =
            of(400, r#"{"error":"etcdserver: authentication failed, invalid user ID or password","code":3}"#);
        assert_eq!(fault(wrong), Some(Fault::Denied));
        assert!(matches!(of(404, "404 page not found\n"), Meaning::NotDone(Fault::NoGateway, _)));
        let plain = of(400, "Client sent an HTTP request to an HTTPS server.\n");
        assert_eq!(fault(plain), Some(Fault::Untrusted));
    }
}
