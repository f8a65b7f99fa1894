//! A limit given with the call, as `/v1/limit` takes it.

use super::json::{AnyScalar, COST_EXPECTED, COST_MAX, Scalar, TEXT, TEXT_EXPECTED, Trail, read_body, text, whole};
use super::problem::Problem;
use headgate_core::limit_text::{parse_duration_us, parse_limits};
use headgate_core::quota::{COUNT_MAX, WINDOW_US_MAX, WINDOW_US_MIN};
use headgate_core::{Algorithm, Quota};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

const OBJECT: &str = "an object with key, limit and window";
const KNOWN: &str = "key, limit, window, cost, algorithm, burst";
const LIMIT_EXPECTED: &str = "a whole number from 1 to 1000000000000 or a text such as \"5/minute\"";
const WINDOW_EXPECTED: &str = "seconds, or a text such as \"60s\", from 1 millisecond to 366 days";
const BURST_EXPECTED: &str = "a whole number from 1 to 1000000000000";

/// What was asked for.
#[derive(Debug)]
pub(crate) struct LimitBody<'de> {
    pub key: Cow<'de, str>,
    pub quotas: SmallVec<[Quota; 1]>,
    pub cost: u64,
}

/// Reads the body of `/v1/limit`.
pub(crate) fn read_limit(body: &[u8]) -> Result<LimitBody<'_>, Problem> {
    let fields = read_body(body, OBJECT, |trail, json| json.deserialize_map(FieldsVisitor(trail)))?;
    let missing = |field: &str| Problem::field(field, "is needed");
    let key = fields.key.ok_or_else(|| missing("key"))?;
    let algorithm = match fields.algorithm.as_deref() {
        Some(name) => Some(algorithm_named(name)?),
        None => None,
    };
    let quotas = match fields.limit.ok_or_else(|| missing("limit"))? {
        Count::Number(count) => {
            let window_us = fields.window_us.ok_or_else(|| {
                Problem::field("window", "is needed when `limit` is a number; or write the limit as \"5/minute\"")
            })?;
            SmallVec::from_elem(quota(count, window_us, fields.burst, algorithm)?, 1)
        }
        Count::Text(_) if fields.window_us.is_some() => {
            return Err(Problem::field("window", "goes with a number; the text of this limit names its own window"));
        }
        Count::Text(_) if fields.burst.is_some() => {
            return Err(Problem::field("burst", "goes with a number; write \"100/second burst 200\" instead"));
        }
        Count::Text(text) => quotas(&text, algorithm)?,
    };
    Ok(LimitBody { key, quotas, cost: fields.cost })
}

fn algorithm_named(name: &str) -> Result<Algorithm, Problem> {
    Algorithm::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        Problem::field("algorithm", &format!("expected one of {}, token_bucket", known.join(", ")))
    })
}

fn quota(count: u64, window_us: u64, burst: Option<u64>, algorithm: Option<Algorithm>) -> Result<Quota, Problem> {
    let is_bucket = algorithm.is_none_or(|algorithm| algorithm == Algorithm::Gcra);
    let field = if burst.is_some() && !is_bucket { "burst" } else { "limit" };
    Quota::new(count, window_us, burst, algorithm).map_err(|error| Problem::field(field, &error.0))
}

fn quotas(text: &str, algorithm: Option<Algorithm>) -> Result<SmallVec<[Quota; 1]>, Problem> {
    let quotas = parse_limits(text, algorithm).map_err(|error| Problem::field("limit", &error.0))?;
    for (nth, quota) in quotas.iter().enumerate() {
        // A counter is (key, algorithm, window), so these two would be one counter charged twice.
        let same = |other: &Quota| other.algorithm == quota.algorithm && other.window_us == quota.window_us;
        if quotas[..nth].iter().any(same) {
            return Err(Problem::field("limit", "names two limits with the same window and algorithm"));
        }
    }
    Ok(quotas.into())
}

#[derive(Debug)]
enum Count<'de> {
    Number(u64),
    Text(Cow<'de, str>),
}

#[derive(Debug)]
struct Fields<'de> {
    key: Option<Cow<'de, str>>,
    limit: Option<Count<'de>>,
    window_us: Option<u64>,
    cost: u64,
    algorithm: Option<Cow<'de, str>>,
    burst: Option<u64>,
}

struct FieldsVisitor<'t>(&'t mut Trail);

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OBJECT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let trail = self.0;
        let mut fields = Fields { key: None, limit: None, window_us: None, cost: 1, algorithm: None, burst: None };
        let mut seen = 0_u8;
        while let Some(field) = map.next_key_seed(FieldSeed(trail))? {
            let (name, expected) = FIELDS[usize::from(field)];
            trail.enter(name, expected);
            if seen & (1 << field) != 0 {
                return Err(trail.wrong("appears twice"));
            }
            seen |= 1 << field;
            let value = map.next_value_seed(AnyScalar)?;
            fields.put(name, value, trail)?;
            trail.leave(OBJECT);
        }
        Ok(fields)
    }
}

impl<'de> Fields<'de> {
    fn put<E: de::Error>(&mut self, name: &str, value: Scalar<'de>, trail: &mut Trail) -> Result<(), E> {
        match name {
            "key" => self.key = text(trail, value, TEXT)?,
            "limit" => self.limit = count(trail, value)?,
            "window" => self.window_us = window_us(trail, value)?,
            "cost" => self.cost = whole(trail, &value, COST_MAX)?.unwrap_or(1),
            "algorithm" => self.algorithm = text(trail, value, TEXT)?,
            _ => self.burst = at_least_one(trail, &value)?,
        }
        Ok(())
    }
}

fn at_least_one<E: de::Error>(trail: &mut Trail, value: &Scalar<'_>) -> Result<Option<u64>, E> {
    match whole(trail, value, COUNT_MAX)? {
        Some(0) => Err(trail.wrong(format!("expected {BURST_EXPECTED}"))),
        number => Ok(number),
    }
}

fn count<'de, E: de::Error>(trail: &mut Trail, value: Scalar<'de>) -> Result<Option<Count<'de>>, E> {
    match value {
        Scalar::Text(_) => Ok(text(trail, value, TEXT)?.map(Count::Text)),
        Scalar::Whole(0) => Err(trail.wrong(format!("expected {LIMIT_EXPECTED}"))),
        _ => Ok(whole(trail, &value, COUNT_MAX)?.map(Count::Number)),
    }
}

fn window_us<E: de::Error>(trail: &mut Trail, value: Scalar<'_>) -> Result<Option<u64>, E> {
    let window_us = match value {
        Scalar::Absent => return Ok(None),
        Scalar::Whole(seconds) => seconds.checked_mul(1_000_000),
        // A cast from a float saturates, and a negative one becomes 0: both are out of range below.
        Scalar::Fraction(seconds) => Some((seconds * 1e6).round() as u64),
        Scalar::Negative(_) => None,
        Scalar::Text(words) => Some(parse_duration_us(&words).map_err(|error| trail.wrong(error.0))?),
    };
    match window_us.filter(|us| (WINDOW_US_MIN..=WINDOW_US_MAX).contains(us)) {
        Some(window_us) => Ok(Some(window_us)),
        None => Err(trail.wrong(format!("expected {WINDOW_EXPECTED}"))),
    }
}

const FIELDS: [(&str, &str); 6] = [
    ("key", TEXT_EXPECTED),
    ("limit", LIMIT_EXPECTED),
    ("window", WINDOW_EXPECTED),
    ("cost", COST_EXPECTED),
    ("algorithm", TEXT_EXPECTED),
    ("burst", BURST_EXPECTED),
];

/// Reads a field's name as its position in [`FIELDS`].
struct FieldSeed<'t>(&'t mut Trail);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = u8;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u8, D::Error> {
        json.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = u8;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<u8, E> {
        match FIELDS.iter().position(|(known, _)| *known == name) {
            Some(field) => Ok(field as u8),
            None => Err(self.0.unknown(name, KNOWN)),
        }
    }
}
