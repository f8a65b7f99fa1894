//! Facts as `/v1/check` and `/v1/checks` take them.

use super::credentials_json::{CREDENTIALS_EXPECTED, CredentialsBody, CredentialsSeed, Verified};
use super::descriptors_json::{DESCRIPTORS_EXPECTED, DescriptorsSeed};
use super::facts_scan::scan;
use super::json::{
    AnyScalar, COST_EXPECTED, COST_MAX, ID, ID_EXPECTED, TEXT, TEXT_EXPECTED, TextKind, Trail, read_body, text, whole,
};
use super::problem::Problem;
use headgate_core::Facts;
use headgate_core::net::parse_ip;
use headgate_core::path::PATH_BYTES_MAX;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// Checks one call of `/v1/checks` may hold.
pub(crate) const CHECKS_MAX: usize = 1_000;

const OBJECT: &str = "an object of facts";
const LIST: &str = "a list of at most 1000 objects of facts";
const KNOWN: &str = "user, api_key, org, ip, tier, method, path, region, descriptors, credentials, cost";
const PATH: TextKind = TextKind { bytes_max: PATH_BYTES_MAX, or_whole_number: false };

type Text<'de> = Cow<'de, str>;

/// One request's facts, borrowed from the body wherever nothing was escaped.
#[derive(Debug)]
pub(crate) struct FactsBody<'de> {
    pub user: Option<Text<'de>>,
    pub api_key: Option<Text<'de>>,
    pub org: Option<Text<'de>>,
    pub ip: Option<IpAddr>,
    pub tier: Option<Text<'de>>,
    method: Option<Text<'de>>,
    path: Option<Text<'de>>,
    region: Option<Text<'de>>,
    descriptors: Vec<(Text<'de>, Text<'de>)>,
    pub credentials: Option<Box<CredentialsBody<'de>>>,
    pub verified: Option<Verified>,
    pub cost: u64,
}

impl FactsBody<'_> {
    /// Hands the facts on in the form the engine takes.
    pub fn with_facts<R>(&self, use_facts: impl FnOnce(Facts<'_>) -> R) -> R {
        let descriptors: Vec<(&str, &str)> = self.descriptors.iter().map(|(name, value)| (&**name, &**value)).collect();
        let known = self.verified.as_ref().and_then(|verified| verified.known.as_deref());
        use_facts(Facts {
            user: self.user.as_deref().or(known.and_then(|known| known.user.as_deref())),
            api_key: self.api_key.as_deref().or(known.and_then(|known| known.api_key.as_deref())),
            org: self.org.as_deref().or(known.and_then(|known| known.org.as_deref())),
            ip: self.ip.or(self.verified.as_ref().and_then(|verified| verified.ip)),
            tier: self.tier.as_deref().or(known.and_then(|known| known.tier.as_deref())),
            method: self.method.as_deref(),
            path: self.path.as_deref(),
            region: self.region.as_deref(),
            descriptors: &descriptors,
        })
    }
}

/// Reads the body of `/v1/check`.
#[inline]
pub(crate) fn read_facts(body: &[u8]) -> Result<FactsBody<'_>, Problem> {
    match str::from_utf8(body).ok().and_then(scan) {
        Some(facts) => Ok(facts),
        None => read_facts_fully(body),
    }
}

pub(crate) fn read_facts_fully(body: &[u8]) -> Result<FactsBody<'_>, Problem> {
    read_body(body, OBJECT, |trail, json| FactsSeed(trail).deserialize(json))
}

/// Reads the body of `/v1/checks`: all of it, before anything is decided.
pub(crate) fn read_facts_list(body: &[u8]) -> Result<Vec<FactsBody<'_>>, Problem> {
    read_body(body, LIST, |trail, json| json.deserialize_seq(ListVisitor(trail)))
}

struct ListVisitor<'t>(&'t mut Trail);

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Vec<FactsBody<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LIST)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let trail = self.0;
        let mut list = Vec::new();
        loop {
            trail.item(Some(list.len()));
            trail.leave(OBJECT);
            let Some(facts) = items.next_element_seed(FactsSeed(trail))? else { break };
            if list.len() == CHECKS_MAX {
                trail.item(None);
                trail.leave(LIST);
                return Err(trail.wrong(format!("expected {LIST}")));
            }
            list.push(facts);
        }
        trail.item(None);
        Ok(list)
    }
}

struct FactsSeed<'t>(&'t mut Trail);

impl<'de> DeserializeSeed<'de> for FactsSeed<'_> {
    type Value = FactsBody<'de>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<FactsBody<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FactsSeed<'_> {
    type Value = FactsBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OBJECT)
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FactsBody<'de>, A::Error> {
        let trail = self.0;
        let mut facts = FactsBody::default();
        let mut seen = 0_u16;
        while let Some(field) = map.next_key_seed(FieldSeed(trail))? {
            trail.enter(field.name(), field.expected());
            let bit = 1 << field as u16;
            if seen & bit != 0 {
                return Err(trail.wrong("appears twice"));
            }
            seen |= bit;
            match field {
                Field::Descriptors => facts.descriptors = map.next_value_seed(DescriptorsSeed(trail))?,
                Field::Credentials => facts.credentials = map.next_value_seed(CredentialsSeed(trail))?,
                Field::Cost => {
                    let value = map.next_value_seed(AnyScalar)?;
                    facts.cost = whole(trail, &value, COST_MAX)?.unwrap_or(1);
                }
                _ => {
                    let value = map.next_value_seed(AnyScalar)?;
                    if let Some(value) = text(trail, value, field.kind())?
                        && facts.put(field, value).is_none()
                    {
                        return Err(trail.wrong(format!("expected {}", field.expected())));
                    }
                }
            }
            trail.leave(OBJECT);
        }
        Ok(facts)
    }
}

impl Default for FactsBody<'_> {
    fn default() -> Self {
        Self {
            user: None,
            api_key: None,
            org: None,
            ip: None,
            tier: None,
            method: None,
            path: None,
            region: None,
            descriptors: Vec::new(),
            credentials: None,
            verified: None,
            cost: 1,
        }
    }
}

impl<'de> FactsBody<'de> {
    /// None when the text cannot be what the field takes.
    #[inline]
    pub fn put(&mut self, field: Field, value: Text<'de>) -> Option<()> {
        match field {
            Field::User => self.user = Some(value),
            Field::ApiKey => self.api_key = Some(value),
            Field::Org => self.org = Some(value),
            Field::Tier => self.tier = Some(value),
            Field::Method => self.method = Some(value),
            Field::Path => self.path = Some(value),
            Field::Region => self.region = Some(value),
            Field::Ip => self.ip = Some(parse_ip(&value)?),
            Field::Descriptors | Field::Credentials | Field::Cost => return None,
        }
        Some(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    User,
    ApiKey,
    Org,
    Ip,
    Tier,
    Method,
    Path,
    Region,
    Descriptors,
    Credentials,
    Cost,
}

impl Field {
    #[inline]
    pub fn from_name(name: &str) -> Option<Field> {
        Some(match name {
            "user" => Field::User,
            "api_key" => Field::ApiKey,
            "org" => Field::Org,
            "ip" => Field::Ip,
            "tier" => Field::Tier,
            "method" => Field::Method,
            "path" => Field::Path,
            "region" => Field::Region,
            "descriptors" => Field::Descriptors,
            "credentials" => Field::Credentials,
            "cost" => Field::Cost,
            _ => return None,
        })
    }

    #[inline]
    fn name(self) -> &'static str {
        match self {
            Field::User => "user",
            Field::ApiKey => "api_key",
            Field::Org => "org",
            Field::Ip => "ip",
            Field::Tier => "tier",
            Field::Method => "method",
            Field::Path => "path",
            Field::Region => "region",
            Field::Descriptors => "descriptors",
            Field::Credentials => "credentials",
            Field::Cost => "cost",
        }
    }

    #[inline]
    fn expected(self) -> &'static str {
        match self {
            Field::User | Field::ApiKey | Field::Org => ID_EXPECTED,
            Field::Tier | Field::Method | Field::Path | Field::Region => TEXT_EXPECTED,
            Field::Ip => "an address such as 203.0.113.7 or 2001:db8::1",
            Field::Descriptors => DESCRIPTORS_EXPECTED,
            Field::Credentials => CREDENTIALS_EXPECTED,
            Field::Cost => COST_EXPECTED,
        }
    }

    #[inline]
    pub fn kind(self) -> TextKind {
        match self {
            Field::User | Field::ApiKey | Field::Org => ID,
            Field::Path => PATH,
            _ => TEXT,
        }
    }
}

struct FieldSeed<'t>(&'t mut Trail);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Field;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Field, D::Error> {
        json.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a fact")
    }

    #[inline]
    fn visit_str<E: de::Error>(self, name: &str) -> Result<Field, E> {
        Field::from_name(name).ok_or_else(|| self.0.unknown(name, KNOWN))
    }
}
