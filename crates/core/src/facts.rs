//! What is known of a request.

use std::net::IpAddr;

/// The tier of a request that names none.
pub const DEFAULT_TIER: &str = "free";
/// Descriptors a request may carry.
pub const DESCRIPTORS_MAX: usize = 32;
/// The longest single fact.
pub const FACT_BYTES_MAX: usize = 1024;

/// A fact a rule can test or count by, free descriptors aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dim {
    User,
    ApiKey,
    Org,
    Ip,
    Endpoint,
    Method,
    Region,
    Tier,
}

impl Dim {
    pub const COUNT: usize = 8;
    pub const ALL: [Dim; Self::COUNT] =
        [Dim::User, Dim::ApiKey, Dim::Org, Dim::Ip, Dim::Endpoint, Dim::Method, Dim::Region, Dim::Tier];

    pub fn name(self) -> &'static str {
        match self {
            Dim::User => "user",
            Dim::ApiKey => "api_key",
            Dim::Org => "org",
            Dim::Ip => "ip",
            Dim::Endpoint => "endpoint",
            Dim::Method => "method",
            Dim::Region => "region",
            Dim::Tier => "tier",
        }
    }

    pub fn from_name(name: &str) -> Option<Dim> {
        Self::ALL.into_iter().find(|dim| dim.name() == name)
    }

    #[inline]
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The facts of one request, as a door gathered them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    pub user: Option<&'a str>,
    pub api_key: Option<&'a str>,
    pub org: Option<&'a str>,
    pub ip: Option<IpAddr>,
    /// The tier the caller claims (from a verified token); an override beats it.
    pub tier: Option<&'a str>,
    pub method: Option<&'a str>,
    pub path: Option<&'a str>,
    pub region: Option<&'a str>,
    pub descriptors: &'a [(&'a str, &'a str)],
}
