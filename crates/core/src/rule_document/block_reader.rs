//! An operator's block out of JSON: `{"id", one of "ip" | "user" | "org" | "api_key", "until", "why"}`.

use super::reader::Reader;
use super::rule_reader::{parsed, read, until};
use crate::net::Cidr;
use crate::rule::{Action, By, Match, OPERATOR_PRIORITY, OnStoreFailure, Precision, Response, Rule, block_name};
use serde_json::Value;

const BLOCK_KEYS: &[&str] = &["id", "ip", "user", "org", "api_key", "until", "why"];
const SUBJECTS: [&str; 4] = ["ip", "user", "org", "api_key"];
/// What metrics call all of them together.
const GROUP: &str = "block";

/// The rule a block stands for.
pub fn block(reader: &mut Reader<'_, '_>, value: &Value) -> Option<Rule> {
    let object = reader.object(value, BLOCK_KEYS)?;
    let id = match object.get("id") {
        Some(id) => reader.within("id", |reader| reader.text(id))?,
        None => {
            reader.wrong("a block needs an `id`");
            return None;
        }
    };
    let given: Vec<&str> = SUBJECTS.into_iter().filter(|name| object.contains_key(*name)).collect();
    let [subject] = given[..] else {
        reader.wrong("a block is for exactly one of `ip`, `user`, `org`, `api_key`");
        return None;
    };
    let text = read(reader, object, subject, |reader, value| reader.text(value))?;
    let mut matches = Match::default();
    match subject {
        "ip" => matches.ip = parsed(reader, "ip", &[text], Cidr::parse),
        "user" => matches.user.push(text),
        "org" => matches.org.push(text),
        _ => matches.api_key.push(text),
    }
    let until_us = read(reader, object, "until", until);
    // Why is for the operators; it is not told to whoever is blocked.
    read(reader, object, "why", |reader, value| reader.text(value));
    Some(Rule {
        name: block_name(&id),
        matches,
        by: By::default(),
        limits: Vec::new(),
        action: Action::Block,
        priority: OPERATOR_PRIORITY,
        enabled: true,
        group: Some(GROUP.to_string()),
        counter: None,
        on_store_failure: OnStoreFailure::Open,
        precision: Precision::Exact,
        until_us,
        response: Response::default(),
        replaces: Vec::new(),
    })
}
