//! JSON as tokens and key sets must be written: UTF-8, one object, no member twice.
//!
//! Two readers that disagree about which of two members counts are how one token comes to mean two things.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Reads an object; none when it is anything else.
pub(super) fn read_object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let text = str::from_utf8(bytes).ok()?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut json).ok()?;
    json.end().ok()?;
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Any value, with every object in it looked over for members given twice.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.insert(name, members.next_value_seed(Strict)?).is_some() {
                return Err(de::Error::custom("a member is given twice"));
            }
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_in_utf8_without_doubles_is_read_and_nothing_else() {
        assert_eq!(read_object(br#" {"a":1,"b":{"a":[null,true,-1,1.5]}} "#).unwrap().len(), 2);
        let deep = "[".repeat(10_000);
        for wrong in [
            &br#"{"a":1,"a":1}"#[..],
            br#"{"a":1,"\u0061":2}"#,
            br#"{"x":{"a":1,"a":2}}"#,
            br#"{"a":1}{"b":2}"#,
            br#"{"a":1} x"#,
            b"[]",
            b"\"a\"",
            b"",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":1e999}",
            b"{'a':1}",
            b"{\"a\":NaN}",
            b"\xef\xbb\xbf{}",
            deep.as_bytes(),
        ] {
            assert!(read_object(wrong).is_none(), "{}", String::from_utf8_lossy(&wrong[..wrong.len().min(40)]));
        }
    }
}
