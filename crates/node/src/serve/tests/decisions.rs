//! What the deciding routes answer.

use super::{local, running};

#[test]
fn a_check_is_always_a_200_with_the_decision() {
    let node = running(local());
    let allowed: Vec<bool> = (0..4)
        .map(|_| {
            let reply = node.post("/v1/check", r#"{"user":"7","path":"/a","method":"GET","ip":"192.0.2.1"}"#);
            assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
            reply.json()["allowed"].as_bool().unwrap()
        })
        .collect();
    assert_eq!(allowed, [true, true, true, false]);
    let decision = node.post("/v1/check", r#"{"user":"7"}"#).json();
    assert_eq!(decision["rule"], "each-user");
    assert_eq!((&decision["status"], &decision["retry_after"]), (&429.into(), &60.into()));
    assert_eq!(decision["results"].as_array().unwrap().len(), 2);
}

#[test]
fn an_id_is_the_same_as_a_text_and_as_a_number() {
    let node = running(local());
    for body in [r#"{"user":7}"#, r#"{"user":"7"}"#, r#"{"user":"\u0037","org":null}"#] {
        assert_eq!(node.post("/v1/check", body).json()["allowed"], true);
    }
    assert_eq!(node.post("/v1/check", r#"{"user":7}"#).json()["allowed"], false);
    assert_eq!(node.post("/v1/check", r#"{"user":-7}"#).json()["allowed"], true);
}

#[test]
fn a_cost_counts_that_often_and_zero_is_a_peek() {
    let node = running(local());
    for _ in 0..5 {
        assert_eq!(node.post("/v1/check", r#"{"user":"7","cost":0}"#).json()["remaining"], 3);
    }
    assert_eq!(node.counted(), (0, 0));
    assert_eq!(node.post("/v1/check", r#"{"user":"7","cost":3}"#).json()["remaining"], 0);
    assert_eq!(node.post("/v1/check", r#"{"user":"7","cost":1}"#).json()["allowed"], false);
    let never = node.post("/v1/check", r#"{"user":"8","cost":1000000000000}"#).json();
    assert_eq!((&never["allowed"], &never["retry_after"]), (&false.into(), &serde_json::Value::Null));
}

#[test]
fn headers_and_body_come_when_asked_for() {
    let node = running(local());
    let allowed = node.post("/v1/check?headers=true", r#"{"user":"7","cost":3}"#).json();
    assert_eq!(allowed["headers"]["X-RateLimit-Remaining"], "0");
    assert!(allowed["body"].is_null());
    let refused = node.post("/v1/check?headers=true", r#"{"user":"7"}"#).json();
    let seconds = refused["body"]["retry_after"].as_u64().unwrap();
    assert_eq!(refused["headers"]["Retry-After"], seconds.to_string());
    assert!(node.post("/v1/check?headers=false", r#"{"user":"7"}"#).json()["headers"].is_null());
}

#[test]
fn a_list_is_decided_in_order() {
    let node = running(local());
    let list = r#"[{"user":"7","cost":2},{"user":"8"},{"user":"7","cost":2},{"user":"7"}]"#;
    let decisions = node.post("/v1/checks", list).json();
    let allowed: Vec<bool> =
        decisions.as_array().unwrap().iter().map(|decision| decision["allowed"].as_bool().unwrap()).collect();
    assert_eq!(allowed, [true, true, false, true]);
    assert_eq!(node.post("/v1/checks", "[]").body, "[]");
}

#[test]
fn a_long_list_is_answered_whole() {
    let node = running(local());
    let list = format!("[{}]", vec![r#"{"user":"7"}"#; 1_000].join(","));
    let decisions = node.post("/v1/checks?headers=true", &list).json();
    assert_eq!(decisions.as_array().unwrap().len(), 1_000);
    assert_eq!(node.counted().0, 1_000);
}

#[test]
fn a_plain_limit_needs_no_rules() {
    let node = running(local());
    for (body, limit) in [
        (r#"{"key":"a","limit":5,"window":60}"#, 5),
        (r#"{"key":"a2","limit":5,"window":"1 minute"}"#, 5),
        (r#"{"key":"b","limit":5,"window":0.5}"#, 5),
        (r#"{"key":"c","limit":5,"window":60,"burst":9}"#, 9),
        (r#"{"key":"d","limit":"100/second burst 20"}"#, 20),
        (r#"{"key":"e","limit":"5/minute;100/hour"}"#, 5),
        (r#"{"key":"f","limit":5,"window":60,"algorithm":"token_bucket","cost":null}"#, 5),
    ] {
        let decision = node.post("/v1/limit", body).json();
        assert_eq!((&decision["allowed"], &decision["limit"]), (&true.into(), &limit.into()), "{body}");
        assert_eq!(decision["remaining"], limit - 1, "{body}");
    }
    let refused = node.post("/v1/limit", r#"{"key":"a","limit":5,"window":60,"cost":5}"#).json();
    assert_eq!((&refused["allowed"], &refused["remaining"]), (&false.into(), &4.into()));
    assert_eq!(node.post("/v1/limit", r#"{"key":"a","limit":5,"window":60,"cost":0}"#).json()["remaining"], 4);
}
