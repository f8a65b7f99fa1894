//! What a rule matches, taken apart: one key for each choice out of its lists.

use super::patterns;
use super::set::{DESCRIPTOR_DOMAIN, Shape, dim_domain};
use crate::facts::Dim;
use crate::hash::{Hash, Keyed};
use crate::net::{self, Cidr};
use crate::path::{Pattern, PatternKind};
use crate::rule::Match;

/// One choice out of each of a rule's match lists.
pub(super) struct Combination<'r> {
    texts: [Option<&'r str>; Dim::COUNT],
    ip: Option<Cidr>,
    pub endpoint: Option<&'r Pattern>,
    descriptors: Vec<(&'r str, &'r str)>,
}

pub(super) fn combinations(matches: &Match) -> Vec<Combination<'_>> {
    let mut list = vec![Combination { texts: [None; Dim::COUNT], ip: None, endpoint: None, descriptors: Vec::new() }];
    let texts = [
        (Dim::User, &matches.user),
        (Dim::ApiKey, &matches.api_key),
        (Dim::Org, &matches.org),
        (Dim::Method, &matches.method),
        (Dim::Region, &matches.region),
        (Dim::Tier, &matches.tier),
    ];
    for (dim, values) in texts {
        list = spread(list, values, |combination, value| combination.texts[dim as usize] = Some(value));
    }
    list = spread(list, &matches.ip, |combination, cidr| combination.ip = Some(*cidr));
    list = spread(list, &matches.endpoint, |combination, pattern| combination.endpoint = Some(pattern));
    for (name, values) in &matches.descriptors {
        list = spread(list, values, |combination, value| combination.descriptors.push((name, value)));
    }
    list
}

fn spread<'r, T>(
    list: Vec<Combination<'r>>,
    values: &'r [T],
    set: impl Fn(&mut Combination<'r>, &'r T),
) -> Vec<Combination<'r>> {
    if values.is_empty() {
        return list;
    }
    let with = |combination: &Combination<'r>, value| {
        let mut copy = Combination { descriptors: combination.descriptors.clone(), ..*combination };
        set(&mut copy, value);
        copy
    };
    list.iter()
        .flat_map(|combination| values.iter().map(move |value| (combination, value)))
        .map(|(c, v)| with(c, v))
        .collect()
}

impl Combination<'_> {
    pub fn shape(&self) -> Shape {
        let texts = Dim::ALL.into_iter().filter(|dim| self.texts[*dim as usize].is_some());
        let mut dims = texts.fold(0, |dims, dim| dims | dim.bit());
        dims |= if self.ip.is_some() { Dim::Ip.bit() } else { 0 };
        dims |= if self.endpoint.is_some() { Dim::Endpoint.bit() } else { 0 };
        Shape {
            dims,
            ip: self.ip.map(|cidr| (cidr.is_v6(), cidr.prefix)),
            descriptors: self.descriptors.iter().map(|(name, _)| (*name).into()).collect(),
        }
    }

    /// In the order in which `select` folds a request's facts.
    pub fn key(&self, keyed: &Keyed, seed: Hash) -> Hash {
        let mut key = seed;
        for dim in Dim::ALL {
            if let Some(text) = self.texts[dim as usize] {
                key = keyed.mix(key, keyed.text(dim_domain(dim), text));
            }
        }
        for (_, value) in &self.descriptors {
            key = keyed.mix(key, keyed.text(DESCRIPTOR_DOMAIN, value));
        }
        if let Some(cidr) = self.ip {
            let hash = net::with_bytes(cidr.network, |bytes| keyed.bytes(dim_domain(Dim::Ip), bytes));
            key = keyed.mix(key, hash);
        }
        if let Some(pattern) = self.endpoint {
            key = keyed.mix(key, patterns::key_of(keyed, pattern));
        }
        key
    }

    /// How specific this is, as one comparable number: user, api_key, org, address prefix, endpoint (kind, then
    /// literal length), method, region, descriptors, tier.
    pub fn rank(&self) -> u64 {
        let has = |dim: Dim| u64::from(self.texts[dim as usize].is_some());
        let (kind, literal) = self.endpoint.map_or((0, 0), |pattern| {
            let kind = match pattern.kind {
                PatternKind::Prefix => 1,
                PatternKind::Parameters => 2,
                PatternKind::Exact => 3,
            };
            (kind, pattern.literal_len.min((1 << 14) - 1) as u64)
        });
        let fields = [
            (has(Dim::User), 1),
            (has(Dim::ApiKey), 1),
            (has(Dim::Org), 1),
            (self.ip.map_or(0, |cidr| u64::from(cidr.prefix) + 1), 8),
            (kind, 2),
            (literal, 14),
            (has(Dim::Method), 1),
            (has(Dim::Region), 1),
            (self.descriptors.len() as u64, 6),
            (has(Dim::Tier), 1),
        ];
        fields.iter().fold(0, |rank, (value, bits)| rank << bits | value)
    }
}
