//! The first words on a connection: who we are, what the server is, and the scripts it must know. No sockets here.

use super::resp::{Reply, put_command};
use super::scripts::{VERBS, texts};
use super::url::Login;
use std::fmt;

/// The oldest server that runs the scripts.
const OLDEST: (u32, u32) = (7, 0);

/// Why a connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Nobody listens there.
    Refused(String),
    /// Anything else on the way: a time-out, a cut, a name that does not resolve.
    Unreachable(String),
    /// The server answered, and waiting will not change its mind: a wrong password, protocol or version.
    Rejected(String),
    /// The server answered and is not ready to serve: loading, or no primary.
    NotReady(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ConnectError::Refused(what)
        | ConnectError::Unreachable(what)
        | ConnectError::Rejected(what)
        | ConnectError::NotReady(what)) = self;
        f.write_str(what)
    }
}

/// What a server said of itself.
#[derive(Clone, Debug, Default)]
pub struct Greeting {
    /// `Valkey 9.1.2`, `Redis 7.0.15`.
    pub server: String,
    pub is_replica: bool,
    pub is_cluster: bool,
    /// What it does when its memory is full, if that could lose counters.
    pub evicts: Option<String>,
    pub shas: [Box<[u8]>; VERBS],
}

/// What is sent first, and how many replies it brings.
///
/// The scripts come after the answer: a server takes nothing so long from a stranger, and would cut the line instead of
/// saying that the password is wrong.
pub fn hello(login: &Login, database: u32) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(256);
    let mut count = 2;
    if let Some(password) = &login.password {
        match &login.user {
            Some(user) => put_command(&mut out, &[b"AUTH", user.as_bytes(), password.as_bytes()]),
            None => put_command(&mut out, &[b"AUTH", password.as_bytes()]),
        }
        count += 1;
    }
    if database != 0 {
        put_command(&mut out, &[b"SELECT", database.to_string().as_bytes()]);
        count += 1;
    }
    put_command(&mut out, &[b"CLIENT", b"SETNAME", b"headgate"]);
    put_command(&mut out, &[b"INFO"]);
    (out, count)
}

/// What is sent next, and how many replies it brings.
pub fn scripts() -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(128 * 1024);
    for text in texts() {
        put_command(&mut out, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
    }
    (out, VERBS)
}

/// Reads the replies to [`scripts`].
pub fn read_scripts(greeting: &mut Greeting, replies: &[Reply<'_>]) -> Result<(), ConnectError> {
    for (sha, reply) in greeting.shas.iter_mut().zip(replies) {
        *sha = match reply {
            Reply::Bulk(bytes) => (*bytes).into(),
            other => return Err(refusal(other, "the scripts could not be loaded")),
        };
    }
    Ok(())
}

/// Reads the replies to [`hello`].
pub fn read_hello(login: &Login, database: u32, replies: &[Reply<'_>]) -> Result<Greeting, ConnectError> {
    let mut replies = replies.iter();
    let mut next = || replies.next().unwrap_or(&Reply::Nil);
    if login.password.is_some() {
        expect_ok(next(), "the password was not accepted")?;
    }
    if database != 0 {
        expect_ok(next(), &format!("database {database} cannot be used"))?;
    }
    next(); // A name is a courtesy: a server may forbid it.
    match next() {
        Reply::Bulk(info) => read_info(&String::from_utf8_lossy(info)),
        Reply::Error(error) if is_no_permission(error) => Ok(Greeting::default()),
        other => Err(refusal(other, "the server would not tell its version")),
    }
}

fn expect_ok(reply: &Reply<'_>, what: &str) -> Result<(), ConnectError> {
    if matches!(reply, Reply::Simple(_)) { Ok(()) } else { Err(refusal(reply, what)) }
}

fn is_no_permission(error: &[u8]) -> bool {
    error.starts_with(b"NOPERM")
}

/// An error in words for the person who has to act on it.
fn refusal(reply: &Reply<'_>, what: &str) -> ConnectError {
    let Reply::Error(error) = reply else {
        return ConnectError::Rejected(format!("{what}: an answer of another kind"));
    };
    let error = String::from_utf8_lossy(error);
    let code = error.split(' ').next().unwrap_or_default();
    match code {
        "NOAUTH" => ConnectError::Rejected("it asks for a password, and the store's URL has none".into()),
        "WRONGPASS" => ConnectError::Rejected("the user name or password is wrong".into()),
        "NOPERM" => ConnectError::Rejected(format!(
            "{what}: this user may not; allow it ~hg1:* and +@read +@write +@scripting +info +time +client|setname"
        )),
        "LOADING" | "MASTERDOWN" | "BUSY" | "CLUSTERDOWN" | "OOM" | "MISCONF" => ConnectError::NotReady(error.into()),
        "ERR" if error.contains("AUTH") => ConnectError::Rejected(
            "it knows no password for this user; take the password out of the store's URL or set one on the server"
                .into(),
        ),
        _ => ConnectError::Rejected(format!("{what}: {error}")),
    }
}

fn read_info(info: &str) -> Result<Greeting, ConnectError> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let (name, version) = match field("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", field("redis_version").unwrap_or("0")),
    };
    let server = format!("{name} {version}");
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        return Err(ConnectError::Rejected(format!(
            "{server} is too old; Headgate needs Redis {}.{} or newer, or any Valkey",
            OLDEST.0, OLDEST.1
        )));
    }
    Ok(Greeting {
        server,
        is_replica: field("role") == Some("slave"),
        is_cluster: field("cluster_enabled") == Some("1"),
        evicts: field("maxmemory_policy").filter(|policy| *policy != "noeviction").map(str::to_owned),
        shas: Default::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_tells_what_it_is() {
        let info = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\nrole:slave\r\ncluster_enabled:1\r\nmaxmemory_policy:allkeys-lru\r\n";
        let greeting = read_info(info).unwrap();
        assert_eq!((greeting.server.as_str(), greeting.is_replica, greeting.is_cluster), ("Valkey 9.1.2", true, true));
        assert_eq!(greeting.evicts.as_deref(), Some("allkeys-lru"));
        let error = read_info("redis_version:6.2.14\r\n").unwrap_err();
        assert!(error.to_string().contains("Redis 6.2.14 is too old"), "{error}");
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (answer, words) in [
            (&b"NOAUTH Authentication required."[..], "asks for a password"),
            (b"WRONGPASS invalid username-password pair", "wrong"),
            (b"NOPERM no", "allow it"),
            (b"ERR AUTH <password> called without any password configured", "take the password out"),
        ] {
            let error = refusal(&Reply::Error(answer), "x");
            assert!(matches!(&error, ConnectError::Rejected(what) if what.contains(words)), "{error}");
        }
        assert!(matches!(refusal(&Reply::Error(b"LOADING x"), ""), ConnectError::NotReady(_)));
    }
}
