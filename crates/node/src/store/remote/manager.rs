//! The store's own thread: keeps the lines, says that this node is alive, follows the cluster, and settles debts.

use super::call::Part;
use super::context::{Context, Nodes};
use super::lane::Lane;
use super::ledger::Debt;
use super::line;
use super::resp::{Reply, put_bulk, put_command, put_head};
use super::routing::Routing;
use super::scripts::Verb;
use super::shard::{Errand, Job, Shard};
use super::ticket::{Fate, Group, Mailbox, NO_LOG, Place, Places, Question, Ticket, Waiter};
use super::url::Layout;
use crate::events::Kind;
use crate::store::Mode;
use headgate_core::hash::shared_id;
use headgate_core::verdict::LimitResult;
use smallvec::smallvec;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// Where nodes say that they are alive.
const NODES_KEY: &[u8] = b"hg1:{nodes}";
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A node that was silent for so long counts as gone.
const SILENCE_MS: &[u8] = b"5000";
/// How often a subject's bytes are measured, in heartbeats.
const HEARTBEATS_PER_SAMPLE: u64 = 10;
/// How often the cluster is looked at though nothing says it changed ...
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// ... and while something is wrong.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a debt may take to be told: it is not on anybody's way.
const DEBT_DEADLINE: Duration = Duration::from_secs(2);
/// How often debts that could not be told are tried again.
const SETTLE_EVERY: Duration = Duration::from_secs(5);
const LANE_RETRY: Duration = Duration::from_millis(250);

pub async fn run(context: Arc<Context>) {
    for shard in context.routing.load().shards() {
        tokio::spawn(line::run(shard.clone(), context.clone()));
    }
    tokio::spawn(beat(context.clone()));
    tokio::spawn(settle(context.clone()));
    match context.common.resolver.url.layout {
        Layout::Cluster => {
            tokio::spawn(follow(context.clone()));
        }
        Layout::One | Layout::Sentinel { .. } => {
            tokio::spawn(keep_lane(context.clone()));
        }
        Layout::Ring => {}
    }
    while !context.stopping.load(Ordering::Relaxed) {
        context.stopped.notified().await;
    }
}

/// Says every second that this node is alive, and learns who else is.
async fn beat(context: Arc<Context>) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        ticks.tick().await;
        let routing = context.routing.load_full();
        if let Some((shard, _)) = routing.find(NODES_KEY) {
            send_heartbeat(&context, shard);
        }
        if number % HEARTBEATS_PER_SAMPLE == 1 {
            measure(&context, &routing);
        }
    }
}

fn send_heartbeat(context: &Arc<Context>, shard: &Arc<Shard>) {
    let me = format!("{:016x}", context.nodes.load().me);
    let context = context.clone();
    let write = move |out: &mut Vec<u8>, greeting: &super::greeting::Greeting| {
        put_head(out, 6);
        put_bulk(out, b"EVALSHA");
        put_bulk(out, &greeting.shas[Verb::Heartbeat as usize]);
        put_bulk(out, b"1");
        put_bulk(out, NODES_KEY);
        put_bulk(out, me.as_bytes());
        put_bulk(out, SILENCE_MS);
    };
    let read = move |reply: Option<&Reply<'_>>| {
        let Some(items) = reply.and_then(Reply::array) else { return };
        let id = |item: &Reply<'_>| item.text().map(|text| u64::from_str_radix(text, 16).unwrap_or(shared_id(&[text])));
        let all: Vec<u64> = items.iter().filter_map(id).collect();
        if !all.is_empty() {
            let me = context.nodes.load().me;
            context.nodes.store(Arc::new(Nodes { me, all }));
        }
    };
    send(shard, write, read);
}

/// Asks for the bytes of some subject that was counted lately.
fn measure(context: &Arc<Context>, routing: &Routing) {
    let Some(key) = context.sample.lock().take() else { return };
    let Some((shard, _)) = routing.find(&key) else { return };
    let context = context.clone();
    let write = move |out: &mut Vec<u8>, _: &super::greeting::Greeting| {
        put_command(out, &[b"MEMORY", b"USAGE", &key]);
    };
    let read = move |reply: Option<&Reply<'_>>| {
        if let Some(Reply::Number(bytes)) = reply {
            context.bytes_per_subject.store(u64::try_from(*bytes).unwrap_or(0), Ordering::Relaxed);
        }
    };
    send(shard, write, read);
}

fn send(
    shard: &Arc<Shard>,
    write: impl Fn(&mut Vec<u8>, &super::greeting::Greeting) + Send + 'static,
    read: impl FnOnce(Option<&Reply<'_>>) + Send + 'static,
) {
    if shard.is_asked() {
        let errand = Errand::new(write, read, Instant::now() + HEARTBEAT);
        let _ = shard.push(Job::Errand(errand)); // A heartbeat that finds no room is missed.
    }
}

/// Follows the cluster's changes.
async fn follow(context: Arc<Context>) {
    loop {
        let is_whole = {
            let routing = context.routing.load();
            !routing.shards().is_empty() && routing.shards().iter().all(|shard| shard.is_asked())
        };
        let pause = if is_whole { LOOK_EVERY } else { LOOK_AGAIN };
        tokio::select! {
            () = context.refresh.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
        let common = context.common.clone();
        let known: Vec<_> = {
            let routing = context.routing.load();
            let up = routing.shards().iter().filter(|shard| shard.is_asked());
            up.filter_map(|shard| shard.address.clone()).collect()
        };
        let found = tokio::task::spawn_blocking(move || common.resolver.cluster(&known)).await;
        if let Ok(Ok(map)) = found {
            context.adopt(map);
        }
        // A map that is being changed is not worth asking for more often.
        tokio::time::sleep(LOOK_AGAIN / 2).await;
    }
}

/// Keeps a connection for threads that wait, as long as the line itself is up.
async fn keep_lane(context: Arc<Context>) {
    loop {
        context.lane_wanted.notified().await;
        loop {
            let shard = context.routing.load().shards()[0].clone();
            if !shard.is_asked() {
                tokio::time::sleep(LANE_RETRY).await;
                continue;
            }
            let deadline = context.options.connect_timeout;
            let made = match context.target(&shard).await {
                Ok(target) => {
                    tokio::task::spawn_blocking(move || Lane::connect(&target, Instant::now() + deadline)).await.ok()
                }
                Err(_) => None,
            };
            if let Some(Ok(lane)) = made {
                context.lane_asked.store(false, Ordering::Relaxed);
                *context.lane.lock() = Some(lane);
                break;
            }
            tokio::time::sleep(LANE_RETRY).await;
        }
    }
}

/// Tells shards that are back what was admitted without them.
async fn settle(context: Arc<Context>) {
    loop {
        tokio::select! {
            () = context.reconcile.notified() => {}
            () = tokio::time::sleep(SETTLE_EVERY) => {}
        }
        let routing = context.routing.load_full();
        for shard in routing.shards().iter().filter(|shard| shard.is_asked()) {
            let mine = |key: &[u8]| routing.find(key).is_some_and(|(owner, _)| Arc::ptr_eq(owner, shard));
            let debts = context.ledger.take(mine);
            if debts.is_empty() {
                continue;
            }
            let count = debts.len();
            for debt in debts {
                tell(&context, shard, &routing, debt);
            }
            let what = format!("what {count} counters admitted meanwhile is being reported");
            context.common.events.add(Kind::Reconciled, &shard.name, what);
        }
    }
}

/// A debt on its way: it comes back if the shard does not take it.
struct Owed {
    debt: Debt,
    context: Weak<Context>,
}

impl Mailbox for Owed {
    fn put(&self, ticket: Arc<Ticket>) {
        // What was sent and got no answer may have been counted: counting it twice would be worse than not at all.
        let failed = ticket.state.lock().fates.contains(&Fate::Failed) && !ticket.was_sent(0);
        if let (true, Some(context)) = (failed, self.context.upgrade()) {
            context.ledger.put_back(self.debt.clone());
        }
    }

    fn wake(&self) {}
}

fn tell(context: &Arc<Context>, shard: &Arc<Shard>, routing: &Routing, debt: Debt) {
    let slot = routing.find(&debt.key).map_or(0, |(_, slot)| slot);
    let mut places = Places::default();
    let key = places.key(&debt.key);
    let log = debt.log.as_ref().map_or(NO_LOG, |log| places.key(log));
    places.of.push(Place { id: debt.id, key, log });
    let limits = smallvec![LimitResult::ask(None, 0, false, debt.quota, debt.amount, [0, 0], [0, 0])];
    let question = Question { limits, places: Arc::new(places), mode: Mode::Check };
    let groups = smallvec![Group { shard: shard.clone(), slot, limits: smallvec![0] }];
    let owed = Arc::new(Owed { debt, context: Arc::downgrade(context) });
    let ticket = Ticket::new(question, groups, Instant::now() + DEBT_DEADLINE, Waiter::Mailbox(owed), 0);
    if shard.push(Job::Check(Part { forced: true, ..Part::new(ticket.clone(), 0) })).is_err() && ticket.fail(0) {
        ticket.tell();
    }
}
