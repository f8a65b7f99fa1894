//! How requests are handed to the lines, and waited for.

use super::RemoteStore;
use super::call::Part;
use super::routing::Routing;
use super::shard::Job;
use super::ticket::{Group, Mailbox, Question, Ticket, Waiter};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Instant;

impl RemoteStore {
    /// Hands a request over. What cannot be asked is marked as failed at once.
    pub fn submit(&self, question: Question, waiter: Waiter, token: u64) -> Arc<Ticket> {
        let deadline = Instant::now() + self.common.options.deadline;
        let Some(context) = self.context() else { return failed(question, deadline, waiter, token) };
        let routing = context.routing.load();
        let ticket = prepared(&routing, question, deadline, waiter, token);
        ticket.groups.iter().for_each(|group| group.shard.tell());
        ticket
    }

    /// Hands many over, so that each line is told once and finds them all.
    pub fn submit_all(&self, questions: impl Iterator<Item = (Question, u64)>, mailbox: &Arc<dyn Mailbox>) {
        let deadline = Instant::now() + self.common.options.deadline;
        let context = self.context();
        let routing = context.as_ref().map(|context| context.routing.load());
        let mut told: SmallVec<[_; 1]> = SmallVec::new();
        for (question, token) in questions {
            let waiter = Waiter::Mailbox(mailbox.clone());
            let Some(routing) = &routing else {
                failed(question, deadline, waiter, token);
                continue;
            };
            for group in &prepared(routing, question, deadline, waiter, token).groups {
                if !told.iter().any(|shard| Arc::ptr_eq(shard, &group.shard)) {
                    told.push(group.shard.clone());
                }
            }
        }
        told.iter().for_each(|shard| shard.tell());
    }

    /// A request that is not asked: every limit of it is without an answer.
    pub fn not_asked(&self, question: Question) -> Arc<Ticket> {
        failed(question, Instant::now(), Waiter::Nobody, 0)
    }
}

/// A request in the queues of its shards, which are not told yet.
fn prepared(routing: &Routing, question: Question, deadline: Instant, waiter: Waiter, token: u64) -> Arc<Ticket> {
    let Some(groups) = groups(routing, &question) else { return failed(question, deadline, waiter, token) };
    let ticket = Ticket::new(question, groups, deadline, waiter, token);
    for group in 0..ticket.groups.len() {
        queue(&ticket, group);
    }
    ticket
}

/// The limits of a request by who decides them and what they are asked for; none when nobody serves one of its keys.
pub(super) fn groups(routing: &Routing, question: &Question) -> Option<SmallVec<[Group; 1]>> {
    let mut groups: SmallVec<[Group; 1]> = SmallVec::new();
    for (position, place) in question.places.of.iter().enumerate() {
        let (shard, slot) = routing.find(&question.places.keys[usize::from(place.key)])?;
        let asked = |position: usize| (question.limits[position].cost, question.limits[position].looks_only);
        let is_same = |group: &&mut Group| {
            Arc::ptr_eq(&group.shard, shard)
                && group.slot == slot
                && asked(usize::from(group.limits[0])) == asked(position)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.limits.push(position as u8),
            None => {
                let limits = SmallVec::from_slice(&[position as u8]);
                groups.push(Group { shard: shard.clone(), slot, limits });
            }
        }
    }
    Some(groups)
}

fn queue(ticket: &Arc<Ticket>, group: usize) {
    let shard = &ticket.groups[group].shard;
    let taken = shard.is_asked() && shard.queue(Job::Check(Part::new(ticket.clone(), group))).is_ok();
    if !taken && ticket.fail(group) {
        tell_at_once(ticket);
    }
}

/// Sleeps until a request is answered or its deadline has passed.
pub(super) fn wait_for(ticket: &Ticket) {
    while !ticket.is_closed() {
        let now = Instant::now();
        if now >= ticket.deadline {
            for group in ticket.expire() {
                ticket.groups[group].shard.record_timeout();
            }
            return;
        }
        std::thread::park_timeout(ticket.deadline - now);
    }
}

/// A request that nobody can be asked about.
fn failed(question: Question, deadline: Instant, waiter: Waiter, token: u64) -> Arc<Ticket> {
    let ticket = Ticket::new(question, SmallVec::new(), deadline, waiter, token);
    tell_at_once(&ticket);
    ticket
}

fn tell_at_once(ticket: &Arc<Ticket>) {
    ticket.tell();
    if let Waiter::Mailbox(mailbox) = &ticket.waiter {
        mailbox.wake();
    }
}
