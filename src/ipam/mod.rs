//! The engine: which address goes to whom.

pub mod walk;
