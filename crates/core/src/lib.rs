//! The pure part of Headgate: what a limit means, which rules apply to a request, and what is decided.
//!
//! Nothing here reads a clock, takes a lock or does I/O. Time is always an argument, in microseconds, and its
//! name says whose clock it is.

pub mod algorithm;
pub mod answer;
pub mod client_ip;
pub mod decision_json;
pub mod facts;
pub mod hash;
pub mod limit_text;
pub mod local_share;
pub mod net;
pub mod path;
pub mod quota;
pub mod record;
pub mod refused;
pub mod rule;
pub mod rule_document;
pub mod rule_index;
pub mod subject;
pub mod time_text;
pub mod verdict;

pub use facts::{Dim, Facts};
pub use quota::{Algorithm, Quota, QuotaError};
