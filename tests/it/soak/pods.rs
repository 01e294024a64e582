//! A caller with pods of its own, which knows what each of them has.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::yard::{NETWORKS, Yard};
use crate::choices::Choices;
use crate::support::cni::{Answer, Call};

/// More pods than this a worker does not have: all together want more than there is.
const PODS_MAX: usize = 48;

/// A caller.
pub(super) struct Worker {
    number: usize,
    choices: Choices,
    pods: BTreeMap<String, Pod>,
    started: usize,
}

/// A pod that lives.
struct Pod {
    network: usize,
    node: usize,
    result: Value,
    addresses: Vec<IpAddr>,
}

impl Worker {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        let own = u64::try_from(number).expect("few");
        let choices = Choices::seeded(seed.wrapping_mul(1000).wrapping_add(own));
        Self { number, choices, pods: BTreeMap::new(), started: 0 }
    }

    /// Something happens.
    pub(super) fn step(&mut self, yard: &Yard) {
        match self.choices.pick(100) {
            0..45 if self.pods.len() < PODS_MAX => self.start(yard, ""),
            45..48 if self.pods.len() < PODS_MAX => self.start_with_wish(yard),
            0..72 => self.stop(yard),
            72..78 => self.restart(yard),
            78..84 => self.repeat(yard),
            84..88 => self.check(yard),
            88 => drop(yard.make("STATUS", &yard.network(self.choices.pick(NETWORKS), 0).call("STATUS", ""))),
            89 => yard.administer(&mut self.choices),
            90..95 => self.start_and_kill(yard),
            _ => self.stop_and_kill(yard),
        }
    }

    fn start(&mut self, yard: &Yard, wish: &str) {
        self.started += 1;
        let id = format!("w{}-{}", self.number, self.started);
        let (network, node) = (self.choices.pick(NETWORKS), self.choices.pick(Yard::nodes()));
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=prod;K8S_POD_NAME={id}{wish}");
        let call = yard.network(network, node).call("ADD", &id).variable("CNI_ARGS", args);
        let answer = yard.make("ADD", &call);
        self.takes(yard, id, network, node, answer);
    }

    fn start_with_wish(&mut self, yard: &Yard) {
        let wish = format!(";IP=10.99.0.{}", self.choices.pick(128));
        self.start(yard, &wish);
    }

    fn takes(&mut self, yard: &Yard, id: String, network: usize, node: usize, answer: Answer) {
        if !answer.is_success() {
            return yard.refused(answer);
        }
        let (result, addresses) = (answer.clone().result(), answer.addresses());
        assert_eq!(addresses.len(), if network == 0 { 2 } else { 1 }, "{addresses:?}");
        yard.comes(&id, &addresses);
        self.pods.insert(id, Pod { network, node, result, addresses });
    }

    /// One of the pods, which is no longer this worker's.
    fn any(&mut self) -> Option<(String, Pod)> {
        let among = self.pods.len();
        let id = self.pods.keys().nth(self.choices.pick(among.max(1)))?.clone();
        self.pods.remove_entry(&id)
    }

    fn del(yard: &Yard, id: &str, pod: &Pod) {
        yard.goes(&pod.addresses);
        let call = yard.network(pod.network, pod.node).call("DEL", id).variable("CNI_NETNS", "");
        assert_eq!(yard.make("DEL", &call).succeeded().stdout, "");
    }

    fn stop(&mut self, yard: &Yard) {
        let Some((id, pod)) = self.any() else { return };
        Self::del(yard, &id, &pod);
        if self.choices.pick(4) == 0 {
            Self::del(yard, &id, &Pod { addresses: Vec::new(), ..pod });
        }
    }

    fn restart(&mut self, yard: &Yard) {
        let Some((id, pod)) = self.any() else { return };
        Self::del(yard, &id, &pod);
        let answer = yard.make("ADD", &yard.network(pod.network, pod.node).call("ADD", &id));
        self.takes(yard, id, pod.network, pod.node, answer);
    }

    /// Whatever the settings are by now, who has an address is told the same again.
    fn repeat(&mut self, yard: &Yard) {
        let Some((id, pod)) = self.any() else { return };
        let again = yard.make("ADD", &yard.network(pod.network, pod.node).call("ADD", &id)).addresses();
        assert_eq!(again, pod.addresses, "{id}");
        self.pods.insert(id, pod);
    }

    fn check(&mut self, yard: &Yard) {
        let Some((id, pod)) = self.any() else { return };
        let call = yard.network(pod.network, pod.node).call("CHECK", &id).previous(&pod.result);
        yard.make("CHECK", &call).succeeded();
        self.pods.insert(id, pod);
    }

    fn killed(&mut self, yard: &Yard, call: Call) -> Answer {
        let after = format!("0.000{}", 5 + self.choices.pick(40));
        yard.make("killed", &call.under(&["/usr/bin/timeout", "-s", "KILL", &after]))
    }

    /// What is killed in the middle is deleted, or asked for again, as runtimes do.
    fn start_and_kill(&mut self, yard: &Yard) {
        self.started += 1;
        let id = format!("w{}-{}", self.number, self.started);
        let (network, node) = (self.choices.pick(NETWORKS), self.choices.pick(Yard::nodes()));
        let call = yard.network(network, node).call("ADD", &id);
        let answer = self.killed(yard, call.clone());
        if let Some(printed) = answer.printed_addresses() {
            // What was printed was stored: the same comes again.
            let again = yard.make("ADD", &call).addresses();
            assert_eq!(again, printed, "{id}");
        }
        if self.choices.pick(2) == 0 {
            let answer = yard.make("ADD", &call);
            return self.takes(yard, id, network, node, answer);
        }
        let nothing = Pod { network, node, result: Value::Null, addresses: Vec::new() };
        Self::del(yard, &id, &nothing);
    }

    fn stop_and_kill(&mut self, yard: &Yard) {
        let Some((id, pod)) = self.any() else { return };
        yard.goes(&pod.addresses);
        let call = yard.network(pod.network, pod.node).call("DEL", &id);
        self.killed(yard, call);
        Self::del(yard, &id, &Pod { addresses: Vec::new(), ..pod });
    }

    /// A runtime forgets pods of a network, as it does when it loses its state.
    pub(super) fn forget(&mut self, network: usize, yard: &Yard, mut lost: impl FnMut(&mut Choices) -> bool) {
        let choices = &mut self.choices;
        self.pods.retain(|_, pod| {
            let is_lost = pod.network == network && lost(choices);
            if is_lost {
                yard.goes(&pod.addresses);
            }
            !is_lost
        });
    }

    /// Every pod ends.
    pub(super) fn end_all(&mut self, yard: &Yard) {
        while let Some((id, pod)) = self.any() {
            Self::del(yard, &id, &pod);
        }
    }

    /// Who has which address.
    pub(super) fn held(&self) -> Vec<(IpAddr, String)> {
        self.pods.iter().flat_map(|(id, pod)| pod.addresses.iter().map(|at| (*at, id.clone()))).collect()
    }

    /// The pods of a network.
    pub(super) fn of_network(&self, network: usize) -> Vec<String> {
        let of_it = self.pods.iter().filter(|(_, pod)| pod.network == network);
        of_it.map(|(id, _)| id.clone()).collect()
    }
}
