//! One rule, or one override, out of JSON.

use super::exact_reader;
use super::reader::Reader;
use crate::facts::{DESCRIPTORS_MAX, Dim};
use crate::limit_text::{LIMITS_MAX, parse_limits};
use crate::net::Cidr;
use crate::path::Pattern;
use crate::quota::{Algorithm, Quota};
use crate::rule::{
    Action, By, DEFAULT_PRIORITY, EXACT_BY, Limit, Match, OPERATOR_PRIORITY, OnStoreFailure, Override, Precision,
    Principal, Response, Rule,
};
use crate::rule_index::ALL_RULES;
use crate::time_text::parse_rfc3339_us;
use serde_json::{Map, Value};

pub(super) const NAME_BYTES_MAX: usize = 128;
const DESCRIPTION_BYTES_MAX: usize = 4_096;
pub(super) const PRIORITY_MAX: i64 = 1_000_000;
/// Combinations of match values one rule may stand for.
pub const COMBINATIONS_MAX: usize = 256;

const RULE_KEYS: &[&str] = &[
    "name",
    "match",
    "by",
    "limit",
    "algorithm",
    "action",
    "priority",
    "enabled",
    "group",
    "counter",
    "class",
    "on_store_failure",
    "precision",
    "until",
    "response",
    "replaces",
    "description",
];
const MATCH_KEYS: &[&str] =
    &["tier", "endpoint", "method", "ip", "user", "api_key", "org", "region", "descriptors", exact_reader::KEY];
const OVERRIDE_KEYS: &[&str] =
    &["user", "org", "api_key", "tier", "limit", "algorithm", "counter", "block", "description"];
const PRECISION: &[(&str, Precision)] =
    &[("exact", Precision::Exact), ("lease", Precision::Lease), ("async", Precision::Async)];
/// What a class presets.
const CLASSES: &[(&str, OnStoreFailure)] =
    &[("abuse", OnStoreFailure::Closed), ("paid", OnStoreFailure::Open), ("free", OnStoreFailure::Local)];

pub fn rule(reader: &mut Reader<'_, '_>, value: &Value) -> Option<Rule> {
    let object = reader.object(value, RULE_KEYS)?;
    let name = match object.get("name") {
        Some(name) => reader.within("name", |reader| rule_name(reader, name)),
        None => {
            reader.wrong("a rule needs a `name`");
            None
        }
    };
    let action = read(reader, object, "action", action).unwrap_or(Action::Throttle);
    let matches = read(reader, object, "match", |reader, value| Some(matches(reader, value))).unwrap_or_default();
    let is_exact = object.get("match").is_some_and(|given| given.get(exact_reader::KEY).is_some());
    if is_exact {
        exact_reader::check_alone(reader, object);
    }
    let (by, limits) = by_and_limits(reader, object, action, is_exact);
    let class = read(reader, object, "class", |reader, value| reader.choice(value, CLASSES));
    let on_store_failure =
        read(reader, object, "on_store_failure", |reader, value| reader.choice(value, OnStoreFailure::NAMES));
    let until_us = read(reader, object, "until", until);
    if until_us.is_some() && action != Action::Block {
        reader.within("until", |reader| reader.wrong("only a rule with `action: block` has an `until`"));
    }
    description(reader, object);
    let priority = read(reader, object, "priority", |reader, value| {
        reader.integer(value, -PRIORITY_MAX..=PRIORITY_MAX).map(|priority| priority as i32)
    });
    Some(Rule {
        matches,
        by,
        limits,
        action,
        priority: priority.unwrap_or(DEFAULT_PRIORITY),
        enabled: read(reader, object, "enabled", |reader, value| reader.boolean(value)).unwrap_or(true),
        group: read(reader, object, "group", |reader, value| reader.text(value)),
        counter: read(reader, object, "counter", |reader, value| reader.text(value)),
        on_store_failure: on_store_failure.or(class).unwrap_or(OnStoreFailure::Open),
        precision: read(reader, object, "precision", |reader, value| reader.choice(value, PRECISION))
            .unwrap_or(Precision::Exact),
        until_us,
        response: read(reader, object, "response", |reader, value| Some(response(reader, value))).unwrap_or_default(),
        replaces: read(reader, object, "replaces", |r, value| exact_reader::replaces(r, value, is_exact))
            .unwrap_or_default(),
        name: name?,
    })
}

pub fn override_(reader: &mut Reader<'_, '_>, value: &Value) -> Option<Override> {
    let object = reader.object(value, OVERRIDE_KEYS)?;
    let named: Vec<Principal> =
        Principal::ALL.into_iter().filter(|principal| object.contains_key(principal.name())).collect();
    let [principal] = named[..] else {
        reader.wrong("an override is for exactly one of `user`, `org`, `api_key`");
        return None;
    };
    let value = reader.within(principal.name(), |reader| reader.text(&object[principal.name()]))?;
    let mut matches = Match::default();
    match principal {
        Principal::User => matches.user.push(value.clone()),
        Principal::Org => matches.org.push(value.clone()),
        Principal::ApiKey => matches.api_key.push(value.clone()),
    }
    let plain = |name: String, action: Action| Rule {
        name,
        matches: matches.clone(),
        by: By { dims: principal.dim().bit(), descriptors: Vec::new() },
        limits: Vec::new(),
        action,
        priority: DEFAULT_PRIORITY,
        enabled: true,
        group: Some("override".to_string()),
        counter: None,
        on_store_failure: OnStoreFailure::Open,
        precision: Precision::Exact,
        until_us: None,
        response: Response::default(),
        replaces: Vec::new(),
    };
    let mut rules = Vec::new();
    let limits = read_limits(reader, object);
    if !limits.is_empty() {
        let counter = read(reader, object, "counter", |reader, value| reader.text(value));
        let name = Override::rule_name(principal, &value);
        rules.push(Rule { limits, counter, ..plain(name, Action::Throttle) });
    } else if object.contains_key("counter") {
        reader.within("counter", |reader| reader.wrong("a `counter` needs a `limit`"));
    }
    if let Some(block) = object.get("block") {
        let (until_us, message) = reader.within("block", |reader| block_of(reader, block))?;
        let response = Response { message, ..Response::default() };
        let block = plain(Override::block_name(principal, &value), Action::Block);
        // An operator's block goes before any rule.
        rules.push(Rule { until_us, response, priority: OPERATOR_PRIORITY, ..block });
    }
    let tier = read(reader, object, "tier", |reader, value| reader.text(value));
    description(reader, object);
    if rules.is_empty() && tier.is_none() {
        reader.wrong("an override needs a `tier`, a `limit` or a `block`");
    }
    Some(Override { principal, value, tier, rules })
}

/// `block: true`, or `block: {reason: …, until: …}`.
fn block_of(reader: &mut Reader<'_, '_>, value: &Value) -> Option<(Option<u64>, Option<Box<str>>)> {
    if matches!(value, Value::Bool(true)) {
        return Some((None, None));
    }
    if !value.is_object() {
        reader.expected("true or a mapping with `reason` and `until`", value);
        return None;
    }
    let object = reader.object(value, &["reason", "until"])?;
    let until_us = read(reader, object, "until", until);
    let reason = read(reader, object, "reason", |reader, value| reader.text(value));
    Some((until_us, reason.map(String::into_boxed_str)))
}

/// Reads an optional key. Wrong is none as well: the mistake is on its list, so the rule will not be used.
pub(super) fn read<T>(
    reader: &mut Reader<'_, '_>,
    object: &Map<String, Value>,
    key: &'static str,
    read: impl FnOnce(&mut Reader<'_, '_>, &Value) -> Option<T>,
) -> Option<T> {
    object.get(key).and_then(|value| reader.within(key, |reader| read(reader, value)))
}

/// Free words for people, of any lines; only their length is bounded.
pub(super) fn description(reader: &mut Reader<'_, '_>, object: &Map<String, Value>) {
    match object.get("description") {
        None => {}
        Some(Value::String(text)) if text.len() <= DESCRIPTION_BYTES_MAX => {}
        Some(other) => {
            let what = format!("a text of at most {DESCRIPTION_BYTES_MAX} bytes");
            reader.within("description", |reader| reader.expected(&what, other));
        }
    }
}

fn rule_name(reader: &mut Reader<'_, '_>, value: &Value) -> Option<String> {
    let name = reader.text(value)?;
    if name.len() > NAME_BYTES_MAX {
        reader.wrong(format!("a name is at most {NAME_BYTES_MAX} bytes long"));
        return None;
    }
    if name.starts_with("override:") || name.starts_with("override-block:") {
        reader.wrong("names that start with `override:` belong to overrides");
        return None;
    }
    if is_reserved(&name) {
        reader.wrong("names that start with `block:` belong to operators' blocks, and `*` stands for all rules");
        return None;
    }
    Some(name)
}

/// Whether a name belongs to something that is no rule of a file.
pub(super) fn is_reserved(name: &str) -> bool {
    ["override:", "override-block:", "block:"].iter().any(|prefix| name.starts_with(prefix)) || name == ALL_RULES
}

fn action(reader: &mut Reader<'_, '_>, value: &Value) -> Option<Action> {
    if value.as_str() == Some("queue") {
        reader.wrong("`queue` is not yet available; expected one of throttle, block, allow, shadow");
        return None;
    }
    let choices = [Action::Throttle, Action::Block, Action::Allow, Action::Shadow].map(|a| (a.name(), a));
    reader.choice(value, &choices)
}

fn by_and_limits(
    reader: &mut Reader<'_, '_>,
    object: &Map<String, Value>,
    action: Action,
    is_exact: bool,
) -> (By, Vec<Limit>) {
    if action.decides_alone() {
        for key in ["by", "limit", "algorithm", "counter"] {
            if object.contains_key(key) && !(is_exact && key == "by") {
                let message = format!("a rule with `action: {}` takes no `{key}`", action.name());
                reader.within(key, |reader| reader.wrong(message));
            }
        }
        return (By::default(), Vec::new());
    }
    let by = match object.get("by") {
        _ if is_exact => By { dims: 0, descriptors: vec![EXACT_BY.to_string()] },
        Some(value) => reader.within("by", |reader| by(reader, value)),
        None => {
            reader.wrong("a limit needs a `by`: what it counts by, such as `user`, `ip` or `global`");
            By::default()
        }
    };
    if !object.contains_key("limit") {
        reader.wrong("a rule needs a `limit`, such as `5/minute`");
    }
    (by, read_limits(reader, object))
}

fn by(reader: &mut Reader<'_, '_>, value: &Value) -> By {
    let names = reader.texts(value);
    let mut by = By::default();
    for name in &names {
        if name == "global" {
            if names.len() > 1 {
                reader.wrong("`global` stands alone: it counts everything together");
            }
        } else if let Some(dim) = Dim::from_name(name) {
            by.dims |= dim.bit();
        } else {
            by.descriptors.push(name.clone());
        }
    }
    by.descriptors.sort_unstable();
    by.descriptors.dedup();
    if by.descriptors.len() > DESCRIPTORS_MAX {
        reader.wrong(format!("at most {DESCRIPTORS_MAX} descriptors"));
    }
    by
}

fn read_limits(reader: &mut Reader<'_, '_>, object: &Map<String, Value>) -> Vec<Limit> {
    let algorithm = object.get("algorithm").and_then(|value| reader.within("algorithm", |r| algorithm(r, value)));
    let Some(value) = object.get("limit") else { return Vec::new() };
    let limits = reader.within("limit", |reader| {
        let mut limits = Vec::new();
        match value {
            Value::Array(items) if items.is_empty() => reader.wrong("must name at least one limit"),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    reader.within(index, |reader| one_limit(reader, item, algorithm, &mut limits));
                }
            }
            single => one_limit(reader, single, algorithm, &mut limits),
        }
        if limits.len() > LIMITS_MAX {
            reader.wrong(format!("a rule has at most {LIMITS_MAX} limits"));
        }
        limits
    });
    let mut labels: Vec<&str> = limits.iter().map(|limit| &*limit.label).collect();
    labels.sort_unstable();
    if labels.windows(2).any(|pair| pair[0] == pair[1]) {
        reader.within("limit", |reader| reader.wrong("two limits have the same label"));
    }
    limits
}

/// A text, or `{limit, algorithm, label}`.
fn one_limit(reader: &mut Reader<'_, '_>, value: &Value, algorithm_: Option<Algorithm>, limits: &mut Vec<Limit>) {
    let (text, algorithm_, label) = match value {
        Value::Object(_) => {
            let Some(object) = reader.object(value, &["limit", "algorithm", "label"]) else { return };
            let own = read(reader, object, "algorithm", algorithm).or(algorithm_);
            let label = read(reader, object, "label", |reader, value| reader.text(value));
            let Some(text) = object.get("limit") else {
                return reader.wrong("needs a `limit`, such as `5/minute`");
            };
            (text, own, label)
        }
        text => (text, algorithm_, None),
    };
    let Value::String(text) = text else {
        return reader.expected("a limit such as `5/minute`", text);
    };
    match parse_limits(text, algorithm_) {
        Ok(quotas) => limits.extend(
            quotas
                .into_iter()
                .enumerate()
                .map(|(nth, quota): (usize, Quota)| {
                    let label = match &label {
                        Some(label) if nth == 0 => label.clone(),
                        Some(label) => format!("{label}-{nth}"),
                        None => (limits.len() + nth).to_string(),
                    };
                    Limit { label: label.into_boxed_str(), quota }
                })
                .collect::<Vec<_>>(),
        ),
        Err(error) => reader.wrong(error.0),
    }
}

fn algorithm(reader: &mut Reader<'_, '_>, value: &Value) -> Option<Algorithm> {
    let mut choices: Vec<(&str, Algorithm)> = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm)).into();
    choices.push(("token_bucket", Algorithm::Gcra));
    reader.choice(value, &choices)
}

pub(super) fn until(reader: &mut Reader<'_, '_>, value: &Value) -> Option<u64> {
    let parsed = value.as_str().and_then(parse_rfc3339_us);
    if parsed.is_none() {
        reader.expected("a time such as `2027-01-31T12:00:00Z`", value);
    }
    parsed
}

fn matches(reader: &mut Reader<'_, '_>, value: &Value) -> Match {
    let Some(object) = reader.object(value, MATCH_KEYS) else { return Match::default() };
    let mut texts = |key: &'static str| match object.get(key) {
        Some(value) => reader.within(key, |reader| reader.texts(value)),
        None => Vec::new(),
    };
    let mut matches = Match {
        user: texts("user"),
        api_key: texts("api_key"),
        org: texts("org"),
        region: texts("region"),
        tier: texts("tier"),
        method: texts("method").iter().map(|method| method.to_ascii_uppercase()).collect(),
        ..Match::default()
    };
    let (ips, endpoints) = (texts("ip"), texts("endpoint"));
    matches.ip = parsed(reader, "ip", &ips, Cidr::parse);
    matches.endpoint = parsed(reader, "endpoint", &endpoints, Pattern::parse);
    if let Some(value) = object.get("descriptors") {
        matches.descriptors = reader.within("descriptors", |reader| descriptors(reader, value));
    }
    matches.exact = read(reader, object, exact_reader::KEY, exact_reader::exact_match);
    let counts = [
        matches.user.len(),
        matches.api_key.len(),
        matches.org.len(),
        matches.region.len(),
        matches.tier.len(),
        matches.method.len(),
        matches.ip.len(),
        matches.endpoint.len(),
    ];
    let counts = counts.into_iter().chain(matches.descriptors.iter().map(|(_, values)| values.len()));
    if counts.fold(1_usize, |product, count| product.saturating_mul(count.max(1))) > COMBINATIONS_MAX {
        reader.wrong(format!("the lists combine to more than {COMBINATIONS_MAX} cases; use several rules"));
    }
    matches
}

pub(super) fn parsed<T>(
    reader: &mut Reader<'_, '_>,
    key: &'static str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let mut values = Vec::new();
    for text in texts {
        match parse(text) {
            Ok(value) => values.push(value),
            Err(message) => reader.within(key, |reader| reader.wrong(message)),
        }
    }
    values
}

fn descriptors(reader: &mut Reader<'_, '_>, value: &Value) -> Vec<(String, Vec<String>)> {
    let Value::Object(object) = value else {
        reader.expected("a mapping of names to values", value);
        return Vec::new();
    };
    if object.len() > DESCRIPTORS_MAX {
        reader.wrong(format!("at most {DESCRIPTORS_MAX} descriptors"));
        return Vec::new();
    }
    let mut descriptors: Vec<(String, Vec<String>)> = Vec::new();
    for (key, value) in object {
        let values = reader.within(key.as_str(), |reader| reader.texts(value));
        descriptors.push((key.clone(), values));
    }
    descriptors.sort_unstable();
    descriptors
}

fn response(reader: &mut Reader<'_, '_>, value: &Value) -> Response {
    let mut response = Response::default();
    let Some(object) = reader.object(value, &["status", "message", "retry_after", "hide_remaining"]) else {
        return response;
    };
    if let Some(value) = object.get("status") {
        response.status = reader.within("status", |reader| reader.integer(value, 400..=599)).map(|s| s as u16);
    }
    if let Some(value) = object.get("message") {
        response.message = reader.within("message", |reader| reader.text(value)).map(String::into_boxed_str);
    }
    if let Some(value) = object.get("retry_after") {
        let seconds = reader.within("retry_after", |reader| reader.integer(value, 1..=31_622_400));
        response.retry_after_s = seconds.map(|seconds| seconds as u32);
    }
    if let Some(value) = object.get("hide_remaining") {
        response.hide_remaining = reader.within("hide_remaining", |reader| reader.boolean(value)).unwrap_or(false);
    }
    response
}
