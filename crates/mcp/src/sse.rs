//! Event streams (Server-Sent Events): read piece by piece, bounded, with what is needed to resume a broken one;
//! and written event by event. The one reader of them, for streams of servers and, in the bridge, of the gateway.

use bytes::{Bytes, BytesMut};

/// An event grew past the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an event of the stream is larger than the limit")]
pub struct EventTooLarge;

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// What it is called; empty for a plain message.
    pub name: String,
    /// Its data; lines joined by line feeds.
    pub data: Bytes,
}

/// Collects pieces of a stream into events.
pub struct EventReader {
    line: BytesMut,
    data: BytesMut,
    name: String,
    last_id: Option<String>,
    pending_id: Option<String>,
    retry_ms: Option<u64>,
    at_start: bool,
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
            name: String::new(),
            last_id: None,
            pending_id: None,
            retry_ms: None,
            at_start: true,
            after_cr: false,
            max_bytes,
        }
    }

    /// The id of the last whole event that had one: where a stream that broke is to be resumed.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the server wants us to wait before that.
    #[must_use]
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the next piece; gives every event with data that it completes, in order.
    ///
    /// # Errors
    /// When an event is larger than the limit.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<Vec<Event>, EventTooLarge> {
        let mut events = Vec::new();
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
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
        if self.line.len() + self.data.len() + bytes.len() > self.max_bytes.saturating_add(FIELD_NAME_ROOM) {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, EventTooLarge> {
        let line = self.line.split();
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line),
            false => &line,
        };
        if line.is_empty() {
            // Only a whole event moves the id on: one that was cut off behind it is wanted again.
            if let Some(id) = self.pending_id.take() {
                self.last_id = Some(id);
            }
            let name = std::mem::take(&mut self.name);
            let mut data = self.data.split();
            data.truncate(data.len().saturating_sub(1));
            let data = data.freeze();
            return Ok((!data.is_empty()).then_some(Event { name, data }));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => line.split_at(colon),
            None => (line, [].as_slice()),
        };
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if field == b"data" {
            if self.data.len() + value.len() > self.max_bytes {
                return Err(EventTooLarge);
            }
            self.data.extend_from_slice(value);
            self.data.extend_from_slice(b"\n");
        } else if value.len() <= LONGEST_FIELD {
            self.note(field, value);
        }
        Ok(None)
    }

    fn note(&mut self, field: &[u8], value: &[u8]) {
        let Ok(text) = std::str::from_utf8(value) else { return };
        match field {
            b"event" => text.clone_into(&mut self.name),
            b"id" if !text.contains('\0') => self.pending_id = Some(text.to_owned()),
            // Digits alone: a number with a sign is no number here.
            b"retry" if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry_ms = text.parse().ok().or(self.retry_ms);
            }
            _ => {}
        }
    }
}

/// One event with a message; line breaks in it become further `data:` lines.
#[must_use]
pub fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + 64);
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    for line in message.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
}

/// The first event of a stream that can be resumed: an id, no data, and how long to wait.
#[must_use]
pub fn opening(id: &str, retry_ms: u64) -> Bytes {
    format!("id: {id}\nretry: {retry_ms}\ndata:\n\n").into()
}

/// A comment, which keeps a quiet stream open.
#[must_use]
pub fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

/// A stream may begin with one; it belongs to no field.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The longest field beside data that is looked at.
const LONGEST_FIELD: usize = 1024;

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
            .map(|event| String::from_utf8(event.data.to_vec()).expect("text"))
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
    fn events_come_whole_however_the_stream_is_cut() {
        let stream = b"\xef\xbb\xbf: hello\r\n\r\nid: 1\nretry: 250\ndata:\n\nevent: message\rid: 2\rdata: {\"a\":\rdata: 1}\r\r\
                       data:b\n\n";
        for size in 1..=stream.len() {
            let mut reader = EventReader::new(100);
            let pieces = stream.chunks(size);
            let events: Vec<Bytes> = pieces
                .flat_map(|piece| reader.feed(piece).expect("within the limit"))
                .map(|event| event.data)
                .collect();
            assert_eq!(events, ["{\"a\":\n1}", "b"], "pieces of {size}");
            assert_eq!((reader.last_id(), reader.retry_ms()), (Some("2"), Some(250)));
        }
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_beginning_alone() {
        assert_eq!(read(&["\u{feff}data: a\n\n"]), ["a"]);
        assert_eq!(
            read(&["data: a\n\n\u{feff}data: b\n\n\u{feff}\u{feff}data: c\n\n"]),
            ["a"]
        );
        assert_eq!(read(&["\u{feff}\u{feff}data: a\n\n"]), Vec::<String>::new());
    }

    #[test]
    fn an_id_or_a_wait_that_is_none_changes_nothing() {
        let mut reader = EventReader::new(100);
        let stream = "id: 1\nretry: 5\n\nid: a\0b\nretry: +7\nretry: 7s\nretry:\nretry: 99999999999999999999\n\n";
        assert_eq!(reader.feed(stream.as_bytes()), Ok(vec![]));
        assert_eq!((reader.last_id(), reader.retry_ms()), (Some("1"), Some(5)));
        assert_eq!(reader.feed(b"id\n\n"), Ok(vec![]));
        assert_eq!(reader.last_id(), Some(""), "an empty one does: nothing to resume at");
    }

    #[test]
    fn a_stream_says_where_and_when_it_can_be_resumed() {
        let mut reader = EventReader::new(100);
        let events = reader.feed(b"id: 3\nretry: 250\ndata:\n\nevent: endpoint\ndata: /m?s=1\n\n");
        let endpoint = Event {
            name: "endpoint".to_owned(),
            data: Bytes::from_static(b"/m?s=1"),
        };
        assert_eq!(events, Ok(vec![endpoint]));
        assert_eq!((reader.last_id(), reader.retry_ms()), (Some("3"), Some(250)));
        assert_eq!(reader.feed(b"id: 4\ndata: cut off"), Ok(vec![]));
        assert_eq!(reader.last_id(), Some("3"), "not heard whole");
    }

    #[test]
    fn an_event_keeps_its_message_on_data_lines() {
        assert_eq!(
            event(None, b"{\"a\":\n1}").as_ref(),
            b"event: message\ndata: {\"a\":\ndata: 1}\n\n"
        );
        assert_eq!(
            event(Some("1.2"), b"{}").as_ref(),
            b"event: message\nid: 1.2\ndata: {}\n\n"
        );
    }

    #[test]
    fn a_reader_without_a_limit_does_not_overflow() {
        let mut reader = EventReader::new(usize::MAX);
        let events = reader.feed(b"data: longer than the room for a field name\n\n");
        assert_eq!(events.map(|events| events.len()), Ok(1));
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
