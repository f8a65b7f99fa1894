//! Messages as gRPC frames them: a byte that says whether it is compressed, four of length, the message.

use super::code::Code;
use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use std::task::Poll;
use std::time::Duration;

pub(crate) const FRAME_HEAD_BYTES: usize = 5;
/// The longest message read. Envoy sends nothing near it, whatever its clients send to Envoy.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Why there is no message.
#[derive(Debug)]
pub(crate) enum NoMessage {
    /// The client sent all it had, or is gone.
    End,
    Wrong(Code, &'static str),
}

/// Reads the messages of a call, one by one.
pub(crate) struct Frames {
    body: RecvStream,
    rest: BytesMut,
    /// For each message to come whole.
    timeout: Duration,
}

impl Frames {
    pub fn new(body: RecvStream, timeout: Duration) -> Self {
        Self { body, rest: BytesMut::new(), timeout }
    }

    #[inline]
    pub async fn next(&mut self) -> Result<Bytes, NoMessage> {
        // Most often all of it is there already, and in one piece.
        if self.rest.is_empty() {
            let chunk = std::future::poll_fn(|task| Poll::Ready(self.body.poll_data(task))).await;
            match chunk {
                Poll::Ready(Some(Ok(chunk))) => {
                    self.release(chunk.len());
                    if let Some(message) = whole(&chunk)? {
                        return Ok(message);
                    }
                    self.rest.extend_from_slice(&chunk);
                }
                Poll::Ready(_) => return Err(NoMessage::End),
                Poll::Pending => {}
            }
        }
        let timeout = self.timeout;
        match tokio::time::timeout(timeout, self.gather()).await {
            Ok(read) => read,
            Err(_) => Err(NoMessage::Wrong(Code::DeadlineExceeded, "the message did not come whole in time")),
        }
    }

    async fn gather(&mut self) -> Result<Bytes, NoMessage> {
        loop {
            if let Some(len) = message_len(&self.rest)?
                && self.rest.len() >= FRAME_HEAD_BYTES + len
            {
                self.rest.advance(FRAME_HEAD_BYTES);
                return Ok(self.rest.split_to(len).freeze());
            }
            match self.body.data().await {
                Some(Ok(chunk)) => {
                    self.release(chunk.len());
                    self.rest.extend_from_slice(&chunk);
                }
                _ if self.rest.is_empty() => return Err(NoMessage::End),
                _ => return Err(NoMessage::Wrong(Code::InvalidArgument, "the message was cut short")),
            }
        }
    }

    /// Lets the client send as much again.
    fn release(&mut self, bytes: usize) {
        let _ = self.body.flow_control().release_capacity(bytes); // A stream that ended needs no more.
    }
}

/// The message if the chunk is just that.
#[inline]
fn whole(chunk: &Bytes) -> Result<Option<Bytes>, NoMessage> {
    let is_whole = message_len(chunk)?.is_some_and(|len| chunk.len() == FRAME_HEAD_BYTES + len);
    Ok(is_whole.then(|| chunk.slice(FRAME_HEAD_BYTES..)))
}

/// None until the head of a frame has come.
#[inline]
fn message_len(bytes: &[u8]) -> Result<Option<usize>, NoMessage> {
    let [flag, a, b, c, d, ..] = *bytes else { return Ok(None) };
    if flag != 0 {
        return Err(NoMessage::Wrong(Code::Unimplemented, "compressed messages are not read; send them as they are"));
    }
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    if len > MESSAGE_BYTES_MAX {
        return Err(NoMessage::Wrong(Code::ResourceExhausted, "a message may have at most 1 MiB"));
    }
    Ok(Some(len))
}

/// A frame around what `write` writes.
#[inline]
pub(crate) fn framed(capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(FRAME_HEAD_BYTES + capacity);
    out.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
    write(&mut out);
    let len = (out.len() - FRAME_HEAD_BYTES) as u32;
    out[1..FRAME_HEAD_BYTES].copy_from_slice(&len.to_be_bytes());
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_told_from_its_head() {
        let frame = framed(8, |out| out.extend_from_slice(b"message"));
        assert_eq!(&frame[..], b"\0\0\0\0\x07message");
        assert_eq!(whole(&frame).unwrap().unwrap(), &b"message"[..]);
        assert!(whole(&frame.slice(..9)).unwrap().is_none());
        assert!(message_len(b"\0\0\0\0").unwrap().is_none());
    }

    #[test]
    fn what_is_compressed_or_too_long_is_told_so() {
        let code = |bytes: &[u8]| match message_len(bytes) {
            Err(NoMessage::Wrong(code, _)) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(b"\x01\0\0\0\x01x"), Code::Unimplemented);
        assert_eq!(code(b"\0\xff\xff\xff\xff"), Code::ResourceExhausted);
    }
}
