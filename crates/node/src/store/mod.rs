//! Where counters are kept.
//!
//! A store is handed the limits a request meets as [`LimitResult`]s with their questions filled in (counter, quota), and
//! fills in the answers: how long until the cost fits, what is left, whether it was spent.

pub mod memory;
pub mod remote;

pub use headgate_core::verdict::LimitResult;

/// Whether a question spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Check,
    Peek,
}
