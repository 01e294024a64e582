//! Carving CIDRs out of a pool: where one fits, what is in the way, and how much is left. Pure.
//!
//! Work grows with what was carved out already, never with addresses or slots.

mod capacity;
mod exhausted;
mod extent;
mod placement;

pub use capacity::{capacity, slots};
pub use exhausted::{Exhausted, InTheWay};
pub use extent::{Carver, Clash, Extent, Extents};
pub use placement::place;

#[cfg(test)]
mod tests;
