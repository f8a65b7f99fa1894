//! Calls that describe a request in several ways at once, as Envoy's do: each description is looked up on its own, and
//! all are decided together.

use crate::asking::{Asked, Step, asked_mode, place_id, put_place, put_plain_place};
use crate::engine::Engine;
use crate::ladder::{Call, Limits, alone, refused_or_allowed, without_limits};
use crate::store::Mode;
use crate::store::remote::{Places, Question};
use headgate_core::algorithm::NEVER;
use headgate_core::rule::{Action, REFUSED_STATUS};
use headgate_core::rule_index::{ExactSelection, RuleSet};
use headgate_core::subject::put_principal;
use headgate_core::verdict::{LimitResult, Path, Verdict, binding};
use headgate_core::{Facts, Quota};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// The most limits one call may meet: their places are counted in bytes.
pub const CALL_LIMITS_MAX: usize = 200;

/// What the names of counters of descriptions' own limits begin with.
const OWN_KEY: &str = "rls/";
/// What a rule for whole descriptors counts by, as shared stores name it.
const EXACT_PRINCIPAL: &str = "descriptor";
const EXACT_SUBJECT_DOMAIN: u8 = 65;

/// One description. Nothing stands in for a fact it does not give.
pub struct Description<'a> {
    pub facts: Facts<'a>,
    pub whole: Whole<'a>,
    /// 0 only looks.
    pub cost: u64,
    pub own: Own,
    /// Credentials that did not verify: refused whatever the rules say.
    pub is_refused: bool,
}

/// A description as it came, entry by entry.
#[derive(Clone, Copy)]
pub struct Whole<'a> {
    pub domain: &'a str,
    pub entries: &'a [Entry<'a>],
    /// What it is counted as. Some entries may count by another value than their own.
    pub name: &'a Naming<'a>,
}

type Naming<'a> = dyn Fn(&[(usize, &str)]) -> String + 'a;

/// A key and its value.
pub type Entry<'a> = (Cow<'a, str>, Cow<'a, str>);

/// A limit that came with the description and stands in for those of the rules.
pub enum Own {
    None,
    Limit(Quota),
    Nothing,
}

/// What a description met.
#[derive(Clone, Debug)]
pub enum Met {
    /// No limit: no rule applies, or one exempts it.
    Free,
    /// No limit, and a rule for just this description says so.
    Unlimited,
    /// A rule that blocks it, or none where its credentials or its own limit do.
    Blocked(Option<u32>),
    /// Positions among the call's limits.
    Limits(SmallVec<[u8; 4]>),
}

/// A call, as far as it came without the store, and what each description met.
pub struct Described {
    pub step: Step,
    pub met: SmallVec<[Met; 5]>,
}

/// More limits than one call can be asked about.
#[derive(Debug)]
pub struct TooMany;

/// A call that is being described.
pub struct Describing<'e> {
    engine: &'e Engine,
    rules: &'e RuleSet,
    call: Call,
    limits: Limits,
    places: Places,
    met: SmallVec<[Met; 5]>,
    exempt: Option<u32>,
    replaced: SmallVec<[&'e str; 2]>,
}

impl Engine {
    /// Begins a call of so many descriptions, of which the costliest costs `cost`.
    pub fn describe<'e>(&'e self, rules: &'e RuleSet, cost: u64, descriptions: usize) -> Describing<'e> {
        let call = Call { cost, mode: asked_mode(cost, Mode::Check), now_us: self.clock.now_us() };
        let limits = Limits::with_capacity(descriptions);
        let (places, met, exempt, replaced) = (Places::default(), SmallVec::new(), None, SmallVec::new());
        Describing { engine: self, rules, call, limits, places, met, exempt, replaced }
    }
}

impl Describing<'_> {
    /// Rules that a description's rules replace do not apply to any of the call. So whoever adds descriptions shows
    /// all of them here before the first is added.
    pub fn show(&mut self, domain: &str, entries: &[Entry<'_>]) {
        let rules = self.rules;
        if rules.has_replacing() {
            for rule in rules.select_exact(domain, entries, self.call.now_us).rules() {
                let replaced = rules.record(rule).template.replaces.iter().flat_map(|names| names.iter());
                self.replaced.extend(replaced.map(|name| &**name));
            }
        }
    }

    pub fn add(&mut self, description: &Description<'_>) -> Result<(), TooMany> {
        let met = self.look_up(description);
        self.met.push(met);
        if self.limits.len() > CALL_LIMITS_MAX { Err(TooMany) } else { Ok(()) }
    }

    fn look_up(&mut self, description: &Description<'_>) -> Met {
        if description.is_refused {
            return Met::Blocked(None);
        }
        let (engine, rules) = (self.engine, self.rules);
        let looked = rules.look_strictly(description.facts, engine.options.ipv6_prefix);
        let selection = rules.select(&looked, self.call.now_us);
        if let Some(rule) = selection.alone {
            if rules.record(rule).template.action == Action::Allow {
                self.exempt = self.exempt.or(Some(rule));
                return Met::Free;
            }
            return Met::Blocked(Some(rule));
        }
        match &description.own {
            Own::None => {}
            Own::Nothing => return Met::Blocked(None),
            Own::Limit(quota) => {
                let key = &format!("{OWN_KEY}{}", (description.whole.name)(&[]));
                let ask = engine.plain_limits(key, std::slice::from_ref(quota), description.cost)[0];
                let position = self.put(ask, |places| put_plain_place(places, key, quota));
                return Met::Limits(SmallVec::from_slice(&[position]));
            }
        }
        let mut positions = SmallVec::new();
        if rules.has_exact() {
            let whole = &description.whole;
            let found = rules.select_exact(whole.domain, whole.entries, self.call.now_us);
            if let Some(rule) = found.alone.filter(|rule| !self.is_replaced(*rule)) {
                if rules.record(rule).template.action == Action::Allow {
                    self.exempt = self.exempt.or(Some(rule));
                    return Met::Unlimited;
                }
                return Met::Blocked(Some(rule));
            }
            self.ask_whole(whole, &found, description.cost, &mut positions);
        }
        for winner in &selection.winners {
            let by = rules.by(winner.by);
            let Ok(subject) = rules.subject(&looked, by) else { continue };
            let record = rules.record(winner.rule);
            for (nth, limit) in record.limits.iter().enumerate() {
                let ask = engine.question(winner, record, nth, limit, subject, description.cost);
                positions.push(self.put(ask, |places| {
                    put_place(places, &rules.subject_key(&looked, by), place_id(record, limit), &limit.quota);
                }));
            }
        }
        if positions.is_empty() { Met::Free } else { Met::Limits(positions) }
    }

    /// Asks the limits of rules for whole descriptors.
    fn ask_whole(
        &mut self,
        whole: &Whole<'_>,
        found: &ExactSelection<'_>,
        cost: u64,
        positions: &mut SmallVec<[u8; 4]>,
    ) {
        let (engine, rules) = (self.engine, self.rules);
        for winner in &found.winners {
            if self.is_replaced(winner.winner.rule) {
                continue;
            }
            let name = (whole.name)(&winner.shared);
            let subject = rules.keyed().text(EXACT_SUBJECT_DOMAIN, &name);
            let record = rules.record(winner.winner.rule);
            for (nth, limit) in record.limits.iter().enumerate() {
                let ask = engine.question(&winner.winner, record, nth, limit, subject, cost);
                positions.push(self.put(ask, |places| {
                    let mut key = Vec::with_capacity(48);
                    put_principal(&mut key, EXACT_PRINCIPAL, Some(&name));
                    put_place(places, &key, place_id(record, limit), &limit.quota);
                }));
            }
        }
    }

    fn is_replaced(&self, rule: u32) -> bool {
        !self.replaced.is_empty() && self.replaced.contains(&self.rules.name(rule))
    }

    /// A counter met twice is spent on once, for the larger cost, and every quota it is met with has to allow that.
    #[inline]
    fn put(&mut self, mut ask: LimitResult, place: impl FnOnce(&mut Places)) -> u8 {
        let mut same = None;
        for (position, twin) in self.limits.iter_mut().enumerate() {
            if twin.key == ask.key && twin.shadow == ask.shadow {
                ask.looks_only = true;
                ask.cost = ask.cost.max(twin.cost);
                twin.cost = ask.cost;
                if twin.quota == ask.quota {
                    same = Some(position);
                }
            }
        }
        let position = same.unwrap_or_else(|| {
            self.limits.push(ask);
            if self.engine.is_shared() {
                place(&mut self.places);
            }
            self.limits.len() - 1
        });
        position as u8
    }

    /// Decides, or climbs up to the shared store that has to be asked.
    pub fn decide(mut self) -> Described {
        let step = self.step();
        Described { step, met: self.met }
    }

    fn step(&mut self) -> Step {
        let (engine, rules, call) = (self.engine, self.rules, &self.call);
        let blocked = self.met.iter().find_map(|met| if let Met::Blocked(rule) = met { Some(*rule) } else { None });
        if let Some(rule) = blocked {
            let verdict = match rule {
                Some(rule) => alone(rules, rule, call),
                None => without_limits(Path::Blocked, REFUSED_STATUS, None, NEVER, call),
            };
            return engine.done(Some(rules), verdict, call);
        }
        if self.limits.is_empty() {
            let without = || engine.without_rule(None, call);
            return engine.done(Some(rules), self.exempt.map_or_else(without, |rule| alone(rules, rule, call)), call);
        }
        if let Some(refused) = engine.remembered_refusal(Some(rules), &self.limits, call) {
            // Nobody was asked about the others, so nothing is told of them.
            for met in &mut self.met {
                let Met::Limits(positions) = met else { continue };
                *met = match positions.iter().any(|at| self.limits[usize::from(*at)].key == refused.key) {
                    true => Met::Limits(SmallVec::from_slice(&[0])),
                    false => Met::Free,
                };
            }
            let results = SmallVec::from_buf([refused]);
            let verdict = refused_or_allowed(Some(rules), results, Path::RefusedMemory, None, call);
            return engine.done(Some(rules), verdict, call);
        }
        let mut limits = std::mem::take(&mut self.limits);
        if engine.is_shared() {
            let places = Arc::new(std::mem::take(&mut self.places));
            return Step::Ask(Question { limits, places, mode: call.mode }, Asked::new(*call));
        }
        engine.store.decide(&mut limits, call.mode, call.now_us);
        let verdict = refused_or_allowed(Some(rules), limits, Path::Store, None, call);
        engine.done(Some(rules), verdict, call)
    }
}

impl Met {
    /// The limit a description's status speaks of.
    pub fn binding<'v>(&self, verdict: &'v Verdict) -> Option<&'v LimitResult> {
        let Met::Limits(positions) = self else { return None };
        // A call that was blocked asked for no limit.
        let limit = |at: &u8| verdict.results.get(usize::from(*at));
        if let [at] = positions[..] {
            return limit(&at).filter(|limit| !limit.shadow);
        }
        let own: SmallVec<[LimitResult; 4]> = positions.iter().filter_map(limit).copied().collect();
        let allowed = own.iter().all(|limit| limit.shadow || limit.allowed());
        let nth = binding(&own, allowed)?;
        limit(&positions[usize::from(nth)])
    }
}
