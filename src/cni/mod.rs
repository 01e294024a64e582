//! The CNI protocol: what a runtime says is parsed here, and what it is told is rendered here. The engine decides.
//!
//! Reading order: [`mod@env`] (the variables), [`json`] and [`config`] (standard input), [`args`] (`CNI_ARGS`), [`result`] and
//! [`failure`] (standard output), [`version`]; then [`plan`] (what the engine is asked for), [`refusal`] (how its errors
//! read) and [`run`], the only part that touches a store or a file.

pub mod args;
pub mod config;
pub mod env;
pub mod failure;
pub mod json;
mod machine;
pub mod plan;
pub mod refusal;
pub mod result;
pub mod run;
mod store;
mod suggest;
pub mod version;
