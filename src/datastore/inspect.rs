//! Looking through a whole store, whatever is damaged in it: what people's commands need and no runtime's call does.

use super::{Answer, Datastore, Entry, Error, Key, Want};
use crate::api::calico::IpamBlock;
use crate::net::{Cidr, Family};

/// How many blocks are asked for at once.
const CHUNK: usize = 64;

/// A block that is come by.
#[derive(Debug)]
pub struct Visit {
    /// Its range.
    pub cidr: Cidr,
    /// How many blocks there are in all.
    pub total: usize,
    /// The block, or why it cannot be read.
    pub block: Result<IpamBlock, Error>,
}

/// The records of affinities.
#[derive(Debug, Default)]
pub struct Affinities {
    /// Those that can be read, in the order of their keys.
    pub records: Vec<Entry>,
    /// Of the others, which blocks they are about, and why they cannot be read.
    pub damaged: Vec<(Cidr, Error)>,
}

/// Something that is derived from objects and does not agree with them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Derived {
    /// An owner's address would not be found by its handle: the way from it to its block is missing.
    #[error("block {block} has addresses of handle `{}`, which the index does not lead to it: a DEL would not find them", .handle.escape_debug())]
    LostHandle {
        /// The handle.
        handle: String,
        /// Its block.
        block: Cidr,
    },
    /// A way leads from a handle to a block in which it has nothing.
    #[error("the index leads a handle (hash {hash}) to block {block}, which has no address of it")]
    StrayHandle {
        /// The handle's hash: all that is known of it.
        hash: String,
        /// The block.
        block: Cidr,
    },
    /// Nothing keeps the allocator of others who share the store off a network that is carved out for people.
    #[error("carved network {carved} has no IPReservation of its own that keeps Calico's allocator off it")]
    Unshielded {
        /// The network.
        carved: Cidr,
    },
    /// Others who share the store are kept off a network that nobody has carved out any more.
    #[error("IPReservation `{}` is left of a carved network that is gone", .name.escape_debug())]
    StrayShield {
        /// The reservation.
        name: String,
    },
    /// A file as a whole is missing, or is not the one that belongs to the rest. Nobody believes it; it is made anew.
    #[error("the file `{file}` is missing or altered; it is derived, and not used")]
    Unusable {
        /// The file.
        file: String,
    },
}

/// Where the value of an option comes from, in a store that has several places for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionOrigin {
    /// The option, as `IPAMConfiguration` calls it.
    pub option: &'static str,
    /// The place that counts.
    pub place: &'static str,
    /// What another place says, or how other programs that share the store read it, where that is not the same.
    pub note: Option<String>,
}

/// A store that can be looked through although some of it is damaged.
pub trait Inspect: Datastore {
    /// Visits every block, in the order of their ranges, and keeps none. What was changed meanwhile is seen as it was
    /// at some moment in between.
    fn each_block(&mut self, visit: &mut dyn FnMut(Visit)) -> impl Future<Output = Result<(), Error>> {
        async move {
            let everything =
                Family::BOTH.into_iter().filter_map(|family| Cidr::containing(family.address(0), 0));
            let wants: Vec<_> = everything.map(Want::BlockCidrs).collect();
            let cidrs: Vec<_> = self.read(&wants).await?.into_iter().flat_map(Answer::cidrs).collect();
            for chunk in cidrs.chunks(CHUNK) {
                let wants: Vec<_> = chunk.iter().map(|cidr| Want::Object(Key::Block(*cidr))).collect();
                let answers = self.read(&wants).await?.into_iter().map(Answer::object);
                for (cidr, entry) in chunk.iter().zip(answers) {
                    if let Some(entry) = entry {
                        visit(Visit { cidr: *cidr, total: cidrs.len(), block: Ok(entry.into()) });
                    }
                }
            }
            Ok(())
        }
    }

    /// All records of affinities.
    fn all_affinities(&mut self) -> impl Future<Output = Result<Affinities, Error>> {
        async move {
            let answer = self.read(&[Want::AllAffinities]).await?.pop();
            Ok(Affinities { records: answer.map(Answer::objects).unwrap_or_default(), damaged: Vec::new() })
        }
    }

    /// From now on lists pass over what cannot be read, instead of failing as a whole: for whoever only looks. Who decides
    /// by a list must know all of it.
    fn pass_over_damage(&mut self) {}

    /// What lists passed over so far, and why.
    fn passed_over(&mut self) -> Vec<Error> {
        Vec::new()
    }

    /// Why objects cannot be read of which the rest has a copy, or which nobody lists: an error for each. Blocks and
    /// affinities are not among them.
    fn unreadable(&mut self) -> impl Future<Output = Result<Vec<Error>, Error>> {
        std::future::ready(Ok(Vec::new()))
    }

    /// Whether handles are counted in the blocks, so that they cannot say anything else.
    fn counts_handles(&self) -> bool {
        false
    }

    /// What is derived from objects and does not agree with them. A store that derives nothing finds nothing.
    fn derived(&mut self) -> impl Future<Output = Result<Vec<Derived>, Error>> {
        std::future::ready(Ok(Vec::new()))
    }

    /// Where the options come from. A store that has one place for them has nothing to tell.
    fn option_origins(&mut self) -> impl Future<Output = Result<Vec<OptionOrigin>, Error>> {
        std::future::ready(Ok(Vec::new()))
    }

    /// Makes anew whatever is derived. The answer: what was made, or taken away to be made, a line each.
    fn rebuild(&mut self) -> impl Future<Output = Result<Vec<String>, Error>> {
        std::future::ready(Ok(Vec::new()))
    }
}
