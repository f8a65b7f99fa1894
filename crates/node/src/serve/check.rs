//! The routes that decide: `/v1/check`, `/v1/checks`, `/v1/limit`.

use super::facts_json::{FactsBody, read_facts, read_facts_list};
use super::limit_json::read_limit;
use super::problem::{Problem, shown};
use super::router::{Kind, Reply, Route};
use crate::Engine;
use crate::asking::Sent;
use crate::store::Mode;
use headgate_core::answer::{Answer, HeaderOptions, json_text};
use headgate_core::decision_json::write_decision;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;
use std::sync::Arc;

/// Requests that were read and are being decided: nothing of their body is needed any more.
pub(crate) struct Begun {
    rules: Option<Arc<RuleSet>>,
    checks: Vec<Sent>,
    is_list: bool,
    with_headers: bool,
}

/// Decides at once, where counters are kept in this process.
pub(crate) fn decide_now(
    engine: &Engine,
    route: Route,
    body: &[u8],
    query: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<Reply, Problem> {
    let with_headers = wants_headers(query)?;
    match route {
        Route::Limit => {
            let asked = read_limit(body)?;
            let verdict = engine.check_limits(&asked.key, &asked.quotas, asked.cost, mode(asked.cost));
            write(out, None, &verdict, with_headers);
        }
        Route::Checks => {
            // A mistake anywhere is found before anything is counted.
            let list = read_facts_list(body)?;
            out.push(b'[');
            for (nth, facts) in list.iter().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                decide(engine, facts, with_headers, out);
            }
            out.push(b']');
        }
        _ => decide(engine, &read_facts(body)?, with_headers, out),
    }
    Ok(Reply::ok(Kind::Json))
}

/// Reads what is asked and hands it to the shared store; a list goes together, in order.
pub(crate) fn begin(engine: &Engine, route: Route, body: &[u8], query: Option<&str>) -> Result<Begun, Problem> {
    let with_headers = wants_headers(query)?;
    let mut begun = Begun { rules: None, checks: Vec::new(), is_list: route == Route::Checks, with_headers };
    if route == Route::Limit {
        let asked = read_limit(body)?;
        begun.checks.push(engine.send(engine.begin_limits(&asked.key, &asked.quotas, asked.cost, mode(asked.cost))));
        return Ok(begun);
    }
    let list = if begun.is_list { read_facts_list(body)? } else { vec![read_facts(body)?] };
    let rules = engine.rules_full();
    for facts in &list {
        let step = facts.with_facts(|known| engine.begin(&rules, known, facts.cost, mode(facts.cost)));
        begun.checks.push(engine.send(step));
    }
    begun.rules = Some(rules);
    Ok(begun)
}

impl Begun {
    /// Waits for the store and writes the answer.
    pub async fn finish(self, engine: &Engine, out: &mut Vec<u8>) -> Reply {
        let rules = self.rules.as_deref();
        if self.is_list {
            out.push(b'[');
        }
        for (nth, check) in self.checks.into_iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let verdict = check.verdict(engine, rules).await;
            write(out, rules, &verdict, self.with_headers);
        }
        if self.is_list {
            out.push(b']');
        }
        Reply::ok(Kind::Json)
    }
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
