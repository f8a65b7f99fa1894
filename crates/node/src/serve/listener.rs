//! Where connections come in: TCP and Unix sockets.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections the kernel holds until they are accepted; it may hold fewer by its own setting.
const BACKLOG: u32 = 4_096;
/// Who may connect to a Unix socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on `HOST:PORT`.
    pub fn tcp(address: &str) -> io::Result<Listener> {
        let bound = address.to_socket_addrs().and_then(|addresses| {
            let mut failure = io::Error::new(ErrorKind::InvalidInput, "it names no address");
            for address in addresses {
                match listen_tcp(address) {
                    Ok(listener) => return Ok(Listener::Tcp(listener)),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        });
        bound.map_err(|error| told(&error, &format!("cannot listen on {address}")))
    }

    /// Listens on a Unix socket. A file left by a dead process is replaced, a living one's is not.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        let bound = make_way(path).and_then(|()| listen_unix(path));
        bound.map_err(|error| told(&error, &format!("cannot listen on unix:{}", path.display())))
    }

    /// What was bound, as it is written.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| String::new(), |at| at.to_string()),
            Listener::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// Makes it part of the runtime this is called in.
    pub fn register(self) -> io::Result<Registered> {
        Ok(match self {
            Listener::Tcp(listener) => Registered::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(listener, file) => Registered::Unix(tokio::net::UnixListener::from_std(listener)?, file),
        })
    }
}

/// A listener within a runtime.
#[derive(Debug)]
pub(crate) enum Registered {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, #[allow(dead_code, reason = "removes the file when dropped")] SocketFile),
}

impl Registered {
    /// The next connection, tied to no runtime (its worker is still to be chosen), and the address it comes from.
    pub async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Registered::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream.into_std()?), Some(peer.ip().to_canonical())))
            }
            Registered::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream.into_std()?), None))
            }
        }
    }
}

fn told(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The standard library's listener has a short backlog, and the runtime's wants a runtime to be born in.
fn in_runtime<T>(make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _guard = runtime.enter();
    make()
}

fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    in_runtime(|| {
        let socket = match address {
            SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
            SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)?.into_std()
    })
}

/// Nobody can connect between `bind` and `listen`, so nobody gets in before the mode is set.
fn listen_unix(path: &Path) -> io::Result<Listener> {
    in_runtime(|| {
        let socket = tokio::net::UnixSocket::new_stream()?;
        socket.bind(path)?;
        let file = SocketFile::of(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok(Listener::Unix(socket.listen(BACKLOG)?.into_std()?, file))
    })
}

fn make_way(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file of that name, and it is no socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// The file of a Unix socket, removed when its listener ends: by the process that made it, and only if it is still
/// the same file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    process: u32,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let made = fs::symlink_metadata(path)?;
        let process = std::process::id();
        Ok(Self { path: std::path::absolute(path)?, device: made.dev(), inode: made.ino(), process })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_same = |found: fs::Metadata| found.dev() == self.device && found.ino() == self.inode;
        if self.process == std::process::id() && fs::symlink_metadata(&self.path).is_ok_and(is_same) {
            // Nobody is left to tell; a file that stays is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}
