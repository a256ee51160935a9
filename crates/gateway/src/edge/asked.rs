//! What was asked over a connection and handed over to nobody. HTTP/1.1 ends the connection of what it cannot read. HTTP/2 answers
//! a head that is too large, or none at all, on its stream and goes on: so each head that came whole is counted as it is read, and
//! each request that is handed over; what is between is told of, however the library ended it.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Is told of a request that HTTP itself refuses before anybody could read it.
pub type OnUnparsable = dyn Fn(IpAddr) + Send + Sync;

/// The requests of one connection.
pub(super) struct Asked {
    address: IpAddr,
    tell: Option<Arc<OnUnparsable>>,
    heads: AtomicU64,
    /// Handed over, or told of.
    settled: AtomicU64,
    /// Not settled when somebody looked last: the library has had its time with these.
    due: AtomicU64,
}

impl Asked {
    pub(super) fn of(address: IpAddr, tell: Option<Arc<OnUnparsable>>) -> Arc<Self> {
        Arc::new(Self {
            address,
            tell,
            heads: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            due: AtomicU64::new(0),
        })
    }

    /// A request is handed over.
    pub(super) fn hand_over(&self) {
        self.settled.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells of what was open at the last look already.
    pub(super) fn look(&self) {
        let open = self.open();
        let overdue = open.min(self.due.swap(open, Ordering::AcqRel));
        self.tell(overdue);
    }

    /// The connection has ended; of what HTTP/1.1 could not read, no head was counted.
    pub(super) fn end(&self, is_unreadable: bool) {
        self.tell(self.open() + u64::from(is_unreadable));
    }

    /// HTTP/1.1 counts no heads.
    fn open(&self) -> u64 {
        let heads = self.heads.load(Ordering::Acquire);
        heads.saturating_sub(self.settled.load(Ordering::Acquire))
    }

    fn tell(&self, count: u64) {
        self.settled.fetch_add(count, Ordering::AcqRel);
        if let Some(tell) = &self.tell {
            (0..count).for_each(|_| tell(self.address));
        }
    }
}

/// A connection whose heads are counted while it is read.
pub(super) struct Counted<S> {
    stream: S,
    frames: Frames,
    asked: Arc<Asked>,
}

impl<S> Counted<S> {
    pub(super) fn of(stream: S, asked: Arc<Asked>) -> Self {
        let frames = Frames::default();
        Self { stream, frames, asked }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buf);
        let heads = self.frames.heads_in(buf.filled().get(before..).unwrap_or_default());
        if heads > 0 {
            self.asked.heads.fetch_add(heads, Ordering::AcqRel);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// How a connection of HTTP/2 begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags and stream.
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Where in the frames of HTTP/2 a reader is.
#[derive(Default)]
struct Frames {
    at: At,
    /// The last stream that a client has begun; trailers are of an older one.
    newest: u32,
    /// The head of the newest stream goes on in the next frame.
    goes_on: bool,
}

enum At {
    /// So many bytes of the preface were there.
    Preface(usize),
    /// So many bytes of a frame's header.
    Header([u8; FRAME_HEADER], usize),
    /// So many bytes are left of a frame.
    Payload(usize),
    /// It is HTTP/1.1.
    Elsewhere,
}

impl Default for At {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl Frames {
    /// How many heads of requests end within these bytes, which follow those of the last call.
    fn heads_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut heads = 0;
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.at {
                At::Elsewhere => return 0,
                At::Preface(seen) => {
                    let is_so = PREFACE.get(*seen) == Some(first);
                    self.at = match *seen + 1 {
                        _ if !is_so => At::Elsewhere,
                        seen if seen == PREFACE.len() => At::Header([0; FRAME_HEADER], 0),
                        seen => At::Preface(seen),
                    };
                    bytes = rest;
                }
                At::Header(header, have) => {
                    if let Some(place) = header.get_mut(*have) {
                        *place = *first;
                    }
                    *have += 1;
                    bytes = rest;
                    if *have == FRAME_HEADER {
                        let header = *header;
                        heads += u64::from(self.ends_a_head(header));
                        self.at = match length(header) {
                            0 => At::Header([0; FRAME_HEADER], 0),
                            length => At::Payload(length),
                        };
                    }
                }
                At::Payload(left) => {
                    let taken = bytes.len().min(*left);
                    *left -= taken;
                    bytes = bytes.get(taken..).unwrap_or_default();
                    if *left == 0 {
                        self.at = At::Header([0; FRAME_HEADER], 0);
                    }
                }
            }
        }
        heads
    }

    fn ends_a_head(&mut self, [_, _, _, kind, flags, stream @ ..]: [u8; FRAME_HEADER]) -> bool {
        let stream = u32::from_be_bytes(stream) & 0x7FFF_FFFF;
        let is_of_head = match kind {
            HEADERS => stream > self.newest,
            CONTINUATION => self.goes_on && stream == self.newest,
            _ => return false,
        };
        if is_of_head {
            self.newest = stream;
        }
        let ends = flags & END_HEADERS != 0;
        self.goes_on = is_of_head && !ends;
        is_of_head && ends
    }
}

fn length([one, two, three, ..]: [u8; FRAME_HEADER]) -> usize {
    u32::from_be_bytes([0, one, two, three]) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).expect("short").to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(vec![b'x'; payload]);
        frame
    }

    #[test]
    fn each_head_is_counted_once_however_it_is_cut() {
        let frames = [
            (frame(4, 0, 0, 18), 0),
            (frame(HEADERS, END_HEADERS, 1, 30), 1),
            (frame(0, 1, 1, 500), 0),
            (frame(HEADERS, END_HEADERS, 1, 9), 0),
            (frame(HEADERS, 0, 3, 16_384), 0),
            (frame(CONTINUATION, 0, 3, 16_384), 0),
            (frame(CONTINUATION, END_HEADERS, 3, 0), 1),
            (frame(CONTINUATION, END_HEADERS, 3, 7), 0),
            (frame(3, 0, 3, 4), 0),
            (frame(HEADERS, END_HEADERS, 0x8000_0005, 1), 1),
        ];
        let wanted: u64 = frames.iter().map(|(_, heads)| heads).sum();
        let all: Vec<u8> = PREFACE
            .iter()
            .copied()
            .chain(frames.iter().flat_map(|(frame, _)| frame.clone()))
            .collect();
        for piece in [1, 2, 9, 10, 1_000, all.len()] {
            let mut reader = Frames::default();
            let found: u64 = all.chunks(piece).map(|bytes| reader.heads_in(bytes)).sum();
            assert_eq!(found, wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn nothing_is_counted_in_http_1_1() {
        let mut reader = Frames::default();
        for bytes in ["PRI", "NT / HTTP/1.1\r\n\r\n", "\0\0\0\x01\x04\0\0\0\x01"] {
            assert_eq!(reader.heads_in(bytes.as_bytes()), 0);
        }
        let all = [b"GET ", frame(HEADERS, END_HEADERS, 1, 0).as_slice()].concat();
        assert_eq!(Frames::default().heads_in(&all), 0);
    }

    #[test]
    fn what_was_handed_over_to_nobody_is_told_once_and_not_before_the_second_look() {
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        let tell: Arc<OnUnparsable> = Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let asked = Asked::of(IpAddr::from([127, 0, 0, 1]), Some(tell));
        let told = || told.load(Ordering::Relaxed);
        asked.heads.fetch_add(3, Ordering::Relaxed);
        asked.hand_over();
        asked.look();
        assert_eq!(told(), 0, "they may still be handed over");
        asked.hand_over();
        asked.look();
        assert_eq!(told(), 1);
        asked.look();
        asked.end(false);
        assert_eq!(told(), 1);
        asked.heads.fetch_add(1, Ordering::Relaxed);
        asked.end(true);
        assert_eq!(told(), 3);
    }
}
