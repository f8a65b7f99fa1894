//! What all lines of a process share.

use super::connect::Target;
use super::greeting::{ConnectError, Greeting};
use super::lane::Lane;
use super::ledger::Ledger;
use super::line;
use super::resolve::{ClusterMap, Resolver};
use super::routing::Routing;
use super::shard::{Job, Shard};
use super::url::{Address, Layout, read_server};
use crate::clock::Clock;
use crate::events::{Events, Kind};
use crate::per_process::PerProcess;
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the store is waited for.
#[derive(Clone, Debug)]
pub struct Options {
    /// For an answer, from the moment a request is handed over.
    pub deadline: Duration,
    /// For a connection, off the request path.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { deadline: Duration::from_millis(5), connect_timeout: Duration::from_secs(1) }
    }
}

/// The nodes that are alive, this one among them.
#[derive(Clone, Debug)]
pub struct Nodes {
    pub me: u64,
    pub all: Vec<u64>,
}

/// What outlives a process's threads: told to every child as it is.
pub struct Common {
    pub resolver: Resolver,
    pub options: Options,
    pub clock: Clock,
    pub events: Arc<Events>,
    /// Servers that were warned of.
    pub warned: PerProcess<Mutex<HashSet<String>>>,
    /// The cluster as it was last seen.
    pub map: ArcSwapOption<ClusterMap>,
}

impl Common {
    /// Tells of a server that may throw counters away.
    pub fn warn_of(&self, server: &str, greeting: &Greeting) {
        let Some(policy) = &greeting.evicts else { return };
        if self.warned.get().lock().insert(server.to_owned()) {
            let what = format!(
                "{} may evict counters (maxmemory-policy {policy}), which would forget what was used; set it to noeviction",
                greeting.server
            );
            self.events.add(Kind::Warning, server, what);
        }
    }
}

pub struct Context {
    pub common: Arc<Common>,
    pub options: Options,
    pub routing: ArcSwap<Routing>,
    pub ledger: Ledger,
    pub nodes: ArcSwap<Nodes>,
    /// Something about the servers changed: look again.
    pub refresh: Notify,
    /// A shard is back: tell it what it missed.
    pub reconcile: Notify,
    pub lane: Mutex<Option<Lane>>,
    pub lane_wanted: Notify,
    pub lane_asked: AtomicBool,
    /// The server's bytes for one subject, as last measured.
    pub bytes_per_subject: AtomicU64,
    /// Some key in use, to be measured.
    pub sample: Mutex<Option<Box<[u8]>>>,
    pub stopped: Notify,
    pub stopping: AtomicBool,
}

impl Context {
    pub fn new(common: Arc<Common>, me: u64) -> Self {
        let routing = first_routing(&common);
        Self {
            options: common.options.clone(),
            routing: ArcSwap::from_pointee(routing),
            ledger: Ledger::default(),
            nodes: ArcSwap::from_pointee(Nodes { me, all: vec![me] }),
            refresh: Notify::new(),
            reconcile: Notify::new(),
            lane: Mutex::new(None),
            lane_wanted: Notify::new(),
            lane_asked: AtomicBool::new(false),
            bytes_per_subject: AtomicU64::new(0),
            sample: Mutex::new(None),
            stopped: Notify::new(),
            stopping: AtomicBool::new(false),
            common,
        }
    }

    /// The time a test froze; 0 leaves it to the server's clock.
    pub fn given_now_us(&self) -> u64 {
        match &self.common.clock {
            Clock::Fake(_) => self.common.clock.now_us(),
            Clock::System { .. } => 0,
        }
    }

    pub async fn target(self: &Arc<Self>, shard: &Shard) -> Result<Target, ConnectError> {
        if let Some(address) = &shard.address {
            return Ok(self.common.resolver.target(address.clone()));
        }
        let common = self.common.clone();
        let found = tokio::task::spawn_blocking(move || match &common.resolver.url.layout {
            Layout::Sentinel { primary } => common.resolver.primary(primary),
            _ => Err(ConnectError::Refused("no server is named".into())),
        });
        let address = found.await.map_err(|error| ConnectError::Unreachable(error.to_string()))??;
        Ok(self.common.resolver.target(address))
    }

    /// A key that a shard would hold, to try whether it takes writes; none where it has no slot.
    pub fn probe_key(&self, shard: &Shard) -> Option<String> {
        const TRIES: usize = 4_096;
        let routing = self.routing.load();
        let mut keys = (0..TRIES).map(|n| format!("hg1:{{probe:{n}}}"));
        keys.find(|key| routing.find(key.as_bytes()).is_some_and(|(owner, _)| std::ptr::eq(&**owner, shard)))
    }

    /// A connection was made.
    pub fn met(&self, shard: &Shard, greeting: &Greeting, round_trip: Duration) {
        shard.round_trip_us.store(round_trip.as_micros() as u64, Ordering::Relaxed);
        self.common.warn_of(&shard.name, greeting);
        shard.returned(&greeting.server);
    }

    pub fn note_error(&self, shard: &Shard, why: &str) {
        *shard.last_error.lock() = Some((Instant::now(), why.to_owned()));
    }

    /// Sends a job on to the node that owns its slot now; gives it back when that cannot be done.
    pub fn send_on(self: &Arc<Self>, slot: u16, owner: &str, asking: bool, job: Job) -> Result<(), Job> {
        let Ok(address) = read_server(owner, 0) else { return Err(job) };
        let shard = self.shard_at(&address, if asking { None } else { Some(slot) });
        self.refresh.notify_one();
        if !shard.is_asked() {
            return Err(job);
        }
        shard.push(job)
    }

    /// The shard at an address, which may be new; it is given the slot.
    fn shard_at(self: &Arc<Self>, address: &Address, slot: Option<u16>) -> Arc<Shard> {
        let routing = self.routing.load_full();
        let Routing::Slots { shards, by_slot } = &*routing else { return routing.shards()[0].clone() };
        let mut shards = shards.clone();
        let known = shards.iter().position(|shard| shard.address.as_ref() == Some(address));
        let number = known.unwrap_or_else(|| {
            shards.push(self.start_line(address));
            shards.len() - 1
        });
        let shard = shards[number].clone();
        let mut by_slot = by_slot.to_vec();
        if let Some(slot) = slot {
            by_slot[usize::from(slot)] = number as u16;
        }
        self.routing.store(Arc::new(Routing::Slots { shards, by_slot: by_slot.into() }));
        shard
    }

    fn start_line(self: &Arc<Self>, address: &Address) -> Arc<Shard> {
        let shard = Shard::new(address.to_string(), Some(address.clone()), self.common.events.clone());
        tokio::spawn(line::run(shard.clone(), self.clone()));
        shard
    }

    /// Takes in how the cluster is laid out now.
    pub fn adopt(self: &Arc<Self>, map: ClusterMap) {
        let routing = self.routing.load_full();
        let old = routing.shards();
        let mut news = Vec::new();
        let shards: Vec<Arc<Shard>> = map
            .primaries
            .iter()
            .map(|address| {
                let known = old.iter().find(|shard| shard.address.as_ref() == Some(address)).cloned();
                known.unwrap_or_else(|| {
                    news.push(format!("+{address}"));
                    self.start_line(address)
                })
            })
            .collect();
        for gone in old.iter().filter(|shard| !shards.iter().any(|other| Arc::ptr_eq(other, shard))) {
            news.push(format!("-{}", gone.name));
            gone.retired.store(true, Ordering::Relaxed);
            gone.arrived.notify_one();
        }
        let is_first = old.is_empty();
        self.routing.store(Arc::new(Routing::Slots { shards, by_slot: map.by_slot.clone().into() }));
        self.common.map.store(Some(Arc::new(map)));
        if !news.is_empty() && !is_first {
            self.common.events.add(Kind::TopologyChanged, "", news.join(" "));
        }
    }
}

fn first_routing(common: &Common) -> Routing {
    let url = &common.resolver.url;
    let shard = |address: &Address| Shard::new(address.to_string(), Some(address.clone()), common.events.clone());
    match &url.layout {
        Layout::One => Routing::One(shard(&url.servers[0])),
        Layout::Sentinel { primary } => Routing::One(Shard::new(primary.clone(), None, common.events.clone())),
        Layout::Ring => Routing::ring(url.servers.iter().map(shard).collect()),
        Layout::Cluster => match &*common.map.load() {
            Some(map) => Routing::Slots {
                shards: map.primaries.iter().map(shard).collect(),
                by_slot: map.by_slot.clone().into(),
            },
            None => Routing::Slots {
                shards: Vec::new(),
                by_slot: vec![super::routing::NOBODY; super::routing::SLOTS].into(),
            },
        },
    }
}
