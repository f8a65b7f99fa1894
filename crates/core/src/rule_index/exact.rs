//! Rules for whole descriptors: a tree a domain, a level an entry, walked as envoyproxy/ratelimit walks its own
//! (SEMANTICS 7.4).
//!
//! At each level the first of these is taken, and there is no way back: `key_value` as it is, the longest beginning of
//! it that a rule names with `*`, the key alone. A rule applies to a descriptor that ends where the rule does.

use super::book::{BLOCKS, DECIDES_ALONE, SHADOW, SWITCHED};
use super::select::Winner;
use super::set::RuleSet;
use crate::rule::{ExactEntry, ExactMatch, WILDCARD};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Rules for whole descriptors that a rule set may have: a change of one copies the tree of its domain.
pub const EXACT_RULES_MAX: usize = 100_000;
const STAR: u8 = WILDCARD as u8;

#[derive(Clone, Debug, Default)]
pub(super) struct ExactRules {
    domains: HashMap<Box<str>, Arc<Node>>,
    len: usize,
    /// How many of them replace others.
    replacing: usize,
}

/// A text that is looked up by bytes: what a beginning cuts off need not end where a character does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(Box<str>);

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    next: HashMap<Text, Node>,
    /// How long the beginnings among them are, without their `*`, and how many of each; the longest first.
    beginnings: Vec<(usize, u32)>,
    /// Rules that end here.
    rules: SmallVec<[Leaf; 1]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub rule: u32,
    pub by: u16,
    pub flags: u16,
    pub priority: i32,
    /// A bit an entry: values that the rule's beginning takes count together.
    pub shared: u32,
}

impl Leaf {
    pub fn shared_of(entries: &[ExactEntry]) -> u32 {
        entries.iter().enumerate().fold(0, |bits, (nth, entry)| bits | u32::from(entry.shared) << nth)
    }
}

impl ExactRules {
    pub fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub fn is_bare(&self) -> bool {
        self.domains.is_empty()
    }

    pub fn insert(&mut self, path: &ExactMatch, leaf: Leaf, replaces: bool) {
        let root = self.domains.entry(path.domain.as_str().into()).or_default();
        Arc::make_mut(root).insert(&path.entries, leaf);
        self.len += 1;
        self.replacing += usize::from(replaces);
    }

    pub fn remove(&mut self, path: &ExactMatch, rule: u32, replaces: bool) {
        let Some(root) = self.domains.get_mut(path.domain.as_str()) else { return };
        let root = Arc::make_mut(root);
        root.remove(&path.entries, rule);
        if root.is_empty() {
            self.domains.remove(path.domain.as_str());
        }
        self.len -= 1;
        self.replacing -= usize::from(replaces);
    }

    /// Turns flags of a rule over.
    pub fn flip(&mut self, path: &ExactMatch, rule: u32, flags: u16) {
        let Some(root) = self.domains.get_mut(path.domain.as_str()) else { return };
        let mut node = Arc::make_mut(root);
        for entry in &path.entries {
            let Some(next) = node.next.get_mut(entry.text.as_bytes()) else { return };
            node = next;
        }
        node.rules.iter_mut().filter(|leaf| leaf.rule == rule).for_each(|leaf| leaf.flags ^= flags);
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.next.is_empty()
    }

    fn insert(&mut self, entries: &[ExactEntry], leaf: Leaf) {
        let Some((first, rest)) = entries.split_first() else { return self.rules.push(leaf) };
        let text = first.text.as_bytes();
        if !self.next.contains_key(text) {
            self.next.insert(Text(first.text.as_str().into()), Node::default());
            if text.last() == Some(&STAR) {
                self.count_beginning(text.len() - 1, true);
            }
        }
        if let Some(next) = self.next.get_mut(text) {
            next.insert(rest, leaf);
        }
    }

    fn remove(&mut self, entries: &[ExactEntry], rule: u32) {
        let Some((first, rest)) = entries.split_first() else { return self.rules.retain(|leaf| leaf.rule != rule) };
        let text = first.text.as_bytes();
        let Some(next) = self.next.get_mut(text) else { return };
        next.remove(rest, rule);
        if next.is_empty() {
            self.next.remove(text);
            if text.last() == Some(&STAR) {
                self.count_beginning(text.len() - 1, false);
            }
        }
    }

    fn count_beginning(&mut self, len: usize, is_new: bool) {
        let found = self.beginnings.binary_search_by(|(other, _)| len.cmp(other));
        match (found, is_new) {
            (Ok(at), true) => self.beginnings[at].1 += 1,
            (Err(at), true) => self.beginnings.insert(at, (len, 1)),
            (Ok(at), false) if self.beginnings[at].1 == 1 => drop(self.beginnings.remove(at)),
            (Ok(at), false) => self.beginnings[at].1 -= 1,
            (Err(_), false) => {}
        }
    }

    /// One level down; with the beginning that took the entry, if one did. `text` is room to write in.
    fn step(&self, key: &str, value: &str, text: &mut SmallVec<[u8; 128]>) -> Option<(&Node, Option<&str>)> {
        text.clear();
        text.extend_from_slice(key.as_bytes());
        text.push(b'_');
        text.extend_from_slice(value.as_bytes());
        if let Some(next) = self.next.get(&text[..]) {
            return Some((next, None));
        }
        for (len, _) in &self.beginnings {
            if *len > text.len() {
                continue;
            }
            // The longest goes first, so what is cut off here is not missed by those that follow.
            text.truncate(*len);
            text.push(STAR);
            if let Some((beginning, next)) = self.next.get_key_value(&text[..]) {
                return Some((next, Some(&beginning.0)));
            }
            text.truncate(*len);
        }
        self.next.get(key.as_bytes()).map(|next| (next, None))
    }
}

/// What a whole descriptor meets.
#[derive(Debug, Default)]
pub struct ExactSelection<'r> {
    /// The block or allow rule that decides alone.
    pub alone: Option<u32>,
    pub winners: SmallVec<[ExactWinner<'r>; 1]>,
}

/// A limit's rule that applies to a whole descriptor.
#[derive(Debug)]
pub struct ExactWinner<'r> {
    pub winner: Winner,
    /// Which entries count by a beginning instead of their value, and by which.
    pub shared: SmallVec<[(usize, &'r str); 2]>,
}

/// Where the walk of a descriptor ended, and the entries that beginnings took on the way.
struct Walked<'r> {
    rules: &'r [Leaf],
    beginnings: SmallVec<[(usize, &'r str); 4]>,
}

impl ExactSelection<'_> {
    /// Every rule that applies.
    pub fn rules(&self) -> impl Iterator<Item = u32> + '_ {
        self.alone.into_iter().chain(self.winners.iter().map(|found| found.winner.rule))
    }
}

impl RuleSet {
    /// Whether any rule is for whole descriptors.
    #[inline]
    pub fn has_exact(&self) -> bool {
        self.exact.len > 0
    }

    /// Whether any of them replaces others.
    #[inline]
    pub fn has_replacing(&self) -> bool {
        self.exact.replacing > 0
    }

    /// The rules that apply to a whole descriptor.
    pub fn select_exact<T: AsRef<str>>(&self, domain: &str, entries: &[(T, T)], now_us: u64) -> ExactSelection<'_> {
        let Some(walked) = self.exact.walk(domain, entries) else { return ExactSelection::default() };
        if let Some(alone) = self.alone_among(walked.rules, now_us) {
            return ExactSelection { alone: Some(alone), winners: SmallVec::new() };
        }
        let mut winners = SmallVec::new();
        for among_shadows in [false, true] {
            let wanted = if among_shadows { SHADOW } else { 0 };
            let limits = walked.rules.iter().filter(|leaf| leaf.flags & (DECIDES_ALONE | SHADOW) == wanted);
            if let Some(leaf) = limits.max_by(|a, b| self.order_leaves(a, b)) {
                let winner =
                    Winner::new(leaf.rule, leaf.by, among_shadows || self.is_leaf_switched(leaf), among_shadows);
                winners.push(ExactWinner { winner, shared: walked.shared(leaf, entries) });
            }
        }
        ExactSelection { alone: None, winners }
    }

    /// The block or allow rule that decides, unless the kill switch keeps it from that.
    fn alone_among(&self, rules: &[Leaf], now_us: u64) -> Option<u32> {
        let is_over = |leaf: &Leaf| self.records.at(leaf.rule).template.until_us.is_some_and(|until| until <= now_us);
        let alone = rules.iter().filter(|leaf| leaf.flags & DECIDES_ALONE != 0 && !is_over(leaf));
        let strongest = alone.max_by(|a, b| {
            let strength = |leaf: &Leaf| (leaf.priority, leaf.flags & BLOCKS);
            strength(a).cmp(&strength(b)).then_with(|| self.order_leaves(a, b))
        });
        let is_kept = |leaf: &&Leaf| leaf.flags & BLOCKS == 0 || !self.is_leaf_switched(leaf);
        strongest.filter(is_kept).map(|leaf| leaf.rule)
    }

    /// Among rules for the same descriptor: priority, then the smaller name.
    fn order_leaves(&self, a: &Leaf, b: &Leaf) -> Ordering {
        a.priority.cmp(&b.priority).then_with(|| self.records.name(b.rule).cmp(self.records.name(a.rule)))
    }

    fn is_leaf_switched(&self, leaf: &Leaf) -> bool {
        self.all_switched || leaf.flags & SWITCHED != 0
    }
}

impl ExactRules {
    fn walk<T: AsRef<str>>(&self, domain: &str, entries: &[(T, T)]) -> Option<Walked<'_>> {
        let mut node: &Node = self.domains.get(domain)?;
        let mut text = SmallVec::new();
        let mut beginnings = SmallVec::new();
        for (nth, (key, value)) in entries.iter().enumerate() {
            let (next, beginning) = node.step(key.as_ref(), value.as_ref(), &mut text)?;
            beginnings.extend(beginning.map(|beginning| (nth, beginning)));
            node = next;
        }
        Some(Walked { rules: &node.rules, beginnings })
    }
}

impl<'r> Walked<'r> {
    fn shared<T: AsRef<str>>(&self, leaf: &Leaf, entries: &[(T, T)]) -> SmallVec<[(usize, &'r str); 2]> {
        let shared = self.beginnings.iter().filter(|(nth, _)| leaf.shared >> nth & 1 == 1);
        let without_key = |(nth, beginning): &(usize, &'r str)| {
            let value = beginning.strip_prefix(entries[*nth].0.as_ref()).and_then(|rest| rest.strip_prefix('_'));
            (*nth, value.unwrap_or(beginning))
        };
        shared.map(without_key).collect()
    }
}
