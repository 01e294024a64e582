//! The store that a network's configuration names, opened for one call.

use std::path::PathBuf;
use std::time::Duration;

use super::config::{DatastoreConf, Durability as ConfDurability, FileConf, NetConf};
use super::env::Call;
use super::failure::{Code, Failure};
use super::refusal::store_failure;
use crate::datastore::etcd::{CALL_PATIENCE, EtcdOptions, Patience};
use crate::datastore::file::{Access, Durability, IfAbsent, Options};
use crate::store::{Place, Store};

/// By whose lock processes of this host take turns where the configuration does not say: Calico's plugin goes by it too.
const TURN_FILE: &str = "/var/run/calico/ipam.lock";
/// Where a host's last blocks, and who answered last, are remembered; gone with a boot, as it should be.
const MEMORY: &str = "/run/host-affine/last";

/// Opens it. `None`: there is none, and it was not to be made. The clock of the call starts when its turn has come.
pub(super) fn open(
    conf: &NetConf,
    call: &Call,
    access: Access,
    if_absent: IfAbsent,
    lock_timeout: Duration,
    patience: Duration,
) -> Result<Option<Store>, Failure> {
    let place = match &conf.datastore {
        DatastoreConf::File(file) => Place::File(Box::new(file_options(file, call, lock_timeout))),
        DatastoreConf::Etcd(etcd) => {
            let lock_file = conf.lock_file.clone().unwrap_or_else(|| PathBuf::from(TURN_FILE));
            Place::Etcd(Box::new(EtcdOptions {
                patience: Patience::Call(patience),
                lock_file: (access == Access::Change).then_some(lock_file),
                lock_timeout,
                memory: Some(MEMORY.into()),
                ..EtcdOptions::from(etcd)
            }))
        }
        DatastoreConf::Kubernetes(_) => {
            let msg = "network config: `ipam.datastore.type` is `kubernetes`, which this version does not serve yet";
            return Err(
                Failure::new(Code::UnsupportedField, msg).with_details("hint: use `file` or `etcdv3`")
            );
        }
    };
    Store::open(&place, access, if_absent).map_err(|error| store_failure(&error))
}

/// How long a call may take where the store is not this machine's.
pub(super) const PATIENCE: Duration = CALL_PATIENCE;

fn file_options(file: &FileConf, call: &Call, lock_timeout: Duration) -> Options {
    let container = if call.container_id.is_empty() { "" } else { ", container " };
    Options {
        path: file.path.clone(),
        durability: match file.durability {
            ConfDurability::Power => Durability::Power,
            ConfDurability::Process => Durability::Process,
        },
        allow_network_file_system: file.allow_network_filesystem,
        lock_timeout,
        operation: format!("process {} ({}{container}{})", std::process::id(), call.verb, call.container_id),
    }
}
