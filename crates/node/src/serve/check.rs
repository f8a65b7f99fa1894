//! The routes that decide: `/v1/check`, `/v1/checks`, `/v1/limit`.

use super::Options;
use super::authorize::{self, Authorizing};
use super::credentials_json::verified;
use super::facts_json::{FactsBody, read_facts, read_facts_list};
use super::limit_json::read_limit;
use super::problem::{Problem, shown};
use super::router::{Kind, Reply, Route};
use super::shared::Shared;
use crate::Engine;
use crate::asking::Sent;
use crate::store::Mode;
use headgate_core::answer::{Answer, json_text};
use headgate_core::decision_json::write_decision;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;
use std::sync::Arc;

/// Requests that were read and are being decided: nothing of their body is needed any more.
pub(crate) struct Begun {
    pub rules: Option<Arc<RuleSet>>,
    pub checks: Vec<Sent>,
    pub form: Form,
}

/// How decisions are told.
pub(crate) enum Form {
    Json { is_list: bool, with_headers: bool },
    Authorize(Authorizing),
}

/// Decides at once, where counters are kept in this process.
pub(crate) fn decide_now(
    shared: &Shared,
    route: Route,
    body: &[u8],
    query: Option<&str>,
    out: &mut Vec<u8>,
) -> Result<Reply, Problem> {
    let engine = &*shared.engine;
    let told = Told { with_headers: wants_headers(query)?, options: &shared.options };
    match route {
        Route::Limit => {
            let asked = read_limit(body)?;
            let verdict = engine.check_limits(&asked.key, &asked.quotas, asked.cost, mode(asked.cost));
            write(out, None, &verdict, &told);
        }
        Route::Checks => {
            // A mistake anywhere is found before anything is counted.
            let list = verified(engine, read_facts_list(body)?)?;
            out.push(b'[');
            for (nth, facts) in list.iter().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                decide(engine, facts, &told, out);
            }
            out.push(b']');
        }
        _ => {
            let mut facts = read_facts(body)?;
            facts.verify(engine)?;
            decide(engine, &facts, &told, out);
        }
    }
    Ok(Reply::ok(Kind::Json))
}

/// Reads what is asked and hands it to the shared store; a list goes together, in order.
pub(crate) fn begin(engine: &Engine, route: Route, body: &[u8], query: Option<&str>) -> Result<Begun, Problem> {
    let with_headers = wants_headers(query)?;
    let is_list = route == Route::Checks;
    let mut begun = Begun { rules: None, checks: Vec::new(), form: Form::Json { is_list, with_headers } };
    if route == Route::Limit {
        let asked = read_limit(body)?;
        begun.checks.push(engine.send(engine.begin_limits(&asked.key, &asked.quotas, asked.cost, mode(asked.cost))));
        return Ok(begun);
    }
    let list = if is_list {
        verified(engine, read_facts_list(body)?)?
    } else {
        let mut facts = read_facts(body)?;
        facts.verify(engine)?;
        vec![facts]
    };
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
    pub async fn finish(self, shared: &Shared, out: &mut Vec<u8>) -> Reply {
        let engine = &*shared.engine;
        let rules = self.rules.as_deref();
        let (is_list, with_headers) = match self.form {
            Form::Json { is_list, with_headers } => (is_list, with_headers),
            Form::Authorize(authorizing) => {
                let (Some(rules), Some(check)) = (rules, self.checks.into_iter().next()) else {
                    return Reply::problem(&Problem::new(500, "nothing was asked"), out);
                };
                let verdict = check.verdict(engine, Some(rules)).await;
                return authorize::write(shared, rules, &verdict, &authorizing, out);
            }
        };
        let told = Told { with_headers, options: &shared.options };
        if is_list {
            out.push(b'[');
        }
        for (nth, check) in self.checks.into_iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let verdict = check.verdict(engine, rules).await;
            write(out, rules, &verdict, &told);
        }
        if is_list {
            out.push(b']');
        }
        Reply::ok(Kind::Json)
    }
}

/// What is told beside a decision.
struct Told<'a> {
    with_headers: bool,
    options: &'a Options,
}

#[inline]
fn decide(engine: &Engine, facts: &FactsBody<'_>, told: &Told<'_>, out: &mut Vec<u8>) {
    let rules = engine.rules();
    let verdict = facts.with_facts(|known| engine.check(&rules, known, facts.cost, mode(facts.cost)));
    write(out, Some(&rules), &verdict, told);
}

/// A cost of 0 is a peek.
#[inline]
fn mode(cost: u64) -> Mode {
    if cost == 0 { Mode::Peek } else { Mode::Check }
}

#[inline]
fn write(out: &mut Vec<u8>, rules: Option<&RuleSet>, verdict: &Verdict, told: &Told<'_>) {
    write_decision(out, rules, verdict);
    if told.with_headers {
        write_headers(out, &Answer::new(rules, verdict), told.options);
    }
}

/// Reopens the object just written and adds what a proxy would send to its client.
fn write_headers(out: &mut Vec<u8>, answer: &Answer<'_>, options: &Options) {
    out.pop();
    out.extend_from_slice(b",\"headers\":{");
    for (nth, (name, value)) in answer.headers(&options.headers).iter().enumerate() {
        let comma = if nth == 0 { "" } else { "," };
        out.extend_from_slice(format!("{comma}\"{name}\":{}", json_text(value)).as_bytes());
    }
    out.extend_from_slice(b"},\"body\":");
    match answer.verdict.allowed {
        true => out.extend_from_slice(b"null"),
        false => out.extend_from_slice(answer.body(options.problem_body, options.headers.jitter).as_bytes()),
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
