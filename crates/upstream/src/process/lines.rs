//! What a process says: one message a line, bounded. What is no message is skipped and noted.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use mcp::server::{self, ServerMessage};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::stderr::StderrLog;
use crate::caps::Caps;
use crate::failure::Failure;
use crate::session::multiplex::MessageSource;

/// The longest line, whatever else is configured.
const LONGEST_LINE: usize = 16 << 20;
/// Room for one read.
const PIECE: usize = 64 << 10;
const LARGEST_BATCH: usize = 1024;

/// See the module.
pub(crate) struct Lines<R = pipe::Receiver> {
    stdout: R,
    caps: Caps,
    stderr_log: StderrLog,
    buffer: BytesMut,
    /// What of the buffer is known to hold no line break.
    searched: usize,
    ready: VecDeque<Bytes>,
}

impl<R: tokio::io::AsyncRead + Unpin + Send> Lines<R> {
    pub(crate) fn of(stdout: R, caps: Caps, stderr_log: StderrLog) -> Self {
        Self {
            stdout,
            caps,
            stderr_log,
            buffer: BytesMut::new(),
            searched: 0,
            ready: VecDeque::new(),
        }
    }

    /// The next line that may be a message; `None` at the end.
    async fn next_line(&mut self) -> Result<Option<Bytes>, Failure> {
        let longest = LONGEST_LINE.min(self.caps.max_bytes);
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', fresh) {
                let line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                if line.len() > longest {
                    return Err(Failure::TooLarge);
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > longest {
                return Err(Failure::TooLarge);
            }
            self.buffer.reserve(PIECE);
            let read = self.stdout.read_buf(&mut self.buffer).await;
            if read.map_err(|error| Failure::Broken(Box::new(error)))? == 0 {
                return Ok(None);
            }
        }
    }

    /// Some servers print other things, and old ones print batches.
    fn sort(&mut self, line: &Bytes) {
        let text = line.trim_ascii();
        match text.first() {
            Some(b'{') => self.ready.push_back(line.slice_ref(text)),
            Some(b'[') => match mcp::envelope::split_batch(&line.slice_ref(text), self.caps.max_depth, LARGEST_BATCH) {
                Ok(batch) => self.ready.extend(batch),
                Err(_) => self.stderr_log.note("a line on its output that is no message"),
            },
            Some(_) => self.stderr_log.note("a line on its output that is no message"),
            None => {}
        }
    }
}

impl<R: tokio::io::AsyncRead + Unpin + Send + 'static> MessageSource for Lines<R> {
    async fn next(&mut self) -> Result<Option<ServerMessage>, Failure> {
        loop {
            while let Some(raw) = self.ready.pop_front() {
                match server::parse(&raw, self.caps.max_depth) {
                    Ok(message) => return Ok(Some(message)),
                    Err(_) => self.stderr_log.note("a line on its output that is no message"),
                }
            }
            match self.next_line().await? {
                Some(line) => self.sort(&line),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CAPS: Caps = Caps {
        timeout: Duration::from_secs(1),
        max_bytes: 1000,
        max_depth: 16,
    };

    async fn read(said: &'static [u8]) -> (Vec<String>, Option<Failure>) {
        let mut lines = Lines::of(said, CAPS, StderrLog::nowhere());
        let mut read_so_far = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(message)) => read_so_far.push(format!("{message:?}")),
                Ok(None) => return (read_so_far, None),
                Err(failure) => return (read_so_far, Some(failure)),
            }
        }
    }

    #[tokio::test]
    async fn messages_are_read_and_everything_else_is_skipped() {
        let said = b"starting up...\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\n{broken\n[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},{\"jsonrpc\":\"2.0\",\"method\":\"b\"}]\n{\"jsonrpc\":\"2.0\",\"method\":\"cut";
        let (read_so_far, failure) = read(said).await;
        assert_eq!(read_so_far.len(), 3, "{read_so_far:?}");
        assert!(failure.is_none(), "what was cut off never came");
    }

    #[tokio::test]
    async fn a_line_past_the_cap_ends_the_reading() {
        let long: &'static [u8] = Vec::leak([b"{".as_slice(), &[b' '; 2000], b"}\n"].concat());
        assert!(matches!(read(long).await, (read_so_far, Some(Failure::TooLarge)) if read_so_far.is_empty()));
        let endless: &'static [u8] = Vec::leak(vec![b'x'; 100_000]);
        assert!(matches!(read(endless).await, (_, Some(Failure::TooLarge))));
    }
}
