//! Standard input as bounded lines, standard output as whole ones. Each has a thread of its own: a client
//! that neither writes nor reads must not keep the process from ending.

use std::io::{self, BufRead, BufWriter, Write};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

/// A line of standard input.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// A line that is not blank.
    Whole(Bytes),
    /// It was longer than the limit, and skipped.
    TooLong,
}

/// Reads standard input until it ends; lines of more than `longest` bytes are skipped.
pub(super) fn read_stdin(longest: usize) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(QUEUE);
    let read = move || read_lines(io::stdin().lock(), longest, |line| sender.blocking_send(line).is_ok());
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    Ok(lines)
}

/// Hands over every line that is not blank, until the input ends or nobody `wants` more.
fn read_lines(mut input: impl BufRead, longest: usize, mut wants: impl FnMut(Line) -> bool) {
    let (mut line, mut skipping) = (Vec::new(), false);
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => &[],
        };
        let end = piece.iter().position(|byte| *byte == b'\n');
        let ends = end.is_some() || piece.is_empty();
        let taken = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
        skipping |= line.len() + taken.len() > longest;
        if !skipping {
            line.extend_from_slice(taken);
        }
        let (used, is_over) = (taken.len() + usize::from(end.is_some()), piece.is_empty());
        input.consume(used);
        if ends {
            let whole = std::mem::take(&mut line);
            let ended = match std::mem::take(&mut skipping) {
                true => Some(Line::TooLong),
                false => (!whole.trim_ascii().is_empty()).then(|| Line::Whole(whole.into())),
            };
            if !ended.is_none_or(&mut wants) || is_over {
                return;
            }
        }
    }
}

/// Every line of an input that is read through a buffer of `buffer` bytes; `None` for one that was too long. For the fuzzer.
#[cfg(feature = "fuzzing")]
#[must_use]
pub fn stdin_lines(input: &[u8], buffer: usize, longest: usize) -> Vec<Option<Bytes>> {
    let mut lines = Vec::new();
    read_lines(io::BufReader::with_capacity(buffer, input), longest, |line| {
        lines.push(match line {
            Line::Whole(line) => Some(line),
            Line::TooLong => None,
        });
        true
    });
    lines
}

/// The one writer of standard output.
pub(super) struct StdoutWriter {
    sender: StdoutSender,
    written: oneshot::Receiver<()>,
}

/// A way to the writer of standard output.
#[derive(Clone)]
pub(super) struct StdoutSender(mpsc::Sender<Item>);

enum Item {
    Message(Bytes),
    End,
}

impl StdoutWriter {
    /// Starts to write.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, mut items) = mpsc::channel(QUEUE);
        let (done, written) = oneshot::channel();
        let write = move || {
            // A reader that has gone away ends the writing, which everybody who sends is told.
            let _ = write_lines(io::stdout().lock(), &mut items);
            drop(items);
            let _ = done.send(());
        };
        std::thread::Builder::new().name("stdout".to_owned()).spawn(write)?;
        let sender = StdoutSender(sender);
        Ok(Self { sender, written })
    }

    /// A way to write.
    pub(super) fn sender(&self) -> StdoutSender {
        self.sender.clone()
    }

    /// Writes what is queued, unless the reader does not take it.
    pub(super) async fn finish(self) {
        let last = async {
            let _ = self.sender.0.send(Item::End).await;
            let _ = self.written.await;
        };
        let _ = tokio::time::timeout(LAST_LINES, last).await;
    }
}

impl StdoutSender {
    /// Writes a message as one line.
    pub(super) async fn send(&self, message: Bytes) {
        let _ = self.0.send(Item::Message(on_one_line(message))).await;
    }

    /// Completes when the reader has gone away.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }
}

fn write_lines(output: impl Write, items: &mut mpsc::Receiver<Item>) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    while let Some(Item::Message(message)) = items.blocking_recv() {
        output.write_all(&message)?;
        output.write_all(b"\n")?;
        if items.is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}

/// A message without line breaks: JSON has raw ones between its tokens only, never within a string.
fn on_one_line(message: Bytes) -> Bytes {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !message.iter().any(breaks) {
        return message;
    }
    message
        .iter()
        .map(|byte| if breaks(byte) { b' ' } else { *byte })
        .collect()
}

/// Lines that wait in either direction.
const QUEUE: usize = 16;
/// How long a reader may take for the last messages.
const LAST_LINES: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], buffer: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        read_lines(io::BufReader::with_capacity(buffer, input), 6, |line| {
            lines.push(line);
            true
        });
        lines
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_are_bounded_and_blank_ones_skipped() {
        for buffer in [1, 3, 64] {
            assert_eq!(
                read(b"{\"a\"}\n\r\n  \n1234567\n123456\nlast", buffer),
                [whole("{\"a\"}"), Line::TooLong, whole("123456"), whole("last")]
            );
        }
        assert_eq!(read(b"", 3), []);
    }

    #[test]
    fn a_message_goes_on_one_line_and_keeps_everything_else() {
        let message = Bytes::from_static(b"{\r\n  \"a\": \"b\\nc\",\n\t\"d\": 1e2\n}");
        assert_eq!(on_one_line(message).as_ref(), b"{    \"a\": \"b\\nc\", \t\"d\": 1e2 }");
        assert_eq!(on_one_line(Bytes::from_static(b"{}")).as_ref(), b"{}");
    }
}
