//! Texts of `RateLimit-Policy` made before: the same limits are told of with nearly every response.

use headgate_core::answer::{Answer, put_policies};
use smallvec::SmallVec;

/// Combinations of limits that are kept; most applications meet a handful.
const ENTRIES_MAX: usize = 16;

#[derive(Default)]
pub struct Policies {
    entries: Vec<Entry>,
    /// Which is forgotten next.
    next: usize,
}

struct Entry {
    rules: Rules,
    limits: Limits,
    text: Box<str>,
}

/// One version of one engine's rules: a version is a value of its own, and lives at its own address.
type Rules = (usize, u64);
/// What a policy is made of: the rule and which of its limits; what fits, in how long.
type Limits = SmallVec<[(u32, u8, u64, u64); 6]>;

impl Policies {
    pub fn put(&mut self, text: &mut String, steps: &[Answer<'_>]) {
        let Some((rules, limits)) = key(steps) else { return put_policies(text, steps) };
        if let Some(entry) = self.entries.iter().find(|entry| entry.rules == rules && entry.limits == limits) {
            return text.push_str(&entry.text);
        }
        put_policies(text, steps);
        let entry = Entry { rules, limits, text: text.as_str().into() };
        match self.entries.len() < ENTRIES_MAX {
            true => self.entries.push(entry),
            false => {
                self.entries[self.next] = entry;
                self.next = (self.next + 1) % ENTRIES_MAX;
            }
        }
    }
}

/// Only of requests that the rules alone decided.
fn key(steps: &[Answer<'_>]) -> Option<(Rules, Limits)> {
    let [step] = steps else { return None };
    let rules = step.rules?;
    let mut limits = Limits::new();
    for result in step.verdict.results.iter().filter(|result| !result.shadow) {
        limits.push((result.rule?, result.nth, result.quota.capacity, result.quota.full_window_us()));
    }
    Some(((std::ptr::from_ref(rules) as usize, rules.version), limits))
}
