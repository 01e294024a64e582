use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;

use ::rtnetlink::Handle;
use ::rtnetlink::packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use ::rtnetlink::packet_route::RouteNetlinkMessage;
use ::rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use ::rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use futures_util::{StreamExt, TryStreamExt};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::Mode;

use super::{Answer, Error, Links, Question, namespaces};

/// The longest name of an interface, in bytes: the kernel's `IFNAMSIZ` less the closing zero.
const IFNAME_MAX: usize = 15;

/// Asks the kernel over a netlink socket. Holds nothing: thread, runtime and socket live for one question.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtnetlink;

impl Links for Rtnetlink {
    fn addresses_of(&self, netns: &Path, ifname: &str) -> Result<Answer, Error> {
        let answer = in_own_thread(|| {
            if let Err(reason) = enter(netns) {
                return if is_no_namespace(reason) {
                    Ok(Answer::NoNamespace { reason })
                } else {
                    Err(Failure::Unasked(reason.into()))
                };
            }
            ask(async |handle: Handle| {
                Ok(match index_of(&handle, ifname).await? {
                    Some(index) => Answer::Addresses(addresses(&handle, Some(index)).await?),
                    None => Answer::NoInterface,
                })
            })
        });
        answer.map_err(|failure| {
            failure.to(Question::Interface { netns: netns.to_owned(), ifname: ifname.to_owned() })
        })
    }

    fn host_addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let all = in_own_thread(|| ask(async |handle: Handle| addresses(&handle, None).await))
            .map_err(|failure| failure.to(Question::Host))?;
        let mut addresses: Vec<IpAddr> = all
            .into_iter()
            .map(|(address, _)| address)
            .filter(|&address| !is_on_every_host(address))
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }

    fn addresses_everywhere(&self) -> Result<BTreeSet<IpAddr>, Error> {
        let everywhere = |path: PathBuf| Question::Everywhere { path };
        let namespaces = namespaces::all()
            .map_err(|(path, source)| Error::Unasked { question: everywhere(path), source })?;
        let mut found = BTreeSet::new();
        for paths in namespaces {
            let Some(file) = namespaces::open(&paths)
                .map_err(|(path, source)| Error::Unasked { question: everywhere(path), source })?
            else {
                continue;
            };
            let addresses = in_own_thread(|| match setns(&file, CloneFlags::CLONE_NEWNET) {
                // A file under `/run/netns` that no namespace is mounted on any more.
                Err(Errno::EINVAL) => Ok(Vec::new()),
                Err(reason) => Err(Failure::Unasked(reason.into())),
                Ok(()) => ask(async |handle: Handle| addresses(&handle, None).await),
            });
            let addresses = addresses
                .map_err(|failure| failure.to(everywhere(paths.first().cloned().unwrap_or_default())))?;
            found.extend(addresses.into_iter().map(|(address, _)| address));
        }
        Ok(found)
    }
}

/// [`Error`], before it knows the question.
enum Failure {
    Unasked(io::Error),
    Unanswered(io::Error),
}

impl Failure {
    fn to(self, question: Question) -> Error {
        match self {
            Failure::Unasked(source) => Error::Unasked { question, source },
            Failure::Unanswered(source) => Error::Unanswered { question, source },
        }
    }
}

/// Runs `work` in a thread that ends with it. A namespace is entered by a thread, not by the process, and a thread
/// that does not come back need not leave it; and a runtime may not be started in a thread that has one.
fn in_own_thread<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netlink".to_owned());
        let running = thread.spawn_scoped(scope, work).map_err(Failure::Unasked)?;
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves the calling thread into a network namespace.
fn enter(netns: &Path) -> Result<(), Errno> {
    // Where the path leads to a pipe without a writer, opening it must not wait for one.
    let file = open(netns, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK, Mode::empty())?;
    setns(file, CloneFlags::CLONE_NEWNET)
}

/// Whether the reason lies in the path: nothing is there, or no network namespace, or none that we may enter.
fn is_no_namespace(reason: Errno) -> bool {
    matches!(
        reason,
        Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::ENXIO
            | Errno::ENODEV
            | Errno::ESRCH
            | Errno::EINVAL
            | Errno::EPERM
            | Errno::EACCES
    )
}

/// Puts a question to the kernel, in the namespace that the calling thread is in.
fn ask<T>(question: impl AsyncFnOnce(Handle) -> io::Result<T>) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Unasked)?;
    runtime.block_on(async {
        let (connection, handle, _) = ::rtnetlink::new_connection().map_err(Failure::Unasked)?;
        tokio::spawn(connection);
        question(handle).await.map_err(Failure::Unanswered)
    })
}

/// The number of the interface with a name. `None` when there is none.
async fn index_of(handle: &Handle, ifname: &str) -> io::Result<Option<u32>> {
    // The kernel answers a name that is none with another error than a name that nothing has.
    if ifname.is_empty() || ifname.len() > IFNAME_MAX {
        return Ok(None);
    }
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(ifname.to_owned()));
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    // The acknowledgement ends the replies also where the reply itself is one the library cannot read and drops:
    // without, this would wait for ever.
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut handle = handle.clone();
    let mut replies = Box::pin(handle.request(request).map_err(into_io)?);
    let Some(reply) = replies.next().await else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the description of the interface is not readable",
        ));
    };
    match reply.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(link.header.index)),
        NetlinkPayload::Error(error) => match error.to_io() {
            error if error.raw_os_error().map(Errno::from_raw) == Some(Errno::ENODEV) => Ok(None),
            error => Err(error),
        },
        other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected a link, found {other:?}"))),
    }
}

/// The addresses of one interface, or of all.
async fn addresses(handle: &Handle, index: Option<u32>) -> io::Result<Vec<(IpAddr, u8)>> {
    let mut request = handle.address().get();
    if let Some(index) = index {
        request = request.set_link_index_filter(index);
    }
    let mut messages = Box::pin(request.execute());
    let mut addresses = Vec::new();
    while let Some(message) = messages.try_next().await.map_err(into_io)? {
        addresses.extend(own_address(&message));
    }
    Ok(addresses)
}

/// The address of this end and its prefix length.
///
/// On a point-to-point link `IFA_ADDRESS` is the other end's and `IFA_LOCAL` ours; IPv6 mostly has the former only.
fn own_address(message: &AddressMessage) -> Option<(IpAddr, u8)> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = || {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    };
    Some((local.or_else(address)?, message.header.prefix_len))
}

fn is_on_every_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
    }
}

fn into_io(error: ::rtnetlink::Error) -> io::Error {
    match error {
        ::rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests;
