//! What several tests need to set the scene.

pub(crate) mod cni;
pub(crate) mod disk;
pub(crate) mod etcd;
pub(crate) mod files;
pub(crate) mod filled;
pub(crate) mod fuzzed;
pub(crate) mod netns;
pub(crate) mod store;
pub(crate) mod strace;
pub(crate) mod tally;
