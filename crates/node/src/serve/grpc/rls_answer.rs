//! `RateLimitResponse`, written straight into its frame.

use super::proto::{put_bytes, put_message, put_number};
use super::rls::Told;
use super::rls_request::unit_of;
use crate::described::Met;
use crate::serve::Options;
use crate::serve::identified::each_header;
use headgate_core::answer::Answer;
use headgate_core::rule_index::RuleSet;
use headgate_core::verdict::{LimitResult, Verdict};

const OK: u64 = 1;
const OVER_LIMIT: u64 = 2;
/// Whom a header is for, by the field it goes in.
const CLIENT: u32 = 3;
const UPSTREAM: u32 = 4;

pub(crate) struct Answered<'a> {
    pub rules: &'a RuleSet,
    pub verdict: &'a Verdict,
    /// What each descriptor met, in order.
    pub met: &'a [Met],
    pub who: &'a Told,
    pub options: &'a Options,
}

pub(crate) fn write(answered: &Answered<'_>, out: &mut Vec<u8>) {
    let verdict = answered.verdict;
    put_number(out, 1, if verdict.allowed { OK } else { OVER_LIMIT });
    for met in answered.met {
        put_message(out, 2, |out| answered.write_status(met, out));
    }
    let answer = Answer::new(Some(answered.rules), verdict);
    answer.each_header(&answered.options.headers, &mut |name, value| put_header(out, CLIENT, name, value));
    if verdict.allowed {
        if let Some(known) = &answered.who.known {
            each_header(known, &mut |name, value| put_header(out, UPSTREAM, name, value));
        }
        return;
    }
    if let Some(rule) = verdict.rule {
        put_header(out, CLIENT, "X-Headgate-Rule", &headgate_core::answer::header_text(answered.rules.name(rule)));
    }
    let is_problem = answered.options.problem_body;
    put_header(out, CLIENT, "Content-Type", if is_problem { "application/problem+json" } else { "application/json" });
    let body = match &answered.who.refused {
        Some(why) => Answer::body_of(&why.text(), is_problem),
        None => answer.body(is_problem, answered.options.headers.jitter),
    };
    put_bytes(out, 5, body.as_bytes());
}

impl Answered<'_> {
    fn write_status(&self, met: &Met, out: &mut Vec<u8>) {
        if matches!(met, Met::Blocked(_)) || self.is_denied_without_rule() {
            return put_number(out, 1, OVER_LIMIT);
        }
        if matches!(met, Met::Unlimited) {
            put_number(out, 1, OK);
            return put_number(out, 3, u64::from(u32::MAX));
        }
        let Some(limit) = met.binding(self.verdict) else { return put_number(out, 1, OK) };
        put_number(out, 1, if limit.allowed() { OK } else { OVER_LIMIT });
        let response = limit.rule.map(|rule| &self.rules.record(rule).template.response);
        if response.is_none_or(|response| !response.hide_remaining) {
            put_message(out, 2, |out| self.write_limit(limit, out));
            put_present(out, 3, u64::from(small(limit.measure.remaining)));
        }
        let reset_us = limit.measure.reset_after_us;
        put_message(out, 4, |out| {
            put_present(out, 1, reset_us / 1_000_000);
            put_present(out, 2, reset_us % 1_000_000 * 1_000);
        });
    }

    fn write_limit(&self, limit: &LimitResult, out: &mut Vec<u8>) {
        put_present(out, 1, u64::from(small(limit.quota.count)));
        put_present(out, 2, unit_of(limit.quota.window_us));
        if let Some(rule) = limit.rule {
            put_bytes(out, 3, self.name_of(rule, usize::from(limit.nth)).as_bytes());
        }
    }

    /// The rule's. A rule for whole descriptors stands for a limit that may have had a name of its own: its label.
    fn name_of(&self, rule: u32, nth: usize) -> &str {
        let record = self.rules.record(rule);
        let label = record.limits.get(nth).filter(|limit| record.template.replaces.is_some() && limit.is_named(nth));
        label.map_or_else(|| self.rules.name(rule), |limit| &limit.label)
    }

    /// No descriptor met a rule, and that is refused here.
    fn is_denied_without_rule(&self) -> bool {
        !self.verdict.allowed && self.verdict.rule.is_none() && self.met.iter().all(|met| matches!(met, Met::Free))
    }
}

fn put_header(out: &mut Vec<u8>, to: u32, name: &str, value: &str) {
    put_message(out, to, |out| {
        put_bytes(out, 1, name.as_bytes());
        put_bytes(out, 2, value.as_bytes());
    });
}

/// Nought is what an absent number says.
fn put_present(out: &mut Vec<u8>, number: u32, value: u64) {
    if value > 0 {
        put_number(out, number, value);
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
