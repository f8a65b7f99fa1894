//! Which request gets which answer. Nothing here knows how bytes arrive.

use super::authorize;
use super::check::{self, Begun};
use super::door::Origin;
use super::health;
use super::metrics;
use super::problem::Problem;
use super::shared::Shared;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Check,
    Checks,
    Limit,
    Authorize,
    Empty,
    Healthz,
    Readyz,
    Metrics,
    /// The control plane's, where there is one.
    Control,
    /// Of the gateway: an upstream's.
    Upstream,
    /// Anything else.
    Unknown,
}

impl Route {
    pub const ALL: [Route; 11] = [
        Route::Check,
        Route::Checks,
        Route::Limit,
        Route::Authorize,
        Route::Empty,
        Route::Healthz,
        Route::Readyz,
        Route::Metrics,
        Route::Control,
        Route::Upstream,
        Route::Unknown,
    ];

    #[inline]
    pub fn of(path: &str) -> Route {
        match path {
            "/v1/check" => Route::Check,
            "/v1/checks" => Route::Checks,
            "/v1/limit" => Route::Limit,
            "/v1/authorize" => Route::Authorize,
            "/v1/_empty" => Route::Empty,
            "/healthz" => Route::Healthz,
            "/readyz" => Route::Readyz,
            "/metrics" => Route::Metrics,
            _ if CONTROL_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) => Route::Control,
            _ => Route::Unknown,
        }
    }

    /// What metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Route::Check => "/v1/check",
            Route::Checks => "/v1/checks",
            Route::Limit => "/v1/limit",
            Route::Authorize => "/v1/authorize",
            Route::Empty => "/v1/_empty",
            Route::Healthz => "/healthz",
            Route::Readyz => "/readyz",
            Route::Metrics => "/metrics",
            Route::Control => "control",
            Route::Upstream => "upstream",
            Route::Unknown => "other",
        }
    }

    /// Whether it asks the store.
    #[inline]
    pub fn decides(self) -> bool {
        matches!(self, Route::Check | Route::Checks | Route::Limit | Route::Authorize)
    }

    /// The methods it answers, as `Allow` lists them.
    #[inline]
    fn allow(self) -> &'static str {
        match self {
            Route::Check | Route::Checks | Route::Limit | Route::Empty => "POST",
            Route::Healthz | Route::Readyz | Route::Metrics => "GET, HEAD",
            // Whatever method the proxy asks with.
            Route::Authorize => ANY_METHOD,
            Route::Control | Route::Upstream | Route::Unknown => "",
        }
    }
}

/// What the control plane answers.
const CONTROL_PREFIXES: [&str; 2] = ["/api/", "/feed/"];
/// What a route that answers every method says it allows.
const ANY_METHOD: &str = "GET, POST";

/// A request with its body in hand.
pub(crate) struct Asked<'a> {
    pub route: Route,
    pub method: &'a str,
    pub query: Option<&'a str>,
    /// The request's line and headers, as they came.
    pub head: &'a [u8],
    pub origin: Origin,
    pub body: &'a [u8],
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nothing,
    Json,
    Problem,
    Metrics,
}

impl Kind {
    #[inline]
    pub fn content_type(self) -> Option<&'static str> {
        match self {
            Kind::Nothing => None,
            Kind::Json => Some("application/json"),
            Kind::Problem => Some("application/problem+json"),
            Kind::Metrics => Some("text/plain; version=0.0.4; charset=utf-8"),
        }
    }
}

/// The answer apart from its body, which went to the buffer given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: u16,
    pub kind: Kind,
    pub allow: Option<&'static str>,
    /// How many of the bytes written are header lines; the body follows them.
    pub head_len: usize,
}

impl Reply {
    #[inline]
    pub fn ok(kind: Kind) -> Reply {
        Reply { status: 200, kind, allow: None, head_len: 0 }
    }

    pub fn problem(problem: &Problem, out: &mut Vec<u8>) -> Reply {
        out.clear();
        Reply::problem_after(problem, out)
    }

    /// The same behind header lines that were written already.
    pub fn problem_after(problem: &Problem, out: &mut Vec<u8>) -> Reply {
        let head_len = out.len();
        problem.write(out);
        Reply { status: problem.status, kind: Kind::Problem, allow: None, head_len }
    }
}

/// Answers a request, writing the body to `out`.
pub(crate) fn answer(shared: &Shared, asked: &Asked<'_>, out: &mut Vec<u8>) -> Reply {
    guarded(out, |out| {
        routed(shared, asked, out).unwrap_or_else(|problem| {
            let allow = (problem.status == 405).then(|| asked.route.allow());
            Reply { allow, ..Reply::problem(&problem, out) }
        })
    })
}

/// The first half of an answer that waits for a shared store: what is being decided, or the answer if it is no such.
pub(crate) fn begin(shared: &Shared, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<Begun, Reply> {
    if asked.method != "POST" && asked.route != Route::Authorize || is_elsewhere(shared, asked) {
        return Err(answer(shared, asked, out));
    }
    let begun = catch_unwind(AssertUnwindSafe(|| match asked.route {
        Route::Authorize => authorize::begin(shared, asked),
        route => check::begin(&shared.engine, route, asked.body, asked.query),
    }));
    begun.unwrap_or_else(|_| Err(broken())).map_err(|problem| Reply::problem(&problem, out))
}

#[inline]
fn routed(shared: &Shared, asked: &Asked<'_>, out: &mut Vec<u8>) -> Result<Reply, Problem> {
    if is_elsewhere(shared, asked) {
        return Err(elsewhere(asked));
    }
    let is_allowed = match asked.route.allow() {
        "POST" => asked.method == "POST",
        ANY_METHOD => true,
        "" => return Err(unknown()),
        _ => matches!(asked.method, "GET" | "HEAD"),
    };
    if !is_allowed {
        let (path, allow) = (asked.route.name(), asked.route.allow());
        return Err(Problem::new(405, format!("{path} answers {allow}")));
    }
    match asked.route {
        route @ (Route::Check | Route::Checks | Route::Limit) => {
            check::decide_now(shared, route, asked.body, asked.query, out)
        }
        Route::Authorize => authorize::decide_now(shared, asked, out),
        Route::Empty | Route::Healthz => Ok(Reply::ok(Kind::Nothing)),
        Route::Readyz => Ok(health::ready(shared, out)),
        Route::Metrics => Ok(metrics::metrics(shared, out)),
        Route::Control | Route::Upstream | Route::Unknown => Err(unknown()),
    }
}

/// Health and metrics are told at the admin door where there is one, and there nothing else is.
#[inline]
fn is_elsewhere(shared: &Shared, asked: &Asked<'_>) -> bool {
    let is_admin_route = matches!(asked.route, Route::Healthz | Route::Readyz | Route::Metrics | Route::Control);
    shared.has_admin && asked.route != Route::Unknown && is_admin_route != asked.origin.is_admin
}

/// Whether a request is for the control plane, and this is a door that it stands behind.
#[inline]
pub(crate) fn is_for_control(shared: &Shared, route: Route, origin: Origin) -> bool {
    route == Route::Control && shared.options.control.is_some() && (!shared.has_admin || origin.is_admin)
}

#[cold]
fn elsewhere(asked: &Asked<'_>) -> Problem {
    Problem::new(
        404,
        match asked.origin.is_admin {
            true => "this is the admin address; it answers GET /healthz, GET /readyz, GET /metrics",
            false => "health and metrics are told at this node's admin address",
        },
    )
}

fn unknown() -> Problem {
    let known: Vec<String> = Route::ALL
        .iter()
        .filter(|route| !matches!(route, Route::Unknown | Route::Empty | Route::Control | Route::Upstream))
        .map(|route| format!("{} {}", route.allow().split(',').next().unwrap_or_default(), route.name()))
        .collect();
    Problem::new(404, format!("there is nothing here; try {}", known.join(", ")))
}

/// A mistake of ours costs one answer, not the worker and everyone it serves.
fn guarded(out: &mut Vec<u8>, answer: impl FnOnce(&mut Vec<u8>) -> Reply) -> Reply {
    catch_unwind(AssertUnwindSafe(|| answer(out))).unwrap_or_else(|_| Reply::problem(&broken(), out))
}

fn broken() -> Problem {
    Problem::new(500, "something failed while answering; this is a bug in Headgate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_one_answer() {
        let mut out = b"half an ans".to_vec();
        let reply = guarded(&mut out, |_| panic!("on purpose"));
        assert_eq!((reply.status, reply.kind), (500, Kind::Problem));
        assert!(out.starts_with(b"{"));
    }

    #[test]
    fn an_unknown_path_lists_the_known_ones() {
        let detail = unknown().detail;
        for route in ["POST /v1/check", "POST /v1/limit", "GET /metrics"] {
            assert!(detail.contains(route), "{detail}");
        }
        assert!(!detail.contains("_empty"));
    }
}
