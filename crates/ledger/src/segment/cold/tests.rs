use std::io::{Read as _, Seek as _};

use super::*;
use crate::sample::Folder;
use crate::segment::SegmentFile;
use crate::verify::tests::Dice;

/// Lines like those of a log: much is alike, and much is hashes.
fn lines(count: usize) -> Vec<u8> {
    let mut dice = Dice(3);
    let mut text = String::new();
    for seq in 0..count {
        let hash: String = (0..64).map(|_| format!("{:x}", dice.below(16))).collect();
        text.push_str(&format!(
            "{{\"principal\":{{\"sub\":\"alice\",\"authn\":\"token\"}},\"record_hash\":\"sha256:{hash}\",\"seq\":{seq}}}\n"
        ));
    }
    text.into_bytes()
}

fn frozen(folder: &Folder, bytes: &[u8]) -> PathBuf {
    let plain = folder.path().join("00000001.jsonl");
    fs::write(&plain, bytes).unwrap();
    freeze(&plain).unwrap();
    assert!(!plain.exists());
    plain
}

#[test]
fn what_is_packed_unpacks_to_the_same_from_every_place() {
    let folder = Folder::new();
    // Some frames, and an end that fills none.
    let bytes = lines(20_000);
    assert!(bytes.len() > 2 * FRAME && !bytes.len().is_multiple_of(FRAME));
    let plain = frozen(&folder, &bytes);
    let packed = fs::metadata(cold_path(&plain)).unwrap().len();
    assert!(packed * 2 < bytes.len() as u64, "{packed} of {}", bytes.len());
    assert_eq!(unpacked(&cold_path(&plain)).unwrap(), bytes);
    let mut file = SegmentFile::open(&plain).unwrap();
    assert_eq!(file.length().unwrap(), bytes.len() as u64);
    let mut dice = Dice(5);
    for _ in 0..200 {
        let start = dice.below(bytes.len());
        let length = dice.below(3000).min(bytes.len() - start);
        let mut read = vec![0; length];
        file.read_exact_at(&mut read, start as u64).unwrap();
        assert_eq!(read, &bytes[start..start + length]);
    }
    file.seek(SeekFrom::End(-7)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, &bytes[bytes.len() - 7..]);
    assert!(file.read_exact_at(&mut [0; 8], bytes.len() as u64 - 7).is_err());
}

#[test]
fn an_empty_segment_is_packed_too() {
    let folder = Folder::new();
    let plain = frozen(&folder, b"");
    assert_eq!(unpacked(&cold_path(&plain)).unwrap(), b"");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another program has to read the same")]
fn the_zstd_program_unpacks_it() {
    let folder = Folder::new();
    let bytes = lines(20_000);
    let cold = cold_path(&frozen(&folder, &bytes));
    let mut zstd = std::process::Command::new("zstd");
    let told = zstd.args(["-d", "-c", "-q"]).arg(cold).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    assert!(told.stdout == bytes);
}

#[test]
fn a_changed_cut_or_invented_file_is_an_error_or_the_same_and_never_something_else() {
    let folder = Folder::new();
    let bytes = lines(400);
    let cold = cold_path(&frozen(&folder, &bytes));
    let sound = fs::read(&cold).unwrap();
    let mut refused = 0;
    for at in 0..sound.len() {
        let mut changed = sound.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&cold, changed).unwrap();
        match unpacked(&cold) {
            // Lines have hashes; a frame has none. What comes of another byte is for these to find.
            Ok(read) => assert_eq!(read.len(), bytes.len()),
            Err(_) => refused += 1,
        }
        fs::write(&cold, &sound[..at]).unwrap();
        assert!(unpacked(&cold).is_err(), "cut to {at}");
    }
    assert!(refused > 0);
    // A table that asks for more than there is.
    let mut table = [TABLE.to_le_bytes(), 9_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
    table.push(0);
    table.extend(END.to_le_bytes());
    fs::write(&cold, table).unwrap();
    assert!(unpacked(&cold).is_err());
}

#[test]
fn a_segment_that_lies_there_twice_is_read_as_it_is_plain() {
    let folder = Folder::new();
    let plain = frozen(&folder, b"packed\n");
    fs::write(&plain, "plain\n").unwrap();
    let mut text = String::new();
    SegmentFile::open(&plain).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "plain\n");
    freeze(&plain).unwrap();
    assert_eq!(unpacked(&cold_path(&plain)).unwrap(), b"plain\n");
}
