//! Who goes next: polls several clients of a [`World`] to their ends, in an order that its choices decide.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::effect::Effect;
use super::sim::World;

/// A client at work.
pub(crate) type Client<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// Every client came to its end, or died.
    Complete,
    /// The order differs from another one only by operations that do not touch each other.
    Redundant,
}

/// Runs every client to its end. After each write the client may die: its future is dropped.
///
/// Where every order is tried, of those that nobody could tell apart only one is complete: where two neighbouring
/// operations of two clients are independent, that of the earlier client comes first. A client that could go on makes way at most `switches` times.
pub(crate) fn run(world: &Rc<RefCell<World>>, clients: Vec<Client<'_>>, mut switches: usize) -> Run {
    let mut clients: Vec<Option<Client<'_>>> = clients.into_iter().map(Some).collect();
    for client in &mut clients {
        poll(client);
    }
    let mut last: Option<(usize, Effect)> = None;
    loop {
        let alive: Vec<usize> = (0..clients.len()).filter(|&at| clients[at].is_some()).collect();
        if alive.is_empty() {
            return Run::Complete;
        }
        let goes_on = |at: usize| last.as_ref().is_some_and(|(before, _)| *before == at);
        let may_switch = switches > 0 || !alive.iter().any(|&at| goes_on(at));
        let next: Vec<usize> = {
            let world = world.borrow();
            let is_normal = |&at: &usize| match &last {
                Some((before, effect)) if at < *before && world.choices.are_all() => {
                    !world.pending[&at].is_independent_of(effect, &world.state)
                }
                _ => true,
            };
            let may_go = |&at: &usize| may_switch || goes_on(at);
            alive.iter().copied().filter(may_go).filter(is_normal).collect()
        };
        if next.is_empty() {
            return Run::Redundant;
        }
        let at = {
            let mut world = world.borrow_mut();
            next[world.choices.pick(next.len())]
        };
        if alive.iter().any(|&other| goes_on(other)) && !goes_on(at) {
            switches -= 1;
        }
        let effect = world.borrow().pending[&at].clone();
        poll(&mut clients[at]);
        if effect.writes() && world.borrow_mut().fault(2) == 1 {
            clients[at] = None;
            let mut world = world.borrow_mut();
            world.pending.remove(&at);
            if let Some(trace) = &mut world.trace {
                trace.push(format!("client {at} dies"));
            }
        } else {
            // From the suspension after one operation to that before the next: nothing shared is touched.
            poll(&mut clients[at]);
        }
        last = Some((at, effect));
    }
}

/// Runs one client to its end, undisturbed.
pub(crate) fn run_alone(mut client: Client<'_>) {
    while client.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
}

fn poll(client: &mut Option<Client<'_>>) {
    let Some(future) = client else {
        return;
    };
    if future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(()) {
        *client = None;
    }
}
