//! Tests of what the parts do together, each module a subject.

mod datastore_contract;
