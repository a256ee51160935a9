//! The way to a process: one message a line, whole or not at all, whoever stops waiting.

use std::sync::Mutex;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use vocabulary::{Secret, lock};

use crate::credentials::UpstreamCredential;
use crate::failure::Failure;

/// Messages that wait for a process that does not read; then senders wait.
const BACKLOG: usize = 64;

/// See the module. Dropped, it closes the process's input.
pub(crate) struct Pipe {
    lines: mpsc::Sender<Bytes>,
    /// Dropped with the pipe or before: whoever attends the process learns that nobody needs it.
    needed: Mutex<Option<oneshot::Sender<()>>>,
    /// What the process was started with: it has that already, whoever speaks to it.
    handed: Secret,
}

/// Completes when nobody needs the process any more.
pub(crate) type Unneeded = oneshot::Receiver<()>;

impl Pipe {
    pub(crate) fn into(stdin: pipe::Sender, handed: Secret) -> (Self, Unneeded) {
        let (lines, queue) = mpsc::channel(BACKLOG);
        let (needed, unneeded) = oneshot::channel();
        tokio::spawn(write(stdin, queue));
        let pipe = Self {
            lines,
            needed: Mutex::new(Some(needed)),
            handed,
        };
        (pipe, unneeded)
    }

    /// Says that nobody needs the process any more.
    pub(crate) fn let_go(&self) {
        drop(lock(&self.needed).take());
    }

    /// Hands a message over, the one way to a process: neither it nor what the process was started with holds the credential that
    /// it leaves on behalf of. It is written whole even if the caller does not wait for it.
    pub(crate) async fn write(&self, message: Bytes, credential: &UpstreamCredential) -> Result<(), Failure> {
        credential.clear(&message, self.handed.expose().as_bytes())?;
        let handed = self.lines.send(one_line(message)).await;
        handed.map_err(|_| Failure::Ended("does not read any more"))
    }
}

async fn write(mut stdin: pipe::Sender, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(line) = queue.recv().await {
        let written = async {
            stdin.write_all(&line).await?;
            stdin.write_all(b"\n").await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Line breaks between the tokens of a message become spaces; within its strings there are none.
pub(super) fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let flat = message.iter().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        other => *other,
    });
    flat.collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_otherwise_as_it_was() {
        let pretty = Bytes::from_static(b"{\r\n  \"a\": \"x\\ny\"\n}");
        assert_eq!(one_line(pretty), Bytes::from_static(b"{    \"a\": \"x\\ny\" }"));
        let flat = Bytes::from_static(b"{\"a\":1}");
        assert_eq!(one_line(flat.clone()).as_ptr(), flat.as_ptr(), "nothing is copied");
    }
}
