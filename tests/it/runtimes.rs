//! Those who will really call it: runtimes as they are packaged, each in a machine of its own.

mod cnitool;
mod containerd;
mod cri;
mod image;
mod kept;
mod machine;
mod podman;
mod pods;
mod reboot;
