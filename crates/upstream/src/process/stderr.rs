//! What a process writes to its standard error: kept in a file per server, without secrets and terminal sequences,
//! bounded in size and in pace.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use screening::detect::Detector;
use screening::utterance::{last_lines, presentable};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use vocabulary::{Masks, ServerId, lock};

/// A file larger than this becomes the older one of two.
const LARGEST_FILE: u64 = 1 << 20;
/// So much may be written in one [`WINDOW`].
const PACE: usize = 256 << 10;
const WINDOW: Duration = Duration::from_secs(10);
const PIECE: usize = 16 << 10;
/// So much is remembered of what was said last.
const RECENT: usize = 4 << 10;

/// The directory of these files, and the rules that secrets are found by.
#[derive(Clone, Debug)]
pub struct StderrDirectory {
    dir: PathBuf,
    detector: Option<Arc<Detector>>,
}

impl StderrDirectory {
    /// Keeps files in `dir`, which must be there. Without rules of the operator's, ours find the secrets.
    #[must_use]
    pub fn kept_in(dir: PathBuf, detector: Option<Arc<Detector>>) -> Self {
        Self { dir, detector }
    }
}

/// The log of one process.
#[derive(Clone)]
pub(crate) struct StderrLog(Arc<Shared>);

struct Shared {
    file: Option<PathBuf>,
    detector: Option<Arc<Detector>>,
    /// Secrets that the process was given.
    masks: Masks,
    instance: String,
    pace: Mutex<Pace>,
    /// The end of what was said, as it can be shown.
    recent: Mutex<String>,
    /// What came last and was too much to be kept, unread; empty where that was kept.
    unkept: Mutex<Vec<u8>>,
}

struct Pace {
    since: Instant,
    written: usize,
    dropped: usize,
}

impl StderrLog {
    pub(crate) fn new(directory: &StderrDirectory, server: &ServerId, instance: &str, masks: Masks) -> Self {
        Self(Arc::new(Shared {
            file: Some(directory.dir.join(format!("{server}.log"))),
            detector: directory.detector.clone(),
            masks,
            instance: instance.to_owned(),
            recent: Mutex::default(),
            unkept: Mutex::default(),
            pace: Mutex::new(Pace {
                since: Instant::now(),
                written: 0,
                dropped: 0,
            }),
        }))
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn nowhere() -> Self {
        Self(Arc::new(Shared {
            file: None,
            detector: None,
            masks: Masks::default(),
            instance: String::new(),
            recent: Mutex::default(),
            unkept: Mutex::default(),
            pace: Mutex::new(Pace {
                since: Instant::now(),
                written: 0,
                dropped: 0,
            }),
        }))
    }

    /// Where it is kept.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.0.file.clone()
    }

    /// The last lines of it, without secrets and terminal sequences.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let unkept = String::from_utf8_lossy(&lock(&self.0.unkept)).into_owned();
        let masks = &self.0.masks;
        match presentable(&masks.hide(&unkept), self.0.detector.as_ref()) {
            Some(said) if !said.is_empty() => last_lines(&masks.hide(&said), self.0.detector.as_ref()),
            Some(_) | None => last_lines(&lock(&self.0.recent), self.0.detector.as_ref()),
        }
    }

    /// Notes something of the gateway's own about the process.
    pub(crate) fn note(&self, what: &str) {
        self.write(format!("portreeve: {what}\n").as_bytes());
    }

    /// Reads to the end, whatever comes: a full pipe must not stop the process.
    pub(crate) async fn drain(self, mut stderr: pipe::Receiver) {
        let mut piece = vec![0; PIECE];
        let mut lines_so_far = WholeLines::default();
        loop {
            let read = stderr.read(&mut piece).await.unwrap_or(0);
            let said = piece.get(..read).filter(|said| !said.is_empty());
            let whole = match said {
                Some(said) => lines_so_far.feed(said),
                None => lines_so_far.rest(),
            };
            if !whole.is_empty() {
                let log = self.clone();
                let _ = tokio::task::spawn_blocking(move || log.write(&whole)).await;
            }
            if said.is_none() {
                return;
            }
        }
    }

    fn write(&self, said: &[u8]) {
        let Some(file) = &self.0.file else { return };
        let mut pace = lock(&self.0.pace);
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
            // Whole lines and whole keys, so that secrets in them are found when somebody looks.
            lock(&self.0.unkept).splice(.., said.iter().copied());
            return;
        }
        pace.written += said.len();
        lock(&self.0.unkept).clear();
        let said = String::from_utf8_lossy(said);
        let masks = &self.0.masks;
        match presentable(&masks.hide(&said), self.0.detector.as_ref()) {
            Some(said) => {
                // Once more: what was stripped may have stood between its parts.
                let said = masks.hide(&said);
                self.remember(&said);
                plain(&said, &self.0.instance, &mut text);
            }
            None => plain("portreeve: something was not kept", &self.0.instance, &mut text),
        }
        if let Err(error) = append(file, &text) {
            tracing::debug!(%error, "what a server complains about could not be kept");
        }
    }
}

impl StderrLog {
    /// Keeps the end of what can be shown, whole characters.
    fn remember(&self, said: &str) {
        let mut recent = lock(&self.0.recent);
        recent.push_str(said);
        let surplus = recent.len().saturating_sub(RECENT);
        let end = recent.ceil_char_boundary(surplus);
        recent.drain(..end);
    }
}

/// What a process wrote, in pieces that can be judged: whole lines, and private keys whole.
#[derive(Default)]
struct WholeLines {
    unfinished: Vec<u8>,
    /// The line that is being read is too long, and not kept.
    skipping: bool,
}

/// No longer line is kept, and no longer key waited for.
const LONGEST: usize = 64 << 10;

impl WholeLines {
    /// What can be judged with this; the rest waits.
    fn feed(&mut self, mut said: &[u8]) -> Vec<u8> {
        if self.skipping {
            let end = said.iter().position(|byte| *byte == b'\n');
            said = end.and_then(|end| said.get(end + 1..)).unwrap_or_default();
            self.skipping = end.is_none();
        }
        self.unfinished.extend_from_slice(said);
        let lines = self
            .unfinished
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if self.unfinished.len() <= LONGEST {
            let whole = self
                .unfinished
                .get(..lines)
                .is_some_and(|lines| !breaks_off_in_a_key(lines));
            let rest = self.unfinished.split_off(if whole { lines } else { 0 });
            return std::mem::replace(&mut self.unfinished, rest);
        }
        self.skipping = lines < self.unfinished.len();
        self.unfinished.truncate(lines);
        if self.skipping {
            self.unfinished
                .extend_from_slice(b"portreeve: a line was too long and is not kept\n");
        }
        std::mem::take(&mut self.unfinished)
    }

    /// What is left when nothing more comes.
    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unfinished)
    }
}

/// Whether a private key begins here and does not end.
fn breaks_off_in_a_key(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let last = text.rfind("PRIVATE KEY-----").and_then(|at| text.get(..at));
    last.is_some_and(|before| before.rfind("-----BEGIN") > before.rfind("-----END"))
}

/// Text that a terminal can be shown, each line with the name of its process.
fn plain(said: &str, instance: &str, out: &mut Vec<u8>) {
    for line in said.lines() {
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
        let dir = std::env::temp_dir().join(format!("portreeve-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let server = ServerId::parse("noisy").unwrap();
        let log = StderrLog::new(
            &StderrDirectory::kept_in(dir.clone(), None),
            &server,
            "i1",
            Masks::default(),
        );
        log.write(b"\x1b[31mred\x1b[0m\nsecond\n");
        let file = dir.join("noisy.log");
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(kept, "i1 red\ni1 second\n");
        assert_eq!(log.last_lines(), ["red", "second"]);
        for _ in 0..1000 {
            log.write(format!("{}\n", "x".repeat(10_000)).as_bytes());
        }
        log.write(b"THE REASON: \x1b[1mno key\x1b[0m\n");
        assert_eq!(log.last_lines().last().map(String::as_str), Some("THE REASON: no key"));
        assert!(!std::fs::read_to_string(&file).unwrap().contains('\u{1b}'));
        let size = std::fs::metadata(&file).unwrap().len();
        assert!(size < 2 * PACE as u64, "{size}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
    #[test]
    fn a_secret_in_two_pieces_is_judged_as_one() {
        let mut lines_so_far = WholeLines::default();
        assert_eq!(lines_so_far.feed(b"one\ntw"), b"one\n");
        assert_eq!(lines_so_far.feed(b"o"), b"");
        assert_eq!(lines_so_far.feed(b"\nthree\nfo"), b"two\nthree\n");
        assert_eq!(lines_so_far.rest(), b"fo");
        let begin = concat!("-----BEGIN RSA ", "PRIVATE KEY-----\n");
        let end = concat!("-----END RSA ", "PRIVATE KEY-----\n");
        assert_eq!(lines_so_far.feed(begin.as_bytes()), b"");
        assert_eq!(lines_so_far.feed(b"MIIE\n"), b"");
        assert_eq!(
            lines_so_far.feed(end.as_bytes()),
            format!("{begin}MIIE\n{end}").as_bytes()
        );
    }

    #[test]
    fn a_line_without_end_is_not_kept_and_the_next_one_is() {
        let mut lines_so_far = WholeLines::default();
        let mut kept = lines_so_far.feed(b"first\n");
        for _ in 0..LONGEST / 100 + 2 {
            kept.extend(lines_so_far.feed(&[b'x'; 100]));
        }
        kept.extend(lines_so_far.feed(b"xx\nnext\n"));
        assert_eq!(
            String::from_utf8_lossy(&kept),
            "first\nportreeve: a line was too long and is not kept\nnext\n"
        );
    }
}
