//! One version of the rules.

use super::book::{OPERATOR, SWITCHED};
use super::exact::ExactRules;
use super::patterns::Patterns;
use super::records::{RankedKey, Record, Records};
use super::table::Table;
use crate::facts::Dim;
use crate::hash::{Hash, Keyed};
use crate::rule::By;
use std::sync::Arc;

/// Which facts a group of rules tests: rules of one shape are found by one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// A bit a [`Dim`].
    pub dims: u8,
    /// The family and length of the address range, if one is tested.
    pub ip: Option<(bool, u8)>,
    /// Sorted names.
    pub descriptors: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
pub(super) struct SeededShape {
    pub shape: Shape,
    pub seed: Hash,
}

/// What a counter is kept for, ready to count with.
#[derive(Clone, Debug)]
pub struct BuiltBy {
    pub by: By,
    pub hash: Hash,
}

#[derive(Clone, Debug)]
pub struct RuleSet {
    pub(super) keyed: Keyed,
    pub(super) shapes: Arc<Vec<SeededShape>>,
    pub(super) patterns: Arc<Patterns>,
    pub(super) table: Table,
    /// Rules that no fact leads to: those for whole descriptors.
    pub(super) exact: Arc<ExactRules>,
    pub(super) records: Records,
    pub(super) bys: Arc<Vec<BuiltBy>>,
    /// Facts that some shape tests or some `by` counts.
    pub(super) needed: u8,
    /// Principal → tier, from overrides.
    pub(super) tiers: Table,
    pub(super) tier_names: Arc<Vec<Arc<str>>>,
    pub(super) groups: Arc<Vec<Arc<str>>>,
    /// The kill switch for all rules: everything is evaluated, nothing but an operator's block is enforced.
    pub(super) all_switched: bool,
    pub version: u64,
}

impl RuleSet {
    pub fn rule_count(&self) -> usize {
        self.records.len()
    }

    #[inline]
    pub fn keyed(&self) -> &Keyed {
        &self.keyed
    }

    #[inline]
    pub fn record(&self, rule: u32) -> &Record {
        self.records.at(rule)
    }

    #[inline]
    pub fn name(&self, rule: u32) -> &str {
        self.records.name(rule)
    }

    #[inline]
    pub fn by(&self, by: u16) -> &BuiltBy {
        &self.bys[usize::from(by)]
    }

    /// Whether the kill switch turned a rule to shadow.
    pub fn is_switched(&self, rule: u32) -> bool {
        let flags = |ranked: RankedKey| self.table.get(ranked.key).find(|entry| entry.value == rule).map(|e| e.flags);
        let flags = self.record(rule).keys().next().and_then(flags).unwrap_or_default();
        flags & SWITCHED != 0 || self.all_switched && flags & OPERATOR == 0
    }

    /// What metrics call a rule.
    pub fn groups(&self) -> &[Arc<str>] {
        &self.groups
    }
}

/// Hash domains: a text means another thing as another fact.
#[inline]
pub(super) fn dim_domain(dim: Dim) -> u8 {
    1 + dim as u8
}
pub(super) const DESCRIPTOR_DOMAIN: u8 = 16;
pub(super) const COUNTER_DOMAIN: u8 = 17;
pub(super) const LABEL_DOMAIN: u8 = 18;
pub(super) const SHAPE_DOMAIN: u8 = 19;
pub(super) const BY_DOMAIN: u8 = 20;
pub(super) const NAME_DOMAIN: u8 = 21;
