//! The gateway: requests pass through, identified and limited, to upstreams behind it.
//!
//! Following a request: `scan` reads its head strictly, `admit` decides, `upstream` says where it goes, `request` writes its
//! head anew, `stream` finds a connection, `exchange` lets request and answer pass at the same time with `body` knowing
//! where each ends, and `response` writes the answer's head anew.

mod admit;
mod body;
mod buffers;
mod connection;
mod exchange;
mod failure;
mod flow;
mod http2;
mod http2_request;
mod http2_response;
mod request;
mod response;
mod scan;
#[cfg(test)]
mod scan_tests;
mod stream;
mod tunnel;
mod upstream;
mod upstream_http2;
mod words;

pub(crate) use buffers::Spare;
pub(crate) use connection::serve;
pub(crate) use failure::Failure;
pub(crate) use http2::answer as answer_http2;
pub(crate) use stream::Dealings;
pub(crate) use upstream::Upstreams;
