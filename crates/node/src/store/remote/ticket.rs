//! One request on its way to the store and back, shared between whoever waits for it and whoever answers.

use super::shard::Shard;
use crate::store::Mode;
use headgate_core::algorithm::{Charge, Measure};
use headgate_core::verdict::LimitResult;
pub use headgate_core::verdict::{Place, Places};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::thread::Thread;
use std::time::Instant;

pub type Limits = SmallVec<[LimitResult; 1]>;
/// The place of a limit's log among a request's keys, for those that have none.
pub const NO_LOG: u8 = u8::MAX;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    pub limits: Limits,
    pub places: Arc<Places>,
    pub mode: Mode,
}

/// The limits of a request that one call decides: all are asked for the same.
pub struct Group {
    pub shard: Arc<Shard>,
    /// Keys of other slots cannot go in the same call; all are 0 where there are no slots.
    pub slot: u16,
    /// Positions among the request's limits.
    pub limits: SmallVec<[u8; 6]>,
}

/// What became of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Waiting,
    Answered,
    /// The store did not answer in time, or could not.
    Failed,
}

pub struct State {
    pub fates: SmallVec<[Fate; 3]>,
    pub results: Limits,
    /// What each limit had left before, where the request is in several groups.
    pub before: SmallVec<[Measure; 1]>,
    /// When the store decided, on its clock; each group's own, for its refunds.
    pub at_us: SmallVec<[u64; 3]>,
    waiting: usize,
    closed: bool,
    waker: Option<Waker>,
}

/// Who is told when an answer is there.
pub enum Waiter {
    /// A thread that sleeps.
    Thread(Thread),
    /// A task: the ticket keeps its waker.
    Task,
    /// A list of answers, whose owner is woken once for many.
    Mailbox(Arc<dyn Mailbox>),
    /// Nobody.
    Nobody,
}

pub trait Mailbox: Send + Sync {
    fn put(&self, ticket: Arc<Ticket>);
    fn wake(&self);
}

pub struct Ticket {
    pub question: Question,
    pub groups: SmallVec<[Group; 1]>,
    pub deadline: Instant,
    pub state: Mutex<State>,
    pub waiter: Waiter,
    /// Told back to the mailbox's owner.
    pub token: u64,
    /// A bit for each group that was sent, and so may have been spent though no answer came.
    sent: AtomicU64,
}

impl Ticket {
    pub fn new(
        question: Question,
        groups: SmallVec<[Group; 1]>,
        deadline: Instant,
        waiter: Waiter,
        token: u64,
    ) -> Arc<Self> {
        let state = State {
            fates: SmallVec::from_elem(Fate::Waiting, groups.len()),
            results: question.limits.clone(),
            before: SmallVec::from_elem(Measure::default(), if groups.len() > 1 { question.limits.len() } else { 0 }),
            at_us: SmallVec::from_elem(0, groups.len()),
            waiting: groups.len(),
            closed: groups.is_empty(),
            waker: None,
        };
        let sent = AtomicU64::new(0);
        Arc::new(Self { question, groups, deadline, state: Mutex::new(state), waiter, token, sent })
    }

    /// What the limits of a group are asked for.
    pub fn cost(&self, group: usize) -> u64 {
        self.groups[group].limits.first().map_or(0, |position| self.question.limits[usize::from(*position)].cost)
    }

    /// Whether a group's limits are to be spent on.
    pub fn spends(&self, group: usize) -> bool {
        let limit = self.groups[group].limits.first().map(|position| &self.question.limits[usize::from(*position)]);
        limit.is_some_and(|limit| limit.cost > 0 && !limit.looks_only)
    }

    pub fn mark_sent(&self, group: usize) {
        self.sent.fetch_or(1 << (group & 63), Ordering::Relaxed);
    }

    /// The server said that it did not spend it.
    pub fn mark_unspent(&self, group: usize) {
        self.sent.fetch_and(!(1 << (group & 63)), Ordering::Relaxed);
    }

    pub fn was_sent(&self, group: usize) -> bool {
        self.sent.load(Ordering::Relaxed) & (1 << (group & 63)) != 0
    }

    /// Takes one group's answer in; true when that was the last. Late answers are dropped.
    pub fn answer(&self, group: usize, at_us: u64, fill: impl FnOnce(&mut Limits, &mut [Measure])) -> bool {
        self.settle(group, Fate::Answered, |state| {
            state.at_us[group] = at_us;
            fill(&mut state.results, &mut state.before);
        })
    }

    /// One group will not be answered.
    pub fn fail(&self, group: usize) -> bool {
        self.settle(group, Fate::Failed, |_| {})
    }

    fn settle(&self, group: usize, fate: Fate, fill: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state.lock();
        if state.closed || state.fates[group] != Fate::Waiting {
            return false;
        }
        state.fates[group] = fate;
        fill(&mut state);
        state.waiting -= 1;
        state.closed = state.waiting == 0;
        state.closed
    }

    /// The deadline passed: what is not there fails. Gives the groups that did; none when all was answered.
    pub fn expire(&self) -> SmallVec<[usize; 3]> {
        let mut state = self.state.lock();
        let mut failed = SmallVec::new();
        if state.closed {
            return failed;
        }
        for group in 0..self.groups.len() {
            if state.fates[group] == Fate::Waiting {
                state.fates[group] = Fate::Failed;
                failed.push(group);
            }
        }
        state.waiting = 0;
        state.closed = true;
        failed
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Remembers whom to wake; true when there is no need any more.
    pub fn poll(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.closed && !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        state.closed
    }

    /// Tells whoever waits. Mailboxes are woken by the caller, once for all it put there.
    pub fn tell(self: &Arc<Self>) {
        match &self.waiter {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task => {
                let waker = self.state.lock().waker.take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Waiter::Mailbox(mailbox) => mailbox.put(self.clone()),
            Waiter::Nobody => {}
        }
    }
}

/// What was spent on one limit, and where: what a refund is about.
#[derive(Clone, Debug)]
pub struct Spent {
    pub limit: LimitResult,
    pub place: Place,
    pub charge: Charge,
}
