use super::own::{Carved, Import, Machine, MachinesOf};
use super::{Key, Revision};
use crate::api::{calico, milo};

/// A stored object, as others write it too.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// Global options.
    Configuration(Box<calico::IpamConfiguration>),
    /// A pool.
    Pool(Box<calico::IpPool>),
    /// A reservation.
    Reservation(Box<calico::IpReservation>),
    /// A node.
    Node(Box<calico::Node>),
    /// A block.
    Block(Box<calico::IpamBlock>),
    /// A block affinity.
    Affinity(calico::BlockAffinity),
    /// A handle.
    Handle(calico::IpamHandle),
    /// A import.
    Import(Import),
    /// A network carved out of a pool.
    Carved(Carved),
    /// What only `ipam.miloapis.com` knows of a pool.
    PoolExtras(Box<milo::PoolExtras>),
    /// An allocation that people made.
    Allocation(Box<milo::IpAllocation>),
    /// A claim.
    Claim(Box<milo::IpClaim>),
    /// A virtual machine.
    Machine(Machine),
    /// The machines of a container.
    MachinesOf(MachinesOf),
}

/// An object, where it stands, and its revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it stands.
    pub key: Key,
    /// Which state of it this is.
    pub revision: Revision,
    /// The object.
    pub object: Object,
}

impl Entry {
    /// The object as the type that belongs to its key.
    ///
    /// # Panics
    /// When the object is of another type: a datastore's own fault.
    #[must_use]
    pub fn into<T: Stored>(self) -> T {
        let key = self.key;
        T::from_object(self.object)
            .unwrap_or_else(|| panic!("the datastore has another kind of object at {key}"))
    }
}

/// A type that is stored.
pub trait Stored: Sized {
    /// Takes it out of an object of its kind.
    fn from_object(object: Object) -> Option<Self>;
}

macro_rules! stored {
    ($type:ty, $variant:ident, $wrap:expr, $unwrap:expr) => {
        impl Stored for $type {
            fn from_object(object: Object) -> Option<Self> {
                match object {
                    Object::$variant(value) => Some($unwrap(value)),
                    _ => None,
                }
            }
        }

        impl From<$type> for Object {
            fn from(value: $type) -> Self {
                Object::$variant($wrap(value))
            }
        }
    };
}

#[expect(clippy::boxed_local, reason = "it is what takes the value out of its box")]
fn unbox<T>(value: Box<T>) -> T {
    *value
}

stored!(calico::IpamConfiguration, Configuration, Box::new, unbox);
stored!(calico::IpPool, Pool, Box::new, unbox);
stored!(calico::IpReservation, Reservation, Box::new, unbox);
stored!(calico::Node, Node, Box::new, unbox);
stored!(calico::IpamBlock, Block, Box::new, unbox);
stored!(calico::BlockAffinity, Affinity, std::convert::identity, std::convert::identity);
stored!(calico::IpamHandle, Handle, std::convert::identity, std::convert::identity);
stored!(Import, Import, std::convert::identity, std::convert::identity);
stored!(Carved, Carved, std::convert::identity, std::convert::identity);
stored!(milo::PoolExtras, PoolExtras, Box::new, unbox);
stored!(milo::IpAllocation, Allocation, Box::new, unbox);
stored!(milo::IpClaim, Claim, Box::new, unbox);
stored!(Machine, Machine, std::convert::identity, std::convert::identity);
stored!(MachinesOf, MachinesOf, std::convert::identity, std::convert::identity);

/// What every call needs, whoever makes it. Few and small objects, so that a store may keep them together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Global options, if any were ever written.
    pub configuration: Option<(Revision, calico::IpamConfiguration)>,
    /// All pools, by name.
    pub pools: Vec<(Revision, calico::IpPool)>,
    /// All reservations, by name.
    pub reservations: Vec<(Revision, calico::IpReservation)>,
    /// All imports, by network.
    pub imports: Vec<(Revision, Import)>,
    /// No block may start with a lower sequence number: one more than the highest that a deleted block ever had.
    /// 0: no block was ever deleted. It keeps a block that is made anew under a clock that was set back from repeating
    /// a number.
    pub sequence_floor: u64,
}
