//! A node: everything between a request's facts and its answer that is not pure.

pub mod asking;
pub mod breaker;
pub mod bulk;
mod certificates;
pub mod clock;
pub mod counters;
pub mod described;
pub mod engine;
pub mod events;
pub mod fallback;
pub mod feed;
pub mod identity;
pub mod ladder;
mod per_process;
pub mod refused_memory;
pub mod serve;
pub mod status_json;
pub mod store;

pub use clock::Clock;
pub use engine::{Engine, Options};
