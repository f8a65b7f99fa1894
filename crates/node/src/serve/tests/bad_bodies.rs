//! Bodies that are wrong: each is answered 400, names its field, and counts nothing.

use super::{local, running};

/// (path, body, field, a part of the detail)
const WRONG: &[(&str, &str, Option<&str>, &str)] = &[
    ("/v1/check", "", None, "an object of facts"),
    ("/v1/check", "nonsense", None, "an object of facts"),
    ("/v1/check", "[]", None, "an object of facts"),
    ("/v1/check", "7", None, "an object of facts"),
    ("/v1/check", "null", None, "an object of facts"),
    ("/v1/check", "{", None, "an object of facts"),
    ("/v1/check", "{\"user\":\"7\"", None, "not JSON"),
    ("/v1/check", "{\"user\":\"7\",}", None, "not JSON"),
    ("/v1/check", "{} {}", None, "nothing after it"),
    ("/v1/check", r#"{"colour":"red"}"#, Some("colour"), "unknown field; expected one of user, api_key"),
    ("/v1/check", r#"{"cost":-1}"#, Some("cost"), "cost: expected a whole number from 0 to 1000000000000"),
    ("/v1/check", r#"{"cost":1000000000001}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":1e400}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":99999999999999999999999999}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":1.5}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":NaN}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":Infinity}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":"1"}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":true}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":[1]}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"cost":{}}"#, Some("cost"), "a whole number"),
    ("/v1/check", r#"{"user":""}"#, Some("user"), "must not be empty"),
    ("/v1/check", r#"{"user":1.5}"#, Some("user"), "a text or a whole number"),
    ("/v1/check", r#"{"user":false}"#, Some("user"), "a text or a whole number"),
    ("/v1/check", r#"{"user":["7"]}"#, Some("user"), "a text or a whole number"),
    ("/v1/check", r#"{"user":{"id":7}}"#, Some("user"), "a text or a whole number"),
    ("/v1/check", r#"{"user":"7","user":"8"}"#, Some("user"), "appears twice"),
    ("/v1/check", r#"{"user":"\ud800"}"#, Some("user"), "not JSON"),
    ("/v1/check", r#"{"tier":7}"#, Some("tier"), "a text"),
    ("/v1/check", r#"{"tier":""}"#, Some("tier"), "must not be empty"),
    ("/v1/check", r#"{"method":""}"#, Some("method"), "must not be empty"),
    ("/v1/check", r#"{"path":""}"#, Some("path"), "must not be empty"),
    ("/v1/check", r#"{"path":7}"#, Some("path"), "a text"),
    ("/v1/check", r#"{"region":""}"#, Some("region"), "must not be empty"),
    ("/v1/check", r#"{"org":""}"#, Some("org"), "must not be empty"),
    ("/v1/check", r#"{"api_key":""}"#, Some("api_key"), "must not be empty"),
    ("/v1/check", r#"{"ip":""}"#, Some("ip"), "must not be empty"),
    ("/v1/check", r#"{"ip":"300.1.2.3"}"#, Some("ip"), "an address such as"),
    ("/v1/check", r#"{"ip":"10.0.0.0/8"}"#, Some("ip"), "an address such as"),
    ("/v1/check", r#"{"ip":167772161}"#, Some("ip"), "an address such as"),
    ("/v1/check", r#"{"descriptors":[]}"#, Some("descriptors"), "an object"),
    ("/v1/check", r#"{"descriptors":"plan=pro"}"#, Some("descriptors"), "an object"),
    ("/v1/check", r#"{"descriptors":{"":"x"}}"#, Some("descriptors"), "must not be empty"),
    ("/v1/check", r#"{"descriptors":{"plan":""}}"#, Some("descriptors.plan"), "must not be empty"),
    ("/v1/check", r#"{"descriptors":{"plan":null}}"#, Some("descriptors.plan"), "a text"),
    ("/v1/check", r#"{"descriptors":{"plan":{}}}"#, Some("descriptors.plan"), "a text"),
    ("/v1/check", r#"{"descriptors":{"plan":"a","plan":"b"}}"#, Some("descriptors.plan"), "appears twice"),
    ("/v1/check?headers=yes", "{}", Some("headers"), "true or false"),
    ("/v1/check?header=true", "{}", Some("header"), "unknown query parameter"),
    ("/v1/checks", "{}", None, "a list"),
    ("/v1/checks", r#"[{"user":"7"},7]"#, Some("[1]"), "an object of facts"),
    ("/v1/checks", r#"[{"user":"7"},{"user":"8"},{},{"cost":-1}]"#, Some("[3].cost"), "[3].cost: expected a whole"),
    ("/v1/checks", r#"[{"user":"7"},{"descriptors":{"a":1.5}}]"#, Some("[1].descriptors.a"), "a text"),
    ("/v1/checks", r#"[{"user":"7"},{"user":"7"}"#, Some("[2]"), "not JSON"),
    ("/v1/limit", "{}", Some("key"), "is needed"),
    ("/v1/limit", "[]", None, "an object with key"),
    ("/v1/limit", r#"{"key":"","limit":5,"window":60}"#, Some("key"), "must not be empty"),
    ("/v1/limit", r#"{"key":7,"limit":5,"window":60}"#, Some("key"), "a text"),
    ("/v1/limit", r#"{"key":null,"limit":5,"window":60}"#, Some("key"), "is needed"),
    ("/v1/limit", r#"{"key":"a","key":"b","limit":5,"window":60}"#, Some("key"), "appears twice"),
    ("/v1/limit", r#"{"key":"a","window":60}"#, Some("limit"), "is needed"),
    ("/v1/limit", r#"{"key":"a","limit":5}"#, Some("window"), "is needed"),
    ("/v1/limit", r#"{"key":"a","limit":0,"window":60}"#, Some("limit"), "from 1 to"),
    ("/v1/limit", r#"{"key":"a","limit":-5,"window":60}"#, Some("limit"), "from 1 to"),
    ("/v1/limit", r#"{"key":"a","limit":5.5,"window":60}"#, Some("limit"), "from 1 to"),
    ("/v1/limit", r#"{"key":"a","limit":1000000000001,"window":60}"#, Some("limit"), "from 1 to"),
    ("/v1/limit", r#"{"key":"a","limit":"","window":60}"#, Some("limit"), "must not be empty"),
    ("/v1/limit", r#"{"key":"a","limit":"5 a fortnight"}"#, Some("limit"), "not a limit"),
    ("/v1/limit", r#"{"key":"a","limit":"5/minute;9/60s"}"#, Some("limit"), "same window and algorithm"),
    ("/v1/limit", r#"{"key":"a","limit":"5/minute","window":60}"#, Some("window"), "its own window"),
    ("/v1/limit", r#"{"key":"a","limit":"5/minute","burst":6}"#, Some("burst"), "burst 200"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":0}"#, Some("window"), "1 millisecond"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":-60}"#, Some("window"), "1 millisecond"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":-0.5}"#, Some("window"), "1 millisecond"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":1e300}"#, Some("window"), "366 days"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":18446744073709551615}"#, Some("window"), "366 days"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":NaN}"#, Some("window"), "seconds"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":"soon"}"#, Some("window"), "length of time"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":true}"#, Some("window"), "seconds"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":60,"cost":-1}"#, Some("cost"), "a whole number"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":60,"burst":0}"#, Some("burst"), "from 1 to"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":60,"algorithm":"leaky"}"#, Some("algorithm"), "sliding_window"),
    (
        "/v1/limit",
        r#"{"key":"a","limit":5,"window":60,"burst":9,"algorithm":"fixed_window"}"#,
        Some("burst"),
        "needs the gcra",
    ),
    ("/v1/limit", r#"{"key":"a","limit":10001,"window":60,"algorithm":"sliding_log"}"#, Some("limit"), "10000"),
    ("/v1/limit", r#"{"key":"a","limit":5,"window":60,"size":1}"#, Some("size"), "unknown field"),
];

#[test]
fn a_bad_body_is_a_400_that_names_its_field_and_counts_nothing() {
    let node = running(local());
    let mut client = node.connect();
    for (path, body, field, words) in WRONG {
        client.post(path, body);
        let reply = client.reply();
        assert_eq!(reply.status, 400, "{path} {body}: {reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        let problem = reply.json();
        assert_eq!(problem["field"].as_str(), *field, "{path} {body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path} {body}: {problem}");
        assert_eq!((&problem["type"], &problem["title"]), (&"about:blank".into(), &"Bad request".into()));
    }
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn facts_that_are_too_long_or_too_many_are_refused() {
    let node = running(local());
    let long = "x".repeat(1_025);
    let path = format!("/{}", "p".repeat(8 * 1_024));
    let descriptors: Vec<String> = (0..33).map(|n| format!("\"d{n}\":\"v\"")).collect();
    let descriptors = descriptors.join(",");
    let many = format!("[{}]", vec!["{}"; 1_001].join(","));
    for (route, body, field, words) in [
        ("/v1/check", format!(r#"{{"user":"{long}"}}"#), Some("user"), "at most 1024 bytes, not 1025"),
        ("/v1/check", format!(r#"{{"path":"{path}"}}"#), Some("path"), "at most 8192 bytes"),
        ("/v1/check", format!(r#"{{"descriptors":{{"{long}":"v"}}}}"#), Some("descriptors"), "at most 1024"),
        ("/v1/check", format!(r#"{{"descriptors":{{"a":"{long}"}}}}"#), Some("descriptors.a"), "at most 1024"),
        ("/v1/check", format!(r#"{{"descriptors":{{{descriptors}}}}}"#), Some("descriptors"), "at most 32"),
        ("/v1/check", format!(r#"{{"user":{}"#, "[".repeat(60_000)), Some("user"), "a text"),
        ("/v1/check", "[".repeat(60_000), None, "an object of facts"),
        ("/v1/checks", "[".repeat(60_000), Some("[0]"), "an object of facts"),
        ("/v1/checks", many, None, "at most 1000"),
        ("/v1/limit", format!(r#"{{"key":"{long}","limit":5,"window":60}}"#), Some("key"), "at most 1024"),
    ] {
        let reply = node.post(route, &body);
        let problem = reply.json();
        assert_eq!((reply.status, problem["field"].as_str()), (400, field), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        assert!(reply.body.len() < 500, "an answer does not repeat a long request: {problem}");
    }
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn a_body_that_is_not_utf8_is_refused() {
    use std::io::Write;
    let node = running(local());
    let mut client = node.connect();
    client.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n");
    client.stream.write_all(b"{\"user\":\"\xff\"}").unwrap();
    let reply = client.reply();
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("UTF-8; byte 9"), "{}", reply.body);
    assert_eq!(node.counted(), (0, 0));
}
