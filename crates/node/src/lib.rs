//! A node: everything between a request's facts and its answer that is not pure.

pub mod bulk;
pub mod clock;
pub mod counters;
pub mod engine;
pub mod ladder;
pub mod refused_memory;
pub mod serve;
pub mod store;

pub use clock::Clock;
pub use engine::{Engine, Options};
