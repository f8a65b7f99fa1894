//! A rule: which requests it matches, what it counts by, how much is allowed, what happens past that.

use crate::facts::Dim;
use crate::net::Cidr;
use crate::path::Pattern;
use crate::quota::Quota;

/// The priority of a rule that names none.
pub const DEFAULT_PRIORITY: i32 = 100;
/// Of an operator's block: above every priority a rule may have.
pub const OPERATOR_PRIORITY: i32 = i32::MAX;
/// The status of a refusal, unless the rule asks for another.
pub const REFUSED_STATUS: u16 = 429;
/// The status of a block, unless the rule asks for another.
pub const BLOCKED_STATUS: u16 = 403;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Throttle,
    /// Counted and reported as if enforced; never refuses.
    Shadow,
    Block,
    Allow,
}

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Action::Throttle => "throttle",
            Action::Shadow => "shadow",
            Action::Block => "block",
            Action::Allow => "allow",
        }
    }

    /// Block and allow rules decide the whole request before any limit is looked at.
    pub fn decides_alone(self) -> bool {
        matches!(self, Action::Block | Action::Allow)
    }
}

/// What a limit answers when the store cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    Open,
    Closed,
    Local,
}

impl OnStoreFailure {
    /// Each as users write it.
    pub const NAMES: &[(&str, OnStoreFailure)] =
        &[("open", OnStoreFailure::Open), ("closed", OnStoreFailure::Closed), ("local", OnStoreFailure::Local)];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }
}

/// How exactly a limit must be kept. Accepted now; everything is exact until leases exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    Exact,
    Lease,
    Async,
}

/// What the client is told by this rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Response {
    pub status: Option<u16>,
    pub message: Option<Box<str>>,
    /// A fixed Retry-After, in seconds.
    pub retry_after_s: Option<u32>,
    pub hide_remaining: bool,
}

/// Which requests a rule is for. An empty list tests nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Match {
    pub user: Vec<String>,
    pub api_key: Vec<String>,
    pub org: Vec<String>,
    pub ip: Vec<Cidr>,
    pub endpoint: Vec<Pattern>,
    pub method: Vec<String>,
    pub region: Vec<String>,
    pub tier: Vec<String>,
    /// Sorted by name.
    pub descriptors: Vec<(String, Vec<String>)>,
    /// Whole descriptors of calls, and then nothing else.
    pub exact: Option<ExactMatch>,
}

/// A whole descriptor, entry by entry: it has exactly these, in this order (SEMANTICS 7.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactMatch {
    pub domain: String,
    pub entries: Vec<ExactEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactEntry {
    /// `key_value`, or the key alone for any value; what ends with `*` is a beginning.
    pub text: String,
    /// All values that this beginning takes count together.
    pub shared: bool,
}

/// What a beginning ends with.
pub const WILDCARD: char = '*';
/// What a rule for whole descriptors counts by.
pub const EXACT_BY: &str = "descriptor";

/// What a counter is kept for. The empty set is `global`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct By {
    /// One bit a [`Dim`].
    pub dims: u8,
    /// Sorted names of free descriptors.
    pub descriptors: Vec<String>,
}

impl By {
    pub fn names(&self) -> Vec<String> {
        let dims = Dim::ALL.into_iter().filter(|dim| self.dims & dim.bit() != 0).map(|dim| dim.name().to_string());
        let mut names: Vec<String> = dims.chain(self.descriptors.iter().cloned()).collect();
        if names.is_empty() {
            names.push("global".to_string());
        }
        names
    }
}

/// One limit of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Tells the limits of one rule apart; its position unless named.
    pub label: Box<str>,
    pub quota: Quota,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    pub matches: Match,
    pub by: By,
    pub limits: Vec<Limit>,
    pub action: Action,
    pub priority: i32,
    pub enabled: bool,
    /// What metrics are labelled with; the name unless given.
    pub group: Option<String>,
    /// The counter's name; the rule's unless shared.
    pub counter: Option<String>,
    pub on_store_failure: OnStoreFailure,
    pub precision: Precision,
    /// When a block ends.
    pub until_us: Option<u64>,
    pub response: Response,
    /// Rules that do not apply to a call to which this one applies. Only for whole descriptors.
    pub replaces: Vec<String>,
}

/// Whom an override is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    User,
    Org,
    ApiKey,
}

impl Principal {
    pub const ALL: [Principal; 3] = [Principal::User, Principal::Org, Principal::ApiKey];

    pub fn name(self) -> &'static str {
        self.dim().name()
    }

    pub fn dim(self) -> Dim {
        match self {
            Principal::User => Dim::User,
            Principal::Org => Dim::Org,
            Principal::ApiKey => Dim::ApiKey,
        }
    }
}

/// What one user, org or API key gets instead of everybody's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub principal: Principal,
    pub value: String,
    pub tier: Option<String>,
    /// The rules this override stands for: its own limits, and its block.
    pub rules: Vec<Rule>,
}

impl Override {
    /// The name shared by the rules an override stands for.
    pub fn rule_name(principal: Principal, value: &str) -> String {
        format!("override:{}:{value}", principal.name())
    }

    pub fn block_name(principal: Principal, value: &str) -> String {
        format!("override-block:{}:{value}", principal.name())
    }
}

/// The name of the rule that an operator's block stands for.
pub fn block_name(id: &str) -> String {
    format!("block:{id}")
}
