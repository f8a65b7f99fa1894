//! The configuration as the control plane sends it: a snapshot, then deltas. `src/headgate/feed/codec.py` names the layout.
//!
//! Whatever comes is verified before anything of it is used. A delta changes the rules in one step, however many entries it
//! has, and checks never wait for it.

mod apply;
mod entries;
mod frames;
mod status;

pub use apply::{Applied, Refused};
pub use frames::Position;
pub(crate) use status::Feed;
pub use status::FeedStatus;

use std::fmt;

/// Why what was sent was not taken over. Nothing was changed.
#[derive(Debug)]
pub enum FeedError {
    /// It is damaged, or no such thing.
    Corrupt(&'static str),
    /// It was not made with this key, or damaged since.
    Forged(&'static str),
    /// It does not follow what this node has.
    Gap {
        have: Position,
        since: Position,
    },
    Io(std::io::Error),
}

impl FeedError {
    /// As Python knows it; none for a file that could not be read.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            FeedError::Corrupt(_) => Some("corrupt"),
            FeedError::Forged(_) => Some("forged"),
            FeedError::Gap { .. } => Some("gap"),
            FeedError::Io(_) => None,
        }
    }
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedError::Corrupt(what) => f.write_str(what),
            FeedError::Forged(what) => write!(f, "{what} was damaged, or not made with this feed key"),
            FeedError::Gap { have, since } => write!(f, "this node has {have}, and the delta begins after {since}"),
            FeedError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for FeedError {}
