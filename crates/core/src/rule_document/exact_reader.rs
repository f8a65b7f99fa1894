//! `match: {descriptor_exact: …}` and what goes with it: a whole descriptor of a call, entry by entry.

use super::reader::Reader;
use super::rule_reader::{NAME_BYTES_MAX, read};
use crate::facts::DESCRIPTORS_MAX;
use crate::rule::{ExactEntry, ExactMatch, WILDCARD};
use serde_json::{Map, Value};

pub(super) const KEY: &str = "descriptor_exact";
/// Rules that one rule may replace.
const REPLACES_MAX: usize = 256;

/// `{domain: …, entries: [{key: …, value: …}, …]}`.
pub(super) fn exact_match(reader: &mut Reader<'_, '_>, value: &Value) -> Option<ExactMatch> {
    let object = reader.object(value, &["domain", "entries"])?;
    let domain = read(reader, object, "domain", |reader, value| reader.text(value));
    if !object.contains_key("domain") {
        reader.wrong("needs a `domain`: the one that calls name");
    }
    let entries = match object.get("entries") {
        Some(Value::Array(items)) if (1..=DESCRIPTORS_MAX).contains(&items.len()) => {
            reader.within("entries", |reader| {
                let read = |(nth, item)| reader.within(nth, |reader| entry(reader, item));
                items.iter().enumerate().filter_map(read).collect()
            })
        }
        Some(Value::Array(_)) => {
            reader.within("entries", |reader| reader.wrong(format!("must be 1 to {DESCRIPTORS_MAX} entries")));
            Vec::new()
        }
        Some(other) => {
            reader.within("entries", |reader| reader.expected("a list of `{key: …, value: …}`", other));
            Vec::new()
        }
        None => {
            reader.wrong("needs `entries`: a list of `{key: …, value: …}`");
            Vec::new()
        }
    };
    Some(ExactMatch { domain: domain?, entries })
}

fn entry(reader: &mut Reader<'_, '_>, value: &Value) -> Option<ExactEntry> {
    let object = reader.object(value, &["key", "value", "shared"])?;
    if !object.contains_key("key") {
        reader.wrong("an entry needs a `key`");
    }
    let mut text = read(reader, object, "key", |reader, value| reader.text(value))?;
    if object.contains_key("value") {
        let value = read(reader, object, "value", |reader, value| reader.text(value))?;
        text = format!("{text}_{value}");
    }
    let shared = read(reader, object, "shared", |reader, value| reader.boolean(value)).unwrap_or(false);
    if shared && !text.ends_with(WILDCARD) {
        let message = "only values that a `value` with `*` at its end takes can count together";
        reader.within("shared", |reader| reader.wrong(message));
    }
    Some(ExactEntry { text, shared })
}

/// Nothing else can be asked of a descriptor that is matched whole, and it is what is counted by.
pub(super) fn check_alone(reader: &mut Reader<'_, '_>, object: &Map<String, Value>) {
    let others = object.get("match").and_then(Value::as_object).into_iter().flatten();
    for (key, _) in others.filter(|(key, _)| key.as_str() != KEY) {
        let message = format!("`{KEY}` stands alone in a match: a whole descriptor has no other facts");
        reader.within("match", |reader| reader.within(key.as_str(), |reader| reader.wrong(message)));
    }
    if object.contains_key("by") {
        let message = format!("a rule with `{KEY}` takes no `by`: it counts by the whole descriptor");
        reader.within("by", |reader| reader.wrong(message));
    }
}

/// Names of rules.
pub(super) fn replaces(reader: &mut Reader<'_, '_>, value: &Value, is_exact: bool) -> Option<Vec<String>> {
    if !is_exact {
        reader.wrong(format!("only a rule with `match: {{{KEY}: …}}` replaces others"));
        return None;
    }
    let names = reader.texts(value);
    if names.len() > REPLACES_MAX || names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        reader.wrong(format!("must be at most {REPLACES_MAX} names of rules"));
    }
    Some(names)
}
