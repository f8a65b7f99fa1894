//! Binding, starting, draining.

use super::super::{Options, Server};
use super::{Client, PATIENCE, local, running};
use crate::{Clock, Engine};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn engine() -> Arc<Engine> {
    Arc::new(Engine::new(crate::Options::default(), Clock::system()))
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("headgate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("node.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at_socket(folder: &Folder) -> Options {
    Options { uds: Some(folder.socket()), threads: 1, ..Options::default() }
}

#[test]
fn a_drained_server_finishes_what_is_under_way_and_closes_the_rest() {
    let node = running(local());
    let mut idle = node.connect();
    idle.post("/v1/check", "{}");
    assert_eq!(idle.reply().status, 200);
    let silent = node.connect();
    let mut busy = node.connect();
    busy.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n{\"user\":");
    let mut early = node.connect();
    early.send("GET /readyz HTTP/1.1\r\n");
    // Both are known to the server once it has answered someone after them.
    assert_eq!(node.get("/healthz").status, 200);
    std::thread::sleep(Duration::from_millis(50));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| node.server.drain(PATIENCE));
        idle.assert_closed();
        silent.assert_closed();
        busy.send("\"7\"}");
        let reply = busy.reply();
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        busy.assert_closed();
        early.send("host: x\r\n\r\n");
        let reply = early.reply();
        assert_eq!((reply.status, reply.json()["ready"].as_bool()), (503, Some(false)));
        early.assert_closed();
        assert!(drained.join().unwrap());
    });
    assert_eq!(TcpStream::connect(&node.address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(node.server.drain(Duration::ZERO), "draining twice is draining once");
    assert!(node.server.start().is_err());
}

#[test]
fn draining_is_cut_short_by_its_timeout() {
    let node = running(local());
    let mut busy = node.connect();
    busy.send("POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n{\"user\":");
    assert_eq!(node.get("/healthz").status, 200);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!node.server.drain(Duration::from_millis(20)));
    busy.assert_closed();
    assert_eq!(node.counted(), (0, 0));
}

#[test]
fn connections_taken_before_the_end_are_served() {
    let node = running(local());
    let mut clients: Vec<_> = (0..50).map(|_| node.connect()).collect();
    for client in &mut clients {
        client.post("/v1/check", "{}");
    }
    assert!(node.server.drain(PATIENCE));
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }
}

#[test]
fn a_server_that_never_started_ends_quietly() {
    let folder = Folder::new("unstarted");
    let server = Server::bind(engine(), at_socket(&folder)).unwrap();
    assert!(folder.socket().exists());
    assert!(server.drain(PATIENCE));
    drop(server);
    assert!(!folder.socket().exists());
}

#[test]
fn a_taken_address_is_named() {
    let node = running(local());
    let taken = Options { listen: Some(node.address.clone()), ..local() };
    let error = Server::bind(engine(), taken).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&node.address), "{error}");
    for wrong in ["nowhere", "127.0.0.1:99999", ""] {
        let error = Server::bind(engine(), Options { listen: Some(wrong.into()), ..local() }).err().unwrap();
        assert!(error.to_string().starts_with(&format!("cannot listen on {wrong}")), "{error}");
    }
    assert!(Server::bind(engine(), Options::default()).is_err());
}

#[test]
fn a_unix_socket_answers_to_its_group_and_is_gone_at_the_end() {
    let folder = Folder::new("socket");
    let server = Server::bind(engine(), at_socket(&folder)).unwrap();
    let mode = std::fs::metadata(folder.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert_eq!(server.addresses(), [("uds", format!("unix:{}", folder.socket().display()))]);
    server.start().unwrap();
    let stream = UnixStream::connect(folder.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = Client { stream, unread: Vec::new() };
    client.post("/v1/limit", r#"{"key":"a","limit":5,"window":60}"#);
    assert_eq!(client.reply().json()["remaining"], 4);
    assert!(server.drain(PATIENCE));
    client.assert_closed();
    assert!(!folder.socket().exists());
}

#[test]
fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
    let folder = Folder::new("stale");
    drop(UnixListener::bind(folder.socket()).unwrap());
    let server = Server::bind(engine(), at_socket(&folder)).unwrap();
    let error = Server::bind(engine(), at_socket(&folder)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains("node.sock: another process listens there"), "{error}");
    assert!(folder.socket().exists());
    drop(server);
    std::fs::write(folder.socket(), "precious").unwrap();
    assert!(Server::bind(engine(), at_socket(&folder)).err().unwrap().to_string().contains("no socket"));
    assert_eq!(std::fs::read(folder.socket()).unwrap(), b"precious");
}

#[test]
fn a_socket_that_a_successor_replaced_is_left_to_it() {
    let folder = Folder::new("successor");
    let server = Server::bind(engine(), at_socket(&folder)).unwrap();
    std::fs::remove_file(folder.socket()).unwrap();
    let successor = UnixListener::bind(folder.socket()).unwrap();
    drop(server);
    assert!(folder.socket().exists());
    drop(successor);
}

#[test]
fn connections_are_spread_over_the_workers() {
    let node = running(Options { threads: 4, ..local() });
    let clients: Vec<_> = (0..40).map(|_| node.connect()).collect();
    assert_eq!(node.get("/healthz").status, 200);
    let spread: Vec<usize> = node
        .server
        .shared
        .workers
        .iter()
        .map(|worker| worker.connections.load(std::sync::atomic::Ordering::Relaxed))
        .collect();
    assert!(spread.iter().all(|count| (9..=11).contains(count)), "{spread:?}");
    drop(clients);
}
