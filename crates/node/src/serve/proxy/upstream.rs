//! The upstreams there are, and which of them a path belongs to.

use crate::certificates::authorities_or_systems;
use headgate_core::path::normalise;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Upstreams one node may have.
const UPSTREAMS_MAX: usize = 64;

pub(crate) struct Upstream {
    /// As it was written, for logs and metrics.
    pub name: String,
    /// `/`, or `/api` without a slash at its end.
    prefix: String,
    pub place: Place,
    pub speaks: Speaks,
}

pub(crate) enum Place {
    Tcp(String, u16),
    Unix(PathBuf),
}

pub(crate) enum Speaks {
    Http1,
    /// HTTP/1.1 under TLS, to whoever shows a certificate of this name.
    Tls(ServerName<'static>, Arc<ClientConfig>),
    /// HTTP/2 without being asked.
    Http2,
}

pub(crate) struct Upstreams {
    /// The longest prefixes first.
    pub all: Box<[Upstream]>,
}

impl Upstreams {
    /// Reads `[PREFIX=]URL`, one an upstream; the error says which is wrong and why.
    pub fn parse(texts: &[String], ca: Option<&Path>) -> Result<Upstreams, String> {
        let mut tls = None;
        Self::read(texts, &mut || match &tls {
            Some(config) => Ok(Arc::clone(config)),
            None => Ok(tls.insert(tls_config(authorities_or_systems(ca)?)?).clone()),
        })
    }

    /// What is wrong with them, without a look at certificates.
    pub fn check(texts: &[String]) -> Result<(), String> {
        Self::read(texts, &mut || tls_config(RootCertStore::empty())).map(|_| ())
    }

    fn read(texts: &[String], tls: &mut dyn FnMut() -> Result<Arc<ClientConfig>, String>) -> Result<Upstreams, String> {
        if texts.len() > UPSTREAMS_MAX {
            return Err(format!("at most {UPSTREAMS_MAX} upstreams, not {}", texts.len()));
        }
        let mut all = Vec::new();
        for text in texts {
            let upstream = parse(text, tls).map_err(|why| format!("`{}`: {why}", shown(text)))?;
            if let Some(other) = all.iter().find(|other: &&Upstream| other.prefix == upstream.prefix) {
                return Err(format!("`{text}`: `{}` is for {} already", other.name, other.prefix));
            }
            all.push(upstream);
        }
        all.sort_by_key(|upstream| std::cmp::Reverse(upstream.prefix.len()));
        Ok(Upstreams { all: all.into() })
    }

    /// The position of the upstream that a path goes to.
    #[inline]
    pub fn find(&self, path: &str) -> Option<usize> {
        if let [only] = &*self.all
            && only.prefix == "/"
        {
            return Some(0);
        }
        let path = normalise(path);
        self.all.iter().position(|upstream| upstream.takes(&path))
    }
}

impl Upstream {
    fn takes(&self, path: &str) -> bool {
        let rest = if self.prefix == "/" { return true } else { path.strip_prefix(&*self.prefix) };
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// What HTTP/1.0 clients that name no host are taken to mean.
    pub fn host(&self) -> String {
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            Place::Tcp(host, port) => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_string(),
        }
    }
}

/// An upstream as it may be shown: what stands before an `@` might be a password.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((before, host)) => format!("{}…@{host}", before.split_once("//").map_or("", |(scheme, _)| scheme)),
        None => text.to_string(),
    }
}

fn parse(text: &str, tls: &mut dyn FnMut() -> Result<Arc<ClientConfig>, String>) -> Result<Upstream, String> {
    let (prefix, url) = match text.split_once('=') {
        Some((prefix, url)) if prefix.starts_with('/') => (prefix, url),
        _ => ("/", text),
    };
    let prefix = normalise(prefix);
    if prefix.contains(['?', '#', '{', '*']) {
        return Err("a prefix is a plain path such as `/api`".to_string());
    }
    let (scheme, rest) = url.split_once(':').ok_or(
        "expected http://HOST:PORT, https://HOST:PORT, h2c://HOST:PORT or unix:/path, maybe behind `/prefix=`",
    )?;
    let place = match scheme {
        "unix" => {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err("a Unix socket is named by its whole path, such as unix:/run/app.sock".to_string());
            }
            Place::Unix(PathBuf::from(path))
        }
        "http" | "h2c" => tcp(rest, 80)?,
        "https" => tcp(rest, 443)?,
        _ => return Err(format!("`{scheme}` is not known; expected http, https, h2c or unix")),
    };
    let speaks = match (scheme, &place) {
        ("h2c", _) => Speaks::Http2,
        ("https", Place::Tcp(host, _)) => {
            let name = ServerName::try_from(host.clone()).map_err(|_| format!("`{host}` is no name for TLS"))?;
            Speaks::Tls(name, tls()?)
        }
        _ => Speaks::Http1,
    };
    Ok(Upstream { name: text.to_string(), prefix: prefix.into_owned(), place, speaks })
}

fn tcp(rest: &str, default_port: u16) -> Result<Place, String> {
    let authority = rest.strip_prefix("//").ok_or("expected `//` behind the scheme")?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.contains('@') {
        return Err("an upstream takes no user or password".to_string());
    }
    if authority.contains(['/', '?', '#']) {
        return Err("an upstream has no path of its own: requests keep theirs".to_string());
    }
    let wrong_port = || "the port has to be a number from 1 to 65535".to_string();
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong_port)?)),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("it names no host".to_string());
    }
    let port = port.map_or(Ok(default_port), str::parse).ok().filter(|port| *port > 0).ok_or_else(wrong_port)?;
    Ok(Place::Tcp(host.to_string(), port))
}

fn tls_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str]) -> Result<Upstreams, String> {
        Upstreams::parse(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), None)
    }

    #[test]
    fn the_longest_prefix_of_whole_segments_wins() {
        let upstreams =
            parsed(&["http://a:1", "/api=http://b", "/api/v2/=unix:/run/c.sock", "/x=h2c://[::1]:5"]).unwrap();
        let name = |path| upstreams.find(path).map(|at| upstreams.all[at].host());
        assert_eq!(name("/").as_deref(), Some("a:1"));
        assert_eq!(name("/apis").as_deref(), Some("a:1"));
        assert_eq!(name("/api").as_deref(), Some("b:80"));
        assert_eq!(name("/api/v1").as_deref(), Some("b:80"));
        assert_eq!(name("/api/v2").as_deref(), Some("localhost"));
        assert_eq!(name("/api/v2/../v1").as_deref(), Some("b:80"));
        assert_eq!(name("/%61pi//v2/x").as_deref(), Some("localhost"));
        assert_eq!(name("/x/y").as_deref(), Some("[::1]:5"));
        assert_eq!(parsed(&["/api=http://b"]).unwrap().find("/other"), None);
    }

    #[test]
    fn what_is_no_upstream_is_explained() {
        for (text, why) in [
            ("127.0.0.1", "expected http://"),
            ("ftp://a", "not known"),
            ("http:/a", "`//`"),
            ("http://", "no host"),
            ("http://a:0", "port"),
            ("http://a:b", "port"),
            ("http://a/b", "no path"),
            ("http://u:p@a", "no user"),
            ("unix:app.sock", "whole path"),
            ("/a*=http://b", "plain path"),
        ] {
            let error = parsed(&[text]).map(|_| ()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("u:p"), "{error}");
        }
        assert!(parsed(&["/a=http://b", "/a/=http://c"]).is_err());
    }
}
