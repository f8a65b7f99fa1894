//! What was wrong with a request, as RFC 9457 problem details.

use headgate_core::answer::json_text;

/// Names from a request are repeated in answers no longer than this.
const NAME_CHARS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub status: u16,
    pub detail: String,
    /// Where in the request: `cost`, `[3].cost`, `descriptors.plan`; none when it is the request as a whole.
    pub field: Option<String>,
}

impl Problem {
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), field: None }
    }

    /// A 400 that names the field.
    pub fn field(field: impl Into<String>, what: &str) -> Self {
        let field = field.into();
        Self { status: 400, detail: format!("{field}: {what}"), field: Some(field) }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        let (status, title, detail) = (self.status, title(self.status), json_text(&self.detail));
        let text = format!(r#"{{"type":"about:blank","title":"{title}","status":{status},"detail":{detail}"#);
        out.extend_from_slice(text.as_bytes());
        if status == 400 {
            let field = self.field.as_deref().map_or("null".to_string(), json_text);
            out.extend_from_slice(format!(r#","field":{field}"#).as_bytes());
        }
        out.push(b'}');
    }
}

fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        401 => "Unauthorized",
        404 => "Not found",
        405 => "Method not allowed",
        408 => "Request timeout",
        413 => "Body too large",
        417 => "Expectation failed",
        431 => "Headers too large",
        502 => "Bad gateway",
        503 => "Service unavailable",
        504 => "Gateway timeout",
        _ => "Internal error",
    }
}

/// A name from a request, short enough to repeat.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(problem: &Problem) -> serde_json::Value {
        let mut out = Vec::new();
        problem.write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_bad_request_names_its_field_and_escapes_it() {
        let value = written(&Problem::field("a\"b", "unknown field"));
        assert_eq!(value["field"], "a\"b");
        assert_eq!(value["detail"], "a\"b: unknown field");
        assert_eq!((&value["status"], &value["title"]), (&400.into(), &"Bad request".into()));
        assert!(written(&Problem::new(400, "x"))["field"].is_null());
    }

    #[test]
    fn long_names_are_repeated_cut() {
        assert_eq!(shown("cost"), "cost");
        assert_eq!(shown(&"é".repeat(1_000)).chars().count(), NAME_CHARS_MAX + 1);
    }
}
