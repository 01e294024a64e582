//! From the engine's errors to CNI's: code, message, details.

use super::failure::{Code, Failure};
use crate::datastore::{self, Class, Fault};
use crate::ipam::{ChoiceError, Error, Ineligible, Limit};

/// The failure that tells of an engine's error.
#[must_use]
pub fn failure(error: &Error) -> Failure {
    let mut details = error.details();
    details.push(format!("hint: {}", error.hint()));
    Failure::new(code(error), message(error)).with_details(details.join("\n"))
}

/// The failure that tells of a datastore's error.
#[must_use]
pub fn store_failure(error: &datastore::Error) -> Failure {
    Failure::new(store_code(error), message(error)).with_details(format!("hint: {}", error.hint()))
}

/// An error and all that caused it, in one line.
fn message(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    message
}

/// Whether a pool serves nobody at all.
fn is_off(why: &Ineligible) -> bool {
    match why {
        Ineligible::Disabled | Ineligible::Deleting | Ineligible::NotAllocatable(_) => true,
        Ineligible::OtherNodes(_)
        | Ineligible::OtherNamespaces(_)
        | Ineligible::Manual
        | Ineligible::OtherUse
        | Ineligible::Narrow(_) => false,
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::NoUsablePool { refused, .. } if refused.is_empty() => Code::NoPool,
        // A pool that is enabled is what could serve, whatever its name sorts behind.
        Error::NoUsablePool { refused, .. } if refused.iter().all(|(.., why)| is_off(why)) => {
            Code::PoolDisabled
        }
        Error::NoUsablePool { .. } => Code::PoolNotSelected,
        Error::Exhausted { limit, .. } => match limit {
            None => Code::NoFreeAddress,
            Some(limit) => limit_code(*limit),
        },
        Error::NoNewBlock { limit, .. } => limit_code(*limit),
        Error::Choice(ChoiceError::Unknown { .. }) => Code::NoPool,
        Error::OutsidePools { .. } => Code::AddressOutsidePools,
        Error::Taken { .. }
        | Error::OnRecord { .. }
        | Error::Cooling { .. }
        | Error::HoldsAnother { .. }
        | Error::HandleFull { .. }
        | Error::CarvedOut { .. }
        | Error::GatewayTaken { .. } => Code::AddressTaken,
        Error::PersistenceDisabled { .. } | Error::MachineWithoutAddress { .. } => Code::NoMigration,
        Error::VmHandleTaken { .. } => Code::VmHandleTaken,
        Error::KeptBack { .. } => Code::AddressReserved,
        Error::StrictAffinity { .. } => Code::StrictAffinity,
        Error::PoolsOverlap { .. }
        | Error::PoolDiffers { .. }
        | Error::Choice(ChoiceError::Selector { .. }) => Code::PoolsConflict,
        Error::Contended { .. } => Code::TryAgainLater,
        Error::DamagedBlock { .. } => Code::StoreDamaged,
        Error::Name(_) => Code::InvalidConfig,
        Error::Datastore(error) => store_code(error),
    }
}

const fn limit_code(limit: Limit) -> Code {
    match limit {
        Limit::Strict => Code::StrictAffinity,
        Limit::MaxBlocks { .. } | Limit::AutoAllocateOff => Code::BlockLimit,
    }
}

fn store_code(error: &datastore::Error) -> Code {
    match (error.class(), error) {
        (Class::Retry, _) => Code::TryAgainLater,
        (_, datastore::Error::Remote { fault: Fault::Options, .. }) => Code::InvalidConfig,
        (_, datastore::Error::Damaged { .. }) => Code::StoreDamaged,
        _ => Code::Store,
    }
}
