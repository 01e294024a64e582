//! State in etcd v3, in the keys and words of Calico, so that both can run beside each other.

pub mod format;
