use super::*;
use crate::facts::Facts;
use crate::hash::Keyed;
use crate::rule_document::{read_document, read_rule};
use std::sync::Arc;

fn build(document: &str) -> Arc<RuleSet> {
    let document = read_document(document).unwrap();
    let mut book = RuleBook::new(Keyed::random());
    document.rules.iter().for_each(|rule| book.put(rule).unwrap());
    document.overrides.iter().for_each(|override_| book.put_override(override_).unwrap());
    book.publish()
}

fn chosen(set: &RuleSet, facts: Facts<'_>) -> Vec<String> {
    let looked = set.look(facts, 64);
    let selection = set.select(&looked, 0);
    let rules = selection.alone.into_iter().chain(selection.winners.iter().map(|winner| winner.rule));
    let mut names: Vec<String> = rules.map(|rule| set.name(rule).to_string()).collect();
    names.sort_unstable();
    names
}

#[test]
fn rules_with_the_same_by_compete_and_others_compose() {
    let set = build(
        r#"{"rules": [
        {"name": "free", "match": {"tier": "free"}, "by": "user", "limit": "5/minute"},
        {"name": "any", "by": "user", "limit": "50/minute"},
        {"name": "login", "match": {"endpoint": "/login"}, "by": "user", "limit": "2/minute"},
        {"name": "org", "by": "org", "limit": "500/minute"},
        {"name": "loud", "match": {"tier": "gold"}, "by": "user", "limit": "1/minute", "priority": 200}]}"#,
    );
    let facts = Facts { user: Some("7"), org: Some("acme"), path: Some("/login"), ..Facts::default() };
    assert_eq!(chosen(&set, facts), ["login", "org"]);
    assert_eq!(chosen(&set, Facts { path: Some("/x"), ..facts }), ["free", "org"], "a tier is more specific than none");
    assert_eq!(chosen(&set, Facts { tier: Some("gold"), ..facts }), ["loud", "org"], "priority beats specificity");
}

#[test]
fn a_block_decides_alone_and_beats_an_allow() {
    let set = build(
        r#"{"rules": [
        {"name": "limit", "by": "global", "limit": "5/minute"},
        {"name": "office", "match": {"ip": "10.0.0.0/8"}, "action": "allow"},
        {"name": "bad", "match": {"ip": "10.9.0.0/16"}, "action": "block"},
        {"name": "vip", "match": {"user": "boss"}, "action": "allow", "priority": 900}]}"#,
    );
    let from = |ip: &str| Facts { ip: ip.parse().ok(), ..Facts::default() };
    assert_eq!(chosen(&set, from("10.1.2.3")), ["office"]);
    assert_eq!(chosen(&set, from("10.9.2.3")), ["bad"]);
    assert_eq!(chosen(&set, Facts { user: Some("boss"), ..from("10.9.2.3") }), ["vip"]);
    assert_eq!(chosen(&set, from("192.0.2.1")), ["limit"]);
}

#[test]
fn an_override_changes_tier_limit_or_blocks() {
    let set = build(
        r#"{"rules": [
        {"name": "free", "match": {"tier": "free"}, "by": "user", "limit": "5/minute"},
        {"name": "gold", "match": {"tier": "gold"}, "by": "user", "limit": "50/minute"}],
        "overrides": [{"user": "1", "tier": "gold"}, {"user": "2", "limit": "9/minute"}, {"user": "3", "block": true}]}"#,
    );
    let user = |user| Facts { user: Some(user), ..Facts::default() };
    assert_eq!(chosen(&set, user("0")), ["free"]);
    assert_eq!(chosen(&set, user("1")), ["gold"]);
    assert_eq!(chosen(&set, user("2")), ["override:user:2"]);
    assert_eq!(chosen(&set, user("3")), ["override-block:user:3"]);
}

#[test]
fn a_published_version_never_changes() {
    let mut book = RuleBook::new(Keyed::random());
    let rule = |name: &str, limit: &str| {
        read_rule(&format!(r#"{{"name": "{name}", "match": {{"org": "{name}"}}, "by": "org", "limit": "{limit}"}}"#))
            .unwrap()
    };
    for n in 0..5_000 {
        book.put(&rule(&format!("org{n}"), "5/minute")).unwrap();
    }
    let first = book.publish();
    book.put(&rule("org7", "9/minute")).unwrap();
    book.remove("org8");
    book.put(&rule("new", "1/minute")).unwrap();
    let second = book.publish();
    let count = |set: &RuleSet, org: &str| {
        let looked = set.look(Facts { org: Some(org), ..Facts::default() }, 64);
        set.select(&looked, 0).winners.first().map(|winner| set.record(winner.rule).limits[0].quota.count)
    };
    assert_eq!((count(&first, "org7"), count(&second, "org7")), (Some(5), Some(9)));
    assert_eq!((count(&first, "org8"), count(&second, "org8")), (Some(5), None));
    assert_eq!((count(&first, "new"), count(&second, "new")), (None, Some(1)));
    assert_eq!((first.rule_count(), second.rule_count()), (5_000, 5_000));
    assert_eq!(second.version, first.version + 1);
}

#[test]
fn a_missing_user_is_counted_by_address_and_other_missing_facts_are_named() {
    let set = build(
        r#"{"rules": [{"name": "u", "by": "user", "limit": "5/minute"}, {"name": "o", "by": "org", "limit": "5/minute"}]}"#,
    );
    let subject = |facts: Facts<'_>, by: u16| set.subject(&set.look(facts, 64), set.by(by));
    let from = |ip: &str| Facts { ip: ip.parse().ok(), ..Facts::default() };
    assert_eq!(subject(from("192.0.2.1"), 0), subject(from("192.0.2.1"), 0));
    assert_ne!(subject(from("192.0.2.1"), 0), subject(from("192.0.2.2"), 0));
    assert_ne!(subject(from("192.0.2.1"), 0), subject(Facts { user: Some("192.0.2.1"), ..Facts::default() }, 0));
    assert!(subject(Facts::default(), 0).is_ok());
    assert_eq!(subject(Facts::default(), 1), Err("org"));
}
