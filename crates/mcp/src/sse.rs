//! Reads an event stream piece by piece and gives the data of each event. Bounded: an event that
//! outgrows the limit ends the reading.

use bytes::{Bytes, BytesMut};

/// An event grew past the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an event of the stream is larger than the limit")]
pub struct EventTooLarge;

/// Collects pieces of a stream into events.
pub struct EventReader {
    line: BytesMut,
    data: BytesMut,
    after_cr: bool,
    max_bytes: usize,
}

impl EventReader {
    /// A reader that takes events of at most `max_bytes` data.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            line: BytesMut::new(),
            data: BytesMut::new(),
            after_cr: false,
            max_bytes,
        }
    }

    /// Takes the next piece; gives the data of every event that it completes, in order.
    ///
    /// # Errors
    /// When an event is larger than the limit.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<Vec<Bytes>, EventTooLarge> {
        let mut events = Vec::new();
        while let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, rest) = piece.split_at(end);
            let (ending, tail) = rest.split_first().map_or((b'\n', rest), |(first, tail)| (*first, tail));
            piece = tail;
            if ending == b'\n' && self.after_cr && head.is_empty() && self.line.is_empty() {
                self.after_cr = false;
                continue;
            }
            self.after_cr = ending == b'\r';
            self.grow(head)?;
            events.extend(self.end_line()?);
        }
        if !piece.is_empty() {
            self.after_cr = false;
            self.grow(piece)?;
        }
        Ok(events)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.max_bytes + FIELD_NAME_ROOM {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Bytes>, EventTooLarge> {
        let line = self.line.split();
        if line.is_empty() {
            let mut data = self.data.split();
            data.truncate(data.len().saturating_sub(1));
            return Ok((!data.is_empty()).then(|| data.freeze()));
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if self.data.len() + value.len() > self.max_bytes {
                return Err(EventTooLarge);
            }
            self.data.extend_from_slice(value);
            self.data.extend_from_slice(b"\n");
        }
        Ok(None)
    }
}

/// Room for `data: ` and its like beside the data itself.
const FIELD_NAME_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> Vec<String> {
        let mut reader = EventReader::new(100);
        let events = pieces
            .iter()
            .flat_map(|piece| reader.feed(piece.as_bytes()).expect("within the limit"));
        events
            .map(|data| String::from_utf8(data.to_vec()).expect("text"))
            .collect()
    }

    #[test]
    fn events_are_joined_across_pieces_lines_and_line_endings() {
        assert_eq!(read(&["data: a\n\n"]), ["a"]);
        assert_eq!(
            read(&[
                "event: message\r",
                "\nid: 1\r\nda",
                "ta: {\"x\":\r\ndata:1}\r\n\r\n: keep-alive\n\n"
            ]),
            ["{\"x\":\n1}"]
        );
        assert_eq!(read(&["data: a\r\rdata: b\r\r"]), ["a", "b"]);
        assert_eq!(read(&["data: unfinished\n"]), Vec::<String>::new());
    }

    #[test]
    fn an_event_without_end_is_bounded() {
        let mut reader = EventReader::new(100);
        assert_eq!(
            (0..10).try_for_each(|_| reader.feed(b"data: 0123456789012345678\n").map(|_| ())),
            Err(EventTooLarge)
        );
        let mut reader = EventReader::new(100);
        assert_eq!(
            (0..10).try_for_each(|_| reader.feed(&[b'x'; 20]).map(|_| ())),
            Err(EventTooLarge)
        );
    }
}
