//! Operations on containers: what is called, and what must follow.

use super::container::{Container, Wanted};
use super::model::Del;
use super::operations::{End, Op};
use super::oracle::Dead;
use super::runner::{Asked, Fleet};
use crate::support::cni::Answer;

/// Outcome of a step. The error says what a right plugin does not do.
pub(super) type Outcome = Result<(), String>;

impl Fleet {
    /// Carries out one operation.
    pub(super) fn step(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Add { node, wanted, wish } => self.add(*node, wanted, *wish),
            Op::Again { node, nth } => self.some(*node, *nth).map_or(Ok(()), |nth| self.again(*node, nth)),
            Op::Stop { node, nth, end } => {
                self.some(*node, *nth).map_or(Ok(()), |nth| self.stop(*node, nth, *end))
            }
            Op::StrayDel { node, id, network } => self.stray_del(*node, id, network),
            Op::Check { node, nth } => self.some(*node, *nth).map_or(Ok(()), |nth| self.check(*node, nth)),
            Op::KilledAdd { node, wanted, micros, deletes } => {
                self.killed_add(*node, wanted, *micros, *deletes)
            }
            Op::KilledDel { node, nth, micros } => {
                self.some(*node, *nth).map_or(Ok(()), |nth| self.killed_del(*node, nth, *micros))
            }
            Op::Collect { node, network } => self.collect_all_but_living(*node, network),
            Op::Gc { node } => self.gc(*node),
            Op::GcElsewhere { node } => self.gc_elsewhere(*node),
            Op::KilledGc { node, micros } => {
                self.killed_cli(*node, &["ipam", "gc", "--yes"], *micros);
                self.gc(*node)
            }
            Op::Inspect { node } => self.inspect(*node),
            Op::Release { node, nth, by_handle } => {
                self.some(*node, *nth).map_or(Ok(()), |nth| self.release(*node, nth, *by_handle))
            }
            other => {
                self.disturb(other);
                Ok(())
            }
        }
    }

    /// One of the living containers of a node.
    fn some(&self, node: usize, nth: usize) -> Option<usize> {
        nth.checked_rem(self.nodes[node].living.len())
    }

    fn start_container(&mut self, node: usize, wanted: &Wanted) -> usize {
        let serial = self.numbers.next();
        let on = &mut self.nodes[node];
        on.living.push(Container::start(&on.host, &on.site, serial, wanted));
        self.model.living.insert(serial);
        on.living.len() - 1
    }

    /// Ends a container, without a call.
    fn kill(&mut self, node: usize, nth: usize) {
        let on = &mut self.nodes[node];
        let container = on.living.remove(nth);
        self.model.living.remove(&container.serial);
        container.kill(&on.host, &on.site);
    }

    fn add(&mut self, node: usize, wanted: &Wanted, wish: Option<usize>) -> Outcome {
        if let Some(nth) = self.nodes[node].by_id(&wanted.id) {
            return self.again(node, nth);
        }
        let nth = self.start_container(node, wanted);
        let args = wish.map_or_else(String::new, |last| format!("IgnoreUnknown=1;IP=10.99.0.{last}"));
        let answer = self.call_container(node, nth, "ADD", &args);
        if !answer.is_success() && wish.is_none() {
            self.refusal(&answer)?;
        }
        let asked = format!("10.99.0.{}", wish.unwrap_or_default());
        let printed = answer.printed_addresses().filter(|_| wish.is_some() && answer.is_success());
        if printed.is_some_and(|addresses| addresses.iter().any(|address| address.to_string() != asked)) {
            return Err(format!("the ADD asked for {asked}: {}", answer.stdout));
        }
        self.answered(node, nth, &answer)
    }

    fn again(&mut self, node: usize, nth: usize) -> Outcome {
        let on = &self.nodes[node];
        if !on.living[nth].is_visible(&on.site) {
            // No runtime calls ADD with a path that leads nowhere.
            return Ok(());
        }
        let had = self.held(node, nth);
        let answer = self.call_container(node, nth, "ADD", "");
        if !answer.is_success() {
            if !had.is_empty() {
                return Err(format!("the container has {had:?}, and ADD fails: {}", answer.stdout));
            }
            self.refusal(&answer)?;
        }
        self.answered(node, nth, &answer)
    }

    fn call_container(&mut self, node: usize, nth: usize, verb: &str, args: &str) -> Answer {
        let container = &self.nodes[node].living[nth];
        let (network, id, netns) = (container.network.clone(), container.id.clone(), container.netns.clone());
        self.cni(node, Asked { verb, network: &network, id: &id, netns: &netns, args }, None)
    }

    fn stop(&mut self, node: usize, nth: usize, end: End) -> Outcome {
        let container = &self.nodes[node].living[nth];
        let (network, id) = (container.network.clone(), container.id.clone());
        let netns = container.netns.clone();
        if end == End::DelThenKill {
            self.del_living(node, nth)?;
            self.kill(node, nth);
            return Ok(());
        }
        self.kill(node, nth);
        let netns = if end == End::DelWithoutPath { "" } else { &netns };
        let times = match end {
            End::KillOnly => 0,
            End::DelTwice => 2,
            _ => 1,
        };
        (0..times).try_for_each(|_| self.del(node, &network, &id, netns))
    }

    /// DEL of a container that is alive: it holds nothing afterwards, and ends.
    fn del_living(&mut self, node: usize, nth: usize) -> Outcome {
        let on = &self.nodes[node];
        let container = &on.living[nth];
        let names = Some(container.serial);
        let path_exists = container.is_visible(&on.site);
        let del = Del { network: &container.network, id: &container.id, names, path_exists };
        let fates = self.model.del(&on.site, del, |_| false);
        self.call_container_and_succeed(node, nth, "DEL")?;
        self.model.apply(&fates);
        Ok(())
    }

    fn call_container_and_succeed(&mut self, node: usize, nth: usize, verb: &str) -> Outcome {
        let answer = self.call_container(node, nth, verb, "");
        must_succeed(&answer, verb)
    }

    /// DEL of a container that is not alive on the node.
    pub(super) fn del(&mut self, node: usize, network: &str, id: &str, netns: &str) -> Outcome {
        let on = &self.nodes[node];
        let del = Del { network, id, names: None, path_exists: false };
        let fates = self.model.del(&on.site, del, |path| on.is_taken(path));
        let answer = self.cni(node, Asked { verb: "DEL", network, id, netns, args: "" }, None);
        must_succeed(&answer, "DEL")?;
        self.model.apply(&fates);
        Ok(())
    }

    fn stray_del(&mut self, node: usize, id: &str, network: &str) -> Outcome {
        let is_here = |nth: usize| self.nodes[node].living[nth].network == network;
        if self.nodes[node].by_id(id).is_some_and(is_here) {
            return Ok(());
        }
        self.audit(Dead::MayBeGone)?;
        self.del(node, network, id, &format!("/run/netns/{id}"))?;
        self.audit(Dead::Stay)
    }

    fn check(&mut self, node: usize, nth: usize) -> Outcome {
        let on = &self.nodes[node];
        let container = &on.living[nth];
        let held = self.held(node, nth);
        let Some(result) = container.results.get(&on.site.node).cloned() else { return Ok(()) };
        if held.is_empty() || !container.is_visible(&on.site) {
            return Ok(());
        }
        let addresses: Vec<String> = held.iter().map(|address| format!("{address}/26")).collect();
        let path = std::path::PathBuf::from(&container.netns);
        let (network, id, netns) = (container.network.clone(), container.id.clone(), container.netns.clone());
        on.host.run(move |inside| inside.configure(&path, &addresses))?;
        let asked = Asked { verb: "CHECK", network: &network, id: &id, netns: &netns, args: "" };
        let answer = self.cni(node, asked, Some(&result));
        must_succeed(&answer, "CHECK")
    }

    fn killed_add(&mut self, node: usize, wanted: &Wanted, micros: u64, deletes: bool) -> Outcome {
        if self.nodes[node].by_id(&wanted.id).is_some() {
            return Ok(());
        }
        let nth = self.start_container(node, wanted);
        let netns = self.nodes[node].living[nth].netns.clone();
        let asked = Asked { verb: "ADD", network: &wanted.network, id: &wanted.id, netns: &netns, args: "" };
        let killed = self.killed(node, asked, micros);
        if let Some(printed) = killed.printed_addresses() {
            // A printed answer is durable: the next ADD must repeat it.
            self.model.answered(&self.nodes[node].living[nth].record(&self.nodes[node].site), &printed)?;
        }
        if !deletes {
            return self.again(node, nth);
        }
        self.del_living(node, nth)?;
        self.kill(node, nth);
        Ok(())
    }

    fn killed_del(&mut self, node: usize, nth: usize, micros: u64) -> Outcome {
        let container = &self.nodes[node].living[nth];
        let (network, id, netns) = (container.network.clone(), container.id.clone(), container.netns.clone());
        self.kill(node, nth);
        self.killed(node, Asked { verb: "DEL", network: &network, id: &id, netns: &netns, args: "" }, micros);
        self.del(node, &network, &id, &netns)
    }
}

/// DEL, GC and CHECK of what is right always succeed.
pub(super) fn must_succeed(answer: &Answer, verb: &str) -> Outcome {
    if answer.is_success() {
        return Ok(());
    }
    Err(format!("{verb} failed: {}{}", answer.stdout, answer.stderr))
}
