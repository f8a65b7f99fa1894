//! Where a shared store is, as one string.

use std::fmt;
use std::path::PathBuf;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26_379;
/// Servers one URL may name.
const SERVERS_MAX: usize = 256;
const DATABASE_MAX: u32 = 16_383;
const KNOWN: &str = "memory://, redis://, rediss://, unix://, redis+sentinel://, redis+cluster://, redis+ring://";

/// One server's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How servers are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    One,
    /// The primary of this name, as the sentinels know it.
    Sentinel {
        primary: String,
    },
    Cluster,
    /// Independent servers, by consistent hashing.
    Ring,
}

/// Who a node is to a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Login {
    pub user: Option<String>,
    pub password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        f.debug_struct("Login").field("user", &self.user).field("password", &password).finish()
    }
}

/// Which certificates a TLS connection goes by.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// PEM file of authorities to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// PEM files a client shows of itself.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    pub layout: Layout,
    pub servers: Vec<Address>,
    pub login: Login,
    pub sentinel_login: Login,
    pub database: u32,
    pub tls: Option<TlsOptions>,
}

/// Why a URL cannot be used, in words; never with what it says before its `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(pub String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(what.into()))
}

impl StoreUrl {
    pub fn parse(text: &str) -> Result<StoreUrl, UrlError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong(format!("expected a URL with one of {KNOWN}"));
        };
        let (tls, kind) = match scheme.strip_prefix("rediss") {
            Some(kind) => (true, kind),
            None => (false, scheme.strip_prefix("redis").unwrap_or(scheme)),
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let mut options = Options::parse(query.unwrap_or_default())?;
        if kind == "unix" {
            return unix(rest, options);
        }
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (read_login(login)?, rest),
            None => (Login::default(), rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = if kind == "+sentinel" { DEFAULT_SENTINEL_PORT } else { DEFAULT_PORT };
        let servers = read_servers(hosts, port)?;
        let (layout, database) = match kind {
            "" if servers.len() > 1 => {
                return wrong("redis:// takes one server; several are redis+cluster://, +sentinel:// or +ring://");
            }
            "" => (Layout::One, path),
            "+cluster" => (Layout::Cluster, path),
            "+ring" => (Layout::Ring, path),
            "+sentinel" => {
                let (primary, database) = path.split_once('/').unwrap_or((path, ""));
                if primary.is_empty() {
                    return wrong("redis+sentinel:// needs the primary's name, as in redis+sentinel://host/mymaster");
                }
                (Layout::Sentinel { primary: decoded(primary)? }, database)
            }
            _ => return wrong(format!("`{scheme}://` is not a store; expected one of {KNOWN}")),
        };
        let database = options.database(database)?;
        if layout == Layout::Cluster && database != 0 {
            return wrong("a cluster has database 0 only");
        }
        let tls_options = std::mem::take(&mut options.tls);
        if !tls && tls_options != TlsOptions::default() {
            return wrong("ca, cert and key go with rediss://");
        }
        if tls_options.cert.is_some() != tls_options.key.is_some() {
            return wrong("cert and key go together");
        }
        Ok(StoreUrl {
            layout,
            servers,
            login: options.login.unwrap_or(login),
            sentinel_login: options.sentinel_login,
            database,
            tls: tls.then_some(tls_options),
        })
    }
}

fn unix(rest: &str, options: Options) -> Result<StoreUrl, UrlError> {
    let (login, path) = match rest.split_once('@') {
        Some((login, path)) if !login.contains('/') => (read_login(login)?, path),
        _ => (Login::default(), rest),
    };
    if !path.starts_with('/') {
        return wrong("unix:// takes an absolute path, as in unix:///run/redis.sock");
    }
    Ok(StoreUrl {
        layout: Layout::One,
        servers: vec![Address::Unix(decoded(path)?.into())],
        login: options.login.clone().unwrap_or(login),
        sentinel_login: Login::default(),
        database: options.database("")?,
        tls: None,
    })
}

fn read_login(text: &str) -> Result<Login, UrlError> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    let some = |text: &str| -> Result<Option<String>, UrlError> {
        let text = decoded(text)?;
        Ok((!text.is_empty()).then_some(text))
    };
    Ok(Login { user: some(user)?, password: password.map_or(Ok(None), some)? })
}

fn read_servers(hosts: &str, default_port: u16) -> Result<Vec<Address>, UrlError> {
    let mut servers = Vec::new();
    for part in hosts.split(',') {
        if servers.len() == SERVERS_MAX {
            return wrong(format!("at most {SERVERS_MAX} servers"));
        }
        servers.push(read_server(part.trim(), default_port)?);
    }
    Ok(servers)
}

pub(crate) fn read_server(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, port)) = rest.split_once(']') else { return wrong("an address in [ has no ]") };
        (host, port.strip_prefix(':').unwrap_or(port))
    } else {
        text.rsplit_once(':').unwrap_or((text, ""))
    };
    let port = if port.is_empty() { Ok(default_port) } else { port.parse() };
    match port {
        Ok(port) if port > 0 && !host.is_empty() => Ok(Address::Tcp { host: host.to_owned(), port }),
        _ => wrong(format!("`{text}` is not HOST:PORT")),
    }
}

/// What follows the question mark.
#[derive(Default)]
struct Options {
    database: Option<u32>,
    login: Option<Login>,
    sentinel_login: Login,
    tls: TlsOptions,
}

impl Options {
    fn parse(query: &str) -> Result<Options, UrlError> {
        let mut options = Options::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match name {
                "db" => options.database = Some(read_database(&value)?),
                "user" => options.login.get_or_insert_default().user = Some(value),
                "password" => options.login.get_or_insert_default().password = Some(value),
                "sentinel_user" => options.sentinel_login.user = Some(value),
                "sentinel_password" => options.sentinel_login.password = Some(value),
                "ca" => options.tls.ca = Some(value.into()),
                "cert" => options.tls.cert = Some(value.into()),
                "key" => options.tls.key = Some(value.into()),
                _ => {
                    let known = "db, user, password, sentinel_user, sentinel_password, ca, cert, key";
                    return wrong(format!("unknown option `{name}`; expected one of {known}"));
                }
            }
        }
        Ok(options)
    }

    fn database(&self, path: &str) -> Result<u32, UrlError> {
        let path = path.trim_end_matches('/');
        if path.is_empty() { Ok(self.database.unwrap_or(0)) } else { read_database(path) }
    }
}

fn read_database(text: &str) -> Result<u32, UrlError> {
    let number = text.parse().ok().filter(|number| *number <= DATABASE_MAX);
    number.ok_or_else(|| UrlError(format!("`{text}` is not a database number")))
}

fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high << 4 | low) as u8),
            _ => return wrong("a % is not followed by two hexadecimal digits"),
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError("something in the URL is not UTF-8".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    #[test]
    fn every_kind_of_store_is_read() {
        let one = StoreUrl::parse("redis://me:p%40ss@cache:6380/3").unwrap();
        assert_eq!((one.layout, one.servers, one.database), (Layout::One, vec![tcp("cache", 6380)], 3));
        assert_eq!(one.login, Login { user: Some("me".into()), password: Some("p@ss".into()) });
        assert_eq!(StoreUrl::parse("redis://localhost").unwrap().servers, [tcp("localhost", 6379)]);
        assert_eq!(StoreUrl::parse("redis://[::1]:7000").unwrap().servers, [tcp("::1", 7000)]);
        assert!(StoreUrl::parse("rediss://h?ca=/etc/ca.pem").unwrap().tls.unwrap().ca.is_some());
        let unix = StoreUrl::parse("unix:///run/redis.sock?db=2&password=x").unwrap();
        assert_eq!(unix.servers, [Address::Unix("/run/redis.sock".into())]);
        assert_eq!((unix.database, unix.login.password.as_deref()), (2, Some("x")));
        let sentinel = StoreUrl::parse("redis+sentinel://:pw@a,b:7/mymaster/1").unwrap();
        assert_eq!(sentinel.layout, Layout::Sentinel { primary: "mymaster".into() });
        assert_eq!((sentinel.servers, sentinel.database), (vec![tcp("a", 26_379), tcp("b", 7)], 1));
        assert_eq!(StoreUrl::parse("rediss+cluster://a,b").unwrap().layout, Layout::Cluster);
        assert_eq!(StoreUrl::parse("redis+ring://a,b,c").unwrap().servers.len(), 3);
    }

    #[test]
    fn mistakes_are_told_in_words_and_without_secrets() {
        for (url, words) in [
            ("redis", "expected a URL"),
            ("mongo://x", "not a store"),
            ("redis://a,b", "one server"),
            ("redis://user:hunter2@host:port", "not HOST:PORT"),
            ("redis+sentinel://a", "primary's name"),
            ("redis+cluster://a/1", "database 0"),
            ("redis://h?ca=x", "rediss://"),
            ("rediss://h?cert=x", "go together"),
            ("redis://h?colour=red", "unknown option"),
            ("redis://h/many", "database number"),
            ("unix://run", "absolute path"),
            ("redis://h?db=%zz", "hexadecimal"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().0;
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let login = StoreUrl::parse("redis://u:hunter2@h").unwrap();
        assert!(!format!("{login:?}").contains("hunter2"));
    }
}
