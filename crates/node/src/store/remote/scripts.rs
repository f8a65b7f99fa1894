//! The scripts, put together from their files in `lua/`.

use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Check,
    Peek,
    Refund,
    Reset,
    Heartbeat,
}

pub const VERBS: usize = 5;

const SHARED: [&str; 3] = [
    include_str!("../../../../../lua/record.lua"),
    include_str!("../../../../../lua/algorithms.lua"),
    include_str!("../../../../../lua/hits.lua"),
];

/// Every verb's text, by its number.
pub fn texts() -> &'static [String; VERBS] {
    static TEXTS: OnceLock<[String; VERBS]> = OnceLock::new();
    TEXTS.get_or_init(|| {
        [
            composed(include_str!("../../../../../lua/check.lua")),
            composed(include_str!("../../../../../lua/peek.lua")),
            composed(include_str!("../../../../../lua/refund.lua")),
            composed(include_str!("../../../../../lua/reset.lua")),
            include_str!("../../../../../lua/heartbeat.lua").to_owned(),
        ]
    })
}

/// The shebang has to come first, then what the verbs share, then the verb.
fn composed(verb: &str) -> String {
    let (shebang, body) = verb.split_once('\n').unwrap_or((verb, ""));
    [shebang, SHARED[0], SHARED[1], SHARED[2], body].join("\n")
}
