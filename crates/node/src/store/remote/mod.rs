//! Counters shared through Redis or Valkey: one server, Sentinel, Cluster, or a ring of independent servers.
//!
//! Requests are handed to a line per shard, which sends what waits together; a store thread of each process keeps the
//! lines. Threads that wait also have a lane of their own. Nothing is started before it is needed, and a forked child
//! starts its own.

mod call;
mod connect;
mod context;
mod greeting;
mod handing;
mod lane;
mod ledger;
mod line;
mod manager;
mod resolve;
mod resp;
mod routing;
mod scripts;
mod session;
mod shard;
mod ticket;
mod url;

use crate::breaker::State;
use crate::clock::Clock;
use crate::events::{Events, Kind};
use crate::per_process::PerProcess;
use arc_swap::ArcSwapOption;
use call::{Part, put_refund, put_reset, read_refund};
use context::{Common, Context};
pub use context::{Nodes, Options};
pub use greeting::ConnectError;
use handing::{groups, wait_for};
use headgate_core::Quota;
use lane::Lane;
use resolve::Resolver;
use routing::Routing;
use scripts::Verb;
use shard::{Errand, Job, Shard};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};
pub use ticket::{Fate, Group, Limits, Mailbox, NO_LOG, Place, Places, Question, Spent, Ticket, Waiter};
pub use url::{Layout, StoreUrl, UrlError};

/// How long a thread waits for the word on a refund or reset: off the request path, so not held to its deadline.
const ERRAND_DEADLINE: Duration = Duration::from_millis(250);

pub struct RemoteStore {
    common: Arc<Common>,
    running: ArcSwapOption<Running>,
}

/// What one process runs.
struct Running {
    process: u32,
    context: Arc<Context>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.context.stopping.store(true, Ordering::Relaxed);
        self.context.stopped.notify_one();
    }
}

/// How one shard is.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    pub name: String,
    pub breaker: &'static str,
    pub connected: bool,
    pub calls: u64,
    pub requests: u64,
    pub errors: u64,
    pub timeouts: u64,
    pub round_trip_us: u64,
}

/// How the store is.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub shards: Vec<ShardStatus>,
    pub nodes: usize,
    pub bytes_per_subject: u64,
    pub debts: usize,
    pub debts_forgotten: u64,
}

/// Why a store cannot be opened.
#[derive(Clone, Debug)]
pub enum OpenError {
    Url(UrlError),
    /// A server answered, and will not have us.
    Rejected(String),
}

impl RemoteStore {
    /// Looks at the servers once. One that is away is no error: requests are decided without it until it is back.
    pub fn open(url: &str, options: Options, clock: Clock, events: Arc<Events>) -> Result<RemoteStore, OpenError> {
        let url = StoreUrl::parse(url).map_err(OpenError::Url)?;
        let tls = match &url.tls {
            Some(options) => Some(connect::tls_config(options).map_err(|what| OpenError::Url(UrlError(what)))?),
            None => None,
        };
        let timeout = options.connect_timeout;
        let resolver = Resolver { url, tls, timeout };
        let common =
            Common { resolver, options, clock, events, warned: PerProcess::default(), map: ArcSwapOption::empty() };
        let store = Self { common: Arc::new(common), running: ArcSwapOption::empty() };
        store.look()?;
        Ok(store)
    }

    fn look(&self) -> Result<(), OpenError> {
        let resolver = &self.common.resolver;
        let addresses = match &resolver.url.layout {
            Layout::One | Layout::Ring => Ok(resolver.url.servers.clone()),
            Layout::Sentinel { primary } => resolver.primary(primary).map(|address| vec![address]),
            Layout::Cluster => resolver.cluster(&[]).map(|map| {
                let primaries = map.primaries.clone();
                self.common.map.store(Some(Arc::new(map)));
                primaries
            }),
        };
        let addresses = addresses.or_else(|error| self.away("the store", &error).map(|()| Vec::new()))?;
        for address in addresses {
            let deadline = Instant::now() + self.common.options.connect_timeout;
            match Lane::connect(&resolver.target(address.clone()), deadline) {
                Ok(lane) if lane.greeting.is_cluster && resolver.url.layout == Layout::One => {
                    let what = format!("{address} is part of a cluster; use redis+cluster://");
                    return Err(OpenError::Rejected(what));
                }
                Ok(lane) => self.common.warn_of(&address.to_string(), &lane.greeting),
                Err(error) => self.away(&address.to_string(), &error)?,
            }
        }
        Ok(())
    }

    fn away(&self, server: &str, error: &ConnectError) -> Result<(), OpenError> {
        if let ConnectError::Rejected(what) = error {
            return Err(OpenError::Rejected(format!("{server}: {what}")));
        }
        let what = format!("not reachable ({error}); each rule's on_store_failure decides until it is");
        self.common.events.add(Kind::Warning, server, what);
        Ok(())
    }

    pub fn deadline(&self) -> Duration {
        self.common.options.deadline
    }

    /// What this process runs, started if it is not yet. A child never touches what its parent ran.
    fn context(&self) -> Option<Arc<Context>> {
        let process = std::process::id();
        if let Some(running) = &*self.running.load()
            && running.process == process
        {
            return Some(running.context.clone());
        }
        self.start(process)
    }

    #[cold]
    fn start(&self, process: u32) -> Option<Arc<Context>> {
        let current = self.running.load_full();
        let me = RandomState::new().hash_one(process);
        let context = Arc::new(Context::new(self.common.clone(), me));
        let fresh = Arc::new(Running { process, context: context.clone() });
        let before = self.running.compare_and_swap(&current, Some(fresh.clone()));
        if !same(&before, &current) {
            return self.context(); // Another thread was faster.
        }
        if let Some(parents) = current.filter(|running| running.process != process) {
            std::mem::forget(parents);
        }
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(manager::run(context));
            }
        };
        std::thread::Builder::new().name("headgate-store".into()).spawn(run).ok()?;
        Some(fresh.context.clone())
    }

    /// Asks and waits, on this thread.
    pub fn ask_blocking(&self, question: Question) -> Arc<Ticket> {
        let waiter = Waiter::Thread(std::thread::current());
        let Some(context) = self.context() else { return self.submit(question, waiter, 0) };
        let routing = context.routing.load();
        if let Routing::One(shard) = &**routing
            && shard.is_asked()
            && let Some(mut lane) = context.lane.try_lock()
        {
            if let Some(busy) = &mut *lane {
                let deadline = Instant::now() + self.common.options.deadline;
                let limits = (0..question.limits.len() as u8).collect();
                let groups = smallvec::smallvec![Group { shard: shard.clone(), slot: 0, limits }];
                let ticket = Ticket::new(question, groups, deadline, Waiter::Nobody, 0);
                let part = Part::new(ticket.clone(), 0);
                match busy.check(&part, shard, context.given_now_us(), deadline) {
                    Ok(None) => {}
                    Ok(Some(refusal)) => {
                        ticket.mark_unspent(0);
                        let is_moving = refusal.starts_with("READONLY") || refusal.starts_with("LOADING");
                        if is_moving {
                            *lane = None;
                        }
                        lane_failed(&context, shard, &ticket, &std::io::Error::other(refusal));
                    }
                    Err(error) => {
                        *lane = None;
                        lane_failed(&context, shard, &ticket, &error);
                    }
                }
                return ticket;
            }
            if shard.connected.load(Ordering::Relaxed) && !context.lane_asked.swap(true, Ordering::Relaxed) {
                context.lane_wanted.notify_one();
            }
        }
        let ticket = self.submit(question, waiter, 0);
        wait_for(&ticket);
        ticket
    }

    /// Returns part of earlier charges, told by the store how much; nothing when it does not answer.
    pub fn refund_blocking(&self, places: &Arc<Places>, spent: Vec<Spent>, amount: u64) -> Vec<(usize, u64)> {
        let (sender, receiver) = mpsc::channel();
        let sent = self.refund(places, spent, amount, move |returned| {
            let _ = sender.send(returned); // Nobody may be waiting any more.
        });
        let deadline = Instant::now() + ERRAND_DEADLINE;
        let wait = || receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        (0..sent).map_while(|_| wait()).flatten().collect()
    }

    /// Returns part of earlier charges, sent and not awaited.
    pub fn refund_later(&self, places: &Arc<Places>, spent: Vec<Spent>, amount: u64) {
        self.refund(places, spent, amount, |_| {});
    }

    /// Sends refunds, by shard; gives how many replies there will be.
    fn refund(
        &self,
        places: &Arc<Places>,
        spent: Vec<Spent>,
        amount: u64,
        told: impl Fn(Vec<(usize, u64)>) + Clone + Send + 'static,
    ) -> usize {
        let Some(context) = self.context() else { return 0 };
        let routing = context.routing.load();
        let mut parcels: Vec<Parcel> = Vec::new();
        for (number, item) in spent.into_iter().enumerate() {
            let Some((shard, slot)) = routing.find(&places.keys[usize::from(item.place.key)]) else { continue };
            let same = |parcel: &&mut Parcel| Arc::ptr_eq(&parcel.shard, shard) && parcel.slot == slot;
            match parcels.iter_mut().find(same) {
                Some(parcel) => {
                    parcel.numbers.push(number);
                    parcel.items.push(item);
                }
                None => {
                    let (numbers, items) = (vec![number], vec![item]);
                    parcels.push(Parcel { shard: shard.clone(), slot, numbers, items });
                }
            }
        }
        let mut count = 0;
        for Parcel { shard, numbers, items, .. } in parcels {
            let (places, told, now_us) = (places.clone(), told.clone(), context.given_now_us());
            let mut keys: Vec<&[u8]> = items.iter().map(|item| &*places.keys[usize::from(item.place.key)]).collect();
            keys.sort_unstable();
            keys.dedup();
            let (records, charges) = (keys.len(), items.len());
            let write = move |out: &mut Vec<u8>, greeting: &greeting::Greeting| {
                put_refund(out, &greeting.shas[Verb::Refund as usize], &places.keys, &items, amount, now_us);
            };
            let read = move |reply: Option<&resp::Reply<'_>>| {
                let amounts = reply.and_then(|reply| read_refund(reply, records, charges).ok()).unwrap_or_default();
                told(numbers.into_iter().zip(amounts).collect());
            };
            count += usize::from(send(&shard, write, read));
        }
        count
    }

    /// Spends what is already a fact. Waited for or not, it is not held to a request's deadline.
    pub fn spend(&self, question: Question, wait: bool) {
        let Some(context) = self.context() else { return };
        let routing = context.routing.load();
        let Some(groups) = groups(&routing, &question) else { return };
        let waiter = if wait { Waiter::Thread(std::thread::current()) } else { Waiter::Nobody };
        let ticket = Ticket::new(question, groups, Instant::now() + ERRAND_DEADLINE, waiter, 0);
        for (number, group) in ticket.groups.iter().enumerate() {
            let part = Part { forced: true, ..Part::new(ticket.clone(), number) };
            if !group.shard.is_asked() || group.shard.push(Job::Check(part)).is_err() {
                ticket.fail(number);
            }
        }
        if wait {
            wait_for(&ticket);
        }
    }

    /// Forgets counters; gives how many there were.
    pub fn reset_blocking(&self, places: &Places) -> usize {
        let Some(context) = self.context() else { return 0 };
        let routing = context.routing.load();
        let (sender, receiver) = mpsc::channel();
        let mut sent = 0;
        for place in places.of.iter().copied() {
            let Some((shard, _)) = routing.find(&places.keys[usize::from(place.key)]) else { continue };
            let (keys, now_us) = (places.keys.clone(), context.given_now_us());
            let write = move |out: &mut Vec<u8>, greeting: &greeting::Greeting| {
                put_reset(out, &greeting.shas[Verb::Reset as usize], &keys, place, now_us);
            };
            let sender = sender.clone();
            let read = move |reply: Option<&resp::Reply<'_>>| {
                let _ = sender.send(reply.and_then(resp::Reply::number).unwrap_or(0)); // Nobody may be waiting.
            };
            sent += usize::from(send(shard, write, read));
        }
        let deadline = Instant::now() + ERRAND_DEADLINE;
        let wait = || receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
        (0..sent).map_while(|_| wait()).map(|count| usize::try_from(count).unwrap_or(0)).sum()
    }

    /// Remembers what was admitted without the store.
    pub fn owe(&self, places: &Places, position: usize, quota: &Quota, cost: u64) {
        let Some(context) = self.context() else { return };
        let place = places.of[position];
        let log = (place.log != NO_LOG).then(|| &*places.keys[usize::from(place.log)]);
        context.ledger.add(&places.keys[usize::from(place.key)], log, place.id, quota, cost);
    }

    /// The nodes that are alive, as last heard.
    pub fn nodes(&self) -> Arc<Nodes> {
        match self.context() {
            Some(context) => context.nodes.load_full(),
            None => Arc::new(Nodes { me: 0, all: vec![0] }),
        }
    }

    pub fn status(&self) -> Status {
        let Some(context) = self.context() else { return Status::default() };
        let routing = context.routing.load();
        let shards = routing.shards().iter().map(|shard| ShardStatus {
            name: shard.name.clone(),
            breaker: if shard.breaker_state() == State::Closed { "closed" } else { "open" },
            connected: shard.connected.load(Ordering::Relaxed),
            calls: shard.stats.calls.load(Ordering::Relaxed),
            requests: shard.stats.requests.load(Ordering::Relaxed),
            errors: shard.stats.errors.load(Ordering::Relaxed),
            timeouts: shard.stats.timeouts.load(Ordering::Relaxed),
            round_trip_us: shard.round_trip_us.load(Ordering::Relaxed),
        });
        Status {
            shards: shards.collect(),
            nodes: context.nodes.load().all.len(),
            bytes_per_subject: context.bytes_per_subject.load(Ordering::Relaxed),
            debts: context.ledger.len(),
            debts_forgotten: context.ledger.forgotten.load(Ordering::Relaxed),
        }
    }

    /// Some key in use, whose bytes may be measured.
    pub fn sample(&self, key: &[u8]) {
        if let Some(running) = &*self.running.load()
            && let Some(mut sample) = running.context.sample.try_lock()
            && sample.is_none()
        {
            *sample = Some(key.into());
        }
    }
}

/// Charges that go back in one call.
struct Parcel {
    shard: Arc<Shard>,
    slot: u16,
    numbers: Vec<usize>,
    items: Vec<Spent>,
}

fn same(a: &Option<Arc<Running>>, b: &Option<Arc<Running>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

fn send(
    shard: &Arc<Shard>,
    write: impl Fn(&mut Vec<u8>, &greeting::Greeting) + Send + 'static,
    read: impl FnOnce(Option<&resp::Reply<'_>>) + Send + 'static,
) -> bool {
    let errand = Errand::new(write, read, Instant::now() + ERRAND_DEADLINE);
    shard.is_asked() && shard.push(Job::Errand(errand)).is_ok()
}

/// A lane's request was not answered: what that says of the shard.
fn lane_failed(context: &Context, shard: &Shard, ticket: &Ticket, error: &std::io::Error) {
    let is_late = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
    if is_late {
        shard.record_timeout();
    } else {
        context.note_error(shard, &error.to_string());
        shard.record(1, 1);
    }
    ticket.expire();
}
