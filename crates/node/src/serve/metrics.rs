//! What this node counted, as Prometheus reads it.

use super::grpc::Method;
use super::grpc::code::Code;
use super::proxy::{Dealings, Failure};
use super::router::{self, Reply, Route};
use super::shared::{OTHER_STATUS, STATUSES, Shared};
use crate::events::Kind;
use crate::store::remote::ShardStatus;
use headgate_core::verdict::Path;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

pub(crate) fn metrics(shared: &Shared, out: &mut Vec<u8>) -> Reply {
    let mut page = Page(String::with_capacity(4_096));
    decisions(shared, &mut page);
    rules(shared, &mut page);
    feed(shared, &mut page);
    store(shared, &mut page);
    http(shared, &mut page);
    upstreams(shared, &mut page);
    grpc(shared, &mut page);
    page.head("headgate_build_info", "gauge", "Always 1; the version is the label.");
    page.line("headgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    out.extend_from_slice(page.0.as_bytes());
    Reply::ok(router::Kind::Metrics)
}

fn decisions(shared: &Shared, page: &mut Page) {
    let counters = &shared.engine.counters;
    page.head("headgate_decisions_total", "counter", "Decisions by the step that made them.");
    for path in Path::ALL {
        for (allowed, label) in [(true, "true"), (false, "false")] {
            let labels = [("path", path.name()), ("allowed", label)];
            page.line("headgate_decisions_total", &labels, counters.by_path(path, allowed));
        }
    }
    page.head("headgate_rule_decisions_total", "counter", "Decisions by the group of the rule that decided.");
    for (number, group) in shared.engine.rules().groups().iter().enumerate() {
        let counts = counters.group(number as u16);
        let outcomes =
            [("allowed", counts.allowed), ("refused", counts.refused), ("shadow_refused", counts.shadow_refused)];
        for (outcome, count) in outcomes {
            page.line("headgate_rule_decisions_total", &[("group", group), ("outcome", outcome)], count);
        }
    }
}

fn rules(shared: &Shared, page: &mut Page) {
    let rules = shared.engine.rules();
    let occupancy = shared.engine.occupancy();
    page.gauge("headgate_rules", "Rules in force.", rules.rule_count());
    page.gauge("headgate_rules_version", "The version of the rules in force.", rules.version);
    let errors = shared.reload_errors.load(Ordering::Relaxed);
    page.head("headgate_rules_reload_errors_total", "counter", "Times new rules were refused.");
    page.line("headgate_rules_reload_errors_total", &[], errors);
    page.gauge("headgate_keys", "Counters held in memory.", occupancy.keys);
    page.gauge("headgate_overflow_cells", "Cells that counters share when the table is full.", occupancy.cells);
}

/// Only where rules come from a control plane.
fn feed(shared: &Shared, page: &mut Page) {
    let feed = &shared.engine.feed;
    let Some(status) = feed.status() else { return };
    let position = feed.position();
    page.gauge("headgate_feed_version", "The version of the configuration in force.", position.version);
    page.gauge("headgate_feed_epoch", "The epoch of that version.", position.epoch);
    let stale_us = shared.engine.wall_us().saturating_sub(status.contact_us);
    let help = "Seconds since it was last known that the configuration in force is the newest.";
    page.gauge("headgate_feed_stale_seconds", help, format_args!("{:.3}", stale_us as f64 / 1e6));
    let lag_us = feed.lag_us.load(Ordering::Relaxed);
    let help = "Seconds from the last change's commit to its enforcement here.";
    page.gauge("headgate_feed_lag_seconds", help, format_args!("{:.6}", lag_us as f64 / 1e6));
    page.head("headgate_feed_errors_total", "counter", "Times the feed failed in a new way.");
    page.line("headgate_feed_errors_total", &[], feed.errors.load(Ordering::Relaxed));
    page.head("headgate_feed_refused_total", "counter", "Entries that were sent and that this node could not take.");
    page.line("headgate_feed_refused_total", &[], feed.refused.load(Ordering::Relaxed));
}

fn store(shared: &Shared, page: &mut Page) {
    page.head("headgate_store_events_total", "counter", "What happened to the store, by kind.");
    for kind in Kind::ALL {
        let count = shared.engine.events.count(kind);
        page.line("headgate_store_events_total", &[("kind", kind.name())], count);
    }
    let Some(status) = shared.engine.store_status() else { return };
    let overloads = shared.engine.overloads.load(Ordering::Relaxed);
    page.head(
        "headgate_store_overloads_total",
        "counter",
        "Requests decided without the store: too many waited for it.",
    );
    page.line("headgate_store_overloads_total", &[], overloads);
    page.gauge("headgate_store_nodes", "Nodes that share the store, as last heard.", status.nodes);
    let help = "The server's bytes for one subject, as last measured; 0 before that.";
    page.gauge("headgate_store_bytes_per_subject", help, status.bytes_per_subject);
    let help = "Counters whose usage is to be reported to the store when it is back.";
    page.gauge("headgate_store_debts", help, status.debts);
    page.head("headgate_store_debts_forgotten_total", "counter", "Admissions that could not be remembered for that.");
    page.line("headgate_store_debts_forgotten_total", &[], status.debts_forgotten);
    type Figure = (&'static str, &'static str, &'static str, fn(&ShardStatus) -> u64);
    let figures: [Figure; 7] = [
        ("headgate_store_up", "gauge", "1 while the shard is connected and its breaker closed.", |shard| {
            u64::from(shard.connected && shard.breaker == "closed")
        }),
        ("headgate_store_breaker_open", "gauge", "1 while the shard is not asked.", |shard| {
            u64::from(shard.breaker != "closed")
        }),
        ("headgate_store_calls_total", "counter", "Calls sent to the shard.", |shard| shard.calls),
        ("headgate_store_requests_total", "counter", "Requests that went in those calls.", |shard| shard.requests),
        ("headgate_store_errors_total", "counter", "Requests the shard did not answer, or not in time.", |shard| {
            shard.errors
        }),
        ("headgate_store_timeouts_total", "counter", "Those of them that ran into their deadline.", |shard| {
            shard.timeouts
        }),
        (
            "headgate_store_round_trip_us",
            "gauge",
            "A round trip to the shard when it was last connected to.",
            |shard| shard.round_trip_us,
        ),
    ];
    for (name, kind, help, value) in figures {
        page.head(name, kind, help);
        for shard in &status.shards {
            page.line(name, &[("shard", &shard.name)], value(shard));
        }
    }
}

fn http(shared: &Shared, page: &mut Page) {
    page.head("headgate_http_requests_total", "counter", "Requests answered, by route and status.");
    for route in Route::ALL {
        for (nth, status) in STATUSES.iter().enumerate() {
            let count = shared.requests(route, nth);
            if count > 0 {
                let status = if *status == OTHER_STATUS { "other".to_string() } else { status.to_string() };
                let labels = [("route", route.name()), ("status", &status)];
                page.line("headgate_http_requests_total", &labels, count);
            }
        }
    }
    page.gauge("headgate_http_connections", "Connections open now.", shared.connections());
    let refused = shared.refused_connections.load(Ordering::Relaxed);
    page.head("headgate_connections_refused_total", "counter", "Connections turned away because all were taken.");
    page.line("headgate_connections_refused_total", &[], refused);
    let errors = shared.tls_reload_errors.load(Ordering::Relaxed);
    page.head("headgate_tls_reload_errors_total", "counter", "Times a new certificate was refused.");
    page.line("headgate_tls_reload_errors_total", &[], errors);
}

/// Only where this node is a gateway.
fn upstreams(shared: &Shared, page: &mut Page) {
    let all = &shared.upstreams.all;
    if all.is_empty() {
        return;
    }
    let sum = |at: usize, figure: &dyn Fn(&Dealings) -> u64| -> u64 {
        shared.workers.iter().map(|worker| figure(&worker.upstreams[at])).sum()
    };
    page.head(
        "headgate_upstream_responses_total",
        "counter",
        "Answers of upstreams, by the first digit of their status.",
    );
    for (at, upstream) in all.iter().enumerate() {
        for (digit, class) in [(1, "1xx"), (2, "2xx"), (3, "3xx"), (4, "4xx"), (5, "5xx")] {
            let count = sum(at, &|dealings| dealings.responses[digit].load(Ordering::Relaxed));
            page.line("headgate_upstream_responses_total", &[("upstream", &upstream.name), ("class", class)], count);
        }
    }
    page.head("headgate_upstream_failures_total", "counter", "Requests that an upstream did not answer, and why.");
    for (at, upstream) in all.iter().enumerate() {
        for (failure, reason) in Failure::REASONS {
            let count = sum(at, &|dealings| dealings.failures[failure as usize].load(Ordering::Relaxed));
            page.line("headgate_upstream_failures_total", &[("upstream", &upstream.name), ("reason", reason)], count);
        }
    }
    page.head("headgate_upstream_connections", "gauge", "Connections to an upstream, by what they do.");
    for (at, upstream) in all.iter().enumerate() {
        let idle = sum(at, &|dealings| dealings.idle() as u64);
        let open = sum(at, &|dealings| dealings.open.load(Ordering::Relaxed) as u64);
        for (state, count) in [("busy", open.saturating_sub(idle)), ("idle", idle)] {
            page.line("headgate_upstream_connections", &[("upstream", &upstream.name), ("state", state)], count);
        }
    }
}

fn grpc(shared: &Shared, page: &mut Page) {
    page.head("headgate_grpc_calls_total", "counter", "gRPC calls answered, by method and status code.");
    for method in Method::ALL {
        for (nth, code) in Code::ALL.iter().enumerate() {
            let count = shared.calls(method, nth);
            // The one that matters is there from the start, so that its rate has a beginning.
            if count > 0 || (method, code) == (Method::ShouldRateLimit, &Code::Ok) {
                let labels = [("method", method.name()), ("code", code.text())];
                page.line("headgate_grpc_calls_total", &labels, count);
            }
        }
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}"); // Writing to a String cannot fail.
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, &[], value);
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (nth, (label, text)) in labels.iter().enumerate() {
            let open = if nth == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page(String::new());
        page.line("m", &[("group", "a\"b\\c\nd"), ("outcome", "allowed")], 7);
        assert_eq!(page.0, "m{group=\"a\\\"b\\\\c\\nd\",outcome=\"allowed\"} 7\n");
    }
}
