//! One HTTP/1 connection of a client to the gateway: requests in, to their upstreams, answers out.

use super::admit::{self, Admitted, Asking, Deciding, Told};
use super::body::Body;
use super::buffers::{Buffers, WAITING_BYTES};
use super::exchange::{End, Exchange, Receiving, SendState, Sending};
use super::failure::{Failure, counted, no_upstream};
use super::flow::Stall;
use super::request::{Forwarding, put_head, put_identity};
use super::response::Asked;
use super::scan::{Head, Scanned, scan};
use super::stream::{self, Connection as Upstream};
use super::tunnel;
use crate::serve::door::Origin;
use crate::serve::head::HEAD_BYTES_MAX;
use crate::serve::identified::Identified;
use crate::serve::peer::Peer;
use crate::serve::problem::Problem;
use crate::serve::reply_text::put_answer;
use crate::serve::router::{Reply, Route};
use crate::serve::shared::Shared;
use crate::serve::watch::{Phase, Watch};
use headgate_core::answer::LastPolicies;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How much is read of a client that was told to stop, so that it is listening when told.
const DISCARDED_BYTES_MAX: usize = 1024 * 1024;
/// A refused request's body that came with it is read over up to here, so that its client may stay.
const SKIPPED_BYTES_MAX: usize = 8 * 1024;

/// Serves a connection until it ends. `input` is what came of it already.
pub(crate) async fn serve<S>(stream: S, input: Vec<u8>, shared: Arc<Shared>, watch: Arc<Watch>, origin: Origin)
where
    S: Peer,
{
    let (buffers, limits) = (Buffers::new(input), Vec::new());
    let (last, stall) = (LastPolicies::default(), Stall::default());
    let mut connection = Connection { client: stream, shared, watch, origin, buffers, limits, last, stall };
    while connection.answer_next().await == Then::Next {}
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Next,
    Nothing,
}

struct Connection<S> {
    client: S,
    shared: Arc<Shared>,
    watch: Arc<Watch>,
    origin: Origin,
    buffers: Buffers,
    /// What the answer says of limits; the body of a refusal.
    limits: Vec<u8>,
    last: LastPolicies,
    stall: Stall,
}

impl<S: Peer> Connection<S> {
    async fn answer_next(&mut self) -> Then {
        self.limits.clear();
        let mut head = match self.next_head().await {
            Ok(Some(head)) => head,
            Ok(None) => return Then::Nothing,
            Err((status, what)) => return self.refuse(&Problem::new(status, what)).await,
        };
        // The connection sees to its own end from here.
        self.watch.enter(Phase::Calls);
        self.buffers.take(&self.watch.worker);
        // What came of the body is looked at before anybody is asked anything.
        let Ok(came) = head.body.take(&self.buffers.input[head.len..]) else { return self.refuse(&bad_body()).await };
        let who = match self.admitted(&head).await {
            Ok(Admitted::Passes(who)) => who,
            Ok(Admitted::Refused(reply)) => return self.answer(&head, came, &reply).await,
            Err(problem) => return self.refuse_request(&head, came, &problem).await,
        };
        let path = text(head.path.of(&self.buffers.input));
        let Some(at) = self.shared.upstreams.find(path) else {
            return self.refuse_request(&head, came, &no_upstream()).await;
        };
        let worker = self.watch.worker.clone();
        let mut upstream = match stream::connection(&self.shared, &worker, at).await {
            Ok(upstream) => upstream,
            Err(failure) => {
                let problem = counted(failure, &worker.upstreams[at]);
                return self.refuse_request(&head, came, &problem).await;
            }
        };
        self.write_head(&head, at, &who);
        self.buffers.up.bytes.extend_from_slice(&self.buffers.input[head.len..head.len + came]);
        self.buffers.input.drain(..head.len + came);
        self.buffers.said.clear();
        let mut exchange = Exchange {
            client: &mut self.client,
            upstream: &mut upstream.stream,
            buffers: &mut self.buffers,
            shared: &self.shared,
            worker: &worker,
            stall: &mut self.stall,
            asked: Asked { is_head: head.is_head, upgrades: head.upgrades, keeps_trailers: false },
            is_old: head.is_old,
            stays: head.keep_alive,
            limits: &self.limits,
            sending: Sending { body: std::mem::replace(&mut head.body, Body::Length(0)), state: SendState::Under },
            receiving: Receiving::Head { interims: 0 },
            status: 0,
        };
        let end = exchange.run().await;
        if end == End::Broken && exchange.lasts_until_close() {
            exchange.client.break_off();
        }
        let (status, has_sent) = (exchange.status, exchange.sending.state == SendState::Done);
        if status > 0 {
            worker.upstreams[at].count_response(status);
            worker.count_request(Route::Upstream, status);
        }
        self.end(&head, at, end, has_sent, upstream).await
    }

    /// What is left to do after an exchange.
    async fn end(&mut self, head: &Head, at: usize, end: End, has_sent: bool, mut upstream: Upstream) -> Then {
        let worker = self.watch.worker.clone();
        let failed = match end {
            End::Answered { keeps_client, keeps_upstream } => {
                if keeps_upstream {
                    stream::keep(&worker, upstream);
                }
                if !keeps_client {
                    return self.close(!has_sent || !self.buffers.input.is_empty()).await;
                }
                self.buffers.down.clear();
                return Then::Next;
            }
            End::Upgraded => {
                let Buffers { input, up, down, .. } = &mut self.buffers;
                up.clear();
                up.bytes.append(input);
                tunnel::run(&mut self.client, &mut upstream.stream, up, down, &worker, &mut self.stall).await;
                return Then::Nothing;
            }
            End::Broken => return Then::Nothing,
            End::BadBody => return self.refuse(&bad_body()).await,
            End::Stopped => {
                return self.refuse(&Problem::new(408, "the rest of the request did not come in time")).await;
            }
            End::Failed(failure) => failure,
        };
        drop(upstream);
        let problem = counted(failed, &worker.upstreams[at]);
        self.buffers.down.clear();
        // A client whose body was cut off does not know where it stands.
        if has_sent && head.keep_alive && failed != Failure::BadResponse {
            return self.answer_problem(head, &problem).await;
        }
        self.refuse(&problem).await
    }

    /// The next head, or none when the client is gone.
    async fn next_head(&mut self) -> Result<Option<Head>, super::scan::Wrong> {
        let mut looked_at = 0;
        // What came ahead of the last answer may be part of a head, for the rest of which nobody waits for ever.
        if !self.buffers.input.is_empty() {
            self.watch.enter(Phase::Head);
        }
        loop {
            let input = &self.buffers.input;
            // A head that drips in must not be read anew for each byte.
            if looked_at == 0 || ends_a_line(&input[looked_at..]) || input.len() >= HEAD_BYTES_MAX {
                match scan(input) {
                    Scanned::Whole(head) => return Ok(Some(head)),
                    Scanned::Wrong(wrong) => return Err(wrong),
                    Scanned::Part => {}
                }
            }
            looked_at = input.len();
            if !self.fill().await {
                return Ok(None);
            }
        }
    }

    /// Reads more; false at the end of the connection.
    async fn fill(&mut self) -> bool {
        let is_between = self.buffers.input.is_empty();
        if is_between {
            self.watch.enter(Phase::Idle);
            self.buffers.give_back(&self.watch.worker);
        }
        let input = &mut self.buffers.input;
        input.reserve(WAITING_BYTES);
        let came = matches!(self.client.read_buf(input).await, Ok(count) if count > 0);
        if is_between {
            self.watch.enter(Phase::Head);
        }
        came
    }

    async fn admitted(&mut self, head: &Head) -> Result<Admitted, Problem> {
        let bytes = &self.buffers.input[..head.len];
        let mut told = Told { lines: &mut self.limits, last: &mut self.last };
        let deciding = {
            let identity = self.shared.engine.identity();
            let mut asking = Asking::new(text(head.method.of(bytes)), text(head.path.of(bytes)));
            for field in &head.fields {
                asking.look(field.name.of(bytes), field.value.of(bytes), &identity)?;
            }
            admit::begin(&self.shared, self.origin, &asking, &mut told)?
        };
        match deciding {
            Deciding::Done(admitted) => Ok(admitted),
            Deciding::Waiting(waiting) => Ok(waiting.finish(&self.shared, &mut told).await),
        }
    }

    /// The request's head for its upstream, in the buffer that goes there.
    fn write_head(&mut self, head: &Head, at: usize, who: &Identified) {
        let bytes = &self.buffers.input[..head.len];
        let identity = self.shared.engine.identity();
        let mut forwarding = Forwarding::new(self.origin.peer, self.origin.is_tls, identity.trusted());
        forwarding.host = head.host.map(|host| host.of(bytes));
        self.buffers.up.clear();
        let out = &mut self.buffers.up.bytes;
        put_head(out, bytes, head, &mut forwarding, || self.shared.upstreams.all[at].host());
        forwarding.put(out);
        put_identity(out, who);
        out.extend_from_slice(b"\r\n");
    }

    /// Answers a request ourselves, reading over its body where that is at hand.
    async fn answer(&mut self, head: &Head, came: usize, reply: &Reply) -> Then {
        let is_whole = head.body.is_done() && came <= SKIPPED_BYTES_MAX;
        // Whoever waits to be told to send a body may send it all the same.
        let stays = is_whole && head.keep_alive && !self.shared.is_draining();
        self.put(reply, stays, head.is_old, !head.is_head);
        self.buffers.input.drain(..head.len + came);
        if !self.flush().await {
            return Then::Nothing;
        }
        if stays { Then::Next } else { self.close(!is_whole).await }
    }

    async fn refuse_request(&mut self, head: &Head, came: usize, problem: &Problem) -> Then {
        let reply = Reply::problem_after(problem, &mut self.limits);
        self.answer(head, came, &reply).await
    }

    /// The same for a request that was taken out of the input already.
    async fn answer_problem(&mut self, head: &Head, problem: &Problem) -> Then {
        let reply = Reply::problem_after(problem, &mut self.limits);
        let stays = !self.shared.is_draining();
        self.put(&reply, stays, head.is_old, !head.is_head);
        if self.flush().await && stays { Then::Next } else { Then::Nothing }
    }

    /// Tells a client what was wrong and closes.
    async fn refuse(&mut self, problem: &Problem) -> Then {
        let reply = Reply::problem_after(problem, &mut self.limits);
        self.put(&reply, false, false, true);
        if self.flush().await { self.close(true).await } else { Then::Nothing }
    }

    fn put(&mut self, reply: &Reply, stays: bool, is_old: bool, shows_body: bool) {
        let line = match (stays, is_old) {
            (false, _) => "connection: close\r\n",
            (true, true) => "connection: keep-alive\r\n",
            (true, false) => "",
        };
        self.buffers.down.clear();
        put_answer(&mut self.buffers.down.bytes, reply, line, &self.limits, shows_body);
        self.watch.worker.count_request(Route::Upstream, reply.status);
    }

    async fn flush(&mut self) -> bool {
        self.watch.enter(Phase::Answering);
        let is_sent = self.client.write_all(&self.buffers.down.bytes).await.is_ok();
        self.buffers.down.clear();
        is_sent && self.client.flush().await.is_ok()
    }

    /// Closing on unread bytes would take the answer away from a client that is still sending: its rest is read
    /// first. The sweep sees to it that this ends.
    async fn close(&mut self, is_sending: bool) -> Then {
        self.watch.enter(Phase::Answering);
        if self.client.shutdown().await.is_ok() && is_sending {
            let mut bytes = 0;
            let input = &mut self.buffers.input;
            while bytes < DISCARDED_BYTES_MAX {
                input.clear();
                match self.client.read_buf(input).await {
                    Ok(count) if count > 0 => bytes += count,
                    _ => break,
                }
            }
        }
        Then::Nothing
    }
}

fn bad_body() -> Problem {
    Problem::new(400, "the body has to be chunks as HTTP/1.1 has them, without extensions")
}

/// Methods and paths were found to be ASCII by the scanner.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// Whether a line may have ended among these bytes: before that, nothing can be made of them.
fn ends_a_line(bytes: &[u8]) -> bool {
    bytes.contains(&b'\n')
}
