//! What a process writes to its standard error: kept in a file per server, bounded in size and in pace.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use vocabulary::ServerId;

/// A file larger than this becomes the older one of two.
const LARGEST_FILE: u64 = 1 << 20;
/// So much may be written in one [`WINDOW`].
const PACE: usize = 256 << 10;
const WINDOW: Duration = Duration::from_secs(10);
const PIECE: usize = 16 << 10;

/// The directory of these files; `None`: nothing is kept.
#[derive(Clone, Debug)]
pub struct ComplaintBook(Option<PathBuf>);

impl ComplaintBook {
    /// Keeps files in `dir`, which must be there.
    #[must_use]
    pub fn kept_in(dir: PathBuf) -> Self {
        Self(Some(dir))
    }
}

/// The complaints of one process.
#[derive(Clone)]
pub(crate) struct Complaints(Arc<Shared>);

struct Shared {
    file: Option<PathBuf>,
    instance: String,
    pace: Mutex<Pace>,
}

struct Pace {
    since: Instant,
    written: usize,
    dropped: usize,
}

impl Complaints {
    pub(crate) fn new(book: &ComplaintBook, server: &ServerId, instance: &str) -> Self {
        Self(Arc::new(Shared {
            file: book.0.as_ref().map(|dir| dir.join(format!("{server}.log"))),
            instance: instance.to_owned(),
            pace: Mutex::new(Pace {
                since: Instant::now(),
                written: 0,
                dropped: 0,
            }),
        }))
    }

    #[cfg(test)]
    pub(crate) fn unheard() -> Self {
        Self(Arc::new(Shared {
            file: None,
            instance: String::new(),
            pace: Mutex::new(Pace {
                since: Instant::now(),
                written: 0,
                dropped: 0,
            }),
        }))
    }

    /// Notes something of the gateway's own about the process.
    pub(crate) fn note(&self, what: &str) {
        self.write(format!("portreeve: {what}\n").as_bytes());
    }

    /// Reads to the end, whatever comes: a full pipe must not stop the process.
    pub(crate) async fn drain(self, mut stderr: pipe::Receiver) {
        let mut piece = vec![0; PIECE];
        while let Ok(read) = stderr.read(&mut piece).await {
            let Some(said) = piece.get(..read).filter(|said| !said.is_empty()) else {
                return;
            };
            let (complaints, said) = (self.clone(), said.to_vec());
            let _ = tokio::task::spawn_blocking(move || complaints.write(&said)).await;
        }
    }

    fn write(&self, said: &[u8]) {
        let Some(file) = &self.0.file else { return };
        let mut pace = self.0.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = Vec::new();
        if pace.since.elapsed() > WINDOW {
            if pace.dropped > 0 {
                text.extend_from_slice(format!("portreeve: {} bytes were not kept\n", pace.dropped).as_bytes());
            }
            *pace = Pace {
                since: Instant::now(),
                written: 0,
                dropped: 0,
            };
        }
        if pace.written + said.len() > PACE {
            pace.dropped += said.len();
            return;
        }
        pace.written += said.len();
        plain(said, &self.0.instance, &mut text);
        if let Err(error) = append(file, &text) {
            tracing::debug!(%error, "what a server complains about could not be kept");
        }
    }
}

/// Text that a terminal can be shown, each line with the name of its process.
fn plain(said: &[u8], instance: &str, out: &mut Vec<u8>) {
    for line in String::from_utf8_lossy(said).lines() {
        let shown: String = line
            .chars()
            .map(|letter| {
                if letter.is_control() && letter != '\t' {
                    '\u{b7}'
                } else {
                    letter
                }
            })
            .collect();
        out.extend_from_slice(format!("{instance} {shown}\n").as_bytes());
    }
}

fn append(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if std::fs::metadata(path).is_ok_and(|known| known.len() > LARGEST_FILE) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_plain_text_and_bounded() {
        let dir = std::env::temp_dir().join(format!("portreeve-complaints-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let server = ServerId::parse("noisy").unwrap();
        let complaints = Complaints::new(&ComplaintBook::kept_in(dir.clone()), &server, "i1");
        complaints.write(b"\x1b[31mred\x1b[0m\nsecond\n");
        let file = dir.join("noisy.log");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(kept, "i1 \u{b7}[31mred\u{b7}[0m\ni1 second\n");
        for _ in 0..1000 {
            complaints.write(&[b'x'; 10_000]);
        }
        let size = std::fs::metadata(&file).unwrap().len();
        assert!(size < 2 * PACE as u64, "{size}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
