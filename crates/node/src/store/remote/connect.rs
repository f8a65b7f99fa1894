//! Sockets to a server, for threads that wait and for tasks that do not.

use super::greeting::{ConnectError, Greeting, hello, read_hello, read_scripts, scripts};
use super::resp::{NotResp, Reply, read_reply};
use super::url::{Address, Login, TlsOptions};
use crate::certificates::{authorities_or_systems, certificates, told};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How to reach one server and what to say first.
#[derive(Clone)]
pub struct Target {
    pub address: Address,
    pub login: Login,
    pub database: u32,
    pub tls: Option<Arc<ClientConfig>>,
}

pub trait BlockingStream: Read + Write + Send {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl BlockingStream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl BlockingStream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl BlockingStream for StreamOwned<ClientConnection, TcpStream> {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.sock.set_timeout(timeout)
    }
}

pub trait TaskStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> TaskStream for T {}

/// What TLS connections go by.
pub fn tls_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, String> {
    let roots = authorities_or_systems(options.ca.as_deref())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| told(key, &error))?;
            builder.with_client_auth_cert(certificates(cert)?, private).map_err(|error| told(cert, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// A connection a thread waits on, greeted.
pub fn connect_blocking(
    target: &Target,
    deadline: Instant,
) -> Result<(Box<dyn BlockingStream>, Greeting), ConnectError> {
    let mut stream = dial_blocking(target, deadline)?;
    let (bytes, count) = hello(&target.login, target.database);
    let read = |replies: &[Reply<'_>]| read_hello(&target.login, target.database, replies);
    let mut greeting = exchange_blocking(&mut *stream, &bytes, count, deadline, read)?;
    let (bytes, count) = scripts();
    let read = |replies: &[Reply<'_>]| read_scripts(&mut greeting, replies);
    exchange_blocking(&mut *stream, &bytes, count, deadline, read)?;
    Ok((stream, greeting))
}

/// Sends commands and reads their replies.
fn exchange_blocking<T>(
    stream: &mut dyn BlockingStream,
    bytes: &[u8],
    count: usize,
    deadline: Instant,
    read: impl FnOnce(&[Reply<'_>]) -> Result<T, ConnectError>,
) -> Result<T, ConnectError> {
    set_deadline(stream, deadline).map_err(connect_error)?;
    stream.write_all(bytes).map_err(connect_error)?;
    stream.flush().map_err(connect_error)?;
    let mut input = Vec::new();
    loop {
        set_deadline(stream, deadline).map_err(connect_error)?;
        if read_more(stream, &mut input).map_err(connect_error)? == 0 {
            return Err(connect_error(closed()));
        }
        if let Some(replies) = all_replies(&input, count)? {
            return read(&replies);
        }
    }
}

pub fn dial_blocking(target: &Target, deadline: Instant) -> Result<Box<dyn BlockingStream>, ConnectError> {
    let stream = match &target.address {
        Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).map_err(connect_error)?)),
        Address::Tcp { host, port } => {
            let mut last = None;
            let addresses = (host.as_str(), *port).to_socket_addrs().map_err(connect_error)?;
            let connected = addresses.into_iter().find_map(|address| {
                TcpStream::connect_timeout(&address, left(deadline)).map_err(|error| last = Some(error)).ok()
            });
            connected.ok_or_else(|| connect_error(last.unwrap_or_else(closed)))?
        }
    };
    stream.set_nodelay(true).map_err(connect_error)?;
    let Some(config) = &target.tls else { return Ok(Box::new(stream)) };
    let session = ClientConnection::new(config.clone(), server_name(&target.address)?);
    let session = session.map_err(|error| ConnectError::Rejected(error.to_string()))?;
    Ok(Box::new(StreamOwned::new(session, stream)))
}

/// A connection for a task, greeted.
pub async fn connect(target: &Target) -> Result<(Box<dyn TaskStream>, Greeting), ConnectError> {
    let mut stream = dial(target).await?;
    let (bytes, count) = hello(&target.login, target.database);
    let read = |replies: &[Reply<'_>]| read_hello(&target.login, target.database, replies);
    let mut greeting = exchange(&mut *stream, &bytes, count, read).await?;
    let (bytes, count) = scripts();
    let read = |replies: &[Reply<'_>]| read_scripts(&mut greeting, replies);
    exchange(&mut *stream, &bytes, count, read).await?;
    Ok((stream, greeting))
}

async fn exchange<T>(
    stream: &mut dyn TaskStream,
    bytes: &[u8],
    count: usize,
    read: impl FnOnce(&[Reply<'_>]) -> Result<T, ConnectError>,
) -> Result<T, ConnectError> {
    stream.write_all(bytes).await.map_err(connect_error)?;
    stream.flush().await.map_err(connect_error)?;
    let mut input = Vec::with_capacity(16 * 1024);
    loop {
        if stream.read_buf(&mut input).await.map_err(connect_error)? == 0 {
            return Err(connect_error(closed()));
        }
        if let Some(replies) = all_replies(&input, count)? {
            return read(&replies);
        }
    }
}

pub async fn dial(target: &Target) -> Result<Box<dyn TaskStream>, ConnectError> {
    let stream = match &target.address {
        Address::Unix(path) => {
            return Ok(Box::new(tokio::net::UnixStream::connect(path).await.map_err(connect_error)?));
        }
        Address::Tcp { host, port } => {
            tokio::net::TcpStream::connect((host.as_str(), *port)).await.map_err(connect_error)?
        }
    };
    stream.set_nodelay(true).map_err(connect_error)?;
    let Some(config) = &target.tls else { return Ok(Box::new(stream)) };
    let connector = tokio_rustls::TlsConnector::from(config.clone());
    let stream = connector.connect(server_name(&target.address)?, stream).await;
    Ok(Box::new(stream.map_err(connect_error)?))
}

fn server_name(address: &Address) -> Result<ServerName<'static>, ConnectError> {
    let host = match address {
        Address::Tcp { host, .. } => host.clone(),
        Address::Unix(_) => String::from("localhost"),
    };
    ServerName::try_from(host).map_err(|error| ConnectError::Rejected(error.to_string()))
}

/// So many replies; none while some are still to come.
fn all_replies(input: &[u8], count: usize) -> Result<Option<Vec<Reply<'_>>>, ConnectError> {
    let mut replies: Vec<Reply<'_>> = Vec::with_capacity(count);
    let mut at = 0;
    while replies.len() < count {
        match read_reply(&input[at..]).map_err(not_resp)? {
            Some((reply, len)) => {
                replies.push(reply);
                at += len;
            }
            None => return Ok(None),
        }
    }
    Ok(Some(replies))
}

fn not_resp(error: NotResp) -> ConnectError {
    ConnectError::Rejected(format!("this is not a Redis or Valkey server: {error}"))
}

pub fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_micros(1))
}

pub fn set_deadline(stream: &dyn BlockingStream, deadline: Instant) -> io::Result<()> {
    if Instant::now() >= deadline {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_timeout(left(deadline))
}

/// Reads what there is; 0 at the end.
pub fn read_more(stream: &mut dyn BlockingStream, input: &mut Vec<u8>) -> io::Result<usize> {
    const CHUNK_BYTES: usize = 16 * 1024;
    let start = input.len();
    input.resize(start + CHUNK_BYTES, 0);
    let count = stream.read(&mut input[start..]);
    input.truncate(start + *count.as_ref().unwrap_or(&0));
    count
}

pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")
}

/// An I/O error in our terms.
pub fn connect_error(error: io::Error) -> ConnectError {
    let kind = error.kind();
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return ConnectError::Rejected(format!("TLS: {tls}"));
    }
    match kind {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ConnectError::Refused(error.to_string()),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            ConnectError::Unreachable("it did not answer in time".into())
        }
        _ => ConnectError::Unreachable(error.to_string()),
    }
}
