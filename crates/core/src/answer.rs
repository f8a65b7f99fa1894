//! From a verdict to what a client sees: headers and bodies, as pure functions.

use crate::algorithm::NEVER;
use crate::quota::Quota;
use crate::rule_index::RuleSet;
use crate::verdict::{LimitResult, Path, Verdict};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

/// Which header families are sent, and how.
#[derive(Clone, Copy, Debug)]
pub struct HeaderOptions {
    pub x_ratelimit: bool,
    pub ietf: bool,
    pub draft: Draft,
    /// The part of the wait by which clients are spread: 0.1 adds up to 10%.
    pub jitter: f64,
}

impl Default for HeaderOptions {
    fn default() -> Self {
        Self { x_ratelimit: true, ietf: true, draft: Draft::Eleven, jitter: 0.1 }
    }
}

/// Drafts of the IETF's RateLimit fields that differ in what `t` says: the time until more quota comes (10), or the
/// window within which there is no more than what is left (11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draft {
    Ten,
    Eleven,
}

/// When to try again after a refusal for want of a store.
const CLOSED_RETRY_S: u64 = 1;

/// A verdict together with the rules it was made by.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    pub rules: Option<&'a RuleSet>,
    pub verdict: &'a Verdict,
    /// What the policy of limits given with the call is named.
    pub plain_name: &'a str,
}

impl<'a> Answer<'a> {
    pub fn new(rules: Option<&'a RuleSet>, verdict: &'a Verdict) -> Self {
        Self { rules, verdict, plain_name: "default" }
    }

    /// Whole seconds to wait, rounded up, spread by the jitter; none when allowed or when waiting never helps.
    pub fn retry_after_s(&self, jitter: f64) -> Option<u64> {
        let verdict = self.verdict;
        if verdict.allowed {
            return None;
        }
        // Nothing was exceeded and nobody knows when the store is back: soon enough, and the same for all.
        if verdict.path == Path::FallbackClosed {
            return Some(CLOSED_RETRY_S);
        }
        if let Some(fixed) = self.response(verdict.rule).and_then(|response| response.retry_after_s) {
            return Some(u64::from(fixed));
        }
        if verdict.retry_after_us == NEVER {
            return None;
        }
        // At least within a second, so that even short waits do not end together.
        let spread_us = if jitter > 0.0 { (verdict.retry_after_us as f64 * jitter).max(1e6) } else { 0.0 };
        let part = (verdict.seed() >> 11) as f64 / (1_u64 << 53) as f64;
        let wait_us = verdict.retry_after_us.saturating_add((spread_us * part) as u64);
        Some(wait_us.div_ceil(1_000_000).max(1))
    }

    /// Headers for the response, in order.
    pub fn headers(&self, options: &HeaderOptions) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        self.each_header(options, &mut |name, value| headers.push((name, value.to_string())));
        headers
    }

    /// The same without a text of its own for each value.
    pub fn each_header(&self, options: &HeaderOptions, put: &mut impl FnMut(&'static str, &str)) {
        self.each_header_with(|text| put_policies(text, std::slice::from_ref(self)), options, put);
    }

    /// The same with policies told by the caller: those of all steps of a request.
    pub fn each_header_with(
        &self,
        put_policies: impl FnOnce(&mut String),
        options: &HeaderOptions,
        put: &mut impl FnMut(&'static str, &str),
    ) {
        let Some(bound) = self.each_plain_header(options, put) else { return };
        if options.ietf {
            let mut text = String::with_capacity(160);
            put_policies(&mut text);
            put("RateLimit-Policy", &text);
            text.clear();
            self.put_service_limit(&mut text, &bound, options.draft, put);
        }
    }

    /// The same for one after the other of many: policies that are the same as the last time are not written anew.
    pub fn each_header_again(
        &self,
        last: &mut LastPolicies,
        options: &HeaderOptions,
        put: &mut impl FnMut(&'static str, &str),
    ) {
        let Some(bound) = self.each_plain_header(options, put) else { return };
        if options.ietf {
            put("RateLimit-Policy", last.policies_of(self));
            last.scratch.clear();
            self.put_service_limit(&mut last.scratch, &bound, options.draft, put);
        }
    }

    /// Those of no structure; what binds, if there is more to say.
    #[inline]
    fn each_plain_header(
        &self,
        options: &HeaderOptions,
        put: &mut impl FnMut(&'static str, &str),
    ) -> Option<Bound<'a>> {
        let mut digits = itoa::Buffer::new();
        let retry_after_s = self.retry_after_s(options.jitter);
        if let Some(seconds) = retry_after_s {
            put("Retry-After", digits.format(seconds));
        }
        let binding = self.verdict.binding()?;
        let hide = self.response(binding.rule).is_some_and(|response| response.hide_remaining);
        if options.x_ratelimit {
            put("X-RateLimit-Limit", digits.format(binding.quota.capacity));
            if !hide {
                put("X-RateLimit-Remaining", digits.format(binding.measure.remaining));
            }
            put("X-RateLimit-Reset", digits.format(seconds_up(binding.measure.reset_after_us)));
            if let Some(seconds) = retry_after_s {
                put("X-RateLimit-Retry-After", digits.format(seconds));
            }
        }
        Some(Bound { binding, hide, retry_after_s })
    }

    /// The JSON body of a refusal.
    pub fn body(&self, problem: bool, jitter: f64) -> String {
        let retry_after_s = self.retry_after_s(jitter);
        let status = self.verdict.status;
        let is_closed = self.verdict.path == Path::FallbackClosed;
        let asked = self.response(self.verdict.rule).and_then(|response| response.message.as_deref());
        let message = if is_closed { Some("Rate limiting is temporarily unavailable") } else { asked };
        let retry = retry_after_s.map_or("null".to_string(), |seconds| seconds.to_string());
        let is_blocked = matches!(self.verdict.path, Path::Blocked | Path::NoRule);
        let title = if self.verdict.path == Path::NoRule { "No rule allows this request" } else { "Request blocked" };
        if !problem {
            let error = message.unwrap_or(if is_blocked { title } else { "Rate limit exceeded" });
            return format!(r#"{{"error": {}, "retry_after": {retry}}}"#, json_text(error));
        }
        let (kind, title) = match (is_blocked, self.verdict.degraded) {
            (true, _) => ("about:blank", title),
            (false, true) => (
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "Request cannot be satisfied due to temporary server capacity constraints",
            ),
            (false, false) => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded",
            ),
        };
        let mut body = format!(r#"{{"type": {}, "title": {}, "status": {status}"#, json_text(kind), json_text(title));
        if let Some(message) = message {
            let _ = write!(body, r#", "detail": {}"#, json_text(message)); // Writing to a String cannot fail.
        }
        let _ = write!(body, r#", "retry_after": {retry}"#);
        if !is_blocked {
            let violated = self.verdict.results.iter().filter(|result| !result.shadow && !result.allowed());
            let names: Vec<String> = violated.map(|result| json_text(&self.policy_name(result))).collect();
            let _ = write!(body, r#", "violated-policies": [{}]"#, names.join(", "));
        }
        body.push('}');
        body
    }

    /// The body of a refusal that no limit is the reason of.
    pub fn body_of(why: &str, problem: bool) -> String {
        let why = json_text(why);
        match problem {
            true => format!(r#"{{"type": "about:blank", "title": {why}, "status": 401, "retry_after": null}}"#),
            false => format!(r#"{{"error": {why}, "retry_after": null}}"#),
        }
    }

    fn put_policy(&self, text: &mut String, result: &LimitResult) {
        self.put_policy_name(text, result);
        put_parameter(text, ";q=", result.quota.capacity);
        put_parameter(text, ";w=", seconds_up(result.quota.full_window_us()).max(1));
    }

    /// The header of what is left, made in `text`.
    fn put_service_limit(
        &self,
        text: &mut String,
        bound: &Bound<'_>,
        draft: Draft,
        put: &mut impl FnMut(&'static str, &str),
    ) {
        let Bound { binding: result, hide, retry_after_s } = *bound;
        if hide {
            return;
        }
        let next_us = if result.allowed() { result.measure.next_after_us } else { result.wait_us };
        let t = match draft {
            Draft::Ten => seconds_up(next_us),
            Draft::Eleven => next_us / 1_000_000,
        };
        self.put_policy_name(text, result);
        put_parameter(text, ";r=", result.measure.remaining);
        if result.wait_us != NEVER {
            // The fields must not contradict Retry-After.
            put_parameter(text, ";t=", retry_after_s.map_or(t, |retry_after_s| t.min(retry_after_s)));
        }
        put("RateLimit", text);
    }

    fn put_policy_name(&self, text: &mut String, result: &LimitResult) {
        let (name, label) = self.policy_parts(result);
        text.push('"');
        put_structured(text, name);
        if let Some(label) = label {
            text.push('.');
            put_structured(text, &label);
        }
        text.push('"');
    }

    fn policy_name(&self, result: &LimitResult) -> String {
        match self.policy_parts(result) {
            (name, Some(label)) => format!("{name}.{label}"),
            (name, None) => name.to_string(),
        }
    }

    /// A limit's name as a policy: its rule's, with the label where the rule has several limits.
    fn policy_parts(&self, result: &LimitResult) -> (&str, Option<Cow<'_, str>>) {
        let (Some(rules), Some(rule)) = (self.rules, result.rule) else {
            let is_one = self.verdict.results.len() == 1;
            return (self.plain_name, (!is_one).then(|| result.nth.to_string().into()));
        };
        let limits = &rules.record(rule).limits;
        let label = (limits.len() > 1).then(|| Cow::Borrowed(&*limits[usize::from(result.nth)].label));
        (rules.name(rule), label)
    }

    fn response(&self, rule: Option<u32>) -> Option<&'a crate::rule::Response> {
        Some(&self.rules?.record(rule?).template.response)
    }
}

/// The limit that headers speak of.
struct Bound<'a> {
    binding: &'a LimitResult,
    hide: bool,
    retry_after_s: Option<u64>,
}

/// The policies that were last told by one set of rules after another, and of what they were told: most requests of a client
/// meet the same.
#[derive(Default)]
pub struct LastPolicies {
    version: u64,
    limits: SmallVec<[(Option<u32>, u8, Quota); 6]>,
    text: String,
    scratch: String,
}

impl LastPolicies {
    fn policies_of(&mut self, answer: &Answer<'_>) -> &str {
        let version = answer.rules.map_or(0, |rules| rules.version);
        let limits = || answer.verdict.results.iter().filter(|result| !result.shadow);
        let is_same = self.version == version
            && limits().count() == self.limits.len()
            && limits().zip(&self.limits).all(|(result, last)| (result.rule, result.nth, result.quota) == *last);
        if !is_same {
            self.version = version;
            self.limits = limits().map(|result| (result.rule, result.nth, result.quota)).collect();
            self.text.clear();
            put_policies(&mut self.text, std::slice::from_ref(answer));
        }
        &self.text
    }
}

/// Every enforced limit of a request that was decided in several steps.
pub fn put_policies(text: &mut String, steps: &[Answer<'_>]) {
    for step in steps {
        for result in step.verdict.results.iter().filter(|result| !result.shadow) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            step.put_policy(text, result);
        }
    }
}

/// The step that the headers of a request speak of, where it was decided in several of which at most the last refuses:
/// the refusal, else the one with the smallest part left.
pub fn binding_step<'s, 'a>(steps: &'s [Answer<'a>]) -> Option<&'s Answer<'a>> {
    let refused = steps.iter().rev().find(|step| !step.verdict.allowed);
    let part_left = |step: &&Answer<'_>| {
        let binding = step.verdict.binding()?;
        Some(binding.measure.remaining as f64 / binding.quota.capacity as f64)
    };
    let bound = || steps.iter().filter(|step| step.verdict.binding.is_some());
    let tightest = || bound().min_by(|a, b| part_left(a).partial_cmp(&part_left(b)).unwrap_or(Ordering::Equal));
    refused.or_else(tightest).or(steps.first())
}

#[inline]
fn seconds_up(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

fn put_parameter(text: &mut String, name: &str, number: u64) {
    text.push_str(name);
    text.push_str(itoa::Buffer::new().format(number));
}

/// What stands between the quotes of a string of HTTP structured fields: printable ASCII; the rest, and `%` itself, is
/// percent-encoded.
fn put_structured(text: &mut String, part: &str) {
    if part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':')) {
        return text.push_str(part);
    }
    for byte in part.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            0x20..=0x7e if byte != b'%' => text.push(byte as char),
            _ => {
                let _ = write!(text, "%{byte:02X}"); // Writing to a String cannot fail.
            }
        }
    }
}

/// A text as a header's value: printable ASCII; the rest, and `%` itself, is percent-encoded.
pub fn header_text(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b'%';
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        match is_plain(byte) {
            true => encoded.push(byte as char),
            false => {
                let _ = write!(encoded, "%{byte:02X}"); // Writing to a String cannot fail.
            }
        }
    }
    Cow::Owned(encoded)
}

/// A JSON string.
pub fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
