//! Where versions of the rules are made.

use super::combination::{Combination, combinations};
use super::exact::{EXACT_RULES_MAX, Leaf};
use super::patterns::{self, Patterns};
use super::records::{BuiltLimit, LimitSet, PATTERNS_MAX, RankedKey, Record, RecordParts, Records, Template};
use super::set::{
    BY_DOMAIN, BuiltBy, COUNTER_DOMAIN, LABEL_DOMAIN, NAME_DOMAIN, RuleSet, SHAPE_DOMAIN, SeededShape, Shape,
    dim_domain,
};
use super::table::{Entry, Strength, Table};
use crate::facts::Dim;
use crate::hash::{Hash, Keyed, shared_id};
use crate::path::Pattern;
use crate::rule::{Action, By, ExactMatch, Limit, OPERATOR_PRIORITY, Override, Principal, Rule};
use hashbrown::HashTable;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Groups metrics tell apart; the rest are [`OTHER_GROUP`].
pub const GROUPS_MAX: usize = 1_000;
pub const OTHER_GROUP: u16 = 0;
/// Different `by`s one rule set may have: a request meets at most one rule of each, shadow rules apart.
const BYS_MAX: usize = 256;
/// Different shapes one rule set may have: each costs every request a look-up.
const SHAPES_MAX: usize = 1_024;

/// Set on entries of `block` and `allow` rules.
pub(super) const DECIDES_ALONE: u16 = 1;
/// Set on entries of shadow rules.
pub(super) const SHADOW: u16 = 2;
/// Set on entries of `block` rules.
pub(super) const BLOCKS: u16 = 4;
/// Set on entries of rules that the kill switch turned to shadow. They stay in their competition.
pub(super) const SWITCHED: u16 = 8;
/// Set on entries of operators' blocks, which the switch for all rules leaves in force.
pub(super) const OPERATOR: u16 = 16;
/// The name that stands for all rules in a switch.
pub const ALL_RULES: &str = "*";

/// Why a rule could not be taken in. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookError(pub String);

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BookError {}

pub struct RuleBook {
    set: RuleSet,
    names: HashTable<u32>,
    shape_seeds: HashMap<Shape, Hash>,
    pattern_numbers: HashMap<Hash, u32>,
    /// How many rules use each pattern, by number less one.
    pattern_uses: Vec<(usize, Arc<Pattern>)>,
    templates: HashMap<Arc<Template>, ()>,
    limit_sets: HashMap<Arc<LimitSet>, ()>,
    by_numbers: HashMap<By, u16>,
    group_numbers: HashMap<Arc<str>, u16>,
    tier_numbers: HashMap<Arc<str>, u32>,
    /// What each rule for whole descriptors is found by.
    exact_paths: HashMap<u32, ExactMatch>,
    /// Names of rules switched to shadow, there or not.
    switched: HashSet<Box<str>>,
    patterns_changed: bool,
}

impl RuleBook {
    pub fn new(keyed: Keyed) -> Self {
        let other: Arc<str> = "other".into();
        let set = RuleSet {
            keyed,
            shapes: Arc::default(),
            patterns: Arc::default(),
            table: Table::default(),
            exact: Arc::default(),
            records: Records::default(),
            bys: Arc::default(),
            needed: 0,
            tiers: Table::default(),
            tier_names: Arc::default(),
            groups: Arc::new(vec![other.clone()]),
            all_switched: false,
            version: 0,
        };
        Self {
            set,
            names: HashTable::new(),
            shape_seeds: HashMap::new(),
            pattern_numbers: HashMap::new(),
            pattern_uses: Vec::new(),
            templates: HashMap::new(),
            limit_sets: HashMap::new(),
            by_numbers: HashMap::new(),
            group_numbers: HashMap::from([(other, OTHER_GROUP)]),
            tier_numbers: HashMap::new(),
            exact_paths: HashMap::new(),
            switched: HashSet::new(),
            patterns_changed: false,
        }
    }

    /// An empty book under the same hash key, whose versions continue these.
    pub fn fresh(&self) -> Self {
        let mut book = Self::new(self.set.keyed.clone());
        book.set.version = self.set.version;
        // Metrics count by a group's number, so a group keeps it.
        book.group_numbers = self.group_numbers.clone();
        book.set.groups = self.set.groups.clone();
        book
    }

    /// The rules as they are now, as an immutable version with the next number.
    pub fn publish(&mut self) -> Arc<RuleSet> {
        if std::mem::take(&mut self.patterns_changed) {
            let used = self.pattern_uses.iter().filter(|(uses, _)| *uses > 0);
            let patterns = used.map(|(_, pattern)| pattern.clone());
            self.set.patterns = Arc::new(Patterns::new(&self.set.keyed, patterns));
        }
        self.set.version += 1;
        Arc::new(self.set.clone())
    }

    /// Makes room for so many rules to come.
    pub fn reserve(&mut self, rules: usize) {
        let (records, keyed) = (&self.set.records, &self.set.keyed);
        self.names.reserve(rules, |id| keyed.text(NAME_DOMAIN, records.name(*id))[0]);
    }

    /// Gives back what loading in bulk left unused.
    pub fn shrink(&mut self) {
        self.set.records.shrink();
    }

    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Adds a rule, or replaces the one of that name.
    pub fn put(&mut self, rule: &Rule) -> Result<(), BookError> {
        self.check_room(rule)?;
        self.remove(&rule.name);
        let keyed = self.set.keyed.clone();
        let is_found_by_facts = rule.enabled && rule.matches.exact.is_none();
        let combinations = if is_found_by_facts { combinations(&rule.matches) } else { Vec::new() };
        let mut keys: Vec<RankedKey> = Vec::with_capacity(combinations.len());
        for combination in &combinations {
            let seed = self.seed_of_shape(combination.shape());
            let key = combination.key(&keyed, seed);
            if !keys.iter().any(|ranked| ranked.key == key) {
                let pattern = combination.endpoint.map_or(0, |pattern| self.use_pattern(&keyed, pattern));
                keys.push(RankedKey::new(key, combination.rank(), pattern));
            }
        }
        let by = self.number_of_by(&rule.by);
        let template = Template {
            by,
            action: rule.action,
            until_us: rule.until_us,
            response: rule.response.clone(),
            on_store_failure: rule.on_store_failure,
            precision: rule.precision,
            replaces: rule
                .matches
                .exact
                .is_some()
                .then(|| rule.replaces.iter().map(|name| name.as_str().into()).collect()),
        };
        let counter = rule.counter.as_deref().unwrap_or(&rule.name);
        let record = Record::new(RecordParts {
            group: self.number_of_group(rule.group.as_deref().unwrap_or(&rule.name)),
            priority: rule.priority,
            keys,
            counter: keyed.mix(keyed.text(COUNTER_DOMAIN, counter), self.set.bys[usize::from(by)].hash),
            counter_id: shared_id(&[counter, &rule.by.names().join("+")]),
            template: shared(&mut self.templates, template),
            limits: self.limit_set(&rule.limits),
        });
        let mut flags = match rule.action {
            Action::Block => DECIDES_ALONE | BLOCKS,
            Action::Allow => DECIDES_ALONE,
            Action::Shadow => SHADOW,
            Action::Throttle => 0,
        };
        flags |= if rule.priority == OPERATOR_PRIORITY { OPERATOR } else { 0 };
        flags |= if self.switched.contains(rule.name.as_str()) { SWITCHED } else { 0 };
        let keys: Vec<RankedKey> = record.keys().collect();
        let id = self.set.records.insert(&rule.name, record);
        for ranked in keys {
            let strength = Strength::new(rule.priority, ranked.rank());
            self.set.table.insert(Entry { key: ranked.key, strength, value: id, by, flags });
        }
        if let Some(path) = rule.matches.exact.as_ref().filter(|_| rule.enabled) {
            let shared = Leaf::shared_of(&path.entries);
            let leaf = Leaf { rule: id, by, flags, priority: rule.priority, shared };
            Arc::make_mut(&mut self.set.exact).insert(path, leaf, !rule.replaces.is_empty());
            self.exact_paths.insert(id, path.clone());
        }
        let records = &self.set.records;
        let hash = |id: &u32| keyed.text(NAME_DOMAIN, records.name(*id))[0];
        self.names.insert_unique(keyed.text(NAME_DOMAIN, &rule.name)[0], id, hash);
        Ok(())
    }

    /// Removes a rule; false when there is none of that name.
    ///
    /// Shapes it used stay until the next full load: they only cost a look-up.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(id) = self.find(name) else { return false };
        let keys: Vec<RankedKey> = self.set.records.at(id).keys().collect();
        for ranked in keys {
            self.set.table.remove(ranked.key, id);
            self.release_pattern(ranked.pattern());
        }
        if let Some(path) = self.exact_paths.remove(&id) {
            let replaces = self.set.records.at(id).template.replaces.as_ref().is_some_and(|names| !names.is_empty());
            Arc::make_mut(&mut self.set.exact).remove(&path, id, replaces);
        }
        let hash = self.set.keyed.text(NAME_DOMAIN, name)[0];
        if let Ok(entry) = self.names.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        self.set.records.remove(id);
        true
    }

    /// Turns a rule, or [`ALL_RULES`], to shadow and back, whether or not there is such a rule yet; false when it was so
    /// already.
    pub fn switch(&mut self, name: &str, shadow: bool) -> bool {
        if name == ALL_RULES {
            return std::mem::replace(&mut self.set.all_switched, shadow) != shadow;
        }
        let changed = if shadow { self.switched.insert(name.into()) } else { self.switched.remove(name) };
        if let (true, Some(id)) = (changed, self.find(name)) {
            let keys: Vec<RankedKey> = self.set.records.at(id).keys().collect();
            for ranked in keys {
                self.set.table.flip(ranked.key, id, SWITCHED);
            }
            if let Some(path) = self.exact_paths.get(&id) {
                Arc::make_mut(&mut self.set.exact).flip(path, id, SWITCHED);
            }
        }
        changed
    }

    pub fn put_override(&mut self, override_: &Override) -> Result<(), BookError> {
        self.remove_override(override_.principal, &override_.value);
        for rule in &override_.rules {
            self.put(rule)?;
        }
        if let Some(tier) = &override_.tier {
            let tier: Arc<str> = tier.as_str().into();
            let next = self.tier_numbers.len() as u32;
            let number = *self.tier_numbers.entry(tier.clone()).or_insert(next);
            if number == next {
                Arc::make_mut(&mut self.set.tier_names).push(tier);
            }
            let key = self.tier_key(override_.principal, &override_.value);
            self.set.tiers.insert(Entry { key, strength: Strength::default(), value: number, by: 0, flags: 0 });
            self.set.needed |= override_.principal.dim().bit();
        }
        Ok(())
    }

    pub fn remove_override(&mut self, principal: Principal, value: &str) -> bool {
        let rule = self.remove(&Override::rule_name(principal, value));
        let block = self.remove(&Override::block_name(principal, value));
        let key = self.tier_key(principal, value);
        let number = self.set.tiers.get(key).next().map(|entry| entry.value);
        let tier = number.is_some_and(|number| self.set.tiers.remove(key, number));
        rule || block || tier
    }

    fn tier_key(&self, principal: Principal, value: &str) -> Hash {
        self.set.keyed.text(dim_domain(principal.dim()), value)
    }

    fn find(&self, name: &str) -> Option<u32> {
        let hash = self.set.keyed.text(NAME_DOMAIN, name)[0];
        self.names.find(hash, |id| self.set.records.name(*id) == name).copied()
    }

    fn check_room(&self, rule: &Rule) -> Result<(), BookError> {
        if self.by_numbers.len() >= BYS_MAX && !self.by_numbers.contains_key(&rule.by) {
            return Err(BookError(format!("`{}`: rules count by more than {BYS_MAX} different sets", rule.name)));
        }
        let is_known = self.find(&rule.name).is_some_and(|id| self.exact_paths.contains_key(&id));
        if rule.matches.exact.is_some() && !is_known && self.set.exact.len() >= EXACT_RULES_MAX {
            let message = format!("`{}`: more than {EXACT_RULES_MAX} rules match whole descriptors", rule.name);
            return Err(BookError(message));
        }
        if self.pattern_uses.len() + rule.matches.endpoint.len() > PATTERNS_MAX {
            return Err(BookError(format!("`{}`: rules name more than {PATTERNS_MAX} endpoints", rule.name)));
        }
        if self.shape_seeds.len() >= SHAPES_MAX {
            let is_new = |combination: &Combination<'_>| !self.shape_seeds.contains_key(&combination.shape());
            if combinations(&rule.matches).iter().any(is_new) {
                return Err(BookError(format!(
                    "`{}`: rules test more than {SHAPES_MAX} different combinations of facts (every length of an \
                     address range counts as one)",
                    rule.name
                )));
            }
        }
        Ok(())
    }

    fn seed_of_shape(&mut self, shape: Shape) -> Hash {
        if let Some(seed) = self.shape_seeds.get(&shape) {
            return *seed;
        }
        let seed = shape_seed(&self.set.keyed, &shape);
        self.set.needed |= shape.dims;
        Arc::make_mut(&mut self.set.shapes).push(SeededShape { shape: shape.clone(), seed });
        self.shape_seeds.insert(shape, seed);
        seed
    }

    fn use_pattern(&mut self, keyed: &Keyed, pattern: &Pattern) -> u32 {
        let key = patterns::key_of(keyed, pattern);
        let uses = &mut self.pattern_uses;
        let number = *self.pattern_numbers.entry(key).or_insert_with(|| {
            uses.push((0, Arc::new(pattern.clone())));
            uses.len() as u32
        });
        let (uses, _) = &mut self.pattern_uses[number as usize - 1];
        *uses += 1;
        self.patterns_changed |= *uses == 1;
        number
    }

    fn release_pattern(&mut self, number: u32) {
        let Some((uses, _)) = (number as usize).checked_sub(1).map(|at| &mut self.pattern_uses[at]) else { return };
        *uses -= 1;
        self.patterns_changed |= *uses == 0;
    }

    fn number_of_by(&mut self, by: &By) -> u16 {
        if let Some(number) = self.by_numbers.get(by) {
            return *number;
        }
        let number = self.by_numbers.len() as u16;
        let hash = self.set.keyed.text(BY_DOMAIN, &by.names().join("\u{0}"));
        self.by_numbers.insert(by.clone(), number);
        self.set.needed |= by.dims;
        if by.dims & (Dim::User.bit() | Dim::ApiKey.bit()) != 0 {
            self.set.needed |= Dim::Ip.bit(); // What stands in for a missing user.
        }
        Arc::make_mut(&mut self.set.bys).push(BuiltBy { by: by.clone(), hash });
        number
    }

    fn number_of_group(&mut self, group: &str) -> u16 {
        if let Some(number) = self.group_numbers.get(group) {
            return *number;
        }
        if self.group_numbers.len() >= GROUPS_MAX {
            return OTHER_GROUP;
        }
        let (number, group): (u16, Arc<str>) = (self.group_numbers.len() as u16, group.into());
        self.group_numbers.insert(group.clone(), number);
        Arc::make_mut(&mut self.set.groups).push(group);
        number
    }

    fn limit_set(&mut self, limits: &[Limit]) -> Arc<LimitSet> {
        let built = limits.iter().map(|limit| BuiltLimit {
            label: limit.label.clone(),
            label_hash: self.set.keyed.text(LABEL_DOMAIN, &limit.label),
            label_id: shared_id(&[&limit.label]),
            quota: limit.quota,
        });
        let built: LimitSet = built.collect();
        shared(&mut self.limit_sets, built)
    }
}

/// The one copy of a value.
fn shared<T: Eq + std::hash::Hash>(known: &mut HashMap<Arc<T>, ()>, value: T) -> Arc<T> {
    if let Some((shared, ())) = known.get_key_value(&value) {
        return shared.clone();
    }
    let value = Arc::new(value);
    known.insert(value.clone(), ());
    value
}

fn shape_seed(keyed: &Keyed, shape: &Shape) -> Hash {
    let (family, length) = shape.ip.map_or((2, 0), |(is_v6, length)| (u8::from(is_v6), length));
    let mut text = vec![shape.dims, family, length];
    for name in &shape.descriptors {
        text.extend_from_slice(name.as_bytes());
        text.push(0);
    }
    keyed.bytes(SHAPE_DOMAIN, &text)
}
