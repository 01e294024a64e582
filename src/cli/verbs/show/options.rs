//! The options in effect, and where each comes from.

use serde_json::{Map, Value, json};

use super::super::super::error::Error;
use super::super::super::render::{Align, Table};
use super::super::super::store::Store;
use super::super::configure::properties;
use crate::datastore::{Inspect as _, OptionOrigin, run_in_place};
use crate::ipam::{AffinityRule, Config, Ipam};

/// The options of a store.
pub(super) struct Options {
    config: Config,
    /// Nothing, where all come from one place.
    origins: Vec<OptionOrigin>,
}

impl Options {
    pub(super) fn read(ipam: &mut Ipam<Store>) -> Result<Self, Error> {
        let config = run_in_place(ipam.config())?;
        let origins = run_in_place(ipam.store_mut().option_origins())?;
        Ok(Self { config, origins })
    }

    pub(super) fn table(&self) -> String {
        let mut headers = vec!["PROPERTY", "VALUE", "DEFAULT"];
        if !self.origins.is_empty() {
            headers.push("FROM");
        }
        let mut table = Table::new(headers.into_iter().map(|header| (header, Align::Left)));
        let defaults = properties(&Config::effective(None));
        for ((property, value), (_, default)) in properties(&self.config).into_iter().zip(defaults) {
            let place = self.origin(property).map(|origin| origin.place.to_owned());
            table.row([property.to_owned(), value, default].into_iter().chain(place));
        }
        table.boxed()
    }

    /// Adds them to a document.
    pub(super) fn add_to(&self, value: &mut Map<String, Value>) {
        value.insert("configuration".into(), config_value(&self.config));
        if !self.origins.is_empty() {
            let from = |origin: &OptionOrigin| {
                let from = json!({ "place": origin.place, "note": origin.note });
                (origin.option.to_owned(), from)
            };
            value.insert("configurationFrom".into(), self.origins.iter().map(from).collect());
        }
    }

    /// Where the places disagree, and what to do about it.
    pub(super) fn notes(&self) -> Vec<String> {
        let told = self.origins.iter().filter_map(|origin| {
            let note = origin.note.as_ref()?;
            Some(format!("note: {}: {note}", origin.option))
        });
        let mut notes: Vec<_> = told.collect();
        if !notes.is_empty() {
            notes.push(
                "hint: `host-affine ipam configure` writes what is in effect to both places".to_owned(),
            );
        }
        notes
    }

    fn origin(&self, property: &str) -> Option<&OptionOrigin> {
        self.origins.iter().find(|origin| origin.option.eq_ignore_ascii_case(property))
    }
}

/// The options in effect, as a document.
pub(in crate::cli::verbs) fn config_value(config: &Config) -> Value {
    json!({
        "strictAffinity": config.affinity_rule == AffinityRule::Strict,
        "autoAllocateBlocks": config.auto_allocate_blocks,
        "maxBlocksPerHost": config.max_blocks_per_host,
        "kubeVirtVMAddressPersistence": config.vm_address_persistence,
        "ipCooldownSeconds": config.cooldown.as_secs(),
    })
}
