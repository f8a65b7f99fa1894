//! Reading request bodies: straight into values, with every mistake named by its field.
//!
//! No tree is built, and nothing deeper than a body's own shape is ever followed, so nesting is bounded by the
//! shapes themselves.

use super::problem::{Problem, shown};
use headgate_core::facts::FACT_BYTES_MAX;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The largest cost a request may name.
pub(crate) const COST_MAX: u64 = 1_000_000_000_000;
pub(crate) const COST_EXPECTED: &str = "a whole number from 0 to 1000000000000";

/// Where reading is, and what was found wrong there.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    item: Option<usize>,
    field: Option<Cow<'static, str>>,
    part: Option<String>,
    expected: &'static str,
    what: Option<String>,
}

impl Trail {
    /// The value read next, and what it should be.
    #[inline]
    pub fn enter(&mut self, field: &'static str, expected: &'static str) {
        self.field = Some(Cow::Borrowed(field));
        self.expected = expected;
    }

    /// Between fields.
    #[inline]
    pub fn leave(&mut self, expected: &'static str) {
        self.field = None;
        self.expected = expected;
    }

    pub fn item(&mut self, item: Option<usize>) {
        self.item = item;
    }

    /// A field whose name came with the request.
    pub fn unknown<E: de::Error>(&mut self, name: &str, known: &str) -> E {
        self.field = Some(Cow::Owned(shown(name)));
        self.wrong(format!("unknown field; expected one of {known}"))
    }

    /// A part of the field, for fields that are objects.
    pub fn part(&mut self, name: &str) {
        self.part = Some(shown(name));
    }

    /// The field as a whole again.
    pub fn whole(&mut self) {
        self.part = None;
    }

    /// Says what is wrong here. The error carries nothing: this trail does.
    pub fn wrong<E: de::Error>(&mut self, what: impl Into<String>) -> E {
        self.what = Some(what.into());
        E::custom("")
    }

    fn into_problem(self, error: &serde_json::Error) -> Problem {
        let what = match self.what {
            Some(what) => what,
            None if error.is_data() => format!("expected {}", self.expected),
            None => format!("expected {}, and this is not JSON: {error}", self.expected),
        };
        let mut place = self.item.map_or(String::new(), |item| format!("[{item}]"));
        for name in self.field.as_deref().into_iter().chain(self.part.as_deref()) {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(name);
        }
        if place.is_empty() { Problem::new(400, format!("the body: {what}")) } else { Problem::field(place, &what) }
    }
}

/// Reads a whole body; `read` makes the seed from the trail it reports to.
pub(crate) fn read_body<'de, T>(
    body: &'de [u8],
    expected: &'static str,
    read: impl FnOnce(&mut Trail, &mut serde_json::Deserializer<serde_json::de::StrRead<'de>>) -> serde_json::Result<T>,
) -> Result<T, Problem> {
    let text = str::from_utf8(body).map_err(|error| {
        let at = error.valid_up_to();
        Problem::new(400, format!("the body: expected {expected} in UTF-8; byte {at} is not"))
    })?;
    let mut trail = Trail { expected, ..Trail::default() };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = read(&mut trail, &mut json).map_err(|error| trail.into_problem(&error))?;
    let rest = Trail { expected: "nothing after it", ..Trail::default() };
    json.end().map_err(|error| rest.into_problem(&error))?;
    Ok(value)
}

/// A value as a request may write it; null is the same as absent.
#[derive(Debug, PartialEq)]
pub(crate) enum Scalar<'de> {
    Absent,
    Text(Cow<'de, str>),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
}

/// Reads any text or number.
pub(crate) struct AnyScalar;

impl<'de> DeserializeSeed<'de> for AnyScalar {
    type Value = Scalar<'de>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Scalar<'de>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    #[inline]
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_string())))
    }

    #[inline]
    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Negative(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Fraction(number))
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Absent)
    }
}

/// What kind of text a field takes.
#[derive(Clone, Copy)]
pub(crate) struct TextKind {
    pub bytes_max: usize,
    /// Ids are often numbers.
    pub or_whole_number: bool,
}

pub(crate) const ID: TextKind = TextKind { bytes_max: FACT_BYTES_MAX, or_whole_number: true };
pub(crate) const TEXT: TextKind = TextKind { bytes_max: FACT_BYTES_MAX, or_whole_number: false };
pub(crate) const ID_EXPECTED: &str = "a text or a whole number";
pub(crate) const TEXT_EXPECTED: &str = "a text";

/// A text that is not empty and not too long.
#[inline]
pub(crate) fn text<'de, E: de::Error>(
    trail: &mut Trail,
    value: Scalar<'de>,
    kind: TextKind,
) -> Result<Option<Cow<'de, str>>, E> {
    let text = match value {
        Scalar::Absent => return Ok(None),
        Scalar::Text(text) => text,
        Scalar::Whole(number) if kind.or_whole_number => Cow::Owned(number.to_string()),
        Scalar::Negative(number) if kind.or_whole_number => Cow::Owned(number.to_string()),
        _ => return Err(trail.wrong(format!("expected {}", trail.expected))),
    };
    if text.is_empty() {
        return Err(trail.wrong("must not be empty; leave it out instead"));
    }
    if text.len() > kind.bytes_max {
        return Err(trail.wrong(format!("at most {} bytes, not {}", kind.bytes_max, text.len())));
    }
    Ok(Some(text))
}

/// A whole number in a range.
#[inline]
pub(crate) fn whole<E: de::Error>(trail: &mut Trail, value: &Scalar<'_>, max: u64) -> Result<Option<u64>, E> {
    match value {
        Scalar::Absent => Ok(None),
        Scalar::Whole(number) if *number <= max => Ok(Some(*number)),
        _ => Err(trail.wrong(format!("expected {}", trail.expected))),
    }
}
