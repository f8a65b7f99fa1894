//! API keys as files hold them: one JSON document, or JSON Lines for millions.

use super::api_keys::{ApiKeys, ApiKeysBuilder, KeyEntry};
use super::api_keys_overlay::KeyChange;
use headgate_core::rule_document::{Mistake, Step};
use headgate_core::time_text::parse_rfc3339_us;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line: no key needs more.
const LINE_BYTES_MAX: usize = 64 * 1024;
const MISTAKES_MAX: usize = 100;

#[derive(Debug)]
pub enum KeysError {
    Io(std::io::Error),
    /// The secret is of no use.
    Secret(String),
    Mistakes(Vec<Mistake>),
}

/// One key, as written. Names and dates that only people read are checked for their type and not kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(default, borrow)]
    user: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    org: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    tier: Option<Cow<'a, str>>,
    #[serde(default, rename = "name", borrow)]
    _name: Option<Cow<'a, str>>,
    #[serde(default, rename = "created", borrow)]
    _created: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    expires: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    revoked: Option<Cow<'a, str>>,
    #[serde(default, rename = "revoked_by", borrow)]
    _revoked_by: Option<Cow<'a, str>>,
}

/// Reads `{"keys": […]}`. Mistakes have paths from the root.
pub fn read_keys_document(secret: &[u8], text: &str) -> Result<ApiKeys, KeysError> {
    let mut keys = ApiKeysBuilder::new(secret).map_err(KeysError::Secret)?;
    let document: Value = serde_json::from_str(text).map_err(|error| at_root(format!("not JSON: {error}")))?;
    let Some(object) = document.as_object() else {
        return Err(at_root("expected a mapping with `keys:` at the top".into()));
    };
    let mut mistakes = Vec::new();
    for name in object.keys().filter(|name| *name != "keys") {
        mistakes.push(Mistake { path: vec![name.as_str().into()], message: "unknown; expected `keys`".into() });
    }
    match object.get("keys") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for (nth, item) in items.iter().enumerate() {
                // Ids are often whole numbers, and YAML makes numbers of them.
                let text = with_texts(item).to_string();
                if let Err(message) = add_key(&mut keys, &text)
                    && mistakes.len() < MISTAKES_MAX
                {
                    mistakes.push(Mistake { path: vec!["keys".into(), nth.into()], message });
                }
            }
        }
        Some(_) => mistakes.push(Mistake { path: vec!["keys".into()], message: "expected a list".into() }),
    }
    match mistakes.is_empty() {
        true => keys.finish().map_err(at_root),
        false => Err(KeysError::Mistakes(mistakes)),
    }
}

/// Reads a file with one key a line, as a stream. Stops at the first mistake, whose path is the line counted from 0.
pub fn read_keys_file(secret: &[u8], path: &Path) -> Result<ApiKeys, KeysError> {
    let mut keys = ApiKeysBuilder::new(secret).map_err(KeysError::Secret)?;
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(KeysError::Io)?);
    let mut line = String::new();
    for number in 0_usize.. {
        line.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_line(&mut line).map_err(KeysError::Io)?;
        let wrong = |message| Err(KeysError::Mistakes(vec![Mistake { path: vec![Step::Index(number)], message }]));
        match line.trim() {
            _ if read == 0 => break,
            _ if read > LINE_BYTES_MAX => return wrong(format!("longer than {LINE_BYTES_MAX} bytes")),
            "" => {}
            text => match add_key(&mut keys, text) {
                Ok(()) => {}
                Err(message) => return wrong(message),
            },
        }
    }
    keys.finish().map_err(at_root)
}

fn at_root(message: String) -> KeysError {
    KeysError::Mistakes(vec![Mistake::at_root(message)])
}

/// Adds a key out of its JSON.
pub fn add_key(keys: &mut ApiKeysBuilder, text: &str) -> Result<(), String> {
    with_entry(text, |entry| keys.add(entry))
}

/// A key's JSON as a change. One that was revoked has ended, whatever our own clock says of the moment: the control
/// plane's may be ahead of it.
pub fn key_change(text: &str) -> Result<KeyChange, String> {
    with_entry(text, |entry| {
        let revoked_us = entry.revoked_us.map(|_| 0);
        KeyChange::put(&KeyEntry { revoked_us, ..entry.clone() })
    })
}

fn with_entry<T>(text: &str, take: impl FnOnce(&KeyEntry<'_>) -> Result<T, String>) -> Result<T, String> {
    let written: Written<'_> = serde_json::from_str(text).map_err(|error| without_place(&error))?;
    let digest =
        hex(&written.hash).ok_or("hash: expected 64 hexadecimal digits, as `headgate keys create` writes them")?;
    take(&KeyEntry {
        id: &written.id,
        digest,
        user: written.user.as_deref(),
        org: written.org.as_deref(),
        tier: written.tier.as_deref(),
        expires_us: time_us("expires", written.expires.as_deref())?,
        revoked_us: time_us("revoked", written.revoked.as_deref())?,
    })
}

fn with_texts(item: &Value) -> Value {
    let mut item = item.clone();
    for name in ["id", "user", "org"] {
        if let Some(Value::Number(number)) = item.get(name)
            && !number.is_f64()
        {
            item[name] = number.to_string().into();
        }
    }
    item
}

/// What is wrong, without a line and column that are those of one entry.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_string()
}

fn time_us(field: &str, text: Option<&str>) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    let time = parse_rfc3339_us(text).map(Some);
    time.ok_or_else(|| format!("{field}: expected a time such as 2027-01-31T12:00:00Z"))
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn entry(id: &str, more: &str) -> String {
        format!(r#"{{"id":"{id}","hash":"{:064x}"{more}}}"#, id.len() * 7 + id.bytes().map(usize::from).sum::<usize>())
    }

    fn mistakes(text: &str) -> Vec<String> {
        match read_keys_document(SECRET, text) {
            Err(KeysError::Mistakes(mistakes)) => mistakes.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn documents_are_read() {
        let all = r#","user":"u","org":"o","tier":"t","name":"n","created":"x","expires":"2027-01-31T12:00:00Z","#;
        let all = format!(r#"{all}"revoked":"2026-01-31T12:00:00Z","revoked_by":"me""#);
        let text = format!(r#"{{"keys":[{},{}]}}"#, entry("a", &all), entry("bb", r#","user":7"#));
        assert_eq!(read_keys_document(SECRET, &text).unwrap().len(), 2);
        assert_eq!(read_keys_document(SECRET, "{}").unwrap().len(), 0);
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let text = format!(
            r#"{{"keys":[{},{},{},{},7,{{}}],"kees":1}}"#,
            entry("a", r#","hsh":1"#),
            entry("b", r#","expires":"soon""#),
            r#"{"id":"c","hash":"12"}"#,
            entry("", ""),
        );
        let found = mistakes(&text);
        assert_eq!(found.len(), 7, "{found:?}");
        for (mistake, words) in found.iter().zip([
            "kees: unknown",
            "keys[0]: unknown field `hsh`",
            "keys[1]: expires: expected a time",
            "keys[2]: hash: expected 64",
            "keys[3]: id: expected 1 to 1024",
            "keys[4]: invalid type",
            "keys[5]: missing field `id`",
        ]) {
            assert!(mistake.starts_with(words), "{mistake}");
        }
        for wrong in ["", "[]", r#"{"keys":{}}"#] {
            assert_eq!(mistakes(wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn lines_are_read_until_the_first_mistake() {
        let path = std::env::temp_dir().join(format!("headgate-keys-{}.jsonl", std::process::id()));
        std::fs::write(&path, format!("{}\n\n{}\n", entry("a", ""), entry("bb", ""))).unwrap();
        assert_eq!(read_keys_file(SECRET, &path).unwrap().len(), 2);
        std::fs::write(&path, format!("{}\n{}\n", entry("a", ""), entry("a", ""))).unwrap();
        let error = read_keys_file(SECRET, &path).unwrap_err();
        assert!(matches!(&error, KeysError::Mistakes(m) if m[0].path == [Step::Index(1)]), "{error:?}");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read_keys_file(SECRET, &path), Err(KeysError::Io(_))));
    }
}
