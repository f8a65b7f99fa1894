//! A connection of its own for threads that wait: whoever finds it free sends and receives on it by itself, without
//! handing the request to another thread and back.

use super::call::{Part, put_check};
use super::connect::{BlockingStream, Target, closed, connect_blocking, connect_error, dial_blocking, left, read_more};
use super::greeting::{ConnectError, Greeting};
use super::resp::{Reply, put_command, read_reply};
use super::scripts::{Verb, texts};
use super::shard::{Deliveries, Shard};
use crate::events::Kind;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub struct Lane {
    stream: Box<dyn BlockingStream>,
    pub greeting: Greeting,
    input: Vec<u8>,
    out: Vec<u8>,
    /// What the socket's own time-out is set to.
    allowed: Duration,
}

impl Lane {
    pub fn connect(target: &Target, deadline: Instant) -> Result<Lane, ConnectError> {
        let (stream, greeting) = connect_blocking(target, deadline)?;
        Ok(Lane {
            stream,
            greeting,
            input: Vec::with_capacity(16 * 1024),
            out: Vec::with_capacity(4 * 1024),
            allowed: Duration::ZERO,
        })
    }

    /// A connection to a sentinel, which knows neither databases nor scripts.
    pub fn bare(target: &Target, deadline: Instant) -> Result<Lane, ConnectError> {
        let stream = dial_blocking(target, deadline)?;
        let mut lane =
            Lane { stream, greeting: Greeting::default(), input: Vec::new(), out: Vec::new(), allowed: Duration::ZERO };
        if let Some(password) = &target.login.password {
            let user = target.login.user.as_deref().unwrap_or("default");
            let accepted = lane.command(&[b"AUTH", user.as_bytes(), password.as_bytes()], deadline, |reply| {
                matches!(reply, Reply::Simple(_))
            })?;
            if !accepted {
                return Err(ConnectError::Rejected("the sentinel's user name or password is wrong".into()));
            }
        }
        Ok(lane)
    }

    /// One command and what its reply is taken for.
    pub fn command<T>(
        &mut self,
        parts: &[&[u8]],
        deadline: Instant,
        read: impl FnOnce(&Reply<'_>) -> T,
    ) -> Result<T, ConnectError> {
        self.out.clear();
        put_command(&mut self.out, parts);
        self.exchange(deadline, read).map_err(connect_error)
    }

    /// Decides one request; gives what the server said if it would not. An error leaves the lane unusable: a reply may
    /// still be on its way.
    pub fn check(
        &mut self,
        part: &Part,
        shard: &Shard,
        given_now_us: u64,
        deadline: Instant,
    ) -> io::Result<Option<String>> {
        let verb = if part.is_peek() { Verb::Peek } else { Verb::Check };
        part.ticket.mark_sent(part.group);
        shard.stats.calls.fetch_add(1, Ordering::Relaxed);
        shard.stats.requests.fetch_add(1, Ordering::Relaxed);
        for attempt in 0..2 {
            self.out.clear();
            let sha = &self.greeting.shas[verb as usize];
            let plan = put_check(&mut self.out, sha, vec![part.clone()], given_now_us);
            let mut deliveries = Deliveries::default();
            let outcome = self.exchange(deadline, |reply| match reply {
                Reply::Error(error) => Ok(Err(String::from_utf8_lossy(error).into_owned())),
                reply => match plan.read(reply, |part, answers, at_us| deliveries.answer(part, &answers, at_us)) {
                    Ok(()) => Ok(Ok(())),
                    Err(_) => Err(io::Error::other("a reply that no script of ours gives")),
                },
            })??;
            match outcome {
                Ok(()) => {
                    shard.record(1, 0);
                    return Ok(None);
                }
                Err(error) if attempt == 0 && error.starts_with("NOSCRIPT") => {
                    self.reload(deadline)?;
                    shard.events.add(Kind::ScriptReloaded, &shard.name, "the server had lost its scripts");
                }
                Err(error) => return Ok(Some(error)),
            }
        }
        Ok(None)
    }

    fn reload(&mut self, deadline: Instant) -> io::Result<()> {
        for text in texts() {
            self.out.clear();
            put_command(&mut self.out, &[b"SCRIPT", b"LOAD", text.as_bytes()]);
            self.exchange(deadline, |_| ())?;
        }
        Ok(())
    }

    /// Sends what is in `out` and reads one reply.
    fn exchange<T>(&mut self, deadline: Instant, read: impl FnOnce(&Reply<'_>) -> T) -> io::Result<T> {
        self.allow(left(deadline))?;
        self.stream.write_all(&self.out)?;
        self.stream.flush()?;
        self.input.clear();
        loop {
            if read_more(&mut *self.stream, &mut self.input)? == 0 {
                return Err(closed());
            }
            let reply = read_reply(&self.input).map_err(|error| io::Error::other(error.to_string()))?;
            if let Some((reply, _)) = reply {
                return Ok(read(&reply));
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.allow(left(deadline))?;
        }
    }

    /// Lets the socket wait so long. Telling it costs a system call, so a fifth more or less is let be.
    fn allow(&mut self, time: Duration) -> io::Result<()> {
        if time > self.allowed || time < self.allowed * 4 / 5 {
            self.stream.set_timeout(time)?;
            self.allowed = time;
        }
        Ok(())
    }
}
