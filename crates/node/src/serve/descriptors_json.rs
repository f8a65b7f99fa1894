//! Free descriptors, as a fact of a request.

use super::json::{AnyScalar, ID, ID_EXPECTED, TEXT, Trail, text};
use headgate_core::facts::DESCRIPTORS_MAX;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

pub(crate) const DESCRIPTORS_EXPECTED: &str = "an object of at most 32 names and texts";

pub(crate) struct DescriptorsSeed<'t>(pub &'t mut Trail);

impl<'de> DeserializeSeed<'de> for DescriptorsSeed<'_> {
    type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DescriptorsSeed<'_> {
    type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DESCRIPTORS_EXPECTED)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let trail = self.0;
        let mut descriptors: Self::Value = Vec::new();
        while let Some(name) = map.next_key_seed(AnyScalar)? {
            if descriptors.len() == DESCRIPTORS_MAX {
                return Err(trail.wrong(format!("at most {DESCRIPTORS_MAX} descriptors")));
            }
            let name = text(trail, name, TEXT)?.unwrap_or_default();
            if descriptors.iter().any(|(known, _)| *known == name) {
                trail.part(&name);
                return Err(trail.wrong("appears twice"));
            }
            trail.enter("descriptors", ID_EXPECTED);
            let read = map.next_value_seed(AnyScalar).and_then(|value| text(trail, value, ID));
            match read.inspect_err(|_| trail.part(&name))? {
                Some(value) => descriptors.push((name, value)),
                None => {
                    trail.part(&name);
                    return Err(trail.wrong(format!("expected {ID_EXPECTED}")));
                }
            }
            trail.enter("descriptors", DESCRIPTORS_EXPECTED);
        }
        Ok(descriptors)
    }
}
