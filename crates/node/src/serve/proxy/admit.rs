//! Whether a request may pass: who asks, the limits that apply, and what its answer says of them.

use super::body::same;
use crate::asking::Sent;
use crate::identity::Identity;
use crate::serve::authorize::{self, Authorizing, put_header};
use crate::serve::door::Origin;
use crate::serve::forwarded::Forwarded;
use crate::serve::identified::{Identified, identify};
use crate::serve::problem::Problem;
use crate::serve::router::Reply;
use crate::serve::shared::Shared;
use crate::store::Mode;
use headgate_core::Facts;
use headgate_core::answer::{Answer, LastPolicies};
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;
use smallvec::SmallVec;
use std::sync::Arc;

/// What is read of a request to decide.
#[derive(Default)]
pub(super) struct Asking<'h> {
    method: &'h str,
    path: &'h str,
    authorization: Option<&'h [u8]>,
    api_key: Option<&'h [u8]>,
    forwarded_for: SmallVec<[&'h [u8]; 2]>,
}

impl<'h> Asking<'h> {
    pub fn new(method: &'h str, path: &'h str) -> Self {
        Self { method, path, ..Self::default() }
    }

    /// Notes a header. What verifies a caller may come once: an upstream might read another than we do.
    #[inline]
    pub fn look(&mut self, name: &[u8], value: &'h [u8], identity: &Identity) -> Result<(), Problem> {
        let key_header = identity.api_key_header();
        let slot = match name.len() {
            13 if name.eq_ignore_ascii_case(b"authorization") => &mut self.authorization,
            15 if name.eq_ignore_ascii_case(b"x-forwarded-for") => {
                self.forwarded_for.push(value);
                return Ok(());
            }
            len if len == key_header.len() && same(name, key_header.as_bytes()) => {
                // An upstream that reads it all the same would serve whom we did not count.
                if !name.eq_ignore_ascii_case(key_header.as_bytes()) {
                    let is_known = identity.takes_keys();
                    let wrong = || Problem::new(400, format!("an API key is sent as {key_header}, to the letter"));
                    return if is_known { Err(wrong()) } else { Ok(()) };
                }
                &mut self.api_key
            }
            _ => return Ok(()),
        };
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(Problem::field(String::from_utf8_lossy(name).to_ascii_lowercase(), "sent more than once")),
        }
    }
}

/// A request that may pass, or the answer it gets instead. Lines about its limits went to the buffer given.
pub(super) enum Admitted {
    Passes(Identified),
    Refused(Reply),
}

/// A decision, as far as it came at once.
pub(super) enum Deciding {
    Done(Admitted),
    Waiting(Box<Waiting>),
}

pub(super) struct Waiting {
    rules: Arc<RuleSet>,
    sent: Sent,
    who: Identified,
}

/// Where lines about limits go, and the body of a refusal after them.
pub(super) struct Told<'t> {
    pub lines: &'t mut Vec<u8>,
    pub last: &'t mut LastPolicies,
}

/// Decides, or asks the shared store to.
#[inline]
pub(super) fn begin(
    shared: &Shared,
    origin: Origin,
    asking: &Asking<'_>,
    told: &mut Told<'_>,
) -> Result<Deciding, Problem> {
    let engine = &*shared.engine;
    let identity = engine.identity();
    let shown = Forwarded {
        path: None,
        method: None,
        authorization: asking.authorization,
        api_key: asking.api_key,
        forwarded_for: asking.forwarded_for.clone(),
    };
    let who = identify(engine, &identity, &shown, origin.peer)?;
    let facts = Facts { path: Some(asking.path), method: Some(asking.method), ..who.facts() };
    if engine.is_shared() {
        let rules = engine.rules_full();
        let sent = engine.send(engine.begin(&rules, facts, 1, Mode::Check));
        return Ok(Deciding::Waiting(Box::new(Waiting { rules, sent, who })));
    }
    let rules = engine.rules();
    let verdict = engine.check(&rules, facts, 1, Mode::Check);
    Ok(Deciding::Done(tell(shared, &rules, &verdict, who, told)))
}

impl Waiting {
    pub async fn finish(self, shared: &Shared, told: &mut Told<'_>) -> Admitted {
        let verdict = self.sent.verdict(&shared.engine, Some(&self.rules)).await;
        tell(shared, &self.rules, &verdict, self.who, told)
    }
}

#[inline]
fn tell(shared: &Shared, rules: &RuleSet, verdict: &Verdict, who: Identified, told: &mut Told<'_>) -> Admitted {
    if verdict.allowed {
        let answer = Answer::new(Some(rules), verdict);
        let put = &mut |name: &'static str, value: &str| put_header(told.lines, name, value);
        answer.each_header_again(told.last, &shared.options.headers, put);
        return Admitted::Passes(who);
    }
    // Whom a refused caller was taken for is the upstream's to know, and the upstream is not asked.
    Admitted::Refused(authorize::write(shared, rules, verdict, &Authorizing::of_nobody(), told.lines))
}
