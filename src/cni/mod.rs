//! The CNI protocol: what a runtime says is parsed here, and what it is told is rendered here. The engine decides.

pub mod json;
