//! The caller's files for a run: read once, from files and pipes, without waiting for what never comes.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use harness::{Harness, InputFiles, Stop};
use rustix::fs::OFlags;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

/// Why a run has no inputs.
pub(super) enum Unread {
    /// What is wrong, for people.
    Wrong(String),
    /// It was told to end before they were there.
    Stopped,
}

/// Reads `NAME=PATH` of the command line.
pub(super) fn parse(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let fits = (1..=128).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.');
    match fits && !path.is_empty() && name != "manifest.json" {
        true => Ok((name.to_owned(), PathBuf::from(path))),
        false => Err("a name is letters, digits, `.`, `-` and `_`, and not manifest.json".to_owned()),
    }
}

/// Reads the caller's files, once.
pub(super) async fn read(
    inputs: &[(String, PathBuf)],
    harness: &Harness,
    mut stop: watch::Receiver<Stop>,
) -> Result<InputFiles, Unread> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, path) in inputs {
        let taken = files.iter().any(|(known, _)| known == name)
            || harness.agents.keys().any(|agent| *name == format!("{agent}.json"));
        if taken {
            let told = format!("--input {name}: the name is taken; an agent's output or another input has it");
            return Err(Unread::Wrong(told));
        }
        let bytes = tokio::select! {
            bytes = one(path) => bytes,
            Ok(_) = stop.wait_for(|stop| *stop != Stop::No) => return Err(Unread::Stopped),
        };
        let told = |error| Unread::Wrong(format!("--input {name}: the file cannot be read: {error}"));
        files.push((name.clone(), bytes.map_err(told)?));
    }
    Ok(Arc::new(files))
}

async fn one(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe that nobody writes yet is waited for below, where a signal ends the wait.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    let kind = file.metadata()?.file_type();
    let mut bytes = Vec::new();
    if kind.is_file() {
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    } else if kind.is_fifo() {
        let mut pipe = pipe::Receiver::from_file(file)?.take(LARGEST + 1);
        let read = timeout(PATIENCE, pipe.read_to_end(&mut bytes)).await;
        read.map_err(|_| io::Error::other("nobody finished writing it within five minutes"))??;
    } else {
        return Err(io::Error::other("it is neither a regular file nor a pipe"));
    }
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is larger than 256 MiB")),
        false => Ok(bytes),
    }
}

/// The largest input, in bytes. A pipe may have no end.
const LARGEST: u64 = 256 << 20;

/// How long a pipe may take.
const PATIENCE: Duration = Duration::from_secs(300);
