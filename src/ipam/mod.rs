//! The engine: which address goes to whom.

pub mod selector;
pub mod walk;
