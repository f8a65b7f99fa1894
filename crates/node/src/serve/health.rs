//! Whether this node answers, and by which rules.

use super::router::{Kind, Reply};
use super::shared::Shared;
use crate::status_json::{feed_json, store_json};
use headgate_core::answer::json_text;

/// A lost store is told here and does not make a node unready: it answers by each rule's policy.
/// A broken rules file is told here and does not make a node unready: the last good rules go on.
pub(crate) fn ready(shared: &Shared, out: &mut Vec<u8>) -> Reply {
    let is_ready = !shared.is_draining();
    let rules = shared.engine.rules();
    let error = shared.rules_error().as_deref().map_or("null".to_string(), json_text);
    let tls_error = shared.tls_error().as_deref().map_or("null".to_string(), json_text);
    let identity_error = shared.engine.identity_error().as_deref().map_or("null".to_string(), json_text);
    let text = format!(
        r#"{{"ready":{is_ready},"rules":{},"rules_version":{},"rules_error":{error},"tls_error":{tls_error},"identity_error":{identity_error},"feed":{},"store":{}}}"#,
        rules.rule_count(),
        rules.version,
        feed_json(&shared.engine),
        store_json(&shared.engine),
    );
    out.extend_from_slice(text.as_bytes());
    Reply { status: if is_ready { 200 } else { 503 }, ..Reply::ok(Kind::Json) }
}
