//! Passes connections from a host's own loopback on to a server on the loopback of the test.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A forwarded port. The listener belongs to the network namespace that created it; the threads do not.
#[derive(Debug)]
pub(super) struct Forward {
    address: String,
    stops: Arc<AtomicBool>,
}

impl Forward {
    /// Serves a listener until [`Forward::stopping`] and one more connection.
    pub(super) fn start(listener: TcpListener, upstream: String) -> Self {
        let address = listener.local_addr().expect("it is bound").to_string();
        let stops = Arc::new(AtomicBool::new(false));
        let is_over = stops.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let upstream = upstream.clone();
                thread::spawn(move || drop(pass(client, &upstream)));
            }
        });
        Self { address, stops }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Ends with the next connection to the address that is returned.
    pub(super) fn stopping(&self) -> &str {
        self.stops.store(true, Ordering::SeqCst);
        &self.address
    }
}

fn pass(client: TcpStream, upstream: &str) -> io::Result<()> {
    let server = TcpStream::connect(upstream)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let there = thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    let _ = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
    let _ = there.join();
    Ok(())
}
