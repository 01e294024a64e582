//! What a runtime knows of its containers from the answers alone, and whether a store agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::support::cni::Answer;
use crate::support::store::View;

/// What is known of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It has no address.
    Nothing,
    /// It has these.
    Has(Vec<IpAddr>),
    /// A call was not answered, or with an error: it has what it was given before, where that is known, or nothing; or,
    /// where nothing is known, what the call gave it.
    Perhaps(Option<Vec<IpAddr>>),
}

/// What is known of every container.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<String, Known>);

impl Ledger {
    /// What is known of a container.
    pub(super) fn of(&self, container: &str) -> Known {
        self.0.get(container).cloned().unwrap_or(Known::Nothing)
    }

    /// Learns from an answer, or from none.
    pub(super) fn note(&mut self, verb: &str, container: &str, answer: &Answer) {
        let before = self.of(container);
        let after = match verb {
            "ADD" => match answer.printed_addresses() {
                Some(mut printed) => {
                    printed.sort();
                    if let Known::Has(had) = &before {
                        assert_eq!(printed, *had, "{container} asked again and was told something else");
                    }
                    Known::Has(printed)
                }
                None if before == Known::Nothing => Known::Perhaps(None),
                None => before,
            },
            "DEL" if answer.is_success() => Known::Nothing,
            "DEL" => match before {
                Known::Has(had) => Known::Perhaps(Some(had)),
                other => other,
            },
            other => panic!("{other} teaches nothing"),
        };
        self.0.insert(container.to_owned(), after);
    }

    /// Knows of a container what another does.
    pub(super) fn know(&mut self, container: &str, other: &Ledger) {
        if let Some(known) = other.0.get(container) {
            self.0.insert(container.to_owned(), known.clone());
        }
    }

    /// Takes over what another learned of other containers.
    pub(super) fn merge(&mut self, other: Ledger) {
        self.0.extend(other.0);
    }

    /// The containers that are known to have something, or not known to have nothing.
    pub(super) fn in_doubt(&self) -> Vec<String> {
        let doubtful = self.0.iter().filter(|(_, known)| matches!(known, Known::Perhaps(_)));
        doubtful.map(|(container, _)| container.clone()).collect()
    }

    /// The containers that have addresses.
    pub(super) fn served(&self) -> Vec<String> {
        let served = self.0.iter().filter(|(_, known)| matches!(known, Known::Has(_)));
        served.map(|(container, _)| container.clone()).collect()
    }

    /// Nothing that was answered is lost, nothing is held twice, and nobody has what nobody asked for.
    #[track_caller]
    pub(super) fn agrees_with(&self, view: &View, families: usize) {
        let mut answered = BTreeSet::new();
        let mut accounted = 0;
        for (container, known) in &self.0 {
            let held = view.of_container(container);
            accounted += held.len();
            match known {
                Known::Nothing => assert!(held.is_empty(), "{container} was freed, and has {held:?}"),
                Known::Has(given) => {
                    assert_eq!(held, *given, "what {container} was given is not what it has");
                    let new = given.iter().all(|address| answered.insert(*address));
                    assert!(new, "{given:?} of {container} is another's too");
                }
                Known::Perhaps(Some(had)) => {
                    assert!(held.is_empty() || held == *had, "{container} had {had:?}, and has {held:?}");
                }
                Known::Perhaps(None) => {
                    assert!(held.is_empty() || held.len() == families, "{container} has half: {held:?}");
                }
            }
        }
        assert_eq!(view.held.len(), accounted, "somebody has an address who never asked: {:?}", view.held);
    }
}
