//! A body that was not joined: its pieces leave from where they lie, in one frame and so in one write.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::state::unread::OnItsWay;

/// Up to three pieces, laid end to end. A spent or missing one is empty.
#[derive(Clone, Default, Debug)]
pub struct Pieces([Bytes; 3], Option<Arc<OnItsWay>>);

impl Pieces {
    /// The same, counted until the last of it has left.
    pub(crate) fn counted(mut self, hold: Option<Arc<OnItsWay>>) -> Self {
        self.1 = hold;
        self
    }

    /// All of it in one run of bytes; copied only where there is more than one piece.
    pub(crate) fn joined(self) -> Bytes {
        let [first, second, third] = self.0;
        if second.is_empty() && third.is_empty() {
            first
        } else {
            [first, second, third].concat().into()
        }
    }
}

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Self {
        Self([whole, Bytes::new(), Bytes::new()], None)
    }
}

impl From<[Bytes; 3]> for Pieces {
    fn from(pieces: [Bytes; 3]) -> Self {
        Self(pieces, None)
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        let next = self.0.iter().find(|piece| !piece.is_empty());
        next.map_or(&[], Bytes::as_ref)
    }

    fn chunks_vectored<'a>(&'a self, slots: &mut [IoSlice<'a>]) -> usize {
        let left = self.0.iter().filter(|piece| !piece.is_empty());
        let filled = slots
            .iter_mut()
            .zip(left)
            .map(|(slot, piece)| *slot = IoSlice::new(piece));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        for piece in &mut self.0 {
            let spent = count.min(piece.len());
            piece.advance(spent);
            count -= spent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces() -> Pieces {
        [
            Bytes::from_static(b"head"),
            Bytes::from_static(b"body"),
            Bytes::from_static(b"}"),
        ]
        .into()
    }

    #[test]
    fn what_is_read_is_the_pieces_end_to_end_wherever_a_write_stops() {
        for stop in 0..=9 {
            let mut pieces = pieces();
            let mut read = Vec::new();
            while read.len() < stop {
                let chunk = pieces.chunk();
                let taken = chunk.len().min(stop - read.len());
                read.extend_from_slice(&chunk[..taken]);
                pieces.advance(taken);
            }
            assert_eq!(pieces.remaining(), 9 - stop);
            let mut slots = [IoSlice::new(&[]); 4];
            let filled = pieces.chunks_vectored(&mut slots);
            read.extend(slots[..filled].iter().flat_map(|slot| slot.iter()));
            assert_eq!(read, b"headbody}", "{stop}");
            assert!(slots[..filled].iter().all(|slot| !slot.is_empty()));
        }
    }

    #[test]
    fn a_write_may_end_between_pieces_and_have_room_for_few() {
        let mut pieces = pieces();
        let mut slots = [IoSlice::new(&[]); 2];
        assert_eq!(pieces.chunks_vectored(&mut slots), 2);
        pieces.advance(8);
        assert_eq!((pieces.chunk(), pieces.remaining()), (b"}".as_slice(), 1));
        pieces.advance(1);
        assert_eq!(
            (pieces.chunk(), pieces.chunks_vectored(&mut [IoSlice::new(&[])])),
            (b"".as_slice(), 0)
        );
    }

    #[test]
    fn a_single_piece_is_joined_without_a_copy() {
        let whole = Bytes::from(vec![7; 40]);
        assert_eq!(Pieces::from(whole.clone()).joined().as_ptr(), whole.as_ptr());
        assert_eq!(pieces().joined().as_ref(), b"headbody}");
    }
}
