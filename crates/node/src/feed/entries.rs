//! What an entry means: JSON in, something a rule book or a table of keys can take out.

use super::frames::RawEntry;
use crate::identity::{KeyChange, key_change};
use headgate_core::rule::{Override, Principal, Rule, block_name};
use headgate_core::rule_document::{Mistake, read_block, read_override, read_rule};
use headgate_core::rule_index::RuleBook;

pub const RULE: u8 = 1;
pub const OVERRIDE: u8 = 2;
pub const BLOCK: u8 = 3;
pub const KEY: u8 = 4;
pub const SWITCH: u8 = 5;
/// Nodes take a tier as it comes; only the control plane knows which there are.
pub const TIER: u8 = 6;

pub fn word(kind: u8) -> &'static str {
    match kind {
        RULE => "rule",
        OVERRIDE => "override",
        BLOCK => "block",
        KEY => "key",
        SWITCH => "switch",
        TIER => "tier",
        _ => "unknown",
    }
}

/// An entry, understood.
pub enum Change {
    PutRule(Box<Rule>),
    RemoveRule(String),
    PutOverride(Box<Override>),
    RemoveOverride(Principal, String),
    Switch(String, bool),
    Key(KeyChange),
    Nothing,
}

pub fn understand(entry: &RawEntry<'_>) -> Result<Change, String> {
    let id = entry.id;
    Ok(match (entry.kind, entry.body) {
        (RULE, Some(body)) => {
            let rule = read_rule(body).map_err(|mistakes| told(&mistakes))?;
            same(id, &rule.name)?;
            Change::PutRule(Box::new(rule))
        }
        (RULE, None) => Change::RemoveRule(id.into()),
        (OVERRIDE, Some(body)) => {
            let override_ = read_override(body).map_err(|mistakes| told(&mistakes))?;
            same(id, &format!("{}:{}", override_.principal.name(), override_.value))?;
            Change::PutOverride(Box::new(override_))
        }
        (OVERRIDE, None) => {
            let (kind, value) = id.split_once(':').ok_or("expected user:ID, org:ID or api_key:ID")?;
            let principal = Principal::ALL.into_iter().find(|principal| principal.name() == kind);
            Change::RemoveOverride(principal.ok_or("expected user:ID, org:ID or api_key:ID")?, value.into())
        }
        (BLOCK, Some(body)) => {
            let rule = read_block(body).map_err(|mistakes| told(&mistakes))?;
            same(&block_name(id), &rule.name)?;
            Change::PutRule(Box::new(rule))
        }
        (BLOCK, None) => Change::RemoveRule(block_name(id)),
        (KEY, Some(body)) => Change::Key(key_change(body)?),
        (KEY, None) => Change::Key(KeyChange::Gone(id.into())),
        (SWITCH, body) => Change::Switch(id.into(), body.is_some()),
        (TIER, _) => Change::Nothing,
        _ => return Err("this kind of entry is not known here; the control plane is newer than this node".into()),
    })
}

/// There is no room for a rule: rules that are gone may still take some, so a snapshot may cure it.
pub struct Full {
    pub name: String,
    pub message: String,
}

impl Change {
    /// Carries a change of rules out; a key is handed back.
    pub fn apply(&self, book: &mut RuleBook) -> Result<Option<&KeyChange>, Full> {
        match self {
            Change::PutRule(rule) => {
                book.put(rule).map_err(|error| Full { name: rule.name.clone(), message: error.0 })?;
            }
            Change::RemoveRule(name) => drop(book.remove(name)),
            Change::PutOverride(override_) => {
                let name = || format!("{}:{}", override_.principal.name(), override_.value);
                book.put_override(override_).map_err(|error| Full { name: name(), message: error.0 })?;
            }
            Change::RemoveOverride(principal, value) => drop(book.remove_override(*principal, value)),
            Change::Switch(name, shadow) => drop(book.switch(name, *shadow)),
            Change::Key(change) => return Ok(Some(change)),
            Change::Nothing => {}
        }
        Ok(None)
    }
}

fn told(mistakes: &[Mistake]) -> String {
    mistakes.first().map_or_else(|| "cannot be read".to_string(), ToString::to_string)
}

fn same(id: &str, own: &str) -> Result<(), String> {
    if id == own { Ok(()) } else { Err(format!("is called `{own}` inside")) }
}
