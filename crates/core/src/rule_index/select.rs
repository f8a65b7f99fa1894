//! Choosing the rules of a request.

use super::book::{BLOCKS, DECIDES_ALONE, OPERATOR, SHADOW, SWITCHED};
use super::patterns::Hits;
use super::set::{BuiltBy, DESCRIPTOR_DOMAIN, RuleSet, SeededShape, dim_domain};
use super::table::Entry;
use crate::facts::{DEFAULT_TIER, Dim, Facts};
use crate::hash::Hash;
use crate::net;
use crate::path::{Pattern, normalise};
use crate::subject::{put_principal, put_rest};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

/// The subject of requests with neither user nor address.
const ANONYMOUS: Hash = [0x616e_6f6e_796d_6f75, 0x73];

/// A request's facts, hashed once for every look-up to come.
pub struct Looked<'a> {
    pub facts: Facts<'a>,
    pub path: Option<Cow<'a, str>>,
    pub tier: &'a str,
    /// Where the tier came from: an override's principal, or none.
    pub tier_override: Option<Dim>,
    pub counted_ip: Option<IpAddr>,
    /// Nothing stands in for a fact that is missing: no default tier, no address for a user.
    is_strict: bool,
    hashes: [Hash; Dim::COUNT],
    present: u8,
    ip_counted_hash: Hash,
    patterns: Hits,
}

/// A rule that applies, with what it counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winner {
    pub rule: u32,
    pub by: u16,
    /// Evaluated and not enforced: a shadow rule, or one that the kill switch turned to shadow.
    pub shadow: bool,
    /// Whether it won among shadow rules.
    among_shadows: bool,
}

impl Winner {
    pub(super) fn new(rule: u32, by: u16, shadow: bool, among_shadows: bool) -> Self {
        Self { rule, by, shadow, among_shadows }
    }
}

/// What was chosen for a request.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The block or allow rule that decides alone.
    pub alone: Option<u32>,
    pub winners: SmallVec<[Winner; 6]>,
}

/// What became of a rule that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Wins,
    LosesTo(u32),
}

/// One rule that matched, for the account of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub rule: u32,
    pub rank: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Copy)]
struct Contender {
    entry: Entry,
    order: u32,
}

impl<'a> Looked<'a> {
    /// Nothing hashed yet.
    #[inline]
    fn of(facts: Facts<'a>, ipv6_prefix: u8, is_strict: bool) -> Self {
        Looked {
            facts,
            path: facts.path.map(normalise),
            tier: facts.tier.unwrap_or(DEFAULT_TIER),
            tier_override: None,
            counted_ip: facts.ip.map(|ip| net::counted_ip(ip, ipv6_prefix)),
            is_strict,
            hashes: [[0, 0]; Dim::COUNT],
            present: 0,
            ip_counted_hash: [0, 0],
            patterns: Hits::new(),
        }
    }
}

impl RuleSet {
    /// Hashes the facts the rules ask for. `claimed` facts are taken as they are: verifying them was the door's work.
    #[inline]
    pub fn look<'a>(&'a self, facts: Facts<'a>, ipv6_prefix: u8) -> Looked<'a> {
        let mut looked = Looked::of(facts, ipv6_prefix, false);
        self.hash(&mut looked);
        looked
    }

    /// The same for facts that nothing stands in for when they are missing.
    #[inline]
    pub fn look_strictly<'a>(&'a self, facts: Facts<'a>, ipv6_prefix: u8) -> Looked<'a> {
        let mut looked = Looked::of(facts, ipv6_prefix, true);
        self.hash(&mut looked);
        looked
    }

    fn hash<'a>(&'a self, looked: &mut Looked<'a>) {
        let (keyed, facts) = (&self.keyed, looked.facts);
        let mut put = |dim: Dim, text: Option<&str>| {
            if let (Some(text), true) = (text, self.needed & dim.bit() != 0) {
                looked.hashes[dim as usize] = keyed.text(dim_domain(dim), text);
                looked.present |= dim.bit();
            }
        };
        put(Dim::User, facts.user);
        put(Dim::ApiKey, facts.api_key);
        put(Dim::Org, facts.org);
        put(Dim::Region, facts.region);
        if let Some(method) = facts.method {
            let upper = method.bytes().any(|byte| byte.is_ascii_lowercase());
            if upper { put(Dim::Method, Some(&method.to_ascii_uppercase())) } else { put(Dim::Method, Some(method)) }
        }
        let has_tier = !looked.is_strict || facts.tier.is_some();
        if has_tier && !self.tiers.is_empty() {
            self.apply_tier_override(looked);
        }
        if has_tier && self.needed & Dim::Tier.bit() != 0 {
            looked.hashes[Dim::Tier as usize] = keyed.text(dim_domain(Dim::Tier), looked.tier);
            looked.present |= Dim::Tier.bit();
        }
        if let (Some(ip), true) = (looked.counted_ip, self.needed & Dim::Ip.bit() != 0) {
            looked.ip_counted_hash = net::with_bytes(ip, |bytes| keyed.bytes(dim_domain(Dim::Ip), bytes));
            looked.present |= Dim::Ip.bit();
        }
        if let (Some(path), true) = (&looked.path, self.needed & Dim::Endpoint.bit() != 0) {
            let path_key = self.patterns.matching(keyed, path, &mut looked.patterns);
            let best = self.patterns.most_specific(&looked.patterns);
            looked.hashes[Dim::Endpoint as usize] = best.map_or(path_key, |(key, _)| key);
            looked.present |= Dim::Endpoint.bit();
        }
    }

    /// A tier set for the user, the API key or the org beats the one claimed.
    fn apply_tier_override<'a>(&'a self, looked: &mut Looked<'a>) {
        for dim in [Dim::User, Dim::ApiKey, Dim::Org] {
            if looked.present & dim.bit() == 0 {
                continue;
            }
            if let Some(entry) = self.tiers.get(looked.hashes[dim as usize]).next() {
                looked.tier = &self.tier_names[entry.value as usize];
                looked.tier_override = Some(dim);
                return;
            }
        }
    }

    /// The rules that apply.
    #[inline]
    pub fn select(&self, looked: &Looked<'_>, now_us: u64) -> Selection {
        let mut alone: Option<Contender> = None;
        let mut best: SmallVec<[Contender; 8]> = SmallVec::new();
        // Losing must not cost a look at the rule's record: that is a cache miss among millions.
        self.each_match(looked, |entry| {
            let contender = Contender { entry: *entry, order: self.order(entry) };
            if entry.flags & DECIDES_ALONE != 0 {
                let until_us = self.records.at(entry.value).template.until_us;
                let over = until_us.is_some_and(|until_us| until_us <= now_us);
                if !over && alone.is_none_or(|other| self.beats_alone(&contender, &other)) {
                    alone = Some(contender);
                }
                return;
            }
            let competes =
                |other: &&mut Contender| other.entry.by == entry.by && (other.entry.flags ^ entry.flags) & SHADOW == 0;
            match best.iter_mut().find(competes) {
                Some(other) if self.beats(&contender, other) => *other = contender,
                Some(_) => {}
                None => {
                    let at = best.iter().position(|other| contender.order < other.order).unwrap_or(best.len());
                    best.insert(at, contender);
                }
            }
        });
        if let Some(alone) = alone.filter(|alone| !self.is_switched_block(&alone.entry)) {
            return Selection { alone: Some(alone.entry.value), winners: SmallVec::new() };
        }
        let winners = best.iter().map(|contender| Winner {
            rule: contender.entry.value,
            by: contender.entry.by,
            shadow: self.all_switched || contender.entry.flags & (SHADOW | SWITCHED) != 0,
            among_shadows: contender.entry.flags & SHADOW != 0,
        });
        Selection { alone: None, winners: winners.collect() }
    }

    /// Every rule that matched and what became of it, most important first.
    pub fn account(&self, looked: &Looked<'_>, now_us: u64) -> Vec<Candidate> {
        let selection = self.select(looked, now_us);
        let mut candidates: Vec<Candidate> = Vec::new();
        self.each_match(looked, |entry| {
            let rank = self.records.at(entry.value).rank(entry.key);
            if let Some(known) = candidates.iter_mut().find(|known| known.rule == entry.value) {
                known.rank = known.rank.max(rank);
                return;
            }
            let winner = selection
                .winners
                .iter()
                .find(|winner| winner.by == entry.by && winner.among_shadows == (entry.flags & SHADOW != 0));
            let decides_alone = entry.flags & DECIDES_ALONE != 0;
            let decider = selection.alone.or(winner.filter(|_| !decides_alone).map(|winner| winner.rule));
            let outcome = match decider {
                Some(rule) if rule != entry.value => Outcome::LosesTo(rule),
                Some(_) => Outcome::Wins,
                // A block whose time is over, or that is switched off, loses to nobody.
                None => Outcome::LosesTo(entry.value),
            };
            candidates.push(Candidate { rule: entry.value, rank, outcome });
        });
        candidates.sort_by_key(|candidate| (candidate.outcome != Outcome::Wins, candidate.rule));
        candidates
    }

    /// The subject's hash, or the name of the fact that is missing.
    #[inline]
    pub fn subject<'s>(&self, looked: &Looked<'_>, by: &'s BuiltBy) -> Result<Hash, &'s str> {
        let mut subject = by.hash;
        let mut dims = by.by.dims;
        while dims != 0 {
            let dim = Dim::ALL[dims.trailing_zeros() as usize];
            dims &= dims - 1;
            let value = if dim == Dim::Ip && looked.present & dim.bit() != 0 {
                looked.ip_counted_hash
            } else if looked.present & dim.bit() != 0 {
                looked.hashes[dim as usize]
            } else if matches!(dim, Dim::User | Dim::ApiKey) && !looked.is_strict {
                self.stand_in(looked)
            } else {
                return Err(dim.name());
            };
            subject = self.keyed.mix(subject, value);
        }
        for name in &by.by.descriptors {
            let value = descriptor(looked, name).ok_or(name.as_str())?;
            subject = self.keyed.mix(subject, self.keyed.text(DESCRIPTOR_DOMAIN, value));
        }
        Ok(subject)
    }

    /// The subject's key in a shared store. Asked only where [`RuleSet::subject`] found nothing missing.
    pub fn subject_key(&self, looked: &Looked<'_>, by: &BuiltBy) -> Vec<u8> {
        const PRINCIPALS: [Dim; 5] = [Dim::User, Dim::ApiKey, Dim::Org, Dim::Ip, Dim::Endpoint];
        let dims = by.by.dims;
        let principal = PRINCIPALS.into_iter().find(|dim| dims & dim.bit() != 0);
        let mut key = Vec::with_capacity(48);
        match principal.map(|dim| (dim, self.fact_text(looked, dim))) {
            None => put_principal(&mut key, "global", None),
            Some((dim, Some(text))) => put_principal(&mut key, dim.name(), Some(&text)),
            Some((_, None)) => match looked.counted_ip {
                Some(ip) => put_principal(&mut key, Dim::Ip.name(), Some(&ip.to_string())),
                None => put_principal(&mut key, "anonymous", None),
            },
        }
        for dim in Dim::ALL.into_iter().filter(|dim| dims & dim.bit() != 0 && Some(*dim) != principal) {
            // A missing API key is stood in for by the address, which may differ where the principal is the same.
            let stand_in = || looked.counted_ip.map_or("anonymous".into(), |ip| format!("~{ip}").into());
            put_rest(&mut key, dim.name(), &self.fact_text(looked, dim).unwrap_or_else(stand_in));
        }
        for name in &by.by.descriptors {
            put_rest(&mut key, name, descriptor(looked, name).unwrap_or_default());
        }
        key
    }

    fn fact_text<'a>(&'a self, looked: &'a Looked<'_>, dim: Dim) -> Option<Cow<'a, str>> {
        match dim {
            Dim::User => looked.facts.user.map(Cow::Borrowed),
            Dim::ApiKey => looked.facts.api_key.map(Cow::Borrowed),
            Dim::Org => looked.facts.org.map(Cow::Borrowed),
            Dim::Ip => looked.counted_ip.map(|ip| Cow::Owned(ip.to_string())),
            Dim::Endpoint => self.endpoint(looked).map(Cow::Borrowed),
            Dim::Method => looked.facts.method.map(|method| Cow::Owned(method.to_ascii_uppercase())),
            Dim::Region => looked.facts.region.map(Cow::Borrowed),
            Dim::Tier => Some(Cow::Borrowed(looked.tier)),
        }
    }

    /// A request without a user counts by its address, and without that with all others like it.
    fn stand_in(&self, looked: &Looked<'_>) -> Hash {
        if looked.present & Dim::Ip.bit() != 0 {
            return self.keyed.mix(looked.ip_counted_hash, ANONYMOUS);
        }
        self.keyed.mix(ANONYMOUS, ANONYMOUS)
    }

    /// The endpoint a request is counted under: its most specific pattern, else its path.
    pub fn endpoint<'a>(&'a self, looked: &'a Looked<'_>) -> Option<&'a str> {
        let pattern: Option<&'a Arc<Pattern>> =
            self.patterns.most_specific(&looked.patterns).map(|(_, pattern)| pattern);
        pattern.map(|pattern| pattern.text.as_str()).or(looked.path.as_deref())
    }

    #[inline]
    fn each_match(&self, looked: &Looked<'_>, mut found: impl FnMut(&Entry)) {
        let mut keys: SmallVec<[Hash; 16]> = SmallVec::new();
        for shape in self.shapes.iter() {
            if let Some(key) = self.fold_texts(looked, shape) {
                if shape.shape.dims & Dim::Endpoint.bit() == 0 {
                    keys.push(key);
                } else {
                    keys.extend(looked.patterns.iter().map(|hit| self.keyed.mix(key, hit.key)));
                }
            }
        }
        // Among millions of rules each key is a cache miss: started together, they are waited for together.
        if self.table.is_large() {
            std::hint::black_box(keys.iter().fold(0, |sum, key| sum ^ self.table.touch(*key)));
        }
        for key in keys {
            self.table.get(key).for_each(&mut found);
        }
    }

    /// The part of a shape's key that single-valued facts make; none when one is missing.
    #[inline]
    fn fold_texts(&self, looked: &Looked<'_>, SeededShape { shape, seed }: &SeededShape) -> Option<Hash> {
        if shape.dims & !looked.present != 0 {
            return None;
        }
        let mut key = *seed;
        let mut dims = shape.dims & !(Dim::Ip.bit() | Dim::Endpoint.bit());
        while dims != 0 {
            key = self.keyed.mix(key, looked.hashes[dims.trailing_zeros() as usize]);
            dims &= dims - 1;
        }
        for name in &shape.descriptors {
            let value = descriptor(looked, name)?;
            key = self.keyed.mix(key, self.keyed.text(DESCRIPTOR_DOMAIN, value));
        }
        if let Some((is_v6, prefix)) = shape.ip {
            let ip = looked.facts.ip.filter(|ip| ip.is_ipv6() == is_v6)?;
            let masked = net::masked(ip, prefix);
            let hash = net::with_bytes(masked, |bytes| self.keyed.bytes(dim_domain(Dim::Ip), bytes));
            key = self.keyed.mix(key, hash);
        }
        Some(key)
    }

    /// Counted by user first and globally last, whatever order they were found in.
    #[inline]
    fn order(&self, entry: &Entry) -> u32 {
        let dims = self.bys[usize::from(entry.by)].by.dims.wrapping_sub(1);
        u32::from(dims) << 24 | u32::from(entry.by) << 3 | u32::from(entry.flags & SHADOW)
    }

    /// A block that the kill switch keeps from deciding; an operator's own block it does not.
    fn is_switched_block(&self, entry: &Entry) -> bool {
        let is_switched = self.all_switched && entry.flags & OPERATOR == 0 || entry.flags & SWITCHED != 0;
        entry.flags & BLOCKS != 0 && is_switched
    }

    /// Among limits that count by the same: priority, then specificity, then the smaller name.
    #[inline]
    fn beats(&self, a: &Contender, b: &Contender) -> bool {
        let order = a.entry.strength.cmp(&b.entry.strength);
        order.then_with(|| self.by_name(a, b)) == Ordering::Greater
    }

    /// Among block and allow rules: priority, then block before allow, then specificity, then name.
    fn beats_alone(&self, a: &Contender, b: &Contender) -> bool {
        let strength = |c: &Contender| {
            let (priority, rank) = c.entry.strength.priority_and_rank();
            (priority, c.entry.flags & BLOCKS, rank)
        };
        strength(a).cmp(&strength(b)).then_with(|| self.by_name(a, b)) == Ordering::Greater
    }

    fn by_name(&self, a: &Contender, b: &Contender) -> Ordering {
        self.records.name(b.entry.value).cmp(self.records.name(a.entry.value))
    }
}

#[inline]
fn descriptor<'a>(looked: &Looked<'a>, name: &str) -> Option<&'a str> {
    looked.facts.descriptors.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}
