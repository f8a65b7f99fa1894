//! A verdict as `/v1/check` answers it, written straight into a buffer.

use crate::algorithm::NEVER;
use crate::answer::json_text;
use crate::rule_index::RuleSet;
use crate::verdict::{LimitResult, Verdict};

/// Appends the decision as JSON.
pub fn write_decision(out: &mut Vec<u8>, rules: Option<&RuleSet>, verdict: &Verdict) {
    put(out, "{\"allowed\":");
    put_bool(out, verdict.allowed);
    let binding = verdict.binding();
    put(out, ",\"limit\":");
    put_option(out, binding.map(|result| result.quota.capacity));
    put(out, ",\"remaining\":");
    put_option(out, binding.map(|result| result.measure.remaining));
    put(out, ",\"retry_after\":");
    put_wait(out, verdict.retry_after_us);
    put(out, ",\"reset_after\":");
    match binding {
        Some(result) => put_seconds(out, result.measure.reset_after_us),
        None => put(out, "null"),
    }
    put(out, ",\"rule\":");
    put_rule(out, rules, verdict.rule);
    put(out, ",\"path\":\"");
    put(out, verdict.path.name());
    put(out, "\",\"degraded\":");
    put_bool(out, verdict.degraded);
    put(out, ",\"status\":");
    put_number(out, u64::from(verdict.status));
    put(out, ",\"results\":[");
    for (position, result) in verdict.results.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_result(out, rules, result);
    }
    put(out, "]}");
}

fn write_result(out: &mut Vec<u8>, rules: Option<&RuleSet>, result: &LimitResult) {
    put(out, "{\"rule\":");
    put_rule(out, rules, result.rule);
    put(out, ",\"label\":");
    let label = rules.zip(result.rule).map(|(rules, rule)| &*rules.record(rule).limits[usize::from(result.nth)].label);
    match label {
        Some(label) => put_text(out, label),
        None => {
            out.push(b'"');
            put_number(out, u64::from(result.nth));
            out.push(b'"');
        }
    }
    put(out, ",\"allowed\":");
    put_bool(out, result.allowed());
    put(out, ",\"limit\":");
    put_number(out, result.quota.capacity);
    put(out, ",\"remaining\":");
    put_number(out, result.measure.remaining);
    put(out, ",\"retry_after\":");
    put_wait(out, result.wait_us);
    put(out, ",\"reset_after\":");
    put_seconds(out, result.measure.reset_after_us);
    if result.shadow {
        put(out, ",\"shadow\":true");
    }
    out.push(b'}');
}

#[inline]
fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

#[inline]
fn put_bool(out: &mut Vec<u8>, value: bool) {
    put(out, if value { "true" } else { "false" });
}

#[inline]
fn put_number(out: &mut Vec<u8>, value: u64) {
    put(out, itoa::Buffer::new().format(value));
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => put_number(out, value),
        None => put(out, "null"),
    }
}

fn put_wait(out: &mut Vec<u8>, wait_us: u64) {
    if wait_us == NEVER { put(out, "null") } else { put_seconds(out, wait_us) }
}

/// Seconds with as many decimals as it takes.
fn put_seconds(out: &mut Vec<u8>, us: u64) {
    put_number(out, us / 1_000_000);
    let mut fraction = us % 1_000_000;
    if fraction == 0 {
        return;
    }
    let mut digits = [b'0'; 7];
    digits[0] = b'.';
    for digit in digits[1..].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    let len = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    out.extend_from_slice(&digits[..len]);
}

fn put_rule(out: &mut Vec<u8>, rules: Option<&RuleSet>, rule: Option<u32>) {
    match rules.zip(rule) {
        Some((rules, rule)) => put_text(out, rules.name(rule)),
        None => put(out, "null"),
    }
}

/// Most names need no escaping.
fn put_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        put(out, text);
        out.push(b'"');
    } else {
        put(out, &json_text(text));
    }
}
