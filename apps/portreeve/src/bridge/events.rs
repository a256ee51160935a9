//! Event streams of the gateway, read piece by piece, with what is needed to take a broken one up again.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// An event grew past the limit.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct EventTooLarge;

/// Collects pieces of a stream into the data of its events.
pub(super) struct EventReader {
    line: BytesMut,
    data: BytesMut,
    id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    after_return: bool,
    most: usize,
}

impl EventReader {
    /// A reader of events that hold at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            line: BytesMut::new(),
            data: BytesMut::new(),
            id: None,
            last_id: None,
            retry: None,
            after_return: false,
            most,
        }
    }

    /// The id of the last event that came whole: where the stream can be taken up.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the gateway wants us to wait before that.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes the next piece; gives the data of every event that it completes and that has any.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<Bytes>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(end);
            let (ending, tail) = tail.split_first().map_or((b'\n', tail), |(first, tail)| (*first, tail));
            rest = tail;
            let is_second_half = ending == b'\n' && self.after_return && head.is_empty();
            self.after_return = ending == b'\r';
            if is_second_half {
                continue;
            }
            self.grow(head)?;
            events.extend(self.end_line()?);
        }
        if !rest.is_empty() {
            self.after_return = false;
            self.grow(rest)?;
        }
        Ok(events)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.most.saturating_add(FIELD_NAME_ROOM) {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Bytes>, EventTooLarge> {
        let line = self.line.split();
        if line.is_empty() {
            // Only a whole event moves the place on: one that was cut off is wanted again.
            self.last_id = self.id.clone().or(self.last_id.take());
            let mut data = self.data.split();
            data.truncate(data.len().saturating_sub(1));
            return Ok((!data.is_empty()).then(|| data.freeze()));
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || {
            std::str::from_utf8(value)
                .ok()
                .filter(|text| text.len() <= LONGEST_FIELD)
        };
        match field {
            b"data" => {
                if self.data.len() + value.len() > self.most {
                    return Err(EventTooLarge);
                }
                self.data.extend_from_slice(value);
                self.data.extend_from_slice(b"\n");
            }
            b"id" => self.id = text().map(str::to_owned).or(self.id.take()),
            b"retry" => {
                let retry = text().and_then(|text| text.parse().ok()).map(Duration::from_millis);
                self.retry = retry.or(self.retry);
            }
            _ => {}
        }
        Ok(None)
    }
}

const LONGEST_FIELD: usize = 1024;
/// Room for `data: ` and its like beside the data itself.
const FIELD_NAME_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_from_any_pieces_and_line_endings() {
        let stream =
            b": hello\r\n\r\nid: 1\nretry: 250\ndata:\n\nevent: message\rid: 2\rdata: {\"a\":\rdata: 1}\r\rdata:b\n\n";
        for size in 1..stream.len() {
            let mut reader = EventReader::new(100);
            let events = stream.chunks(size).flat_map(|piece| reader.feed(piece).unwrap());
            let events: Vec<Bytes> = events.collect();
            assert_eq!(events, ["{\"a\":\n1}", "b"], "{size}");
            assert_eq!(
                (reader.last_id(), reader.retry()),
                (Some("2"), Some(Duration::from_millis(250)))
            );
        }
    }

    #[test]
    fn an_event_that_was_cut_off_does_not_count_as_read() {
        let mut reader = EventReader::new(100);
        assert_eq!(reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n").unwrap(), ["a"]);
        assert_eq!(reader.last_id(), Some("1"));
    }

    #[test]
    fn an_event_without_end_is_bounded() {
        let mut reader = EventReader::new(100);
        assert_eq!(
            (0..10).try_for_each(|_| reader.feed(b"data: 0123456789012345678\n").map(drop)),
            Err(EventTooLarge)
        );
        let mut reader = EventReader::new(100);
        assert_eq!(
            (0..10).try_for_each(|_| reader.feed(&[b'x'; 20]).map(drop)),
            Err(EventTooLarge)
        );
    }
}
