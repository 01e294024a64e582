//! The CNI protocol: what a runtime says is parsed here, and what it is told is rendered here. The engine decides.
//!
//! Reading order: [`env`] (the variables), [`json`] and [`config`] (standard input), [`args`] (`CNI_ARGS`), [`result`] and
//! [`failure`] (standard output), [`version`].
//!
//! Nothing here touches a file, a clock or the environment: each part turns text into values or values into text.

pub mod args;
pub mod config;
pub mod env;
pub mod failure;
pub mod json;
pub mod result;
mod suggest;
pub mod version;
