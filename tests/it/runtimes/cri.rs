//! As much of the Container Runtime Interface as a kubelet needs to start and stop a pod's sandbox: protocol buffers by
//! hand, over `curl`.

use std::fs;
use std::net::IpAddr;

use super::machine::Machine;

/// Calls a method of the runtime that listens on a socket.
///
/// # Errors
/// What the runtime says.
pub(super) fn call(machine: &Machine, socket: &str, method: &str, message: &[u8]) -> Result<Vec<u8>, String> {
    let length = u32::try_from(message.len()).expect("a short message");
    let framed = [&[0], &length.to_be_bytes()[..], message].concat();
    let headers = machine.path(&format!("headers-{:?}", std::thread::current().id()));
    let url = format!("http://localhost/runtime.v1.RuntimeService/{method}");
    let words = [
        "curl",
        "-sS",
        "--http2-prior-knowledge",
        "--max-time",
        "60",
        "--unix-socket",
        socket,
        "-H",
        "content-type: application/grpc",
        "-H",
        "te: trailers",
        "--data-binary",
        "@-",
        "-D",
        &headers,
        &url,
    ];
    let output = machine.feed(&words, &framed);
    let said = fs::read_to_string(&headers).unwrap_or_default();
    if said.lines().any(|line| line.trim() == "grpc-status: 0") {
        return Ok(output.stdout.get(5..).unwrap_or_default().to_vec());
    }
    let told = said.lines().find_map(|line| line.strip_prefix("grpc-message: "));
    Err(told.map_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned(), str::to_owned))
}

/// A pod's sandbox: its identity and annotations.
pub(super) fn sandbox(name: &str, uid: &str, annotations: &[(&str, &str)]) -> Vec<u8> {
    let metadata = [text(1, name), text(2, uid), text(3, "prod"), number(4, 0)].concat();
    let mut config = [bytes(1, &metadata), text(2, name), text(3, "/run/logs")].concat();
    for (key, value) in annotations {
        config.extend(bytes(7, &[text(1, key), text(2, value)].concat()));
    }
    config.extend(bytes(8, &text(1, &format!("/host-affine-test/{uid}"))));
    bytes(1, &config)
}

/// A message whose first field is a sandbox's ID: request and answer.
pub(super) fn id(id: &str) -> Vec<u8> {
    text(1, id)
}

/// The text of the first field.
pub(super) fn first(message: &[u8]) -> String {
    let field = fields(message).into_iter().find(|(number, _)| *number == 1);
    String::from_utf8(field.expect("a first field").1).expect("text")
}

/// The address in a sandbox's status.
pub(super) fn address(message: &[u8]) -> IpAddr {
    let field = |message: &[u8], wanted| {
        let found = fields(message).into_iter().find(|(number, _)| *number == wanted);
        found.expect("a status with an address").1
    };
    let network = field(&field(message, 1), 5);
    String::from_utf8(field(&network, 1)).expect("text").parse().expect("an address")
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 127 {
        out.push(u8::try_from(value & 127).expect("seven bits") | 128);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
    out
}

fn number(field: usize, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn text(field: usize, value: &str) -> Vec<u8> {
    bytes(field, value.as_bytes())
}

fn bytes(field: usize, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len()), value.to_vec()].concat()
}

/// The fields of a message that are texts and messages.
fn fields(message: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut rest = message;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = take_varint(&mut rest);
        let value = take_varint(&mut rest);
        if key & 7 == 2 {
            let (content, after) = rest.split_at(value);
            found.push((key >> 3, content.to_vec()));
            rest = after;
        }
    }
    found
}

fn take_varint(rest: &mut &[u8]) -> usize {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, after) = rest.split_first().expect("a whole message");
        *rest = after;
        value |= usize::from(byte & 127) << shift;
        if byte & 128 == 0 {
            break;
        }
    }
    value
}
