//! Forward auth: a proxy sends a request's head here before it sends the request on, and does as the answer says.

use super::check::{Begun, Form};
use super::forwarded::{Forwarded, read};
use super::identified::{Identified, identify};
use super::problem::{Problem, shown};
use super::router::{Asked, Kind, Reply};
use super::shared::Shared;
use crate::store::Mode;
use headgate_core::Facts;
use headgate_core::answer::{Answer, header_text};
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;

/// Statuses a proxy may ask refusals to have.
const DENY_STATUSES: std::ops::RangeInclusive<u16> = 400..=599;

/// What the answer needs once the store has spoken.
pub(crate) struct Authorizing {
    who: Identified,
    deny_status: Option<u16>,
}

impl Authorizing {
    /// Where nobody asks on another's behalf.
    pub fn of_nobody() -> Self {
        Self { who: Identified::default(), deny_status: None }
    }
}

/// Decides at once, where counters are kept in this process.
pub(crate) fn decide_now(shared: &Shared, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<Reply, Problem> {
    let (authorizing, forwarded) = read_all(shared, asked)?;
    let rules = shared.engine.rules();
    let verdict = shared.engine.check(&rules, facts(&authorizing.who, &forwarded), 1, Mode::Check);
    Ok(write(shared, &rules, &verdict, &authorizing, out))
}

/// Hands the question to the shared store.
pub(crate) fn begin(shared: &Shared, asked: &Asked<'_>) -> Result<Begun, Problem> {
    let (authorizing, forwarded) = read_all(shared, asked)?;
    let rules = shared.engine.rules_full();
    let step = shared.engine.begin(&rules, facts(&authorizing.who, &forwarded), 1, Mode::Check);
    let check = shared.engine.send(step);
    Ok(Begun { rules: Some(rules), checks: vec![check], form: Form::Authorize(authorizing) })
}

fn read_all<'a>(shared: &Shared, asked: &Asked<'a>) -> Result<(Authorizing, Forwarded<'a>), Problem> {
    let deny_status = deny_status(asked.query)?;
    let identity = shared.engine.identity();
    let forwarded = read(asked.head, identity.api_key_header())?;
    let who = identify(&shared.engine, &identity, &forwarded, asked.origin.peer)?;
    Ok((Authorizing { who, deny_status }, forwarded))
}

fn facts<'a>(who: &'a Identified, forwarded: &'a Forwarded<'_>) -> Facts<'a> {
    Facts { path: forwarded.path.as_deref(), method: forwarded.method.as_deref(), ..who.facts() }
}

/// The answer: header lines first, then the body of a refusal.
pub(crate) fn write(
    shared: &Shared,
    rules: &RuleSet,
    verdict: &Verdict,
    authorizing: &Authorizing,
    out: &mut Vec<u8>,
) -> Reply {
    let options = &shared.options;
    let answer = Answer::new(Some(rules), verdict);
    authorizing.who.each_header(&mut |name, value| put_header(out, name, value));
    answer.each_header(&options.headers, &mut |name, value| put_header(out, name, value));
    if let Some(rule) = verdict.rule {
        put_header(out, "X-Headgate-Rule", &header_text(rules.name(rule)));
    }
    if verdict.allowed {
        return Reply { head_len: out.len(), ..Reply::ok(Kind::Nothing) };
    }
    put_header(out, "X-Headgate-Status", itoa::Buffer::new().format(verdict.status));
    let head_len = out.len();
    out.extend_from_slice(answer.body(options.problem_body, options.headers.jitter).as_bytes());
    let kind = if options.problem_body { Kind::Problem } else { Kind::Json };
    Reply { status: authorizing.deny_status.unwrap_or(verdict.status), kind, allow: None, head_len }
}

pub(crate) fn put_header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `?deny_status=403`, for proxies that know few statuses.
fn deny_status(query: Option<&str>) -> Result<Option<u16>, Problem> {
    let mut status = None;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "deny_status" {
            return Err(Problem::field(shown(name), "unknown query parameter; expected deny_status"));
        }
        let read = value.parse().ok().filter(|status| DENY_STATUSES.contains(status));
        status = Some(read.ok_or_else(|| Problem::field(name, "expected a status from 400 to 599"))?);
    }
    Ok(status)
}
