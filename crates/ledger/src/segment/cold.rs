//! Segments that have grown cold: `NNNNNNNN.jsonl.zst`, the same lines in zstd frames of a mebibyte each with a table of where
//! they begin (zstd's seekable format), so that one line is read without unpacking the others, and every zstd program unpacks
//! the whole. What is evidence is what they unpack to. ADR 0120.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::open_private;

/// What one frame unpacks to.
const FRAME: usize = 1 << 20;
/// The longest a frame of that can be: what cannot be made smaller grows by its headers.
const LONGEST_FRAME: u64 = 2 << 20;
/// The skippable frame that holds the table, and the end of that.
const TABLE: u32 = 0x184D_2A5E;
const END: u32 = 0x8F92_EAB1;
const END_BYTES: u64 = 9;

/// Where a cold segment lies that would be `plain`.
pub(crate) fn cold_path(plain: &Path) -> PathBuf {
    let mut name = plain.as_os_str().to_owned();
    name.push(".zst");
    PathBuf::from(name)
}

/// A frame of the file: where it begins there and in what is unpacked.
struct Frame {
    at: u64,
    packed: u64,
    from: u64,
    length: u64,
}

/// A cold segment, read as if it were not packed.
pub(crate) struct ColdFile {
    file: File,
    frames: Vec<Frame>,
    length: u64,
    position: u64,
    /// The frame that was unpacked last.
    open: Option<(u64, Vec<u8>)>,
}

impl ColdFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let frames = read_table(&mut file)?;
        let length = frames.last().map_or(0, |last| last.from + last.length);
        Ok(Self {
            file,
            frames,
            length,
            position: 0,
            open: None,
        })
    }

    /// How long it is unpacked.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// What is left of the frame that holds the position.
    fn rest(&mut self) -> io::Result<&[u8]> {
        let position = self.position;
        if position >= self.length {
            return Ok(&[]);
        }
        let holds = |from: u64, length: u64| (from..from + length).contains(&position);
        let kept = self
            .open
            .take()
            .filter(|(from, bytes)| holds(*from, bytes.len() as u64));
        let (from, bytes) = match kept {
            Some(kept) => kept,
            None => {
                let frame = self.frames.iter().find(|frame| holds(frame.from, frame.length));
                unpack(&mut self.file, frame.ok_or_else(unsound)?)?
            }
        };
        let (_, bytes) = self.open.insert((from, bytes));
        let start = usize::try_from(position - from).map_err(|_| unsound())?;
        bytes.get(start..).ok_or_else(unsound)
    }
}

impl Read for ColdFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let rest = self.rest()?;
        let length = rest.len().min(out.len());
        if let (Some(from), Some(to)) = (rest.get(..length), out.get_mut(..length)) {
            to.copy_from_slice(from);
        }
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for ColdFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Packs `plain` into the file beside it, and removes it once what was written is known to unpack to the same.
pub(crate) fn freeze(plain: &Path) -> io::Result<()> {
    let cold = cold_path(plain);
    let beside = cold.with_extension("new");
    pack(&mut File::open(plain)?, &beside)?;
    if !are_same(File::open(plain)?, ColdFile::open(&beside)?)? {
        return Err(unsound());
    }
    fs::rename(&beside, &cold)?;
    // The packed one is there for good before the other goes.
    let folder = plain.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    fs::remove_file(plain)?;
    File::open(folder)?.sync_all()
}

/// All that a packed file unpacks to.
pub(crate) fn unpacked(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ColdFile::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn pack(plain: &mut File, to: &Path) -> io::Result<()> {
    let mut file = open_private(to, OpenOptions::new().write(true).create(true).truncate(true))?;
    let mut entries = Vec::new();
    let mut piece = Vec::with_capacity(FRAME);
    loop {
        piece.clear();
        Read::by_ref(plain).take(FRAME as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        let packed = compress_to_vec(piece.as_slice(), CompressionLevel::Fastest);
        file.write_all(&packed)?;
        for length in [packed.len(), piece.len()] {
            entries.extend(u32::try_from(length).map_err(|_| unsound())?.to_le_bytes());
        }
    }
    let count = u32::try_from(entries.len() / 8).map_err(|_| unsound())?;
    let size = u32::try_from(entries.len() as u64 + END_BYTES).map_err(|_| unsound())?;
    let mut table = [TABLE.to_le_bytes(), size.to_le_bytes()].concat();
    table.extend(entries);
    table.extend(count.to_le_bytes());
    // No checksums: every line has a hash of its own.
    table.push(0);
    table.extend(END.to_le_bytes());
    file.write_all(&table)?;
    file.sync_all()
}

/// Reads the table at the end, and holds it to the file: its frames fill what is before it.
fn read_table(file: &mut File) -> io::Result<Vec<Frame>> {
    let all = file.metadata()?.len();
    let end = all.checked_sub(END_BYTES).ok_or_else(unsound)?;
    let [a, b, c, d, flags, ending @ ..] = read_at::<9>(file, end)?;
    let count = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = end.checked_sub(count * 8 + 8).ok_or_else(unsound)?;
    let [t0, t1, t2, t3, size @ ..] = read_at::<8>(file, start)?;
    let is_table = flags == 0
        && u32::from_le_bytes(ending) == END
        && u32::from_le_bytes([t0, t1, t2, t3]) == TABLE
        && u64::from(u32::from_le_bytes(size)) == count * 8 + END_BYTES;
    if !is_table {
        return Err(unsound());
    }
    let mut entries = vec![0; usize::try_from(count * 8).map_err(|_| unsound())?];
    file.read_exact(&mut entries)?;
    let (mut at, mut from) = (0, 0);
    let mut frames = Vec::new();
    for entry in entries.as_chunks::<8>().0 {
        let [p0, p1, p2, p3, length @ ..] = *entry;
        let packed = u64::from(u32::from_le_bytes([p0, p1, p2, p3]));
        let length = u64::from(u32::from_le_bytes(length));
        if packed > LONGEST_FRAME || length == 0 || length > FRAME as u64 {
            return Err(unsound());
        }
        frames.push(Frame {
            at,
            packed,
            from,
            length,
        });
        at += packed;
        from += length;
    }
    match at == start {
        true => Ok(frames),
        false => Err(unsound()),
    }
}

fn read_at<const N: usize>(file: &mut File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Unpacks one frame; it has to be as long as the table says.
fn unpack(file: &mut File, frame: &Frame) -> io::Result<(u64, Vec<u8>)> {
    let mut packed = vec![0; usize::try_from(frame.packed).map_err(|_| unsound())?];
    file.seek(SeekFrom::Start(frame.at))?;
    file.read_exact(&mut packed)?;
    let mut bytes = vec![0; usize::try_from(frame.length).map_err(|_| unsound())?];
    let written = FrameDecoder::new().decode_all(&packed, &mut bytes);
    match written.map_err(io::Error::other) {
        Ok(written) if written == bytes.len() => Ok((frame.from, bytes)),
        Ok(_) | Err(_) => Err(unsound()),
    }
}

fn are_same(mut left: impl Read, mut right: impl Read) -> io::Result<bool> {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    loop {
        one.clear();
        other.clear();
        left.by_ref().take(FRAME as u64).read_to_end(&mut one)?;
        right.by_ref().take(FRAME as u64).read_to_end(&mut other)?;
        if one != other {
            return Ok(false);
        }
        if one.is_empty() {
            return Ok(true);
        }
    }
}

/// The file is not what was packed.
fn unsound() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not a packed segment of a log")
}

#[cfg(test)]
mod tests;
