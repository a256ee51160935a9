//! The files of the log: `ledger/NNNNNNNN.jsonl`, one record a line; cold ones are packed. The tail is the one that grows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::reserve::Reserve;

mod cold;
mod file;
mod reserve;

pub(crate) use cold::{cold_path, freeze, unpacked};
pub(crate) use file::SegmentFile;

/// Where a line begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Position {
    /// The number of the segment.
    pub segment: u32,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl Position {
    /// The beginning of the log.
    pub const START: Self = Self { segment: 0, offset: 0 };
}

/// A whole line: where it begins and how long it is, newline not counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Where it begins.
    pub position: Position,
    /// How many bytes it has.
    pub length: u64,
}

/// Reads the log's files, also while they are written and without a running gateway.
#[derive(Clone, Debug)]
pub struct LedgerReader {
    folder: PathBuf,
}

impl LedgerReader {
    /// The log of a state directory.
    #[must_use]
    pub fn of_state(state: &Path) -> Self {
        Self {
            folder: state.join("ledger"),
        }
    }

    /// A log whose segments lie in `folder` itself, as in an export.
    #[must_use]
    pub fn of_segments(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The numbers of the segments, oldest first; none where there is no log yet.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn segments(&self) -> io::Result<Vec<u32>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .map(|name| name.strip_suffix(".zst").unwrap_or(name))
                .and_then(|name| name.strip_suffix(".jsonl"))
                .filter(|stem| stem.len() == 8);
            numbers.extend(number.and_then(|stem| stem.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// The complete lines from `position` on, in order, to where the log ends now.
    ///
    /// # Errors
    /// When the segments cannot be listed.
    pub fn lines_from(&self, position: Position) -> io::Result<Lines> {
        let mut left: Vec<u32> = self
            .segments()?
            .into_iter()
            .filter(|number| *number >= position.segment)
            .collect();
        left.reverse();
        Ok(Lines {
            reader: self.clone(),
            left,
            from: position,
            open: None,
            segment: position.segment,
            has_begun: false,
        })
    }

    /// The line at `span`, exactly as it stands; `None` where no such line is.
    ///
    /// # Errors
    /// When the segment cannot be read.
    pub fn read_line(&self, span: Span) -> io::Result<Option<Vec<u8>>> {
        self.read_lines(std::iter::once(span))
            .map(|mut lines| lines.pop().flatten())
    }

    /// The lines at `spans`, in that order.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn read_lines(&self, spans: impl IntoIterator<Item = Span>) -> io::Result<Vec<Option<Vec<u8>>>> {
        let mut open: Option<(u32, SegmentFile)> = None;
        let mut lines = Vec::new();
        for span in spans {
            let mut file = match open.take() {
                Some((number, file)) if number == span.position.segment => file,
                Some(_) | None => match SegmentFile::open(&self.path(span.position.segment)) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        lines.push(None);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            lines.push(line_at(&mut file, span)?);
            open = Some((span.position.segment, file));
        }
        Ok(lines)
    }

    /// The file that a segment lies in.
    pub(crate) fn file_of(&self, number: u32) -> PathBuf {
        let plain = self.path(number);
        let cold = cold_path(&plain);
        match !plain.exists() && cold.exists() {
            true => cold,
            false => plain,
        }
    }

    /// The file that a segment lies in, or lay in before it was packed.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:08}.jsonl"))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn line_at(file: &mut SegmentFile, span: Span) -> io::Result<Option<Vec<u8>>> {
    const LONGEST: u64 = 16 * 1024 * 1024;
    let Some(length) = usize::try_from(span.length.min(LONGEST))
        .ok()
        .and_then(|length| length.checked_add(1))
    else {
        return Ok(None);
    };
    let mut line = vec![0u8; length];
    match file.read_exact_at(&mut line, span.position.offset) {
        Ok(()) => Ok((line.pop() == Some(b'\n') && !line.contains(&b'\n')).then_some(line)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The complete lines of a log, in order. A last line without its newline is not given out.
pub struct Lines {
    reader: LedgerReader,
    left: Vec<u32>,
    from: Position,
    open: Option<(Position, BufReader<SegmentFile>)>,
    segment: u32,
    has_begun: bool,
}

impl Lines {
    /// The segment that is being read, or was read last.
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Reads the next complete line into `line`, which is emptied first.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn read_into(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Span>> {
        loop {
            let Some((position, file)) = &mut self.open else {
                let Some(segment) = self.left.pop() else {
                    return Ok(None);
                };
                self.segment = segment;
                let offset = if segment == self.from.segment {
                    self.from.offset
                } else {
                    0
                };
                let mut file = match SegmentFile::open(&self.reader.path(segment)) {
                    Ok(file) => BufReader::with_capacity(256 * 1024, file),
                    // The beginning of the log was removed since it was listed; nothing else ever is.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !self.has_begun => continue,
                    Err(error) => return Err(error),
                };
                file.seek(SeekFrom::Start(offset))?;
                self.has_begun = true;
                self.open = Some((Position { segment, offset }, file));
                continue;
            };
            line.clear();
            if read_line(file, line)? {
                let span = Span {
                    position: *position,
                    length: line.len() as u64,
                };
                position.offset += span.length + 1;
                return Ok(Some(span));
            }
            self.open = None;
        }
    }
}

/// Reads a line without its newline; says whether there was one. The library's own `read_until` looks at a word at a
/// time, and took most of a reader's time.
fn read_line(file: &mut BufReader<SegmentFile>, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let bytes = match file.fill_buf() {
            Ok([]) => return Ok(false),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', bytes);
        let length = end.unwrap_or(bytes.len());
        line.extend_from_slice(bytes.get(..length).unwrap_or_default());
        file.consume(length + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}

impl Iterator for Lines {
    type Item = io::Result<(Span, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        self.read_into(&mut line)
            .transpose()
            .map(|span| span.map(|span| (span, line)))
    }
}

/// The segment that grows. Whole groups of lines are added, or nothing.
pub(crate) struct Tail {
    reader: LedgerReader,
    number: u32,
    file: Arc<File>,
    length: u64,
    /// A failed write may have left bytes behind that could not be taken back yet.
    torn: bool,
    reserve: Reserve,
    /// Held for as long as this process may write.
    _lock: Arc<File>,
    #[cfg(test)]
    pub(crate) faults: tests::Faults,
}

impl Tail {
    /// Opens segment `number` to grow, making it where it is missing.
    pub(crate) fn open(reader: LedgerReader, number: u32, lock: Arc<File>) -> io::Result<Self> {
        let file = open_private(&reader.path(number), OpenOptions::new().append(true).create(true))?;
        File::open(reader.folder())?.sync_all()?;
        let length = file.metadata()?.len();
        Ok(Self {
            reader,
            number,
            file: Arc::new(file),
            length,
            torn: false,
            reserve: Reserve::default(),
            _lock: lock,
            #[cfg(test)]
            faults: tests::Faults::default(),
        })
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn end(&self) -> Position {
        Position {
            segment: self.number,
            offset: self.length,
        }
    }

    /// Takes room ahead of what was written, where too little is left.
    pub(crate) fn keep_ahead(&mut self) {
        self.reserve.keep_ahead(&self.file, self.length);
    }

    /// Adds `bytes` with one write, or leaves the segment as it was.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            self.cut_back()?;
        }
        match self.write(bytes) {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.torn = true;
                // If this fails too, the next append tries again before it writes.
                let _ = self.cut_back();
                Err(error)
            }
        }
    }

    /// Cuts the segment to `length` bytes.
    pub(crate) fn cut_to(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.length = length;
        self.reserve.cut_to(length);
        Ok(())
    }

    /// Starts the next segment, after this one and `open` (the intents without a final) are on disk. Says whether it did: on
    /// a full disk this one grows on, for as long as it has room of its own.
    pub(crate) fn rotate(&mut self, open: &[Position]) -> io::Result<bool> {
        if self.torn {
            self.cut_back()?;
        }
        self.file.sync_data()?;
        let has_room = self.reserve.has_room(self.length);
        let (file, reserve) = match self.next(open) {
            Ok((_, reserve)) if has_room && !reserve.has_room(0) => return self.forget_next(),
            Err(error) if has_room && error.kind() == io::ErrorKind::StorageFull => return self.forget_next(),
            begun => begun?,
        };
        // What is open now stands in the new list; the old one has served.
        let _ = fs::remove_file(open_intents_path(&self.reader, self.number));
        // What was kept ahead of the old one is given back.
        self.cut_back()?;
        self.number += 1;
        self.file = Arc::new(file);
        self.length = 0;
        self.reserve = reserve;
        Ok(true)
    }

    /// Takes back what was begun of the next segment: it must not be found beside one that grows on.
    fn forget_next(&self) -> io::Result<bool> {
        let next = self.number + 1;
        for path in [self.reader.path(next), open_intents_path(&self.reader, next)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(false)
    }

    /// The segment after this one, empty.
    fn next(&self, open: &[Position]) -> io::Result<(File, Reserve)> {
        let next = self.number + 1;
        write_open_intents(&self.reader, next, open)?;
        let file = open_private(&self.reader.path(next), OpenOptions::new().append(true).create(true))?;
        if file.metadata()?.len() > 0 {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        File::open(self.reader.folder())?.sync_all()?;
        let mut reserve = Reserve::default();
        reserve.keep_ahead(&file, 0);
        Ok((file, reserve))
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.torn = false;
        self.reserve.cut_to(self.length);
        Ok(())
    }

    #[cfg(not(test))]
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.file).write_all(bytes)
    }

    #[cfg(test)]
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.faults.write_through(&self.file, bytes)
    }
}

/// The intents that had no final record when segment `number` began, if the list is there and whole.
pub(crate) fn read_open_intents(reader: &LedgerReader, number: u32) -> Option<Vec<Position>> {
    let text = fs::read_to_string(open_intents_path(reader, number)).ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    let count = words.next()?.ok()?;
    let mut positions = Vec::new();
    for _ in 0..count {
        let (segment, offset) = (words.next()?.ok()?, words.next()?.ok()?);
        positions.push(Position {
            segment: u32::try_from(segment).ok()?,
            offset,
        });
    }
    (text.ends_with('\n') && words.next().is_none()).then_some(positions)
}

fn write_open_intents(reader: &LedgerReader, number: u32, open: &[Position]) -> io::Result<()> {
    let mut text = format!("{}\n", open.len());
    for position in open {
        text.push_str(&format!("{} {}\n", position.segment, position.offset));
    }
    let path = open_intents_path(reader, number);
    let mut file = open_private(&path, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn open_intents_path(reader: &LedgerReader, number: u32) -> PathBuf {
    reader.folder().join(format!("{number:08}.open"))
}

/// Opens a file that only its owner may read.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.mode(0o600).open(path)
}

/// The last complete line of a segment, if it has one.
pub(crate) fn last_line(reader: &LedgerReader, number: u32) -> io::Result<Option<Vec<u8>>> {
    const STEP: u64 = 64 * 1024;
    let mut file = SegmentFile::open(&reader.path(number))?;
    let length = file.length()?;
    let mut window = STEP;
    loop {
        let start = length.saturating_sub(window);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.read_to_end(&mut bytes)?;
        let end = memchr::memrchr(b'\n', &bytes);
        let begin = end
            .and_then(|end| memchr::memrchr(b'\n', bytes.get(..end)?))
            .map(|at| at + 1);
        match (begin, end) {
            (Some(begin), Some(end)) => return Ok(bytes.get(begin..end).map(<[u8]>::to_vec)),
            (None, Some(end)) if start == 0 => return Ok(bytes.get(..end).map(<[u8]>::to_vec)),
            (None, None) if start == 0 => return Ok(None),
            (None | Some(_), Some(_) | None) => window *= 4,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
