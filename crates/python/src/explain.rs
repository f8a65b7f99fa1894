//! The account of a decision: which rules matched, which lost and to whom, which limit bound.

use headgate_core::Facts;
use headgate_core::decision_json::write_decision;
use headgate_core::rule_index::{Candidate, Outcome, RuleSet};
use headgate_node::Engine;
use headgate_node::store::Mode;
use serde_json::{Value, json};

pub fn explain(engine: &Engine, rules: &RuleSet, facts: Facts<'_>, cost: u64) -> String {
    let verdict = engine.check(rules, facts, cost, Mode::Peek);
    let looked = engine.look(rules, facts);
    let mut decision = Vec::new();
    write_decision(&mut decision, Some(rules), &verdict);
    let decision: Value = serde_json::from_slice(&decision).unwrap_or_default();
    let candidates = rules.account(&looked, engine.now_us());
    let candidates: Vec<Value> = candidates
        .iter()
        .map(|candidate| {
            let missing = verdict.skipped().iter().find(|(rule, _)| *rule == candidate.rule).map(|(_, fact)| &**fact);
            describe(rules, &candidates, candidate, missing)
        })
        .collect();
    let tier_from = match (looked.tier_override, looked.facts.tier) {
        (Some(dim), _) => format!("the override for this {}", dim.name()),
        (None, Some(_)) => "the request".to_string(),
        (None, None) => "the default".to_string(),
    };
    let descriptors: serde_json::Map<String, Value> =
        facts.descriptors.iter().map(|(key, value)| ((*key).to_string(), json!(value))).collect();
    json!({
        "decision": decision,
        "facts": {
            "user": facts.user, "api_key": facts.api_key, "org": facts.org,
            "ip": looked.counted_ip.map(|ip| ip.to_string()), "tier": looked.tier, "method": facts.method,
            "path": looked.path, "endpoint": rules.endpoint(&looked), "region": looked.facts.region,
            "descriptors": descriptors, "cost": cost,
        },
        "tier_from": tier_from,
        "candidates": candidates,
    })
    .to_string()
}

fn describe(rules: &RuleSet, all: &[Candidate], candidate: &Candidate, missing: Option<&str>) -> Value {
    let record = rules.record(candidate.rule);
    let name = rules.name(candidate.rule);
    let (outcome, to, why) = match (candidate.outcome, missing) {
        (_, Some(fact)) => ("skipped", None, format!("the request has no {fact} to count by")),
        (Outcome::Wins, None) => ("wins", None, "nothing that counts by the same is stronger".to_string()),
        (Outcome::LosesTo(winner), None) if winner == candidate.rule => {
            let is_switched = rules.is_switched(candidate.rule);
            let why = if is_switched { "the kill switch turned it to shadow" } else { "its time is over" };
            ("loses", None, why.to_string())
        }
        (Outcome::LosesTo(winner), None) => {
            ("loses", Some(rules.name(winner)), why_lost(rules, all, candidate, winner))
        }
    };
    let by = if record.template.action.decides_alone() { Vec::new() } else { rules.by(record.template.by).by.names() };
    json!({
        "rule": name, "outcome": outcome, "to": to, "why": why, "by": by, "priority": record.priority,
        "action": record.template.action.name(), "switched": rules.is_switched(candidate.rule),
        "limits": record.limits.iter().map(|limit| json!({
            "label": &*limit.label, "algorithm": limit.quota.algorithm.name(), "count": limit.quota.count,
            "window": limit.quota.window_us as f64 / 1e6, "limit": limit.quota.capacity,
        })).collect::<Vec<_>>(),
    })
}

fn why_lost(rules: &RuleSet, all: &[Candidate], loser: &Candidate, winner: u32) -> String {
    let (winning, losing) = (rules.record(winner), rules.record(loser.rule));
    let winner_rank = all.iter().find(|candidate| candidate.rule == winner).map_or(0, |candidate| candidate.rank);
    if winning.template.action.decides_alone() && !losing.template.action.decides_alone() {
        return format!("a rule with action {} decides alone", winning.template.action.name());
    }
    if winning.priority != losing.priority {
        return format!("priority {} is below {}", losing.priority, winning.priority);
    }
    if winning.template.action != losing.template.action && winning.template.action.decides_alone() {
        return "a block goes before an allow".to_string();
    }
    if winner_rank != loser.rank {
        return "its match is less specific".to_string();
    }
    "equally specific, and its name comes later".to_string()
}
