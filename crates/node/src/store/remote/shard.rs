//! One server (or the primary of a group of them): what waits for it, and whether it is worth asking.

use super::call::{Answers, Part};
use super::greeting::{ConnectError, Greeting};
use super::resp::Reply;
use super::ticket::Ticket;
use super::url::Address;
use crate::breaker::{Breaker, State};
use crate::events::{Events, Kind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Requests that may wait for one shard. Past that they are decided without it at once.
const QUEUE_MAX: usize = 16_384;

/// Writes a command for a connection that knows the scripts under these hashes.
pub type Write = Box<dyn Fn(&mut Vec<u8>, &Greeting) + Send>;
/// Given the reply, or nothing when there was none.
pub type Read = Box<dyn FnOnce(Option<&Reply<'_>>) + Send>;

/// What is sent to a shard besides checks.
pub struct Errand {
    /// Called again if the scripts must be loaded first.
    pub write: Write,
    pub read: Read,
    pub deadline: Instant,
    /// Its slot is on its way to this server.
    pub asking: bool,
    /// How often it was sent on.
    pub hops: u8,
}

impl Errand {
    pub fn new(
        write: impl Fn(&mut Vec<u8>, &Greeting) + Send + 'static,
        read: impl FnOnce(Option<&Reply<'_>>) + Send + 'static,
        deadline: Instant,
    ) -> Self {
        Self { write: Box::new(write), read: Box::new(read), deadline, asking: false, hops: 0 }
    }
}

pub enum Job {
    Check(Part),
    Errand(Errand),
}

#[derive(Default)]
pub struct Stats {
    pub calls: AtomicU64,
    pub requests: AtomicU64,
    pub errors: AtomicU64,
    pub timeouts: AtomicU64,
}

pub struct Shard {
    pub name: String,
    /// Where it is; none where sentinels have to be asked each time.
    pub address: Option<Address>,
    queue: Mutex<VecDeque<Job>>,
    /// Whether the line was told that something waits.
    told: AtomicBool,
    pub arrived: Notify,
    breaker: Mutex<Breaker>,
    closed: AtomicBool,
    pub connected: AtomicBool,
    /// Microseconds of a round trip when it was last measured.
    pub round_trip_us: AtomicU64,
    pub retired: AtomicBool,
    pub last_error: Mutex<Option<(Instant, String)>>,
    pub stats: Stats,
    pub events: Arc<Events>,
}

impl Shard {
    pub fn new(name: String, address: Option<Address>, events: Arc<Events>) -> Arc<Self> {
        Arc::new(Self {
            name,
            address,
            queue: Mutex::default(),
            told: AtomicBool::new(false),
            arrived: Notify::new(),
            breaker: Mutex::new(Breaker::new(Instant::now())),
            closed: AtomicBool::new(true),
            connected: AtomicBool::new(false),
            round_trip_us: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            last_error: Mutex::new(None),
            stats: Stats::default(),
            events,
        })
    }

    /// Whether the breaker lets requests through.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn breaker_state(&self) -> State {
        self.breaker.lock().state()
    }

    /// Hands a job to the line; gives it back when too much waits already.
    pub fn push(&self, job: Job) -> Result<(), Job> {
        self.queue(job)?;
        self.tell();
        Ok(())
    }

    /// The same for a line that is told later.
    pub fn queue(&self, job: Job) -> Result<(), Job> {
        let mut queue = self.queue.lock();
        if queue.len() >= QUEUE_MAX {
            return Err(job);
        }
        queue.push_back(job);
        Ok(())
    }

    /// Tells the line that something waits.
    pub fn tell(&self) {
        if !self.told.swap(true, Ordering::AcqRel) {
            self.arrived.notify_one();
        }
    }

    /// All that waits.
    pub fn take(&self, into: &mut VecDeque<Job>) {
        self.told.store(false, Ordering::Release);
        into.append(&mut self.queue.lock());
    }

    pub fn record(&self, calls: u64, errors: u64) {
        self.stats.errors.fetch_add(errors, Ordering::Relaxed);
        let mut breaker = self.breaker.lock();
        if breaker.record(calls, errors, Instant::now()) {
            drop(breaker);
            let recent = self.last_error.lock().clone().filter(|(at, _)| at.elapsed() < Duration::from_secs(1));
            let why = recent.map_or_else(|| "too many answers came late".to_owned(), |(_, why)| why);
            self.opened(&why);
        }
    }

    /// From now on nobody asks; the line, which may be waiting for answers only, has to probe instead.
    fn opened(&self, why: &str) {
        self.closed.store(false, Ordering::Relaxed);
        self.events.add(Kind::BreakerOpened, &self.name, why);
        self.arrived.notify_one();
    }

    /// A request was not answered in time.
    pub fn record_timeout(&self) {
        self.stats.timeouts.fetch_add(1, Ordering::Relaxed);
        self.record(1, 1);
    }

    /// A connection could not be made or broke.
    pub fn lost(&self, why: &ConnectError) {
        if self.connected.swap(false, Ordering::Relaxed) {
            self.events.add(Kind::ShardLost, &self.name, why.to_string());
        }
        if !matches!(why, ConnectError::Unreachable(_)) {
            self.open(&why.to_string());
        }
    }

    pub fn open(&self, why: &str) {
        let opens = self.breaker.lock().open(Instant::now());
        if opens {
            self.opened(why);
        }
    }

    pub fn probe_failed(&self) {
        self.breaker.lock().probe_failed(Instant::now());
    }

    /// It answers again, in time.
    pub fn close_breaker(&self) -> bool {
        let closes = self.breaker.lock().close(Instant::now());
        self.closed.store(true, Ordering::Relaxed);
        if closes {
            self.events.add(Kind::BreakerClosed, &self.name, "");
        }
        closes
    }

    pub fn returned(&self, server: &str) {
        if !self.connected.swap(true, Ordering::Relaxed) {
            self.events.add(Kind::ShardReturned, &self.name, server);
        }
    }
}

/// Answers reach their requests; those that are complete are told. Gives the mailboxes to wake.
#[derive(Default)]
pub struct Deliveries {
    told: Vec<Arc<Ticket>>,
}

impl Deliveries {
    pub fn answer(&mut self, part: &Part, answers: &Answers, at_us: u64) {
        if part.ticket.answer(part.group, at_us, |results, before| super::call::fill(part, answers, results, before)) {
            self.told.push(part.ticket.clone());
        }
    }

    pub fn fail(&mut self, part: &Part) {
        if part.ticket.fail(part.group) {
            self.told.push(part.ticket.clone());
        }
    }

    pub fn expired(&mut self, ticket: &Arc<Ticket>) {
        self.told.push(ticket.clone());
    }

    /// Tells everybody: one wake-up for all answers of one mailbox.
    pub fn send(&mut self) {
        self.told.iter().for_each(Ticket::tell);
        let mut woken: Vec<*const ()> = Vec::new();
        for ticket in self.told.drain(..) {
            if let super::ticket::Waiter::Mailbox(mailbox) = &ticket.waiter {
                let at = Arc::as_ptr(mailbox).cast::<()>();
                if !woken.contains(&at) {
                    woken.push(at);
                    mailbox.wake();
                }
            }
        }
    }
}
