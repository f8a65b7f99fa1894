//! Whether this node answers, and by which rules.

use super::router::{Kind, Reply};
use super::shared::Shared;
use headgate_core::answer::json_text;

/// A broken rules file is told here and does not make a node unready: the last good rules go on.
pub(crate) fn ready(shared: &Shared, out: &mut Vec<u8>) -> Reply {
    let is_ready = !shared.is_draining();
    let rules = shared.engine.rules();
    let error = shared.rules_error().as_deref().map_or("null".to_string(), json_text);
    let text = format!(
        r#"{{"ready":{is_ready},"rules":{},"rules_version":{},"rules_error":{error}}}"#,
        rules.rule_count(),
        rules.version
    );
    out.extend_from_slice(text.as_bytes());
    Reply { status: if is_ready { 200 } else { 503 }, ..Reply::ok(Kind::Json) }
}
