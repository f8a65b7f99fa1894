//! A whole server on real sockets, and a client that writes requests byte by byte.

mod bad_bodies;
mod bounds;
mod decisions;
mod lifecycle;
mod protocol;
mod routes;

use super::{Options, Server};
use crate::{Clock, Engine};
use headgate_core::rule_document::read_document;
use headgate_core::verdict::Path;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Far longer than anything here takes: a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Counts by user, 3 a minute, and everyone together, 100 a minute.
const RULES: &str = r#"{"rules": [
    {"name": "each-user", "by": "user", "limit": "3/minute", "group": "people"},
    {"name": "everyone", "by": "global", "limit": "100/minute"}
]}"#;

struct Running {
    server: Server,
    engine: Arc<Engine>,
    address: String,
}

fn local() -> Options {
    Options { listen: Some("127.0.0.1:0".into()), threads: 2, ..Options::default() }
}

/// A server that answers, under a clock that stands still.
fn running(options: Options) -> Running {
    let clock = Clock::Fake(Arc::new(AtomicU64::new(1_700_000_000_000_000)));
    let engine = Arc::new(Engine::new(crate::Options::default(), clock));
    engine.load(&read_document(RULES).unwrap()).unwrap();
    let server = Server::bind(engine.clone(), options).unwrap();
    server.start().unwrap();
    let address = server.addresses()[0].1.clone();
    Running { server, engine, address }
}

impl Running {
    fn connect(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream, unread: Vec::new() }
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        let mut client = self.connect();
        client.post(path, body);
        client.reply()
    }

    fn get(&self, path: &str) -> Reply {
        let mut client = self.connect();
        client.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        client.reply()
    }

    /// Decisions made so far, and counters they left.
    fn counted(&self) -> (u64, usize) {
        let both = |path| self.engine.counters.by_path(path, true) + self.engine.counters.by_path(path, false);
        (Path::ALL.into_iter().map(both).sum(), self.engine.occupancy().keys)
    }
}

struct Client<S> {
    stream: S,
    unread: Vec<u8>,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client<TcpStream> {
    fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

impl<S: Read + Write> Client<S> {
    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn post(&mut self, path: &str, body: &str) {
        let len = body.len();
        self.send(&format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\n\r\n{body}"));
    }

    fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.unread.split_off(end + 4);
                return String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap();
            }
            assert!(self.read_more(), "the connection ended within a reply: {:?}", self.unread);
        }
    }

    fn reply(&mut self) -> Reply {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { status, head, body: String::new() };
        let len: usize = reply.header("content-length").map_or(0, |len| len.parse().unwrap());
        while self.unread.len() < len {
            assert!(self.read_more(), "the connection ended within a body");
        }
        let rest = self.unread.split_off(len);
        reply.body = String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap();
        reply
    }

    /// False at the end of the connection.
    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        match self.stream.read(&mut bytes) {
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for the end, which must come without another byte.
    fn assert_closed(mut self) {
        assert!(!self.read_more() && self.unread.is_empty(), "unexpected bytes: {:?}", self.unread);
    }
}
