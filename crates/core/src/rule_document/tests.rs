use super::*;

fn mistakes(document: &str) -> Vec<String> {
    read_document(document).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_plain_document_is_read() {
    let document = read_document(
        r#"{"rules": [
            {"name": "free-login", "match": {"tier": "free", "endpoint": "/api/v1/login", "method": "post"},
             "by": "user", "limit": "5/minute"},
            {"name": "org", "by": ["org"], "limit": ["100/second burst 200", "50000/hour"], "class": "paid"},
            {"name": "bad", "match": {"ip": "203.0.113.0/24"}, "action": "block", "until": "2027-01-31T12:00:00Z"}],
          "overrides": [{"user": 42, "tier": "gold", "limit": "10/second", "block": {"reason": "fraud"}}]}"#,
    )
    .unwrap();
    assert_eq!(document.rules.len(), 3);
    assert_eq!(document.rules[0].matches.method, ["POST"]);
    assert_eq!(document.rules[1].limits.len(), 2);
    assert_eq!(&*document.rules[1].limits[1].label, "1");
    assert_eq!(document.overrides[0].rules.len(), 2);
}

#[test]
fn every_mistake_is_listed_with_its_place() {
    let found = mistakes(
        r#"{"rules": [
            {"name": "a", "by": "user", "limit": "5/fortnight"},
            {"name": "a", "by": "user", "limit": "5/minute", "algoritm": "gcra"},
            {"name": "c", "match": {"endpoint": "login"}, "by": "ip", "limit": "1/second"},
            {"name": "d", "action": "block", "by": "ip"},
            {"name": "e", "action": "queue", "by": "ip", "limit": "1/second"},
            {"by": "ip", "limit": "1/second"},
            {"name": "f", "by": "ip", "limit": 5, "priority": "high", "enabled": "yes"}]}"#,
    );
    for expected in [
        "rules[0].limit: `5/fortnight` is not a limit: `fortnight` is not a unit",
        "rules[1].algoritm: `algoritm` is not known here; did you mean `algorithm`?",
        "rules[1].name: `a` is the name of rules[0] already",
        "rules[2].match.endpoint: `login` must start with `/`",
        "rules[3].by: a rule with `action: block` takes no `by`",
        "rules[4].action: `queue` is not yet available",
        "rules[5]: a rule needs a `name`",
        "rules[6].limit: expected a limit such as `5/minute`, got the number 5",
        "rules[6].priority: expected a whole number",
        "rules[6].enabled: expected true or false, got `yes`",
    ] {
        assert!(found.iter().any(|mistake| mistake.starts_with(expected)), "{expected}\n{found:#?}");
    }
}

#[test]
fn tiers_are_checked_when_the_document_lists_them() {
    let found = mistakes(
        r#"{"tiers": ["free", "gold"],
            "rules": [{"name": "a", "match": {"tier": "golf"}, "by": "user", "limit": "5/minute"}]}"#,
    );
    assert_eq!(found, ["rules[0].match.tier: `golf` is not one of this document's tiers (free, gold)"]);
}

#[test]
fn garbage_is_a_mistake_not_a_crash() {
    for text in ["", "null", "[]", "5", "{\"rules\": 5}", "{\"rules\": [5, null, []]}", "{\"rule\": []}"] {
        assert!(read_document(text).is_err(), "{text}");
    }
}

#[test]
fn blocks_are_rules_above_all_others() {
    let rule = read_block(r#"{"id":"b1","ip":"203.0.113.0/24","until":"2027-01-31T12:00:00Z","why":"abuse"}"#).unwrap();
    assert_eq!((rule.name.as_str(), rule.priority, rule.matches.ip.len()), ("block:b1", i32::MAX, 1));
    assert!(rule.until_us.is_some() && rule.response.message.is_none());
    for wrong in [
        "{}",
        r#"{"id":"b1"}"#,
        r#"{"id":"b1","ip":"x"}"#,
        r#"{"id":"b1","ip":"::1","user":"7"}"#,
        r#"{"id":"b1","user":""}"#,
        r#"{"id":"b1","user":"7","until":"soon"}"#,
        r#"{"id":"b1","user":"7","usr":1}"#,
    ] {
        assert!(read_block(wrong).is_err(), "{wrong}");
    }
    for name in ["block:b1", "*", "override:user:7"] {
        assert!(read_rule(&format!(r#"{{"name":"{name}","action":"block"}}"#)).is_err(), "{name}");
    }
}

#[test]
fn a_whole_descriptor_is_read_and_every_mistake_in_it_is_named() {
    let rule = |exact: &str, rest: &str| {
        let exact = format!(r#"{{"descriptor_exact": {exact}}}"#);
        read_rule(&format!(r#"{{"name": "r", "match": {exact}, {rest}}}"#))
    };
    let good =
        r#"{"domain": "d", "entries": [{"key": "a", "value": "b"}, {"key": "c", "value": "x*", "shared": true}]}"#;
    let read = rule(good, r#""limit": "5/minute", "replaces": ["other"]"#).unwrap();
    let exact = read.matches.exact.unwrap();
    let texts: Vec<_> = exact.entries.iter().map(|entry| (entry.text.as_str(), entry.shared)).collect();
    assert_eq!((exact.domain.as_str(), texts), ("d", vec![("a_b", false), ("c_x*", true)]));
    assert_eq!((read.by.names(), read.replaces), (vec!["descriptor".to_string()], vec!["other".to_string()]));

    let limit = r#""limit": "5/minute""#;
    for (exact, rest, words) in [
        (r#"[]"#, limit, "expected a mapping"),
        (r#"{"entries": [{"key": "a"}]}"#, limit, "needs a `domain`"),
        (r#"{"domain": "d"}"#, limit, "needs `entries`"),
        (r#"{"domain": "d", "entries": []}"#, limit, "must be 1 to 32 entries"),
        (r#"{"domain": "d", "entries": {"key": "a"}}"#, limit, "expected a list"),
        (r#"{"domain": "d", "entries": [{"value": "a"}]}"#, limit, "an entry needs a `key`"),
        (r#"{"domain": "d", "entries": [{"key": "a", "value": ""}]}"#, limit, "must be 1 to"),
        (r#"{"domain": "d", "entries": [{"key": "a", "values": "b"}]}"#, limit, "did you mean `value`?"),
        (r#"{"domain": "d", "entries": [{"key": "a", "value": "b", "shared": true}]}"#, limit, "can count together"),
        (good, r#""limit": "5/minute", "by": "user""#, "takes no `by`"),
        (good, r#""action": "block", "limit": "5/minute""#, "takes no `limit`"),
        (good, r#""action": "throttle""#, "needs a `limit`"),
    ] {
        let mistakes = rule(exact, rest).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.message.contains(words)), "{exact} {rest}: {mistakes:?}");
        assert_eq!(mistakes.len(), 1, "{exact} {rest}: {mistakes:?}");
    }
    let beside =
        r#"{"name": "r", "match": {"user": "7", "descriptor_exact": {"domain": "d", "entries": [{"key": "a"}]}}"#;
    let mistakes = read_rule(&format!("{beside}, {limit}}}")).unwrap_err();
    assert!(mistakes[0].to_string().starts_with("match.user: `descriptor_exact` stands alone"), "{mistakes:?}");
    let mistakes = read_rule(r#"{"name": "r", "by": "user", "limit": "5/minute", "replaces": "x"}"#).unwrap_err();
    assert!(mistakes[0].to_string().starts_with("replaces: only a rule with"), "{mistakes:?}");
}
