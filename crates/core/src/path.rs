//! Request paths in one spelling, and the patterns that match them.
//!
//! A path is normalised before anything looks at it, so that no other spelling of it dodges a limit. Escapes are
//! decoded except where the decoded character would change meaning when read again (`%`, `?`, `#`, control
//! characters, bytes that are not UTF-8): normalising twice changes nothing. A newline at the end is dropped: the `$`
//! that ends the routes of many frameworks, Starlette's among them, matches before one.

use std::borrow::Cow;
use std::fmt::Write;

/// The longest path that is looked at.
pub const PATH_BYTES_MAX: usize = 8 * 1024;
/// Segments of a path or pattern that patterns with parameters can tell apart.
pub const SEGMENTS_MAX: usize = 32;
/// As it is left when everything else is decoded.
const NEWLINE: &str = "%0A";

/// The one spelling of a path: decoded, without dot segments, doubled or trailing slashes, query or fragment.
pub fn normalise(path: &str) -> Cow<'_, str> {
    if is_normal(path.as_bytes()) {
        return Cow::Borrowed(path);
    }
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let decoded = decode(&path[..end]);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        enter(&mut segments, segment);
    }
    while let Some(last) = segments.last().copied().filter(|last| last.ends_with(NEWLINE)) {
        segments.pop();
        enter(&mut segments, last.trim_end_matches(NEWLINE));
    }
    let mut normal = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Cow::Owned(normal)
}

fn enter<'a>(segments: &mut Vec<&'a str>, segment: &'a str) {
    match segment {
        "" | "." => {}
        ".." => {
            segments.pop();
        }
        other => segments.push(other),
    }
}

/// Whether a path is plainly in its one spelling already.
#[inline]
fn is_normal(path: &[u8]) -> bool {
    if path == b"/" {
        return true;
    }
    if path.first() != Some(&b'/') || path.last() == Some(&b'/') {
        return false;
    }
    let mut after_slash = false;
    for &byte in path {
        match CLASSES[usize::from(byte)] {
            PLAIN => after_slash = false,
            SLASH if !after_slash => after_slash = true,
            DOT if !after_slash => {}
            _ => return false,
        }
    }
    true
}

const PLAIN: u8 = 0;
const SLASH: u8 = 1;
const DOT: u8 = 2;
const ODD: u8 = 3;

/// What each byte means to a path that is in its one spelling.
const CLASSES: [u8; 256] = {
    let mut classes = [PLAIN; 256];
    let mut byte = 0;
    while byte < 0x20 {
        classes[byte] = ODD;
        byte += 1;
    }
    classes[0x7f] = ODD;
    classes[b'%' as usize] = ODD;
    classes[b'?' as usize] = ODD;
    classes[b'#' as usize] = ODD;
    classes[b'/' as usize] = SLASH;
    classes[b'.' as usize] = DOT;
    classes
};

fn decode(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut escaped: Vec<u8> = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if let (b'%', Some(value)) = (byte, escape(after)) {
            escaped.push(value);
            rest = &after[2..];
            continue;
        }
        flush(&mut escaped, &mut decoded);
        let width = utf8_width(byte);
        let (this, after) = rest.split_at(width);
        match std::str::from_utf8(this) {
            Ok("%") => decoded.push_str("%25"),
            Ok(text) if byte > 0x1f && byte != 0x7f => decoded.push_str(text),
            _ => push_escape(&mut decoded, byte),
        }
        rest = after;
    }
    flush(&mut escaped, &mut decoded);
    decoded
}

fn escape(after: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    Some(digit(after.first()?)? << 4 | digit(after.get(1)?)?)
}

/// Writes a run of decoded bytes: as text where it is text, escaped again where it must stay so.
fn flush(escaped: &mut Vec<u8>, decoded: &mut String) {
    for chunk in escaped.utf8_chunks() {
        for c in chunk.valid().chars() {
            if matches!(c, '%' | '?' | '#' | '\0'..='\x1f' | '\x7f') {
                push_escape(decoded, c as u8);
            } else {
                decoded.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| push_escape(decoded, *byte));
    }
    escaped.clear();
}

fn push_escape(decoded: &mut String, byte: u8) {
    let _ = write!(decoded, "%{byte:02X}"); // Writing to a String cannot fail.
}

fn utf8_width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// The segments of a normalised path.
pub fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1).filter(|segment| !segment.is_empty())
}

/// How exactly a pattern names its paths, in rising order of specificity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatternKind {
    /// Ends in `*`.
    Prefix,
    /// Has a `{parameter}`.
    Parameters,
    Exact,
}

/// `/api/v1/login`, `/users/{id}`, `/static/*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// As normalised; what a subject is called by.
    pub text: String,
    pub kind: PatternKind,
    /// Characters that are named outright.
    pub literal_len: usize,
    /// Segments before a trailing `*`.
    pub segments: usize,
    /// A bit for each segment that is a parameter.
    pub parameters: u32,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if !text.starts_with('/') {
            return Err(format!("`{text}` must start with `/`"));
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(format!("an endpoint is at most {PATH_BYTES_MAX} bytes long"));
        }
        let (body, is_prefix) = match text.strip_suffix("/*") {
            Some(body) => (body, true),
            None => (text, false),
        };
        let mut normal = normalise(body).into_owned();
        let mut pattern =
            Pattern { text: String::new(), kind: PatternKind::Exact, literal_len: 0, segments: 0, parameters: 0 };
        for segment in segments(&normal) {
            if pattern.segments == SEGMENTS_MAX {
                return Err(format!("an endpoint has at most {SEGMENTS_MAX} segments"));
            }
            if is_parameter(segment) {
                pattern.parameters |= 1 << pattern.segments;
            } else if segment.contains(['*', '{', '}']) {
                return Err(format!(
                    "`{segment}` is not understood: `{{name}}` and a trailing `*` stand for whole segments, as in \
                     `/users/{{id}}` and `/static/*`"
                ));
            } else {
                pattern.literal_len += segment.len() + 1;
            }
            pattern.segments += 1;
        }
        if is_prefix {
            pattern.kind = PatternKind::Prefix;
            normal.truncate(normal.trim_end_matches('/').len());
            normal.push_str("/*");
        } else if pattern.parameters != 0 {
            pattern.kind = PatternKind::Parameters;
        }
        pattern.text = normal;
        Ok(pattern)
    }
}

fn is_parameter(segment: &str) -> bool {
    let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['{', '}', '*']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_has_one_spelling() {
        for spelling in [
            "/api/v1/login",
            "/api/v1/login/",
            "//api///v1/login",
            "/api/./v1/x/../login",
            "/api/v1/%6Cogin",
            "/api%2Fv1/login",
            "/api/v1/login?next=/",
            "/api/v1/login#top",
            "/../api/v1/login",
            "api/v1/login",
            "/api/%2e%2E/api/v1/login",
            "/api/v1/login%0a",
            "/api/v1/login\n",
            "/api/v1/login/%0A%0a",
            "/api/v1/login/x/..%0a",
            "/api/v1/login%0a/x/..",
        ] {
            assert_eq!(normalise(spelling), "/api/v1/login", "{spelling}");
        }
        assert_eq!(normalise(""), "/");
        assert_eq!(normalise("/Api/V1"), "/Api/V1", "case is kept");
    }

    #[test]
    fn normalising_twice_changes_nothing() {
        for path in ["/%2541", "/%%34%31", "/a%3Fb", "/a%23", "/%ff%C3%A9", "/%0a", "/é%", "/a\n", "/%E2%82", "/a%0a/b"]
        {
            let once = normalise(path).into_owned();
            assert_eq!(normalise(&once), once, "{path}");
        }
        assert_eq!(normalise("/%C3%A9"), normalise("/é"));
        assert_eq!(normalise("/%2541"), "/%2541", "decoded once, and no further");
    }

    #[test]
    fn patterns_know_their_kind() {
        let kind = |text| Pattern::parse(text).unwrap().kind;
        assert_eq!(kind("/a/b"), PatternKind::Exact);
        assert_eq!(kind("/a/{id}/b"), PatternKind::Parameters);
        assert_eq!(kind("/a/*"), PatternKind::Prefix);
        assert_eq!(Pattern::parse("/*").unwrap().text, "/*");
        assert_eq!(Pattern::parse("/a//{id}/").unwrap().text, "/a/{id}");
        for wrong in ["a", "/a/*/b", "/log*", "/a/{x", "/a/{}", "/a/x{id}"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
