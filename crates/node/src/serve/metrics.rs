//! What this node counted, as Prometheus reads it.

use super::router::{Kind, Reply, Route};
use super::shared::{STATUSES, Shared};
use headgate_core::verdict::Path;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

pub(crate) fn metrics(shared: &Shared, out: &mut Vec<u8>) -> Reply {
    let mut page = Page(String::with_capacity(4_096));
    decisions(shared, &mut page);
    rules(shared, &mut page);
    http(shared, &mut page);
    page.head("headgate_build_info", "gauge", "Always 1; the version is the label.");
    page.line("headgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    out.extend_from_slice(page.0.as_bytes());
    Reply::ok(Kind::Metrics)
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

fn http(shared: &Shared, page: &mut Page) {
    page.head("headgate_http_requests_total", "counter", "Requests answered, by route and status.");
    for route in Route::ALL {
        for (nth, status) in STATUSES.iter().enumerate() {
            let count = shared.requests(route, nth);
            if count > 0 {
                let labels = [("route", route.name()), ("status", &status.to_string())];
                page.line("headgate_http_requests_total", &labels, count);
            }
        }
    }
    page.gauge("headgate_http_connections", "Connections open now.", shared.connections());
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
