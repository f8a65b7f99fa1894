use super::{ExactSelection, RuleBook, RuleSet};
use crate::hash::Keyed;
use crate::rule_document::read_rule;
use std::sync::Arc;

/// What a rule says of itself: its entries as keys and values, `!` before a beginning whose values count together.
fn rule(name: &str, domain: &str, entries: &[(&str, &str)], rest: &str) -> crate::rule::Rule {
    let written = entries.iter().map(|(key, value)| match value.strip_prefix('!') {
        Some(value) => format!(r#"{{"key": "{key}", "value": "{value}", "shared": true}}"#),
        None if value.is_empty() => format!(r#"{{"key": "{key}"}}"#),
        None => format!(r#"{{"key": "{key}", "value": "{value}"}}"#),
    });
    let entries = written.collect::<Vec<_>>().join(", ");
    let exact = format!(r#"{{"descriptor_exact": {{"domain": "{domain}", "entries": [{entries}]}}}}"#);
    read_rule(&format!(r#"{{"name": "{name}", "match": {exact}, {rest}}}"#)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

const LIMIT: &str = r#""limit": "5/minute""#;

fn book(rules: &[(&str, &[(&str, &str)])]) -> RuleBook {
    let mut book = RuleBook::new(Keyed::random());
    for (name, entries) in rules {
        book.put(&rule(name, "d", entries, LIMIT)).unwrap();
    }
    book
}

fn names<'s>(set: &'s RuleSet, found: &ExactSelection<'_>) -> Vec<&'s str> {
    found.rules().map(|rule| set.name(rule)).collect()
}

fn met<'s>(set: &'s Arc<RuleSet>, entries: &[(&str, &str)]) -> Vec<&'s str> {
    names(set, &set.select_exact("d", entries, 0))
}

#[test]
fn a_value_goes_before_a_beginning_and_that_before_the_key_alone() {
    let set = book(&[
        ("any", &[("k", "")]),
        ("short", &[("k", "ab*")]),
        ("long", &[("k", "abc*")]),
        ("value", &[("k", "abcd")]),
    ])
    .publish();
    let of = |value: &str| met(&set, &[("k", value)]);
    assert_eq!(
        (of("abcd"), of("abcde"), of("abx"), of("x")),
        (vec!["value"], vec!["long"], vec!["short"], vec!["any"])
    );
    assert_eq!(met(&set, &[("k", "")]), ["any"]);
    assert_eq!(met(&set, &[("other", "abcd")]), Vec::<&str>::new());
    assert_eq!(names(&set, &set.select_exact("elsewhere", &[("k", "x")], 0)), Vec::<&str>::new());
}

#[test]
fn only_a_descriptor_as_deep_as_the_rule_meets_it_and_there_is_no_way_back() {
    let set = book(&[
        ("one", &[("a", "1")]),
        ("two", &[("a", "1"), ("b", "")]),
        ("any", &[("a", ""), ("c", "")]),
        ("inner", &[("x", "y"), ("z", "")]),
        ("outer", &[("x", "")]),
    ])
    .publish();
    assert_eq!(met(&set, &[("a", "1")]), ["one"]);
    assert_eq!(met(&set, &[("a", "1"), ("b", "2")]), ["two"]);
    assert_eq!(met(&set, &[("b", "2"), ("a", "1")]), Vec::<&str>::new());
    assert_eq!(met(&set, &[("a", "2"), ("c", "3")]), ["any"]);
    // `a_1` was taken, and below it nothing has `c`.
    assert_eq!(met(&set, &[("a", "1"), ("c", "3")]), Vec::<&str>::new());
    // A way through is found before the key alone, and no rule ends there.
    assert_eq!(met(&set, &[("x", "y")]), Vec::<&str>::new());
    assert_eq!(met(&set, &[("a", "1"), ("b", "2"), ("c", "3")]), Vec::<&str>::new());
    assert_eq!(met(&set, &[]), Vec::<&str>::new());
}

#[test]
fn values_that_count_together_count_by_the_beginning() {
    let set = book(&[("files", &[("path", "!files/*"), ("method", "")]), ("own", &[("path", "own/*")])]).publish();
    let shared = |entries: &[(&str, &str)]| {
        let found = set.select_exact("d", entries, 0);
        found.winners[0].shared.iter().map(|(nth, value)| (*nth, value.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(shared(&[("path", "files/a"), ("method", "GET")]), [(0, "files/*".to_string())]);
    assert_eq!(shared(&[("path", "own/a")]), []);
}

#[test]
fn among_rules_for_the_same_descriptor_one_limit_one_shadow_or_one_decider_applies() {
    let mut book = book(&[("a", &[("k", "")]), ("b", &[("k", "")])]);
    book.put(&rule("loud", "d", &[("k", "")], r#""limit": "5/minute", "priority": 101"#)).unwrap();
    book.put(&rule("shadow", "d", &[("k", "")], r#""limit": "5/minute", "action": "shadow""#)).unwrap();
    let set = book.publish();
    assert_eq!(met(&set, &[("k", "v")]), ["loud", "shadow"]);
    assert_eq!(set.select_exact("d", &[("k", "v")], 0).winners.iter().filter(|found| found.winner.shadow).count(), 1);
    book.remove("loud");
    assert_eq!(met(&book.publish(), &[("k", "v")]), ["a", "shadow"], "the smaller name");
    book.put(&rule("free", "d", &[("k", "")], r#""action": "allow""#)).unwrap();
    assert_eq!(met(&book.publish(), &[("k", "v")]), ["free"]);
    book.put(&rule("never", "d", &[("k", "")], r#""action": "block""#)).unwrap();
    assert_eq!(met(&book.publish(), &[("k", "v")]), ["never"]);
    book.switch("never", true);
    assert_eq!(met(&book.publish(), &[("k", "v")]), ["a", "shadow"], "the kill switch keeps a block from deciding");
    book.switch("never", false);
    assert_eq!(met(&book.publish(), &[("k", "v")]), ["never"]);
    book.put(&rule("never", "d", &[("k", "")], r#""action": "block", "until": "2020-01-01T00:00:00Z""#)).unwrap();
    let late = book.publish();
    assert_eq!(names(&late, &late.select_exact("d", &[("k", "v")], u64::MAX)), ["free"], "its time is over");
}

#[test]
fn a_published_version_never_changes_and_what_is_removed_leaves_nothing() {
    let mut book = book(&[("a", &[("k", "x*"), ("l", "")]), ("b", &[("k", "")])]);
    let first = book.publish();
    book.remove("a");
    book.put(&rule("b", "d", &[("k", "v")], r#""enabled": false, "limit": "5/minute""#)).unwrap();
    let second = book.publish();
    assert_eq!(met(&first, &[("k", "xy"), ("l", "1")]), ["a"]);
    assert_eq!((met(&first, &[("k", "v")]), met(&second, &[("k", "v")])), (vec!["b"], vec![]));
    assert!(first.has_exact() && !second.has_exact());
    assert!(second.exact.is_bare());
}

#[test]
fn rules_without_whole_descriptors_are_not_met_by_them_and_theirs_by_no_fact() {
    let mut book = book(&[("whole", &[("user", "")])]);
    book.put(&read_rule(r#"{"name": "fact", "by": "user", "limit": "5/minute"}"#).unwrap()).unwrap();
    let set = book.publish();
    assert_eq!(met(&set, &[("user", "7")]), ["whole"]);
    let facts = crate::Facts { user: Some("7"), descriptors: &[("domain", "d")], ..crate::Facts::default() };
    let selection = set.select(&set.look(facts, 64), 0);
    assert_eq!(selection.winners.iter().map(|winner| set.name(winner.rule)).collect::<Vec<_>>(), ["fact"]);
}

/// The look-up as envoyproxy/ratelimit's source has it, over a plain list: at each level the texts that follow the
/// ones taken so far.
fn slow<'n>(rules: &[(&'n str, Vec<String>)], entries: &[(&str, &str)]) -> Option<&'n str> {
    let mut taken: Vec<String> = Vec::new();
    for (key, value) in entries {
        let below =
            rules.iter().filter(|(_, path)| path.starts_with(&taken)).filter_map(|(_, path)| path.get(taken.len()));
        let below: Vec<&String> = below.collect();
        let whole = format!("{key}_{value}");
        let mut beginnings: Vec<&&String> = below.iter().filter(|text| text.ends_with('*')).collect();
        beginnings.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let beginning = || beginnings.into_iter().find(|text| whole.starts_with(&text[..text.len() - 1])).copied();
        let exact = below.iter().find(|text| **text == &whole).copied();
        let next = exact.or_else(beginning).or_else(|| below.iter().find(|text| text.as_str() == *key).copied());
        taken.push(next?.clone());
    }
    rules.iter().find(|(_, path)| *path == taken && !taken.is_empty()).map(|(name, _)| *name)
}

#[test]
fn any_rules_and_any_descriptor_meet_as_the_slow_model_says() {
    // A small generator of its own: the same numbers every time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % end
    };
    const KEYS: [&str; 4] = ["a", "b", "a_b", "é"];
    const VALUES: [&str; 9] = ["", "", "b", "b*", "bc", "bc*", "*", "é", "é*"];
    const ASKED: [&str; 8] = ["", "b", "bc", "bcd", "b_b", "é", "éa", "b*"];
    let label = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"];
    for _ in 0..400 {
        let mut book = RuleBook::new(Keyed::random());
        let mut rules: Vec<(&str, Vec<String>)> = Vec::new();
        for name in label.iter().take(1 + below(8)) {
            let entries: Vec<(&str, &str)> = (0..1 + below(3)).map(|_| (KEYS[below(4)], VALUES[below(9)])).collect();
            let text =
                |(key, value): &(&str, &str)| if value.is_empty() { key.to_string() } else { format!("{key}_{value}") };
            let path: Vec<String> = entries.iter().map(text).collect();
            if rules.iter().all(|(_, other)| *other != path) {
                book.put(&rule(name, "d", &entries, LIMIT)).unwrap();
                rules.push((name, path));
            }
            if rules.len() > 1 && below(6) == 0 {
                let (gone, _) = rules.remove(below(rules.len()));
                book.remove(gone);
            }
        }
        let set = book.publish();
        for _ in 0..40 {
            let entries: Vec<(&str, &str)> = (0..below(5)).map(|_| (KEYS[below(4)], ASKED[below(8)])).collect();
            let expected: Vec<&str> = slow(&rules, &entries).into_iter().collect();
            assert_eq!(met(&set, &entries), expected, "{entries:?} of {rules:?}");
        }
    }
}
