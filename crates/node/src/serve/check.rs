//! The routes that decide: `/v1/check`, `/v1/checks`, `/v1/limit`.

use super::facts_json::{FactsBody, read_facts, read_facts_list};
use super::limit_json::read_limit;
use super::problem::{Problem, shown};
use super::router::{Kind, Reply};
use crate::Engine;
use crate::store::Mode;
use headgate_core::answer::{Answer, HeaderOptions, json_text};
use headgate_core::decision_json::write_decision;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;

pub(crate) fn check(engine: &Engine, body: &[u8], query: Option<&str>, out: &mut Vec<u8>) -> Result<Reply, Problem> {
    let with_headers = wants_headers(query)?;
    let facts = read_facts(body)?;
    decide(engine, &facts, with_headers, out);
    Ok(Reply::ok(Kind::Json))
}

/// A list, decided in order. A mistake anywhere is found before anything is counted.
pub(crate) fn checks(engine: &Engine, body: &[u8], query: Option<&str>, out: &mut Vec<u8>) -> Result<Reply, Problem> {
    let with_headers = wants_headers(query)?;
    let list = read_facts_list(body)?;
    out.push(b'[');
    for (nth, facts) in list.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        decide(engine, facts, with_headers, out);
    }
    out.push(b']');
    Ok(Reply::ok(Kind::Json))
}

pub(crate) fn limit(engine: &Engine, body: &[u8], query: Option<&str>, out: &mut Vec<u8>) -> Result<Reply, Problem> {
    let with_headers = wants_headers(query)?;
    let asked = read_limit(body)?;
    let verdict = engine.check_limits(&asked.key, &asked.quotas, asked.cost, mode(asked.cost));
    write(out, None, &verdict, with_headers);
    Ok(Reply::ok(Kind::Json))
}

#[inline]
fn decide(engine: &Engine, facts: &FactsBody<'_>, with_headers: bool, out: &mut Vec<u8>) {
    let rules = engine.rules();
    let verdict = facts.with_facts(|known| engine.check(&rules, known, facts.cost, mode(facts.cost)));
    write(out, Some(&rules), &verdict, with_headers);
}

/// A cost of 0 is a peek.
#[inline]
fn mode(cost: u64) -> Mode {
    if cost == 0 { Mode::Peek } else { Mode::Check }
}

#[inline]
fn write(out: &mut Vec<u8>, rules: Option<&RuleSet>, verdict: &Verdict, with_headers: bool) {
    write_decision(out, rules, verdict);
    if with_headers {
        write_headers(out, &Answer { rules, verdict });
    }
}

/// Reopens the object just written and adds what a proxy would send to its client.
fn write_headers(out: &mut Vec<u8>, answer: &Answer<'_>) {
    let options = HeaderOptions::default();
    out.pop();
    out.extend_from_slice(b",\"headers\":{");
    for (nth, (name, value)) in answer.headers(&options).iter().enumerate() {
        let comma = if nth == 0 { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{name}\":{}", json_text(value)).as_bytes());
    }
    out.extend_from_slice(b"},\"body\":");
    match answer.verdict.allowed {
        true => out.extend_from_slice(b"null"),
        false => out.extend_from_slice(answer.body(false, options.jitter).as_bytes()),
    }
    out.push(b'}');
}

/// `?headers=true`. A parameter that means nothing is a mistake worth telling.
#[inline]
fn wants_headers(query: Option<&str>) -> Result<bool, Problem> {
    let mut wanted = false;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        wanted = match pair {
            "headers=true" => true,
            "headers=false" => false,
            _ => {
                let name = pair.split('=').next().unwrap_or_default();
                let what = match name {
                    "headers" => "expected true or false",
                    _ => "unknown query parameter; expected headers",
                };
                return Err(Problem::field(shown(name), what));
            }
        };
    }
    Ok(wanted)
}
