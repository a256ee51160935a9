//! The reader of what a process says, opened for the fuzzer and for the replay of what it kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mcp::server::ServerMessage;
use tokio::io::{AsyncRead, ReadBuf};

use super::lines::Lines;
use super::pipe;
use super::stderr::StderrLog;
use crate::caps::Caps;
use crate::session::multiplex::MessageSource as _;

/// The messages of a process that says `said`, at most `piece` bytes at a time; and whether it was ended for a line that was
/// too long.
#[must_use]
pub fn messages(said: &[u8], piece: usize, max_bytes: usize, max_depth: usize) -> (Vec<ServerMessage>, bool) {
    let caps = Caps {
        timeout: Duration::from_secs(1),
        max_bytes,
        max_depth,
    };
    let pieces = Pieces {
        said: Bytes::copy_from_slice(said),
        piece: piece.max(1),
    };
    let mut lines = Lines::of(pieces, caps, StderrLog::nowhere());
    let mut messages = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let next = std::pin::pin!(lines.next()).poll(&mut context);
        match next {
            Poll::Ready(Ok(Some(message))) => messages.push(message),
            Poll::Ready(Ok(None)) => return (messages, false),
            Poll::Ready(Err(_)) | Poll::Pending => return (messages, true),
        }
    }
}

/// A message as it is written to a process.
#[must_use]
pub fn one_line(message: Bytes) -> Bytes {
    pipe::one_line(message)
}

/// A process that says its words in pieces.
struct Pieces {
    said: Bytes,
    piece: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.said.len().min(self.piece).min(into.remaining());
        into.put_slice(&self.said.split_to(length));
        Poll::Ready(Ok(()))
    }
}
