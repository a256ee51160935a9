//! From an open passage to bytes that flow: the last check, then both directions until one side or the clock ends it.

mod words;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::words::Words;
use crate::egress::Guest;
use crate::egress::dial::{Passage, STEP};
use crate::egress::hello::{self, Hello};
use crate::egress::http::{self, Form};
use crate::egress::record::{Event, Reason, Target};

/// A connection of the sandbox, with what it has said so far and how it came.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    pub(crate) said: Vec<u8>,
    pub(crate) event: Event,
    pub(crate) target: Target,
}

impl Caller {
    /// One that has said nothing yet.
    pub(crate) fn new(stream: TcpStream, event: Event, target: Target) -> Self {
        Self {
            stream,
            said: Vec::new(),
            event,
            target,
        }
    }
}

/// Carries a caller through a passage. TLS must name the host and plain HTTP is forwarded request by request; on ports 443 and
/// 80 nothing else is carried, on others anything else was allowed by its port alone.
pub(crate) async fn carry(guest: &Guest, mut caller: Caller, passage: Passage) {
    match passage.destination.port() {
        443 => match check_name(&mut caller, &passage).await {
            Ok(()) => pass(guest, caller, passage).await,
            Err(reason) => {
                guest.room.recorder.blocked(caller.event, caller.target, reason);
                reset(caller.stream);
            }
        },
        80 => http::relay(guest, caller, passage, Form::Origin).await,
        _ => carry_anything(guest, caller, passage).await,
    }
}

/// Carries a caller on a port that has no protocol of its own.
async fn carry_anything(guest: &Guest, mut caller: Caller, mut passage: Passage) {
    let recorder = &guest.room.recorder;
    let mut told = false;
    let heard = || {
        if !std::mem::replace(&mut told, true) {
            recorder.allowed(caller.event, caller.target.clone(), passage.reason);
        }
    };
    let near = (&mut caller.stream, &mut caller.said);
    let verdict = match words::listen(near, &mut passage.stream, heard).await {
        Ok(Words::Tls(Hello::For(host))) if host != *passage.destination.host() => Err(Reason::SniMismatch),
        Ok(Words::Tls(Hello::Misnamed)) => Err(Reason::SniMismatch),
        Ok(Words::Http) => match words::wants_upgrade(&mut caller.stream, &mut caller.said).await {
            // What follows is no HTTP any more; the request that leads there names the host once.
            Ok(Some(head)) if names(&head, &passage) => Ok(()),
            Ok(Some(_)) => Err(Reason::HostHeaderMismatch),
            Ok(None) => return http::relay(guest, caller, passage, Form::Origin).await,
            Err(reason) => Err(reason),
        },
        Ok(Words::Late) => Err(Reason::NotAProxyRequest),
        Ok(Words::Endless) => Err(Reason::HeaderTooLarge),
        Ok(Words::Short | Words::Tls(_) | Words::Other) => Ok(()),
        // Somebody has gone, or began and did not go on.
        Err(_) => return reset(caller.stream),
    };
    match verdict {
        Ok(()) if told => drop(join(caller.stream, caller.said, passage.stream, IDLE).await),
        Ok(()) => pass(guest, caller, passage).await,
        Err(reason) => {
            recorder.blocked(caller.event, caller.target, reason);
            reset(caller.stream);
        }
    }
}

fn names(head: &[u8], passage: &Passage) -> bool {
    words::only_host(head).is_some_and(|host| http::is_destination(host, &passage.destination))
}

/// Ends a connection so that the other side sees a failure, not an end.
pub(crate) fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}

async fn check_name(caller: &mut Caller, passage: &Passage) -> Result<(), Reason> {
    let reading = async {
        loop {
            let needed = match hello::read(&caller.said) {
                Hello::For(host) if host == *passage.destination.host() => return Ok(()),
                Hello::For(_) | Hello::Misnamed => return Err(Reason::SniMismatch),
                Hello::Nameless => return Err(Reason::TlsWithoutSni),
                Hello::NotTls => return Err(Reason::NotTlsOn443),
                Hello::Short(needed) => needed,
            };
            while caller.said.len() < needed {
                if !matches!(caller.stream.read_buf(&mut caller.said).await, Ok(1..)) {
                    return Err(Reason::NotTlsOn443);
                }
            }
        }
    };
    timeout(STEP, reading).await.unwrap_or(Err(Reason::NotTlsOn443))
}

async fn pass(guest: &Guest, caller: Caller, passage: Passage) {
    guest.room.recorder.allowed(caller.event, caller.target, passage.reason);
    let _ = join(caller.stream, caller.said, passage.stream, IDLE).await;
}

/// Sends what was said, then copies both ways; an end of one direction is passed on and the other goes on.
async fn join(near: TcpStream, said: Vec<u8>, mut far: TcpStream, idle: Duration) -> io::Result<()> {
    timeout(idle, far.write_all(&said)).await??;
    let (mut near, pulse) = Lively::new(near);
    tokio::select! {
        copied = copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER, BUFFER) => copied.map(|_| ()),
        () = pulse.stopped(idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A stream that shows whether anything moves on it.
pub(crate) struct Lively<S> {
    stream: S,
    moves: Arc<AtomicU64>,
}

/// Tells when nothing has moved on a [`Lively`] stream for a while.
pub(crate) struct Pulse(Arc<AtomicU64>);

impl<S> Lively<S> {
    pub(crate) fn new(stream: S) -> (Self, Pulse) {
        let moves = Arc::new(AtomicU64::new(0));
        let pulse = Pulse(moves.clone());
        (Self { stream, moves }, pulse)
    }

    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }
}

impl Pulse {
    /// Returns when nothing has moved for `idle` (and at most twice that).
    pub(crate) async fn stopped(&self, idle: Duration) {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(idle).await;
            let now = self.0.load(Ordering::Relaxed);
            if now == before {
                return;
            }
            before = now;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lively<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.moved();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lively<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.moved();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A tunnel on which nothing moves is closed.
pub(crate) const IDLE: Duration = Duration::from_secs(600);

/// Per direction; what the far side does not take stays in the sandbox.
const BUFFER: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (one, two) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (one.unwrap(), two.unwrap().0)
    }

    #[tokio::test]
    async fn an_idle_tunnel_is_closed() {
        let ((mut client, near), (far, _server)) = (pair().await, pair().await);
        let ended = join(near, Vec::new(), far, Duration::from_millis(50))
            .await
            .unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_tunnel_outlives_the_end_of_one_direction() {
        let ((mut client, near), (far, mut server)) = (pair().await, pair().await);
        let tunnel = tokio::spawn(join(near, b"first ".to_vec(), far, Duration::from_secs(5)));
        client.write_all(b"and last").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        server.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "first and last");
        server.write_all(b"answer").await.unwrap();
        drop(server);
        heard.clear();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "answer");
        tunnel.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_far_side_that_does_not_read_stops_the_sandbox_not_us() {
        let ((client, near), (far, _server)) = (pair().await, pair().await);
        let _tunnel = tokio::spawn(join(near, Vec::new(), far, Duration::from_secs(5)));
        let mut sent = 0_usize;
        let block = [0_u8; 65536];
        while let Ok(Ok(())) = timeout(Duration::from_millis(300), client.writable()).await {
            sent += client.try_write(&block).unwrap_or(0);
            assert!(sent < 64 << 20, "no backpressure");
        }
    }
}
