//! The file `state`: a copy of what every call needs, so that no directory is walked for it.
//!
//! It is derived. The journal carries it whenever a setting changes; once written out, the journal's header has its
//! checksum, so a copy that is missing, older or altered is noticed, and the objects are read instead.

use serde::{Deserialize, Serialize};

use super::codec::{ImportFile, compact, damaged, decode, decode_import, decode_resource, parse_revision};
use super::layout::{CONFIGURATIONS, IMPORTS, POOLS, RESERVATIONS, STATE, escape};
use super::overlay::Latest;
use super::{FileStore, layout};
use crate::api::calico::{IpPool, IpReservation, IpamConfiguration};
use crate::api::{ObjectMeta, Resource};
use crate::datastore::{Entry, Error, Key, Object, Revision, Settings};

#[derive(Default, Serialize, Deserialize)]
struct StateFile {
    configuration: Option<IpamConfiguration>,
    pools: Vec<IpPool>,
    reservations: Vec<IpReservation>,
    imports: Vec<ImportFile>,
}

/// The content of `state` for some settings, whose objects bear their revisions.
pub(super) fn encode(settings: &Settings) -> Vec<u8> {
    fn objects<T: Clone>(of: &[(Revision, T)]) -> Vec<T> {
        of.iter().map(|(_, object)| object.clone()).collect()
    }
    compact(&StateFile {
        configuration: settings.configuration.as_ref().map(|(_, object)| object.clone()),
        pools: objects(&settings.pools),
        reservations: objects(&settings.reservations),
        imports: settings
            .imports
            .iter()
            .map(|(revision, import)| ImportFile::new(*revision, import.clone()))
            .collect(),
    })
}

/// Reads `state`; `None` where an object lacks its revision.
fn into_settings(file: StateFile) -> Option<Settings> {
    fn revised<S>(resource: Resource<S>) -> Option<(Revision, Resource<S>)> {
        let ObjectMeta { resource_version, .. } = &resource.metadata;
        Some((parse_revision(resource_version.as_deref()?)?, resource))
    }
    fn all<S>(resources: Vec<Resource<S>>) -> Option<Vec<(Revision, Resource<S>)>> {
        resources.into_iter().map(revised).collect()
    }
    Some(Settings {
        configuration: match file.configuration {
            Some(configuration) => Some(revised(configuration)?),
            None => None,
        },
        pools: all(file.pools)?,
        reservations: all(file.reservations)?,
        imports: file.imports.into_iter().map(ImportFile::into_parts).collect::<Option<_>>()?,
        sequence_floor: 0,
    })
}

impl FileStore {
    /// What every call needs.
    pub(super) fn settings(&mut self) -> Result<Settings, Error> {
        let mut settings = match self.journal.overlay.latest(STATE) {
            Latest::Put(content) => {
                let file = decode(&self.dir.path_of(layout::JOURNAL), content)?;
                into_settings(file)
                    .ok_or_else(|| damaged(&self.dir.path_of(layout::JOURNAL), no_revision()))?
            }
            Latest::Deleted => Settings::default(),
            Latest::File => match self.journal.header.state {
                None => Settings::default(),
                Some(checksum) => {
                    let known = self.state_file(checksum)?;
                    self.state_is_stale |= known.is_none();
                    known.map_or_else(|| self.settings_from_objects(), Ok)?
                }
            },
        };
        settings.sequence_floor = self.journal.floor();
        self.seen.setting_revisions = Some(revisions(&settings));
        Ok(settings)
    }

    /// What `state` says; `None`: it is not the one that the journal knows.
    fn state_file(&self, checksum: u32) -> Result<Option<Settings>, Error> {
        let Some(content) = self.dir.read(STATE)? else {
            return Ok(None);
        };
        if crc32fast::hash(&content) != checksum {
            return Ok(None);
        }
        let file = decode(&self.dir.path_of(STATE), &content)?;
        Ok(into_settings(file))
    }

    /// The settings as their own files have them, with the journal laid over.
    pub(super) fn settings_from_objects(&self) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        for (name, content) in self.objects_in(CONFIGURATIONS)? {
            let path = self.dir.path_of(&format!("{CONFIGURATIONS}/{name}"));
            settings.configuration = Some(decode_resource(&path, &content, is(&name))?);
        }
        for (name, content) in self.objects_in(POOLS)? {
            let path = self.dir.path_of(&format!("{POOLS}/{name}"));
            settings.pools.push(decode_resource(&path, &content, is(&name))?);
        }
        for (name, content) in self.objects_in(RESERVATIONS)? {
            let path = self.dir.path_of(&format!("{RESERVATIONS}/{name}"));
            settings.reservations.push(decode_resource(&path, &content, is(&name))?);
        }
        for (name, content) in self.objects_in(IMPORTS)? {
            let path = self.dir.path_of(&format!("{IMPORTS}/{name}"));
            settings.imports.push(decode_import(&path, &content, is(&name))?);
        }
        sort(&mut settings);
        Ok(settings)
    }
}

fn no_revision() -> String {
    "its copy of the settings has an object without a numeric `resourceVersion`".to_owned()
}

/// Whether a name belongs to a file.
fn is(file: &str) -> impl Fn(&str) -> bool {
    move |name| file.strip_suffix(".json") == Some(&escape(name))
}

fn sort(settings: &mut Settings) {
    settings.pools.sort_by(|(_, a), (_, b)| a.metadata.name.cmp(&b.metadata.name));
    settings.reservations.sort_by(|(_, a), (_, b)| a.metadata.name.cmp(&b.metadata.name));
    settings.imports.sort_by(|(_, a), (_, b)| a.network.cmp(&b.network));
}

/// Every one of the settings, and its revision.
fn revisions(settings: &Settings) -> Vec<(Key, Revision)> {
    let pools = settings.pools.iter().map(|(at, pool)| (Key::Pool(pool.name().to_owned()), *at));
    let reservations =
        settings.reservations.iter().map(|(at, stored)| (Key::Reservation(stored.name().to_owned()), *at));
    let imports = settings.imports.iter().map(|(at, taken)| (Key::Import(taken.network.clone()), *at));
    let configuration = settings.configuration.iter().map(|(at, _)| (Key::Configuration, *at));
    configuration.chain(pools).chain(reservations).chain(imports).collect()
}

/// Whether a key is one of the settings.
pub(super) const fn holds(key: &Key) -> bool {
    matches!(key, Key::Configuration | Key::Pool(_) | Key::Reservation(_) | Key::Import(_))
}

/// One of the settings.
pub(super) fn entry(settings: &Settings, key: &Key) -> Option<Entry> {
    fn named<'a, S>(all: &'a [(Revision, Resource<S>)], name: &str) -> Option<(Revision, &'a Resource<S>)> {
        all.iter()
            .find(|(_, object)| object.metadata.name == name)
            .map(|(revision, object)| (*revision, object))
    }
    let (revision, object): (Revision, Object) = match key {
        Key::Configuration => {
            let (revision, object) = settings.configuration.as_ref()?;
            (*revision, object.clone().into())
        }
        Key::Pool(name) => {
            let (revision, object) = named(&settings.pools, name)?;
            (revision, object.clone().into())
        }
        Key::Reservation(name) => {
            let (revision, object) = named(&settings.reservations, name)?;
            (revision, object.clone().into())
        }
        Key::Import(network) => {
            let found = settings.imports.iter().find(|(_, t)| t.network == *network);
            let (revision, import) = found?;
            (*revision, import.clone().into())
        }
        _ => return None,
    };
    Some(Entry { key: key.clone(), revision, object })
}

/// Changes one of the settings. `None` removes it.
pub(super) fn change(settings: &mut Settings, key: &Key, object: Option<(Revision, Object)>) {
    match key {
        Key::Configuration => settings.configuration = None,
        Key::Pool(name) => settings.pools.retain(|(_, o)| o.metadata.name != *name),
        Key::Reservation(name) => settings.reservations.retain(|(_, o)| o.metadata.name != *name),
        Key::Import(network) => settings.imports.retain(|(_, t)| t.network != *network),
        _ => return,
    }
    match object {
        None => {}
        Some((revision, Object::Configuration(object))) => settings.configuration = Some((revision, *object)),
        Some((revision, Object::Pool(object))) => settings.pools.push((revision, *object)),
        Some((revision, Object::Reservation(object))) => settings.reservations.push((revision, *object)),
        Some((revision, Object::Import(import))) => settings.imports.push((revision, import)),
        Some((_, object)) => panic!("{object:?} was to be written at {key}"),
    }
    sort(settings);
}
