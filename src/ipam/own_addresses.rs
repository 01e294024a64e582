//! What a host's own interfaces have, asked only where a block is claimed.

use std::net::IpAddr;

use crate::net::Cidr;

/// A source of the addresses that the host's own interfaces have.
pub trait OwnAddresses {
    /// Those inside a block. A source that cannot tell answers with none: the block's users would notice a clash,
    /// while refusing every container because one question failed helps nobody.
    fn within(&self, block: Cidr) -> Vec<IpAddr>;
}

/// A host without addresses of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOwnAddresses;

impl OwnAddresses for NoOwnAddresses {
    fn within(&self, _block: Cidr) -> Vec<IpAddr> {
        Vec::new()
    }
}
