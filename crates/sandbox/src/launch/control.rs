//! The socket between the gateway and its launcher: whole packets, with descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::ioctl_fionbio;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use zeroize::Zeroizing;

use super::orders::{Answer, LARGEST, MOST_DESCRIPTORS};
use crate::sys;

/// The gateway's end.
#[derive(Debug)]
pub(super) struct Control(AsyncFd<OwnedFd>);

impl Control {
    /// Our end, and the launcher's.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        ioctl_fionbio(&ours, true)?;
        Ok((Self(sys::watch(ours, Interest::READABLE | Interest::WRITABLE)?), theirs))
    }

    /// Sends one packet and gives the descriptors away.
    pub(super) async fn send(&self, packet: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        self.0
            .async_io(Interest::WRITABLE, |socket| send(socket, packet, &borrowed))
            .await
    }

    /// The launcher's next answer; `None` when its end is closed.
    pub(super) async fn receive(&self) -> io::Result<Option<(Answer, Vec<OwnedFd>)>> {
        let mut received = self.next().await;
        if received.as_ref().is_err_and(is_reset) {
            // Said once, if the other side closed without having read all we sent, and before what it had left us.
            received = self.next().await;
        }
        let Some((packet, descriptors)) = received? else {
            return Ok(None);
        };
        let answer = serde_json::from_slice(&packet).map_err(io::Error::other)?;
        Ok(Some((answer, descriptors)))
    }

    async fn next(&self) -> io::Result<Option<Packet>> {
        self.0.async_io(Interest::READABLE, |socket| receive(socket)).await
    }

    /// Tells the other end that there is nothing more to come.
    pub(super) fn close(&self) {
        // A socket whose other end is gone is as closed as can be.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

fn is_reset(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionReset
}

/// One packet, wiped when dropped, and what came with it.
pub(super) type Packet = (Zeroizing<Vec<u8>>, Vec<OwnedFd>);

/// Sends one packet with descriptors beside it.
pub(super) fn send(socket: impl AsFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next packet; `None` when the other end is closed. A packet that was cut is an error.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<Packet>> {
    let mut packet = Zeroizing::new(vec![0u8; LARGEST + 1]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut beside,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors: Vec<OwnedFd> = beside
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            RecvAncillaryMessage::ScmCredentials(_) | _ => None,
        })
        .flatten()
        .collect();
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    packet.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((packet, descriptors)))
}
