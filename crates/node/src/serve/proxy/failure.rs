//! What can go wrong between us and an upstream, and what the client is told of it.

use crate::serve::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    ConnectTimeout,
    /// It took the request, or part of it, and was not heard of in time.
    Timeout,
    /// It closed before it had answered.
    Closed,
    /// What it said is no HTTP, or not this HTTP.
    BadResponse,
    /// All connections that it may be given are taken.
    Busy,
}

impl Failure {
    /// Each as metrics name it.
    pub const REASONS: [(Failure, &'static str); 6] = [
        (Failure::Connect, "connect"),
        (Failure::ConnectTimeout, "connect_timeout"),
        (Failure::Timeout, "timeout"),
        (Failure::Closed, "closed"),
        (Failure::BadResponse, "bad_response"),
        (Failure::Busy, "busy"),
    ];

    /// Clients need not know where upstreams are; whoever runs this finds that in the metrics.
    pub fn problem(self) -> Problem {
        match self {
            Failure::Connect => Problem::new(502, "the upstream cannot be reached"),
            Failure::ConnectTimeout => Problem::new(504, "the upstream cannot be reached in time"),
            Failure::Timeout => Problem::new(504, "the upstream did not answer in time"),
            Failure::Closed => Problem::new(502, "the upstream closed the connection before it had answered"),
            Failure::BadResponse => Problem::new(502, "what the upstream answered is not HTTP as it should be"),
            Failure::Busy => Problem::new(503, "all connections to the upstream are taken; try again in a moment"),
        }
    }
}

pub(super) fn no_upstream() -> Problem {
    Problem::new(404, "nothing is served at this path")
}

/// Counts it, and gives what the client is told.
pub(super) fn counted(failure: Failure, dealings: &super::stream::Dealings) -> Problem {
    dealings.failures[failure as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    if failure == Failure::Timeout {
        dealings.forget_http2();
    }
    failure.problem()
}
