//! `ShouldRateLimit`: descriptors to facts, one decision, an answer for each descriptor.

use super::call::Failure;
use super::code::Code;
use super::frames::framed;
use super::rls_answer::{Answered, write};
use super::rls_request::{OwnLimit, Request, read};
use crate::Engine;
use crate::asking::{Sent, Step};
use crate::described::{Described, Description, Entry, Met, Own, Whole};
use crate::identity::{Credentials, Identity, Known, Who, Why};
use crate::serve::shared::Shared;
use arc_swap::Guard;
use bytes::Bytes;
use headgate_core::Facts;
use headgate_core::net::parse_ip;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::Verdict;
use smallvec::SmallVec;
use std::sync::Arc;

/// Bytes most answers fit in.
const ANSWER_BYTES: usize = 512;

pub(crate) async fn should_rate_limit(shared: &Shared, message: &[u8]) -> Result<Bytes, Failure> {
    match begin(shared, message)? {
        Begun::Done(answer) => Ok(answer),
        Begun::Waiting(waiting) => {
            let Waiting { sent, rules, met, who } = *waiting;
            let verdict = sent.verdict(&shared.engine, Some(&rules)).await;
            Ok(answer(shared, &rules, &verdict, &met, &who))
        }
    }
}

/// A call, as far as it came at once. What waits is boxed: a task whose call is decided here need not carry room for it.
enum Begun {
    Done(Bytes),
    Waiting(Box<Waiting>),
}

struct Waiting {
    sent: Sent,
    rules: Arc<RuleSet>,
    met: SmallVec<[Met; 5]>,
    who: Told,
}

fn begin(shared: &Shared, message: &[u8]) -> Result<Begun, Failure> {
    let engine = &*shared.engine;
    let mut request = Request::default();
    read(message, &mut request).map_err(|what| (Code::InvalidArgument, what))?;
    let rules = engine.rules();
    let cost = request.descriptors.iter().map(|descriptor| descriptor.hits).max().unwrap_or(0);
    let mut describing = engine.describe(&rules, cost, request.descriptors.len());
    let mut who = Told::default();
    let identity = engine.identity();
    for descriptor in request.descriptors.iter().filter(|descriptor| descriptor.own == OwnLimit::None) {
        describing.show(&request.domain, request.entries(descriptor));
    }
    for descriptor in &request.descriptors {
        let entries = request.entries(descriptor);
        let prepared = prepare(engine, &identity, &request.domain, entries);
        let own = match descriptor.own {
            OwnLimit::None => Own::None,
            OwnLimit::Nothing => Own::Nothing,
            OwnLimit::Quota(quota) => Own::Limit(quota),
        };
        let (facts, is_refused) = (facts(entries, &prepared), prepared.refused.is_some());
        let name = |shared: &[(usize, &str)]| counter_name(&request.domain, entries, &prepared, shared);
        let whole = Whole { domain: &request.domain, entries, name: &name };
        describing
            .add(&Description { facts, whole, cost: descriptor.hits, own, is_refused })
            .map_err(|_| (Code::InvalidArgument, "the descriptors meet more than 200 limits"))?;
        who.add(prepared);
    }
    let Described { step, met } = describing.decide();
    Ok(match step {
        Step::Done(verdict) => Begun::Done(answer(shared, &rules, &verdict, &met, &who)),
        step => {
            let rules = Guard::into_inner(rules);
            Begun::Waiting(Box::new(Waiting { sent: engine.send(step), rules, met, who }))
        }
    })
}

fn answer(shared: &Shared, rules: &RuleSet, verdict: &Verdict, met: &[Met], who: &Told) -> Bytes {
    let answered = Answered { rules, verdict, met, who, options: &shared.options };
    framed(ANSWER_BYTES, |out| write(&answered, out))
}

/// What the descriptors' credentials come to, for the answer.
#[derive(Default)]
pub(crate) struct Told {
    /// Who was verified: the first, if several were.
    pub known: Option<Arc<Known>>,
    /// Why the call is refused, if credentials are the reason.
    pub refused: Option<Why>,
}

impl Told {
    fn add(&mut self, prepared: Prepared<'_>) {
        self.known = self.known.take().or(prepared.known);
        self.refused = self.refused.take().or(prepared.refused);
    }
}

/// What a descriptor's facts are made of beside its entries.
struct Prepared<'a> {
    /// Entries that are no fact of ours, and the domain.
    free: SmallVec<[(&'a str, &'a str); 4]>,
    known: Option<Arc<Known>>,
    /// The entry `authorization` is a token to be verified, and says nothing by itself.
    shows_token: bool,
    /// The same of the entry `api_key`.
    shows_key: bool,
    refused: Option<Why>,
}

fn prepare<'a>(engine: &Engine, identity: &Identity, domain: &'a str, entries: &'a [Entry<'_>]) -> Prepared<'a> {
    let mut free = SmallVec::new();
    let mut credentials = Credentials::default();
    for (key, value) in entries {
        match &**key {
            "authorization" if identity.takes_tokens() => {
                credentials.authorization.get_or_insert(value.as_bytes());
            }
            "api_key" if identity.takes_keys() => {
                credentials.api_key.get_or_insert(value.as_bytes());
            }
            "user" | "org" | "api_key" | "tier" | "method" | "region" | "path" => {}
            "remote_address" | "ip" if parse_ip(value).is_some() => {}
            _ => free.push((&**key, &**value)),
        }
    }
    free.push(("domain", domain));
    let (shows_token, shows_key) = (credentials.authorization.is_some(), credentials.api_key.is_some());
    // The clock is read only for those who show something.
    let who = match shows_token || shows_key {
        true => identity.identify(&credentials, engine.wall_us()),
        false => Who::Anonymous,
    };
    let (known, refused) = match who {
        Who::Known(known) => (Some(known), None),
        Who::Unverified(why) if identity.rejects() => (None, Some(why)),
        Who::Anonymous | Who::Unverified(_) => (None, None),
    };
    Prepared { free, known, shows_token, shows_key, refused }
}

/// The first of equal keys counts; what credentials say counts before all.
fn facts<'a>(entries: &'a [Entry<'_>], prepared: &'a Prepared<'_>) -> Facts<'a> {
    let mut facts = Facts { descriptors: &prepared.free, ..Facts::default() };
    for (key, value) in entries.iter().rev() {
        let value: &'a str = value;
        match &**key {
            "user" => facts.user = Some(value),
            "org" => facts.org = Some(value),
            "api_key" if !prepared.shows_key => facts.api_key = Some(value),
            "tier" => facts.tier = Some(value),
            "method" => facts.method = Some(value),
            "region" => facts.region = Some(value),
            // What follows the question mark is the client's to choose.
            "path" => facts.path = Some(value.split('?').next().unwrap_or_default()),
            "remote_address" | "ip" => facts.ip = parse_ip(value).or(facts.ip),
            _ => {}
        }
    }
    if let Some(known) = &prepared.known {
        facts.user = known.user.as_deref().or(facts.user);
        facts.org = known.org.as_deref().or(facts.org);
        facts.tier = known.tier.as_deref().or(facts.tier);
        facts.api_key = known.api_key.as_deref().or(facts.api_key);
    }
    facts
}

/// What a descriptor is counted as where it is counted whole: `edge,path=/x,user=42`. Names of counters are read by
/// whoever looks into the store, so whom credentials belong to stands there and not what they are.
fn counter_name(domain: &str, entries: &[Entry<'_>], prepared: &Prepared<'_>, shared: &[(usize, &str)]) -> String {
    let mut name = String::with_capacity(64);
    put_part(&mut name, domain);
    let mut put = |key: &str, value: &str| {
        name.push(',');
        put_part(&mut name, key);
        name.push('=');
        put_part(&mut name, value);
    };
    for (nth, (key, value)) in entries.iter().enumerate() {
        let value = shared.iter().find(|(at, _)| *at == nth).map_or(&**value, |(_, beginning)| beginning);
        match &**key {
            "authorization" if prepared.shows_token => {}
            "api_key" if prepared.shows_key => {}
            "authorization" | "api_key" => put(key, &hashed(value)),
            key => put(key, value),
        }
    }
    let verified = prepared.known.as_deref().map(|known| [("user", &known.user), ("api_key", &known.api_key)]);
    for (key, value) in verified.into_iter().flatten() {
        if let Some(value) = value {
            put(key, value);
        }
    }
    name
}

/// No text from a client can pass for the end of a part.
fn put_part(name: &mut String, text: &str) {
    for letter in text.chars() {
        if matches!(letter, ',' | '=' | '\\') {
            name.push('\\');
        }
        name.push(letter);
    }
}

fn hashed(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
