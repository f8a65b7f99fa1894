//! The plain form of most rules, read without building a tree of JSON first: one value a fact, one `by`, limits as text.
//!
//! Millions of rules come in this form, and every change of one comes to every node. Whatever is not plain, or wrong, is
//! left to the full reader, which alone says what is wrong.

use super::rule_reader::{self, NAME_BYTES_MAX, PRIORITY_MAX};
use crate::facts::{Dim, FACT_BYTES_MAX};
use crate::limit_text::{LIMITS_MAX, parse_limits};
use crate::net::Cidr;
use crate::path::Pattern;
use crate::rule::{Action, By, DEFAULT_PRIORITY, Limit, Match, OnStoreFailure, Precision, Response, Rule};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow, rename = "match")]
    matches: PlainMatch<'a>,
    #[serde(borrow)]
    by: Cow<'a, str>,
    #[serde(borrow)]
    limit: Cow<'a, str>,
    priority: Option<i64>,
    #[serde(borrow)]
    group: Option<Cow<'a, str>>,
    #[serde(borrow)]
    counter: Option<Cow<'a, str>>,
    enabled: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainMatch<'a> {
    #[serde(borrow)]
    user: Option<Cow<'a, str>>,
    #[serde(borrow)]
    api_key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    org: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tier: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    region: Option<Cow<'a, str>>,
    #[serde(borrow)]
    ip: Option<Cow<'a, str>>,
    #[serde(borrow)]
    endpoint: Option<Cow<'a, str>>,
}

/// None for anything that is not plain and right.
pub fn read_plain(text: &str) -> Option<Rule> {
    // `null` is no value here, and an `Option` would take it for none.
    if text.contains("null") {
        return None;
    }
    let plain: Plain<'_> = serde_json::from_str(text).ok()?;
    let name = fact(plain.name)?;
    if name.len() > NAME_BYTES_MAX || rule_reader::is_reserved(&name) {
        return None;
    }
    let dim = Dim::from_name(&plain.by);
    if dim.is_none() && plain.by != "global" {
        return None;
    }
    let quotas = parse_limits(&plain.limit, None).ok().filter(|quotas| quotas.len() <= LIMITS_MAX)?;
    let limits = quotas.into_iter().enumerate();
    let limits = limits.map(|(nth, quota)| Limit { label: nth.to_string().into_boxed_str(), quota }).collect();
    let given = plain.matches;
    let matches = Match {
        user: facts(given.user)?,
        api_key: facts(given.api_key)?,
        org: facts(given.org)?,
        tier: facts(given.tier)?,
        region: facts(given.region)?,
        method: facts(given.method)?.into_iter().map(|method| method.to_ascii_uppercase()).collect(),
        ip: facts(given.ip)?.iter().map(|text| Cidr::parse(text).ok()).collect::<Option<_>>()?,
        endpoint: facts(given.endpoint)?.iter().map(|text| Pattern::parse(text).ok()).collect::<Option<_>>()?,
        ..Match::default()
    };
    let priority = plain.priority.unwrap_or(i64::from(DEFAULT_PRIORITY));
    if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&priority) {
        return None;
    }
    Some(Rule {
        name,
        matches,
        by: By { dims: dim.map_or(0, Dim::bit), descriptors: Vec::new() },
        limits,
        action: Action::Throttle,
        priority: priority as i32,
        enabled: plain.enabled.unwrap_or(true),
        group: facts(plain.group)?.pop(),
        counter: facts(plain.counter)?.pop(),
        on_store_failure: OnStoreFailure::Open,
        precision: Precision::Exact,
        until_us: None,
        response: Response::default(),
        replaces: Vec::new(),
    })
}

fn facts(text: Option<Cow<'_, str>>) -> Option<Vec<String>> {
    text.map_or(Some(Vec::new()), |text| fact(text).map(|text| vec![text]))
}

/// As `Reader::text` takes it.
fn fact(text: Cow<'_, str>) -> Option<String> {
    let is_fact = !text.is_empty() && text.len() <= FACT_BYTES_MAX && !text.chars().any(char::is_control);
    is_fact.then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{read_one, rule_reader};
    use super::*;

    #[test]
    fn what_is_plain_reads_as_the_full_reader_reads_it() {
        let plain = [
            r#"{"name":"a","by":"user","limit":"5/minute"}"#,
            r#"{"name":"a","by":"global","limit":"5/second, 100/hour burst 20"}"#,
            r#"{"by":"org","limit":"5/60s","name":"a","match":{"org":"7","endpoint":"/a/{x}"},"priority":-3}"#,
            r#"{"name":"\u00e4","by":"ip","limit":"5/minute","match":{"ip":"10.0.0.0/8","method":"post","tier":"t"}}"#,
            r#"{"name":"a","by":"endpoint","limit":"5/minute","group":"g","counter":"c","enabled":false}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","match":{"user":"u","api_key":"k","region":"eu"}}"#,
        ];
        for text in plain {
            let read = read_plain(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read, read_one(text, rule_reader::rule).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_or_wrong_is_left_to_the_full_reader() {
        for text in [
            r#"{"name":"a","by":["user"],"limit":"5/minute"}"#,
            r#"{"name":"a","by":"plan","limit":"5/minute"}"#,
            r#"{"name":7,"by":"user","limit":"5/minute"}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","match":{"org":["7"]}}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","action":"shadow"}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","group":null}"#,
            r#"{"name":"","by":"user","limit":"5/minute"}"#,
            r#"{"name":"block:1","by":"user","limit":"5/minute"}"#,
            r#"{"name":"override:1","by":"user","limit":"5/minute"}"#,
            r#"{"name":"a","by":"user","limit":"5/fortnight"}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","match":{"ip":"10.0.0.1/8"}}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","match":{"user":""}}"#,
            r#"{"name":"a","by":"user","limit":"5/minute","priority":1000001}"#,
            r#"{"name":"a","name":"b","by":"user","limit":"5/minute"}"#,
            r#"{"name":"a","by":"user","limit":"5/minute"} x"#,
        ] {
            assert_eq!(read_plain(text), None, "{text}");
        }
    }
}
