//! Rule documents: JSON in, rules or a list of every mistake out.

mod block_reader;
mod exact_reader;
mod plain;
mod reader;
mod rule_reader;

use crate::rule::{Override, Rule};
use reader::Reader;
pub use reader::{Mistake, Step};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Mistakes listed before reading stops.
pub const MISTAKES_MAX: usize = 100;
/// Rules one document may hold; more go through the bulk form.
pub const DOCUMENT_RULES_MAX: usize = 1_000_000;

#[derive(Clone, Debug, Default)]
pub struct Document {
    pub rules: Vec<Rule>,
    pub overrides: Vec<Override>,
}

/// Reads `{"rules": […], "tiers": […], "overrides": […]}`.
pub fn read_document(text: &str) -> Result<Document, Vec<Mistake>> {
    let value: Value = serde_json::from_str(text).map_err(|error| vec![Mistake::at_root(error.to_string())])?;
    let mut mistakes = Vec::new();
    let document = read_value(&value, &mut mistakes);
    if mistakes.is_empty() { Ok(document) } else { Err(mistakes) }
}

/// Reads one rule on its own.
pub fn read_rule(text: &str) -> Result<Rule, Vec<Mistake>> {
    plain::read_plain(text).map_or_else(|| read_one(text, rule_reader::rule), Ok)
}

/// Reads one override on its own.
pub fn read_override(text: &str) -> Result<Override, Vec<Mistake>> {
    read_one(text, rule_reader::override_)
}

/// Reads an operator's block on its own: the rule it stands for.
pub fn read_block(text: &str) -> Result<Rule, Vec<Mistake>> {
    read_one(text, block_reader::block)
}

fn read_one<T>(text: &str, read: impl Fn(&mut Reader<'_, '_>, &Value) -> Option<T>) -> Result<T, Vec<Mistake>> {
    let value: Value = serde_json::from_str(text).map_err(|error| vec![Mistake::at_root(error.to_string())])?;
    let mut mistakes = Vec::new();
    let item = read(&mut Reader::new(&mut mistakes), &value);
    match item {
        Some(item) if mistakes.is_empty() => Ok(item),
        _ => Err(mistakes),
    }
}

fn read_value(value: &Value, mistakes: &mut Vec<Mistake>) -> Document {
    let mut reader = Reader::new(mistakes);
    let Some(object) = reader.object(value, &["rules", "tiers", "overrides"]) else {
        return Document::default();
    };
    let tiers = object.get("tiers").map(|tiers| reader.within("tiers", |reader| reader.texts(tiers)));
    let mut document = Document::default();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (index, item) in items(&mut reader, object.get("rules"), "rules") {
        reader.within("rules", |reader| {
            reader.within(index, |reader| {
                let Some(rule) = rule_reader::rule(reader, item) else { return };
                if let Some(first) = names.insert(rule.name.clone(), index) {
                    let message = format!("`{}` is the name of rules[{first}] already; names are unique", rule.name);
                    reader.within("name", |reader| reader.wrong(message));
                }
                check_tiers(reader, &rule.matches.tier, tiers.as_deref(), &["match", "tier"]);
                document.rules.push(rule);
            });
        });
    }
    let mut principals = HashSet::new();
    for (index, item) in items(&mut reader, object.get("overrides"), "overrides") {
        reader.within("overrides", |reader| {
            reader.within(index, |reader| {
                let Some(override_) = rule_reader::override_(reader, item) else { return };
                if !principals.insert((override_.principal, override_.value.clone())) {
                    let (kind, value) = (override_.principal.name(), &override_.value);
                    reader.wrong(format!("there is an override for {kind} `{value}` already"));
                }
                check_tiers(reader, override_.tier.as_slice(), tiers.as_deref(), &["tier"]);
                document.overrides.push(override_);
            });
        });
    }
    document
}

fn items<'v>(reader: &mut Reader<'_, '_>, value: Option<&'v Value>, key: &'static str) -> Vec<(usize, &'v Value)> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) if items.len() <= DOCUMENT_RULES_MAX => items.iter().enumerate().collect(),
        Some(Value::Array(_)) => {
            let message = format!("a document holds at most {DOCUMENT_RULES_MAX}; use the bulk form (JSON Lines)");
            reader.within(key, |reader| reader.wrong(message));
            Vec::new()
        }
        Some(other) => {
            reader.within(key, |reader| reader.expected("a list", other));
            Vec::new()
        }
    }
}

fn check_tiers(reader: &mut Reader<'_, '_>, named: &[String], known: Option<&[String]>, path: &[&'static str]) {
    let Some(known) = known else { return };
    for tier in named.iter().filter(|tier| !known.contains(tier)) {
        let message = format!("`{tier}` is not one of this document's tiers ({})", known.join(", "));
        reader.within_all(path, |reader| reader.wrong(message));
    }
}

#[cfg(test)]
mod tests;
