//! Routes that do not decide, and requests that go nowhere.

use super::{local, running};

#[test]
fn health_is_empty_and_readiness_tells_the_rules() {
    let node = running(local());
    let health = node.get("/healthz");
    assert_eq!((health.status, health.body.as_str(), health.header("content-length")), (200, "", Some("0")));
    let ready = node.get("/readyz");
    assert_eq!(ready.status, 200);
    let version = node.engine.rules().version;
    let expected = serde_json::json!({
        "ready": true, "rules": 2, "rules_version": version, "rules_error": null,
        "tls_error": null, "identity_error": null, "feed": null, "store": null
    });
    assert_eq!(ready.json(), expected);
}

#[test]
fn a_broken_reload_is_shown_and_does_not_make_it_unready() {
    let node = running(local());
    node.server.set_rules_error(Some("rules.yaml:3:7: \"limit\" is missing".into()));
    let ready = node.get("/readyz");
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (200, Some(true)));
    assert_eq!(ready.json()["rules_error"], "rules.yaml:3:7: \"limit\" is missing");
    node.server.set_rules_error(None);
    assert!(node.get("/readyz").json()["rules_error"].is_null());
    assert!(node.get("/metrics").body.contains("\nheadgate_rules_reload_errors_total 1\n"));
}

#[test]
fn metrics_count_what_happened() {
    let node = running(local());
    for _ in 0..4 {
        node.post("/v1/check", r#"{"user":"7"}"#);
    }
    node.post("/v1/check", "?");
    node.get("/nowhere");
    let page = node.get("/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "headgate_decisions_total{path=\"store\",allowed=\"true\"} 3",
        "headgate_decisions_total{path=\"store\",allowed=\"false\"} 1",
        "headgate_rule_decisions_total{group=\"people\",outcome=\"allowed\"} 3",
        "headgate_rule_decisions_total{group=\"people\",outcome=\"refused\"} 1",
        "headgate_rule_decisions_total{group=\"people\",outcome=\"shadow_refused\"} 0",
        "headgate_rules 2",
        "headgate_rules_reload_errors_total 0",
        "headgate_keys 2",
        "headgate_overflow_cells 0",
        "headgate_http_requests_total{route=\"/v1/check\",status=\"200\"} 4",
        "headgate_http_requests_total{route=\"/v1/check\",status=\"400\"} 1",
        "headgate_http_requests_total{route=\"other\",status=\"404\"} 1",
    ] {
        assert!(page.body.lines().any(|found| found == line), "{line} is missing in\n{}", page.body);
    }
    assert!(page.body.contains("\nheadgate_build_info{version=\""));
    assert!(page.body.contains("\nheadgate_http_connections "));
}

#[test]
fn an_unknown_path_is_a_404_that_lists_the_routes() {
    let node = running(local());
    for path in ["/", "/v1", "/v1/check/", "/v2/check", "/v1/%63heck", "*"] {
        let reply = node.get(path);
        assert_eq!((reply.status, reply.json()["status"].as_u64()), (404, Some(404)), "{path}");
        assert!(reply.json()["detail"].as_str().unwrap().contains("POST /v1/checks"));
    }
}

#[test]
fn a_wrong_method_is_a_405_that_names_the_right_one() {
    let node = running(local());
    let mut client = node.connect();
    for (method, path, allow) in
        [("GET", "/v1/check", "POST"), ("DELETE", "/v1/limit", "POST"), ("POST", "/metrics", "GET, HEAD")]
    {
        client.send(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let reply = client.reply();
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {path}");
    }
}

#[test]
fn an_empty_answer_reads_and_drops_its_body() {
    let node = running(local());
    let mut client = node.connect();
    for body in ["", "anything at all"] {
        client.post("/v1/_empty", body);
        let reply = client.reply();
        assert_eq!((reply.status, reply.body.as_str(), reply.header("content-type")), (200, "", None));
    }
    assert_eq!(node.counted(), (0, 0));
}
