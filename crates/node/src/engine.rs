//! The engine: rules, counters and a clock behind every door.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::events::Events;
use crate::feed::Feed;
use crate::identity::{Credentials, Identity, Who};
use crate::refused_memory::RefusedMemory;
use crate::store::memory::{MemoryStore, Occupancy};
use crate::store::remote::{RemoteStore, Status};
use arc_swap::ArcSwap;
use headgate_core::Facts;
use headgate_core::hash::Keyed;
use headgate_core::rule::{OnStoreFailure, Override, Principal, Rule};
use headgate_core::rule_document::Document;
use headgate_core::rule_index::{BookError, Looked, RuleBook, RuleSet};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

/// How an engine decides what its rules leave open.
#[derive(Clone, Debug)]
pub struct Options {
    pub max_keys: usize,
    /// Where this node is: a fact of every request that names no region itself.
    pub region: Option<String>,
    /// Whether a request that no rule applies to is refused.
    pub deny_without_rule: bool,
    /// How much of an IPv6 address is one client.
    pub ipv6_prefix: u8,
    /// Answer repeated refusals without asking the store. Worth it for remote stores only.
    pub refused_memory: bool,
    /// What decides a limit given with the call when the store cannot.
    pub on_store_failure: OnStoreFailure,
    /// Requests of doors that may wait for a shared store at once; what comes on top is decided without it.
    pub max_in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_keys: 1_000_000,
            region: None,
            deny_without_rule: false,
            ipv6_prefix: 64,
            refused_memory: false,
            on_store_failure: OnStoreFailure::Open,
            max_in_flight: 10_000,
        }
    }
}

pub struct Engine {
    pub(crate) keyed: Keyed,
    pub(crate) rules: ArcSwap<RuleSet>,
    book: Mutex<RuleBook>,
    /// Counters in this process: the store itself, or what stands in for a shared one while it is away.
    pub(crate) store: MemoryStore,
    pub(crate) remote: Option<RemoteStore>,
    pub events: Arc<Events>,
    pub(crate) clock: Clock,
    pub(crate) refused: Option<RefusedMemory>,
    pub(crate) options: Options,
    pub counters: Counters,
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// Requests decided without the store because too many waited for it.
    pub overloads: AtomicU64,
    identity: ArcSwap<Identity>,
    identity_error: Mutex<Option<String>>,
    /// Where rules and keys come from that a control plane sends.
    pub(crate) feed: Feed,
}

impl Engine {
    pub fn new(options: Options, clock: Clock) -> Self {
        Self::with_store(options, clock, None, Arc::default())
    }

    /// An engine whose counters are shared.
    pub fn with_store(options: Options, clock: Clock, remote: Option<RemoteStore>, events: Arc<Events>) -> Self {
        let keyed = Keyed::random();
        let mut book = RuleBook::new(keyed.clone());
        Self {
            rules: ArcSwap::new(book.publish()),
            book: Mutex::new(book),
            store: MemoryStore::new(options.max_keys, clock.now_us()),
            remote,
            events,
            clock,
            refused: options.refused_memory.then(RefusedMemory::default),
            options,
            keyed,
            counters: Counters::default(),
            in_flight: Arc::default(),
            overloads: AtomicU64::new(0),
            identity: ArcSwap::default(),
            identity_error: Mutex::new(None),
            feed: Feed::default(),
        }
    }

    /// The rules in force.
    #[inline]
    pub fn rules(&self) -> arc_swap::Guard<Arc<RuleSet>> {
        self.rules.load()
    }

    /// The rules in force, to be kept beyond a call.
    #[inline]
    pub fn rules_full(&self) -> Arc<RuleSet> {
        self.rules.load_full()
    }

    /// The address a client is counted by.
    pub fn counted_ip(&self, ip: std::net::IpAddr) -> std::net::IpAddr {
        headgate_core::net::counted_ip(ip, self.options.ipv6_prefix)
    }

    /// A request's facts as the rules see them.
    #[inline]
    pub fn look<'a>(&'a self, rules: &'a RuleSet, facts: Facts<'a>) -> Looked<'a> {
        let region = facts.region.or(self.options.region.as_deref());
        rules.look(Facts { region, ..facts }, self.options.ipv6_prefix)
    }

    /// Nanoseconds each selection of rules takes, for the benchmark.
    pub fn time_selections(&self, orgs: &[String], path: &str, tier: Option<&str>) -> Vec<u64> {
        let rules = self.rules();
        let time = |org: &String| {
            let start = Instant::now();
            let facts = Facts { org: Some(org), path: Some(path), tier, ..Facts::default() };
            std::hint::black_box(rules.select(&self.look(&rules, facts), 0));
            start.elapsed().as_nanos() as u64
        };
        orgs.iter().map(time).collect()
    }

    pub fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// What the calendar says.
    #[inline]
    pub fn wall_us(&self) -> u64 {
        self.clock.wall_us()
    }

    /// How this node knows who is asking.
    #[inline]
    pub fn identity(&self) -> arc_swap::Guard<Arc<Identity>> {
        self.identity.load()
    }

    /// Keys that come by the feed stay, whatever else changes.
    pub fn set_identity(&self, identity: Identity) {
        let changing = self.feed.changing.lock();
        let api_keys = changing.keys.clone().or(identity.api_keys);
        self.identity.store(Arc::new(Identity { api_keys, ..identity }));
    }

    /// For whoever holds the feed's lock.
    pub(crate) fn change_identity(&self, change: impl FnOnce(Identity) -> Identity) {
        let now = Identity::clone(&self.identity.load());
        self.identity.store(Arc::new(change(now)));
    }

    /// Why the last change of how callers are known was refused, while the old way goes on.
    pub fn identity_error(&self) -> Option<String> {
        self.identity_error.lock().clone()
    }

    pub fn set_identity_error(&self, error: Option<String>) {
        *self.identity_error.lock() = error;
    }

    /// Who is asking, now.
    #[inline]
    pub fn identify(&self, credentials: &Credentials<'_>) -> Who {
        self.identity.load().identify(credentials, self.wall_us())
    }

    /// How the shared store is; none when counters are kept here.
    pub fn store_status(&self) -> Option<Status> {
        self.remote.as_ref().map(RemoteStore::status)
    }

    pub fn is_shared(&self) -> bool {
        self.remote.is_some()
    }

    pub fn occupancy(&self) -> Occupancy {
        self.store.occupancy()
    }

    /// Replaces all rules at once. On an error the old ones stay.
    pub fn load(&self, document: &Document) -> Result<(), BookError> {
        self.replace(|book| {
            document.rules.iter().try_for_each(|rule| book.put(rule))?;
            document.overrides.iter().try_for_each(|override_| book.put_override(override_))
        })
    }

    /// Replaces all rules by what `fill` puts into an empty book.
    pub fn replace<E>(&self, fill: impl FnOnce(&mut RuleBook) -> Result<(), E>) -> Result<(), E> {
        let mut book = self.book.lock();
        let mut fresh = book.fresh();
        fill(&mut fresh)?;
        fresh.shrink();
        *book = fresh;
        self.rules.store(book.publish());
        Ok(())
    }

    /// Adds or replaces one rule.
    pub fn put_rule(&self, rule: &Rule) -> Result<(), BookError> {
        self.change(|book| book.put(rule))
    }

    /// Removes one rule; false when there is none of that name.
    pub fn remove_rule(&self, name: &str) -> bool {
        self.change_if(|book| book.remove(name))
    }

    pub fn put_override(&self, override_: &Override) -> Result<(), BookError> {
        self.change(|book| book.put_override(override_))
    }

    pub fn remove_override(&self, principal: Principal, value: &str) -> bool {
        self.change_if(|book| book.remove_override(principal, value))
    }

    /// Any number of changes as one version.
    pub(crate) fn change_rules(&self, change: impl FnOnce(&mut RuleBook)) {
        let mut book = self.book.lock();
        change(&mut book);
        self.rules.store(book.publish());
    }

    fn change(&self, change: impl FnOnce(&mut RuleBook) -> Result<(), BookError>) -> Result<(), BookError> {
        let mut book = self.book.lock();
        change(&mut book)?;
        self.rules.store(book.publish());
        Ok(())
    }

    fn change_if(&self, change: impl FnOnce(&mut RuleBook) -> bool) -> bool {
        let mut book = self.book.lock();
        let changed = change(&mut book);
        if changed {
            self.rules.store(book.publish());
        }
        changed
    }
}
