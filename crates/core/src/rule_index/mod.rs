//! The rule index: which rules apply to a request, in time that depends on how rules differ in shape and not on how
//! many there are.
//!
//! A [`RuleSet`] is one immutable version. A [`RuleBook`] is where versions are made: it changes its own copy and
//! publishes that; segments a change did not touch are shared between versions.

mod book;
mod combination;
mod exact;
mod patterns;
mod records;
mod select;
mod set;
mod table;

pub use book::{ALL_RULES, BookError, GROUPS_MAX, OTHER_GROUP, RuleBook};
pub use exact::{EXACT_RULES_MAX, ExactSelection, ExactWinner};
pub use records::{BuiltLimit, Record, Template};
pub use select::{Candidate, Looked, Outcome, Selection, Winner};
pub use set::{BuiltBy, RuleSet};

#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod tests;
