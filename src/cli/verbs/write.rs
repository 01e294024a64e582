//! What `apply`, `create`, `replace` and `patch` share: from a resource to what is stored, and from outcomes to answers.

use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::kinds::{self, Kind};
use super::super::render::{self, Format, printable};
use super::super::store::Store;
use super::super::{Answer, Context, Outcome};
use crate::api::calico;
use crate::api::validate::normalise_reserved_cidrs;
use crate::datastore::{Datastore as _, Entry, Object, Revision, run_in_place};
use crate::ipam::{Edit, EditError, Ipam, Trial};

/// What became of a resource.
#[derive(Debug)]
pub(super) struct Done {
    kind: Kind,
    name: String,
    /// `created`, `configured`, …
    word: &'static str,
    stands: Stands,
}

/// A resource as it stands now.
#[derive(Debug)]
enum Stands {
    /// As it is stored. `None`: it is gone.
    Stored(Option<Object>),
    /// As it is shown.
    Shown(Value),
}

/// What became of a number of resources, some of which may have failed.
#[derive(Debug)]
pub(super) struct Tally {
    trial: Trial,
    done: Vec<Done>,
    failed: Vec<Error>,
}

/// The resource as `decide` wants it, and the word for what happens to it then. `None`: it stays.
pub(super) type Decision = Result<(&'static str, Option<Object>), Declined>;

/// Why a verb does not go on with a resource.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Declined {
    /// `create`: it is there.
    #[error("it exists already")]
    Exists,
    /// `replace`, `patch`: it is not there.
    #[error("it does not exist")]
    Missing,
    /// `replace`: it was changed since it was read.
    #[error("it has changed since it was read: `metadata.resourceVersion` is {read}, now {now}")]
    Changed {
        /// The state that was read.
        read: String,
        /// The present state.
        now: String,
    },
    /// `patch`: the patch cannot be applied.
    #[error("the patch {0}")]
    Patch(String),
    /// The result would not be what its kind allows.
    #[error("{0}")]
    Invalid(String),
}

impl Declined {
    /// The way out.
    pub(in crate::cli) fn hint(&self) -> Option<&'static str> {
        match self {
            Declined::Exists => Some("run `host-affine apply` to change what exists"),
            Declined::Missing => Some("run `host-affine apply` or `host-affine create` to make it"),
            Declined::Changed { .. } => Some("get it again, and repeat the change"),
            Declined::Patch(_) | Declined::Invalid(_) => None,
        }
    }
}

impl Tally {
    pub(super) fn new(trial: Trial) -> Self {
        Self { trial, done: Vec::new(), failed: Vec::new() }
    }

    /// Changes one resource, and notes what became of it.
    pub(super) fn edit(
        &mut self,
        ipam: &mut Ipam<Store>,
        kind: Kind,
        name: &str,
        mut decide: impl FnMut(Option<&Entry>) -> Decision,
    ) {
        let Some(key) = kind.key(name) else {
            self.failed.push(Error::Missing { kind, names: vec![name.to_owned()] });
            return;
        };
        let mut word = "";
        let mut put = None;
        let edited = run_in_place(ipam.edit(&key, self.trial, |stored| {
            let (what, object) = decide(stored)?;
            word = what;
            put.clone_from(&object);
            Ok(object.map_or(Edit::Keep, Edit::Put))
        }));
        match edited {
            Ok(before) => {
                let object = put.or(before.map(|entry| entry.object));
                self.done.push(Done { kind, name: name.to_owned(), word, stands: Stands::Stored(object) });
            }
            Err(error) => self.failed.push(failure(kind, name, error)),
        }
    }

    /// Whether anything is written.
    pub(super) const fn trial(&self) -> Trial {
        self.trial
    }

    /// Notes what became of a resource that was changed elsewhere.
    pub(super) fn note(&mut self, kind: Kind, name: &str, outcome: Result<(&'static str, Value), Error>) {
        match outcome {
            Ok((word, shown)) => {
                self.done.push(Done { kind, name: name.to_owned(), word, stands: Stands::Shown(shown) });
            }
            Err(error) => self.failed.push(error),
        }
    }

    /// Says what became of everything. What failed is told, and what was done stays done.
    pub(super) fn answer(self, context: &Context<'_>) -> Answer {
        let note = if self.trial == Trial::DryRun { " (dry run)" } else { "" };
        let full_name = |done: &Done| done.kind.full_name(&done.name);
        let data = match context.format {
            Format::Table | Format::Wide => {
                let line = |done: &Done| {
                    let carved = done.carved().filter(|_| context.format == Format::Wide);
                    let carved = carved.map(|cidr| format!(" {cidr}")).unwrap_or_default();
                    format!("{} {}{carved}{note}\n", full_name(done), done.word)
                };
                self.done.iter().map(line).collect()
            }
            Format::Name => self.done.iter().flat_map(|done| [full_name(done), "\n".into()]).collect(),
            Format::Json => self.document().map(|document| render::json(&document)).unwrap_or_default(),
            Format::Yaml => self.document().map(|document| render::yaml(&document)).unwrap_or_default(),
        };
        let outcome = if self.failed.is_empty() { Outcome::Done } else { Outcome::Failed };
        let mut notes = Vec::new();
        if context.format == Format::Table {
            notes.extend(self.done.iter().filter_map(|done| done.tell(self.trial)));
        }
        for report in self.failed.iter().map(Error::report) {
            notes.extend(report.lines().map(str::to_owned));
        }
        Answer { data, notes, outcome }
    }

    fn document(&self) -> Option<Value> {
        let mut resources: Vec<Value> = self.done.iter().filter_map(Done::resource).collect();
        if resources.len() < 2 {
            return resources.pop();
        }
        Some(json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": resources }))
    }
}

impl Done {
    /// What was carved out for it.
    fn carved(&self) -> Option<&str> {
        match &self.stands {
            // A root pool has what was written.
            Stands::Shown(shown) if shown.pointer("/spec/cidr").is_none() => {
                shown.pointer("/status/allocatedCIDR").and_then(Value::as_str)
            }
            Stands::Shown(_) | Stands::Stored(_) => None,
        }
    }

    /// What a person looks for: the line of the answer itself is `kubectl`'s.
    fn tell(&self, trial: Trial) -> Option<String> {
        let verb = if trial == Trial::DryRun { "would have" } else { "has" };
        Some(format!("note: {} `{}` {verb} {}", self.kind, printable(&self.name), self.carved()?))
    }

    fn resource(&self) -> Option<Value> {
        let object = match &self.stands {
            Stands::Shown(shown) => return Some(shown.clone()),
            Stands::Stored(object) => object.clone()?,
        };
        let key = self.kind.key(&self.name)?;
        let entry = Entry { key, revision: Revision(0), object };
        let mut resource = kinds::resource(entry)?;
        // What was just written has a revision that only reading tells.
        if let Some(metadata) = resource.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        Some(resource)
    }
}

fn failure(kind: Kind, name: &str, error: EditError<Declined>) -> Error {
    let name = name.to_owned();
    match error {
        EditError::Declined(reason) => Error::Declined { kind, name, reason },
        EditError::Rule(rule) => Error::Rule { kind, name, rule },
        EditError::Engine(error) => Error::Engine(error),
    }
}

/// Lets the store do what may wait, now that everything is written.
pub(super) fn settle(ipam: &mut Ipam<Store>) {
    run_in_place(ipam.store_mut().settle());
}

/// A resource for the store.
pub(super) fn object(kind: Kind, mut resource: Value) -> Result<Object, Declined> {
    if resource.get("spec").is_none_or(Value::is_null) {
        resource["spec"] = Value::Object(Map::new());
    }
    let invalid = |error: serde_json::Error| Declined::Invalid(error.to_string());
    Ok(match kind {
        Kind::IpamConfiguration => {
            serde_json::from_value::<calico::IpamConfiguration>(resource).map_err(invalid)?.into()
        }
        Kind::IpPool => serde_json::from_value::<calico::IpPool>(resource).map_err(invalid)?.into(),
        Kind::IpReservation => {
            let mut reservation: calico::IpReservation = serde_json::from_value(resource).map_err(invalid)?;
            normalise_reserved_cidrs(&mut reservation.spec);
            reservation.into()
        }
        Kind::Node => serde_json::from_value::<calico::Node>(resource).map_err(invalid)?.into(),
        Kind::BlockAffinity | Kind::IpamBlock | Kind::IpamHandle | Kind::Milo(_) => {
            return Err(Declined::Invalid(format!("{kind} is not written like this")));
        }
    })
}

/// A stored resource as it is stored, without defaults.
pub(super) fn stored_resource(entry: &Entry) -> Value {
    let value = match &entry.object {
        Object::Configuration(stored) => serde_json::to_value(stored),
        Object::Pool(stored) => serde_json::to_value(stored),
        Object::Reservation(stored) => serde_json::to_value(stored),
        Object::Node(stored) => serde_json::to_value(stored),
        _ => Ok(Value::Null),
    };
    // Maps with text keys cannot fail to become JSON.
    value.unwrap_or_default()
}

/// A resource that says which state it was read as must still be in that state.
pub(super) fn check_version(resource: &Value, stored: &Entry) -> Result<(), Declined> {
    check_state(resource, &stored.revision.0.to_string())
}

/// The same, where the present state is known as resources say it.
pub(super) fn check_state(resource: &Value, now: &str) -> Result<(), Declined> {
    match resource.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
        Some(read) if read != now => Err(Declined::Changed { read: read.to_owned(), now: now.to_owned() }),
        _ => Ok(()),
    }
}

/// What a person says of a resource, without what the store says of it.
pub(super) fn essence(resource: &Value) -> Value {
    let metadata = resource.get("metadata");
    let said = |key: &str| Some((key.to_owned(), metadata?.get(key)?.clone()));
    let metadata: Map<String, Value> =
        ["name", "labels", "annotations"].into_iter().filter_map(said).collect();
    json!({
        "apiVersion": resource["apiVersion"],
        "kind": resource["kind"],
        "metadata": metadata,
        "spec": resource.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// A resource that is made now.
pub(super) fn fresh(context: &Context<'_>, mut resource: Value) -> Value {
    resource["metadata"]["creationTimestamp"] = context.clock.now().to_string().into();
    resource
}
